package jsonrpc

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Why a [Writer] does not take more.
var (
	// ErrBacklog refuses one batch: the destination is behind by the Limit.
	ErrBacklog = errors.New("too much is waiting to be written")
	// ErrStalled ends a Writer: nothing was accepted for as long as Stall.
	ErrStalled = errors.New("the reader has stopped reading")
	// ErrClosed is what a closed Writer returns.
	ErrClosed = errors.New("the writer is closed")
)

// WriterOptions are the limits of a [Writer] (MCP-6) and whom it tells.
type WriterOptions struct {
	// Limit is how many bytes may wait; no limit when 0 or less. One batch is
	// taken whatever its size when nothing else is waiting.
	Limit int64
	// Stall is how long the destination may accept nothing while data waits;
	// for ever when 0.
	Stall time.Duration
	// OnFail, if not nil, is told once why the Writer failed: the error of a
	// write, or [ErrStalled]; Close is no failure. It runs on the goroutine
	// that found out, which may be one in Write or [Batch.Flush], with no lock
	// of the Writer held. It must not block. Its part is to close the
	// destination.
	OnFail func(error)
	// OnRefuse, if not nil, gets each batch that [Batch.Flush] could not hand
	// over, on the goroutine that flushes, and the reason: [ErrBacklog],
	// [ErrClosed], or the failure OnFail was told. The bytes are valid during
	// the call only. Write tells its caller instead.
	OnRefuse func(batch []byte, err error)
}

// Writer writes batches of whole lines to one destination, in order, and never
// blocks its caller. When nothing is waiting a batch goes out with one
// non-blocking write(2); what the kernel did not take is queued and written by
// a goroutine that exists only as long as something is queued. All methods may
// be used concurrently; each batch arrives in one piece.
//
// A Writer does not own its destination: whoever does closes the Writer first,
// then the destination.
type Writer struct {
	out    io.Writer
	raw    syscall.RawConn // nil when out has no descriptor
	inline bool            // the descriptor does not block
	opt    WriterOptions

	mu     sync.Mutex
	now    attempt       // the write tried on the caller's goroutine
	queue  []byte        // what the drainer has not got yet, from sent on
	sent   int           //
	held   int64         // what the drainer has got and not yet written
	moved  time.Time     // when the destination last accepted something
	err    error         // why nothing is taken any more
	idle   chan struct{} // closed when the drainer ends; nil when there is none
	unused Spare
}

// NewWriter returns a Writer to out. If out is a [syscall.Conn] whose
// descriptor does not block (a pipe or a socket that Go opened), writes are
// tried on the spot; otherwise all of them are queued.
func NewWriter(out io.Writer, opt WriterOptions) *Writer {
	w := &Writer{out: out, opt: opt}
	w.now.bind()
	if conn, ok := out.(syscall.Conn); ok {
		if raw, err := conn.SyscallConn(); err == nil {
			w.raw, w.inline = raw, nonBlocking(raw)
		}
	}
	return w
}

// nonBlocking reports whether a write to the descriptor returns at once.
func nonBlocking(raw syscall.RawConn) bool {
	flags := 0
	err := raw.Control(func(fd uintptr) { flags, _ = unix.FcntlInt(fd, unix.F_GETFL, 0) })
	return err == nil && flags&unix.O_NONBLOCK != 0
}

// Write takes batch, whole lines with their newlines, and returns at once. It
// keeps nothing of batch. The error is [ErrBacklog], after which the Writer
// goes on and nothing of batch was taken; or it is final: [ErrClosed] or the
// failure OnFail was told.
func (w *Writer) Write(batch []byte) (int, error) {
	if _, err := w.send(batch, false); err != nil {
		return 0, err
	}
	return len(batch), nil
}

// send is Write. With give, batch's memory may be kept instead of copied: then
// another buffer, or nil, is returned in exchange, and batch otherwise.
func (w *Writer) send(batch []byte, give bool) ([]byte, error) {
	w.mu.Lock()
	if err := w.refuse(len(batch)); err != nil {
		w.mu.Unlock()
		return batch, err
	}
	sent := 0
	if w.inline && w.idle == nil && len(batch) > 0 {
		var err error
		if sent, err = w.now.write(w.raw, batch); err != nil {
			w.mu.Unlock()
			w.fail(err)
			return batch, err
		}
	}
	if sent < len(batch) {
		batch = w.enqueue(batch, sent, give)
	}
	w.mu.Unlock()
	return batch, nil
}

// refuse returns why a batch of n bytes is not taken, or nil.
func (w *Writer) refuse(n int) error {
	waiting := w.waiting()
	if w.err == nil && w.opt.Limit > 0 && waiting > 0 && waiting+int64(n) > w.opt.Limit {
		return ErrBacklog
	}
	return w.err
}

// waiting returns how many bytes were taken and not yet written.
func (w *Writer) waiting() int64 { return int64(len(w.queue)-w.sent) + w.held }

// enqueue queues batch from sent on, and sees to it that it is drained.
func (w *Writer) enqueue(batch []byte, sent int, give bool) (other []byte) {
	if give && len(w.queue) == 0 && len(batch)-sent > keep {
		w.queue, w.sent, batch = batch, sent, w.unused.Take(0)[:0]
	} else {
		if w.queue == nil {
			w.queue = w.unused.Take(0)[:0]
		}
		w.queue = append(w.queue, batch[sent:]...)
	}
	if w.idle == nil {
		w.idle = make(chan struct{})
		w.moved = time.Now()
		go w.drain(w.idle)
	}
	return batch
}

// Drain waits until all that was taken before the call is written, or never
// will be, and no goroutine of the Writer is left. It returns why not
// everything was written: [ErrClosed], the failure, or ctx's error.
func (w *Writer) Drain(ctx context.Context) error {
	w.mu.Lock()
	idle, err := w.idle, w.err
	w.mu.Unlock()
	if idle == nil {
		return err
	}
	select {
	case <-idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close makes the Writer take nothing more and drops what is queued; to have
// it written, Drain first. A write that is under way is interrupted where the
// destination has deadlines, and otherwise ends when the destination is
// closed; Drain waits for that. Close does not wait. Its error is nil.
func (w *Writer) Close() error {
	w.stop(ErrClosed)
	return nil
}

// fail ends the Writer because of err and tells OnFail, once.
func (w *Writer) fail(err error) {
	if w.stop(err) && w.opt.OnFail != nil {
		w.opt.OnFail(err)
	}
}

// stop makes the Writer take nothing more and reports whether it did until now.
func (w *Writer) stop(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return false
	}
	w.err = err
	w.queue, w.sent = nil, 0
	if d, ok := w.out.(interface{ SetWriteDeadline(time.Time) error }); ok && w.idle != nil {
		// An error means no deadlines: then closing the destination is what
		// ends the write.
		_ = d.SetWriteDeadline(time.Unix(1, 0))
	}
	return true
}

// attempt is one write(2) and its outcome. Its function is made once: one
// made for each write would be an allocation.
type attempt struct {
	rest []byte
	wait bool // for the descriptor to take something
	n    int
	err  error
	do   func(fd uintptr) (done bool)
}

func (a *attempt) bind() { a.do = a.try }

// write writes as much of b as the descriptor takes at once.
func (a *attempt) write(raw syscall.RawConn, b []byte) (int, error) {
	a.rest, a.n, a.err = b, 0, nil
	err := raw.Write(a.do)
	a.rest = nil
	if a.err != nil {
		err = os.NewSyscallError("write", a.err)
	}
	return a.n, err
}

// try is called with the descriptor, again each time it has become writable,
// until it returns true.
func (a *attempt) try(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), a.rest)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return !a.wait
		case err != nil:
			a.err = err
		default:
			a.n = n
		}
		return true
	}
}
