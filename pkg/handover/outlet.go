package handover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Why an [Outlet] takes nothing more.
var (
	ErrBacklog = errors.New("too much is waiting to be written")
	ErrStalled = errors.New("the agent has stopped reading")
)

const (
	// large is the length from which output is worth a large pipe.
	large = 32 << 10
	// largePipe is how large, in bytes: what any user may ask for.
	largePipe = 1 << 20
	// quiet is how long nothing large has passed when a pipe is made small again:
	// what all pipes of a user may hold is limited.
	quiet = time.Second
)

// Bounds are the limits of a session (MCP-6).
type Bounds struct {
	Line    int64         // bytes that the agent may send in one line
	Waiting int64         // bytes that may wait for the agent to read
	Stall   time.Duration // how long it may not read while something waits
}

// Outlet is the output of a session whose descriptors the daemon has. It never
// blocks its caller: what the agent does not take at once is sent by a goroutine
// that exists only as long as something waits.
type Outlet struct {
	file   *os.File
	raw    syscall.RawConn
	mem    *Memory
	bounds Bounds
	fail   func(error)
	isPipe bool
	now    func(fd uintptr) bool

	mu        sync.Mutex // held while the descriptor or the memory is touched
	err       error      // why nothing is taken any more
	published int64
	sent      int64
	punched   int64
	idle      chan struct{} // closed when nothing waits any more; nil while nothing does
	moved     time.Time     // when the agent last took something
	usual     int           // size of the pipe while nothing large passes
	small     *time.Timer   // makes it that size again
}

// answer is a request's slot, and where its answer ends in a batch.
type answer struct {
	slot, end int
	vain      bool // it did not set up the session
}

// newOutlet returns the output of a session that came with given bytes. fail is
// told once why it ended, unless that was Close; it must not block.
func newOutlet(file *os.File, mem *Memory, given int64, bounds Bounds, fail func(error)) (*Outlet, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	o := &Outlet{file: file, raw: raw, mem: mem, bounds: bounds, fail: fail, published: outputAt + given, sent: outputAt, punched: outputAt}
	err = raw.Control(func(fd uintptr) {
		o.usual, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		o.isPipe = err == nil
	})
	o.now = func(fd uintptr) bool {
		o.send(fd)
		return true
	}
	return o, nil
}

// publish makes a batch of whole lines a part of the output, and with it the
// answers and the lists it holds, and sends what the agent takes at once.
func (o *Outlet) publish(batch []byte, answers []answer, s *slots, lists *[Lists]uint64) error {
	o.mu.Lock()
	err := o.put(batch, answers, s, lists)
	if err == nil && o.idle == nil {
		err = o.push()
	}
	o.mu.Unlock()
	return err
}

func (o *Outlet) put(batch []byte, answers []answer, s *slots, lists *[Lists]uint64) error {
	waiting := o.published - o.sent
	switch {
	case o.err != nil:
		return o.err
	case waiting > 0 && waiting+int64(len(batch)) > o.bounds.Waiting:
		return ErrBacklog
	case o.published+int64(len(batch)) > size:
		return ErrBacklog
	}
	if err := o.mem.write(batch, o.published); err != nil {
		return err
	}
	for _, a := range answers {
		s.done(a.slot, o.published+int64(a.end), a.vain)
	}
	for list, sum := range lists {
		if sum != 0 {
			o.mem.table.list(list, sum, o.published+int64(len(batch)))
		}
	}
	o.published += int64(len(batch))
	o.mem.table.set(wordPublished, o.published)
	if len(batch) >= large {
		o.widen()
	}
	return nil
}

// push sends what the agent takes at once, and sees to it that the rest is sent.
func (o *Outlet) push() error {
	if err := o.raw.Write(o.now); err != nil && o.err == nil {
		o.err = err
	}
	if o.err == nil && o.sent < o.published {
		o.idle, o.moved = make(chan struct{}), time.Now()
		go o.drain(o.idle)
	}
	return o.err
}

// send sends as much as the descriptor takes, and reports whether that was all
// there will be to send.
func (o *Outlet) send(fd uintptr) (done bool) {
	for o.err == nil && o.sent < o.published {
		n, err := unix.Sendfile(int(fd), o.mem.fd, o.mem.table.sentAt(), least(o.published-o.sent, 1<<30))
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		case err != nil:
			o.err = os.NewSyscallError("sendfile", err)
		case n <= 0:
			o.err = fmt.Errorf("%w: nothing where the output was", ErrMemory)
		default:
			o.sent += int64(n)
			o.moved = time.Now()
		}
		o.forget(fd)
	}
	return true
}

// forget punches out what the agent has read: what is in a pipe still refers to
// the pages, and where they are parts of a larger one, they are not to be
// touched.
func (o *Outlet) forget(fd uintptr) {
	if o.sent-o.punched < lazy {
		return
	}
	request := uint(unix.TIOCOUTQ)
	if o.isPipe {
		request = unix.TIOCINQ
	}
	waiting, err := unix.IoctlGetInt(int(fd), request)
	if err != nil || !o.isPipe && waiting > 0 {
		return
	}
	if to := roundDown(o.sent - int64(waiting)); to > o.punched {
		o.mem.punch(o.punched, to)
		o.punched = to
	}
}

// drain sends what waits whenever the agent reads, until nothing waits.
func (o *Outlet) drain(idle chan struct{}) {
	defer close(idle)
	stop := o.watch(idle)
	defer stop()
	var failed error
	err := o.raw.Write(func(fd uintptr) (done bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		err := guarded(func() error {
			done = o.send(fd)
			return o.err
		})
		if err != nil {
			o.err, failed, done = err, err, true
		}
		if done {
			o.idle = nil
		}
		return done
	})
	o.mu.Lock()
	if err != nil && o.err == nil {
		o.err, failed = err, err
	}
	o.mu.Unlock()
	if failed != nil && !errors.Is(failed, os.ErrClosed) {
		o.fail(failed)
	}
}

// watch ends the output when the drainer that owns idle has made no headway for
// too long, and returns what ends the watch.
func (o *Outlet) watch(idle chan struct{}) (stop func()) {
	if o.bounds.Stall <= 0 {
		return func() {}
	}
	var timer *time.Timer
	check := func() {
		o.mu.Lock()
		left, current := o.bounds.Stall-time.Since(o.moved), o.idle == idle
		stalled := current && left <= 0 && o.err == nil
		if stalled {
			o.err = ErrStalled
		}
		o.mu.Unlock()
		switch {
		case stalled:
			o.fail(ErrStalled)
		case current:
			timer.Reset(max(left, 0))
		}
	}
	o.mu.Lock() // check reads timer
	timer = time.AfterFunc(o.bounds.Stall, check)
	o.mu.Unlock()
	return func() { timer.Stop() }
}

// widen makes a pipe large for a while: that halves the switches that a large
// answer costs.
func (o *Outlet) widen() {
	if !o.isPipe || o.usual >= largePipe {
		return
	}
	if o.small != nil {
		o.small.Reset(quiet)
		return
	}
	o.resize(largePipe)
	o.small = time.AfterFunc(quiet, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.small = nil
		if o.err == nil {
			o.resize(o.usual)
		}
	})
}

// resize asks for a pipe of another size. One that is refused costs speed and
// nothing else.
func (o *Outlet) resize(size int) {
	_ = o.raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
}

// gone reports whether nobody will read what is sent.
func (o *Outlet) gone() bool {
	gone := false
	err := o.raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	})
	return gone || err != nil
}

// wait waits until nothing waits to be sent, or ctx is done.
func (o *Outlet) wait(ctx context.Context) {
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// close makes sure that the descriptor and the memory are not touched any more.
func (o *Outlet) close() {
	o.mu.Lock()
	if o.err == nil {
		o.err = os.ErrClosed
	}
	if o.small != nil {
		o.small.Stop()
	}
	o.mu.Unlock()
	_ = o.file.SetWriteDeadline(time.Unix(1, 0))
	_ = o.file.Close()
}
