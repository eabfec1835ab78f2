package agent

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"harness/pkg/proc"
)

const (
	// backlog bounds what waits for one viewer, in bytes.
	backlog = 256 << 10
	// chunk is how much is drawn in one go, and breath the pause between two
	// while the screen is behind.
	chunk  = 4 << 10
	breath = 5 * time.Millisecond
	// typing is how long a program may not take what is typed at it.
	typing = 5 * time.Second
)

// firstSize is the size of a terminal that nobody has looked at.
func firstSize() proc.Size { return proc.Size{Cols: 80, Rows: 24} }

// ErrReadOnly is what Write returns to a viewer that may only look.
var ErrReadOnly = errors.New("attached read-only")

// ErrNoProcess is what Write returns while nothing runs on the terminal.
var ErrNoProcess = errors.New("nothing runs here now")

// terminal is one harness's terminal over all its processes: the screen, and
// who looks at it.
type terminal struct {
	log io.Writer

	tty     atomic.Pointer[proc.Proc] // what runs on it; nil while nothing does
	writers atomic.Int32              // viewers that can type, and so answer

	drawing chan struct{} // capacity 1
	done    chan struct{}
	pump    sync.WaitGroup
	ended   atomic.Bool

	drawn   sync.Mutex // of the screen; taken before mu
	mu      sync.Mutex // of what the screen has yet to draw, and of viewers
	screen  *screen
	viewers map[*Attachment]struct{}
}

func newTerminal(log io.Writer) *terminal {
	t := &terminal{log: log, drawing: make(chan struct{}, 1), done: make(chan struct{}), viewers: map[*Attachment]struct{}{}}
	t.screen = newScreen(firstSize(), t.answer)
	t.pump.Go(t.draw)
	return t
}

// answer sends what a terminal answers to the program, while no viewer's own
// terminal does. It is called in the middle of drawing and must not wait.
func (t *terminal) answer(reply []byte) {
	if p := t.tty.Load(); p != nil && t.writers.Load() == 0 {
		go func() {
			_ = p.TTY.SetWriteDeadline(time.Now().Add(typing))
			_, _ = p.TTY.Write(reply) // a program that is gone needs no answer
		}()
	}
}

// draw has the screen follow what was printed. While more comes than it can
// draw, it leaves the processor to others.
func (t *terminal) draw() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-t.drawing:
		}
		for left := 1; left > 0 && !t.ended.Load(); {
			t.drawn.Lock()
			t.mu.Lock()
			var part []byte
			part, left = t.screen.take(chunk)
			t.mu.Unlock()
			t.screen.draw(part)
			t.drawn.Unlock()
			if left > rest/2 {
				pause.Reset(breath)
				select {
				case <-t.done:
				case <-pause.C:
				}
			}
		}
	}
}

// look locks all of the terminal, to see or change what is on the screen.
func (t *terminal) look() (unlock func()) {
	t.drawn.Lock()
	t.mu.Lock()
	return func() {
		t.mu.Unlock()
		t.drawn.Unlock()
	}
}

// size is that of the terminal now.
func (t *terminal) size() proc.Size {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.size
}

// follow copies what p prints to the screen, the log, the viewers and out, until
// nobody has the terminal any more. None of them holds it up.
func (t *terminal) follow(p *proc.Proc, out io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := p.TTY.Read(buf)
		if n > 0 {
			t.print(buf[:n])
			_, _ = out.Write(buf[:n]) // evidence tells of its own gaps
		}
		if err != nil {
			return // EIO: the last process that had it is gone
		}
	}
}

// print shows what a program has printed, and logs it.
func (t *terminal) print(p []byte) {
	_, _ = t.log.Write(p) // a log never fails; it notes what it lost
	t.show(p)
}

// say shows a line of our own, after what the program had switched on is off.
func (t *terminal) say(line string) {
	t.show(append(calm(), "\r\n\x1b[7m[harness: "+line+"]\x1b[0m\r\n"...))
}

// show adds to the screen and to what the viewers see.
func (t *terminal) show(p []byte) {
	t.mu.Lock()
	t.screen.write(p)
	for a := range t.viewers {
		a.push(p)
	}
	t.mu.Unlock()
	select {
	case t.drawing <- struct{}{}:
	default: // it is drawing
	}
}

// begin puts a process on the terminal. What the last one left on the screen
// stays.
func (t *terminal) begin(p *proc.Proc) {
	t.tty.Store(p)
	defer t.look()()
	t.fitLocked()
}

// end takes the process off it.
func (t *terminal) end(p *proc.Proc) {
	t.tty.CompareAndSwap(p, nil)
	_ = p.TTY.Close()
}

// fitLocked, with all of the terminal locked, gives it the smallest of its
// viewers' sizes. Without one that counts it keeps the size it has.
func (t *terminal) fitLocked() {
	var fit proc.Size
	for a := range t.viewers {
		if a.ReadOnly {
			continue
		}
		if fit.Cols == 0 || a.size.Cols < fit.Cols {
			fit.Cols = a.size.Cols
		}
		if fit.Rows == 0 || a.size.Rows < fit.Rows {
			fit.Rows = a.size.Rows
		}
	}
	if fit.Cols == 0 || fit.Rows == 0 {
		fit = t.screen.size
	}
	if fit != t.screen.size {
		t.screen.resize(fit)
	}
	if p := t.tty.Load(); p != nil {
		_ = p.Resize(fit) // fails where the process is gone, and then for nobody
	}
}

// close ends the terminal and everybody's look at it.
func (t *terminal) close() {
	t.ended.Store(true)
	close(t.done)
	t.pump.Wait()
	defer t.look()()
	for a := range t.viewers {
		a.end()
	}
	t.screen.close()
}

// Viewer is who attaches.
type Viewer struct {
	Size     proc.Size
	ReadOnly bool
}

// Attachment is one viewer of a terminal. Reading gives the screen and then
// what is printed; it ends with io.EOF when the harness is no more. One
// goroutine reads, another may write.
type Attachment struct {
	Viewer
	t    *terminal
	size proc.Size // guarded by t.mu

	mu     sync.Mutex
	ready  *sync.Cond
	queue  []byte
	behind bool // the queue was dropped: the screen comes next
	over   bool
}

// attach adds a viewer, who sees the screen first.
func (t *terminal) attach(v Viewer) *Attachment {
	a := &Attachment{Viewer: v, t: t, size: v.Size, behind: true}
	a.ready = sync.NewCond(&a.mu)
	defer t.look()()
	if t.ended.Load() {
		a.over = true
		return a
	}
	t.viewers[a] = struct{}{}
	if !v.ReadOnly {
		t.writers.Add(1)
	}
	t.fitLocked()
	return a
}

// push adds to the queue, under the terminal's lock.
func (a *Attachment) push(p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.behind && len(a.queue)+len(p) > backlog {
		a.queue, a.behind = nil, true
	}
	if !a.behind {
		a.queue = append(a.queue, p...)
	}
	a.ready.Signal()
}

func (a *Attachment) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.ready.Broadcast()
}

// Read implements [io.Reader].
func (a *Attachment) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.behind && len(a.queue) == 0 && !a.over {
		a.ready.Wait()
	}
	if a.behind && !a.over {
		a.mu.Unlock()
		a.catchUp()
		a.mu.Lock()
	}
	if len(a.queue) == 0 && a.over {
		return 0, io.EOF
	}
	n := copy(p, a.queue)
	a.queue = a.queue[n:]
	return n, nil
}

// catchUp gives a viewer that has missed something the screen as it is.
func (a *Attachment) catchUp() {
	defer a.t.look()()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.behind && !a.over {
		a.queue, a.behind = a.t.screen.paint(), false
	}
}

// Write types p at the program.
func (a *Attachment) Write(p []byte) (int, error) {
	if a.ReadOnly {
		return 0, ErrReadOnly
	}
	on := a.t.tty.Load()
	if on == nil {
		return 0, ErrNoProcess
	}
	_ = on.TTY.SetWriteDeadline(time.Now().Add(typing))
	n, err := on.TTY.Write(p)
	if errors.Is(err, os.ErrClosed) {
		err = ErrNoProcess
	}
	return n, err
}

// Resize says that the viewer's own terminal has another size.
func (a *Attachment) Resize(size proc.Size) {
	defer a.t.look()()
	a.size = size
	if _, attached := a.t.viewers[a]; attached {
		a.t.fitLocked()
	}
	// A terminal that was made another size may have lost what was on it.
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue, a.behind = nil, true
	a.ready.Signal()
}

// Close ends the look. It may be called more than once, by any goroutine.
func (a *Attachment) Close() error {
	unlock := a.t.look()
	if _, attached := a.t.viewers[a]; attached {
		delete(a.t.viewers, a)
		if !a.ReadOnly {
			a.t.writers.Add(-1)
		}
		if !a.t.ended.Load() {
			a.t.fitLocked()
		}
	}
	unlock()
	a.end()
	return nil
}
