package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"harness/pkg/proc"
)

const (
	// backlog bounds what waits for one viewer, in bytes.
	backlog = 256 << 10
	// lag bounds what the screen has yet to draw, in bytes, and rest is what it
	// goes on with when it has fallen behind.
	lag  = 64 << 10
	rest = 32 << 10
	// chunk is how much is drawn in one go, and breath the least pause between
	// two while the screen is behind.
	chunk  = 4 << 10
	breath = 5 * time.Millisecond
	// typing is how long a program may not take what is typed at it, and
	// unread how many answers may wait for it.
	typing = 5 * time.Second
	unread = 32
	// reopen is how soon a terminal is looked at again that nobody has open.
	reopen = 50 * time.Millisecond
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
	answers chan answer   // capacity unread
	done    chan struct{}
	pump    sync.WaitGroup

	draws  sync.Mutex // of screen, for as long as drawing takes; taken before mu
	screen *screen

	mu      sync.Mutex // of what follows; never held while anything is drawn
	due     []byte     // not drawn yet
	size    proc.Size
	viewers map[*Attachment]struct{}
	ended   bool
}

// answer is what a terminal answers to the program that asked.
type answer struct {
	to   *proc.Proc
	text []byte
}

func newTerminal(log io.Writer) *terminal {
	t := &terminal{
		log: log, drawing: make(chan struct{}, 1), answers: make(chan answer, unread), done: make(chan struct{}),
		size: firstSize(), viewers: map[*Attachment]struct{}{},
	}
	t.screen = newScreen(t.size, t.answer)
	t.pump.Go(t.draw)
	t.pump.Go(t.reply)
	return t
}

// answer has the program answered, while no viewer's own terminal does it. It is
// called in the middle of drawing and must not wait: a program that asks faster
// than it reads is not answered every time.
func (t *terminal) answer(text []byte) {
	p := t.tty.Load()
	if p == nil || t.writers.Load() > 0 {
		return
	}
	select {
	case t.answers <- answer{p, text}:
	default:
	}
}

// reply sends the answers, in order.
func (t *terminal) reply() {
	for {
		select {
		case <-t.done:
			return
		case a := <-t.answers:
			_ = a.to.TTY.SetWriteDeadline(time.Now().Add(typing))
			_, _ = a.to.TTY.Write(a.text) // a program that is gone needs no answer
		}
	}
}

// draw has the screen follow what was printed. While more comes than it can
// draw, it leaves the processor to others half of the time.
func (t *terminal) draw() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-t.drawing:
		}
		for left := 1; left > 0; {
			began := time.Now()
			left = t.drawSome()
			if left <= rest/2 {
				continue
			}
			pause.Reset(max(breath, time.Since(began)))
			select {
			case <-t.done:
				return
			case <-pause.C:
			}
		}
	}
}

// drawSome draws a chunk and returns how much is left.
func (t *terminal) drawSome() int {
	t.draws.Lock()
	defer t.draws.Unlock()
	t.mu.Lock()
	n := min(chunk, len(t.due))
	part := bytes.Clone(t.due[:n])
	t.due = t.due[:copy(t.due, t.due[n:])]
	left := len(t.due)
	t.mu.Unlock()
	t.screen.draw(part)
	return left
}

// takeLocked returns all that is due.
func (t *terminal) takeLocked() []byte {
	due := t.due
	t.due = nil
	return due
}

// text returns what is on the screen, as plain lines.
func (t *terminal) text() []string {
	t.draws.Lock()
	defer t.draws.Unlock()
	t.mu.Lock()
	due := t.takeLocked()
	t.mu.Unlock()
	t.screen.draw(due)
	return t.screen.text()
}

// measure returns the size of the terminal now.
func (t *terminal) measure() proc.Size {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size
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
		switch {
		case err == nil:
			continue
		case !errors.Is(err, syscall.EIO):
			return
		}
		// Nobody has the terminal open. Its process may open it again.
		select {
		case <-p.Exited():
			return
		case <-time.After(reopen):
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

// show adds to the screen and to what the viewers see. What cannot be drawn in
// time is left out, to the last line that fits.
func (t *terminal) show(p []byte) {
	t.mu.Lock()
	t.due = append(t.due, p...)
	if len(t.due) > lag {
		tail := t.due[len(t.due)-rest:]
		if i := bytes.IndexByte(tail, '\n'); i >= 0 {
			tail = tail[i+1:]
		}
		t.due = append(t.due[:0], tail...)
	}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tty.Store(p)
	_ = p.Resize(t.size) // it may have changed since the spawn
}

// end takes the process off it.
func (t *terminal) end(p *proc.Proc) {
	t.tty.CompareAndSwap(p, nil)
	_ = p.TTY.Close()
}

// refit changes something about the viewers, and then the size of the terminal
// to the smallest of theirs. Those who look see the screen anew if it has
// changed.
func (t *terminal) refit(change func()) {
	t.draws.Lock()
	defer t.draws.Unlock()
	t.mu.Lock()
	change()
	size := t.smallestLocked()
	if t.ended || size == t.size {
		t.mu.Unlock()
		return
	}
	t.size = size
	due := t.takeLocked()
	for a := range t.viewers {
		a.drop()
	}
	if p := t.tty.Load(); p != nil {
		_ = p.Resize(size) // fails where the process is gone, and then for nobody
	}
	t.mu.Unlock()
	t.screen.draw(due)
	t.screen.resize(size)
}

// smallestLocked is the smallest of the viewers' sizes. Without one that counts
// it is the size the terminal has.
func (t *terminal) smallestLocked() proc.Size {
	fit := proc.Size{Cols: widest, Rows: tallest}
	counted := false
	for a := range t.viewers {
		if a.ReadOnly || a.Size.Cols == 0 || a.Size.Rows == 0 {
			continue
		}
		counted = true
		fit.Cols, fit.Rows = min(fit.Cols, a.Size.Cols), min(fit.Rows, a.Size.Rows)
	}
	if !counted {
		return t.size
	}
	return fit
}

// close ends the terminal and everybody's look at it. Nothing runs on it.
func (t *terminal) close() {
	close(t.done)
	t.pump.Wait()
	t.draws.Lock()
	defer t.draws.Unlock()
	t.mu.Lock()
	t.ended = true
	for a := range t.viewers {
		a.end()
	}
	t.mu.Unlock()
	t.screen.close()
}

// Viewer is who attaches.
type Viewer struct {
	// Size is that of the viewer's own terminal; without one it does not count.
	Size proc.Size
	// ReadOnly is for one who only looks: cannot type, and does not count for
	// the size.
	ReadOnly bool
}

// Attachment is one viewer of a terminal. Reading gives the screen and then
// what is printed; it ends with io.EOF when the harness is no more. One
// goroutine reads, another may write.
type Attachment struct {
	Viewer // its Size is guarded by t.mu
	t      *terminal

	mu     sync.Mutex // taken after t.mu
	ready  *sync.Cond
	queue  []byte
	behind bool // what follows queue was dropped: the screen comes next
	over   bool
}

// attach adds a viewer, who sees the screen first.
func (t *terminal) attach(v Viewer) *Attachment {
	a := &Attachment{Viewer: v, t: t, behind: true}
	a.ready = sync.NewCond(&a.mu)
	t.refit(func() {
		if t.ended {
			a.over = true
			return
		}
		t.viewers[a] = struct{}{}
		if !v.ReadOnly {
			t.writers.Add(1)
		}
	})
	return a
}

// push adds to the queue.
func (a *Attachment) push(p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.behind:
	case len(a.queue)+len(p) > backlog:
		a.queue, a.behind = nil, true
	default:
		a.queue = append(a.queue, p...)
	}
	a.ready.Signal()
}

// drop has the viewer see the screen next, in place of what it has not read.
func (a *Attachment) drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue, a.behind = nil, true
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
	for len(a.queue) == 0 {
		switch {
		case a.over:
			return 0, io.EOF
		case a.behind:
			a.mu.Unlock()
			a.catchUp()
			a.mu.Lock()
		default:
			a.ready.Wait()
		}
	}
	n := copy(p, a.queue)
	if a.queue = a.queue[n:]; len(a.queue) == 0 {
		a.queue = nil // who has read all holds no memory
	}
	return n, nil
}

// catchUp gives a viewer that has missed something the screen as it is. What is
// printed while that is drawn comes after it.
func (a *Attachment) catchUp() {
	t := a.t
	t.draws.Lock()
	defer t.draws.Unlock()
	t.mu.Lock()
	due := t.takeLocked()
	a.mu.Lock()
	a.queue, a.behind = nil, false
	a.mu.Unlock()
	t.mu.Unlock()
	t.screen.draw(due)
	painted := t.screen.paint()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(painted, a.queue...)
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

// Resize says that the viewer's own terminal has another size. It sees the
// screen anew: a terminal that was made another size may have lost it.
func (a *Attachment) Resize(size proc.Size) {
	a.t.refit(func() {
		a.Size = size
		a.drop()
	})
}

// Close ends the look. It may be called more than once, by any goroutine.
func (a *Attachment) Close() error {
	a.t.refit(func() {
		if _, attached := a.t.viewers[a]; !attached {
			return
		}
		delete(a.t.viewers, a)
		if !a.ReadOnly {
			a.t.writers.Add(-1)
		}
	})
	a.end()
	return nil
}
