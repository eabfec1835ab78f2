package jsonrpc

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// slowPipe is a pipe whose poller is a channel: the runtime's own would keep
// the clock of a bubble from moving.
type slowPipe struct {
	*os.File
	writable chan struct{}
	deadline chan struct{}
}

func newSlowPipe(t *testing.T) (*os.File, *slowPipe) {
	r, w := pipe(t)
	return r, &slowPipe{w, make(chan struct{}), make(chan struct{})}
}

func (p *slowPipe) SyscallConn() (syscall.RawConn, error) { return slowConn{p}, nil }

// slowConn is the descriptor of a slowPipe.
type slowConn struct{ *slowPipe }

func (p slowConn) Control(f func(uintptr)) error {
	raw, err := p.File.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(f)
}

func (p slowConn) Read(func(uintptr) bool) error { return syscall.ENOTSUP }

func (p slowConn) Write(f func(uintptr) bool) error {
	for {
		done := false
		if err := p.Control(func(fd uintptr) { done = f(fd) }); err != nil || done {
			return err
		}
		select {
		case <-p.writable:
		case <-p.deadline:
			return os.ErrDeadlineExceeded
		}
	}
}

func (p *slowPipe) SetWriteDeadline(time.Time) error {
	close(p.deadline)
	return nil
}

// stalling runs f in a bubble with a Writer that has a MiB to write and may
// stall for 30 s, and checks that it failed once, and when.
func stalling(t *testing.T, want time.Duration, f func(t *testing.T, r *os.File, out *slowPipe, w *Writer)) {
	synctest.Test(t, func(t *testing.T) {
		r, out := newSlowPipe(t)
		var told failures
		var took time.Duration
		start := time.Now()
		w := NewWriter(out, WriterOptions{Stall: 30 * time.Second, OnFail: func(err error) {
			told.add(err)
			took = time.Since(start)
		}})
		write(t, w, strings.Repeat("x", 1<<20))
		f(t, r, out, w)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if want == 0 {
			drained(t, w, nil)
			return
		}
		told.once(t, ErrStalled)
		if took != want {
			t.Errorf("failed after %v, want %v", took, want)
		}
		drained(t, w, ErrStalled)
	})
}

// read takes n bytes out of r and says that there is room.
func (p *slowPipe) read(t *testing.T, r io.Reader, n int) {
	t.Helper()
	if _, err := io.ReadFull(r, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	p.writable <- struct{}{}
	synctest.Wait()
}

func TestWriter_FailsWhenNothingIsAcceptedForAsLongAsStall(t *testing.T) {
	stalling(t, 30*time.Second, func(*testing.T, *os.File, *slowPipe, *Writer) {})
}

func TestWriter_BearsAReaderThatIsSlow(t *testing.T) {
	const piece = 64 << 10
	stalling(t, 0, func(t *testing.T, r *os.File, out *slowPipe, w *Writer) {
		for range 1<<20/piece - 1 {
			time.Sleep(29 * time.Second)
			out.read(t, r, piece)
		}
	})
}

func TestWriter_CountsStallFromTheLastByteAccepted(t *testing.T) {
	stalling(t, 50*time.Second, func(t *testing.T, r *os.File, out *slowPipe, w *Writer) {
		time.Sleep(20 * time.Second)
		out.read(t, r, 4096)
	})
}

func TestWriter_CountsNoStallWhileNothingWaits(t *testing.T) {
	stalling(t, 0, func(t *testing.T, r *os.File, out *slowPipe, w *Writer) {
		for range 1<<20/(64<<10) - 1 {
			out.read(t, r, 64<<10)
		}
		drained(t, w, nil)
		time.Sleep(time.Hour)
		if _, err := io.ReadFull(r, make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		write(t, w, strings.Repeat("x", 32<<10))
		time.Sleep(time.Hour)
	})
}

func TestWriter_StallsWithoutADescriptorToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, out := io.Pipe()
		var told failures
		var failed time.Time
		w := NewWriter(out, WriterOptions{Stall: 30 * time.Second, OnFail: func(err error) {
			told.add(err)
			failed = time.Now()
			_ = out.Close()
		}})
		write(t, w, "a\n")
		if _, err := io.ReadFull(r, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		start := time.Now()
		write(t, w, "b\n")
		drained(t, w, ErrStalled)
		told.once(t, ErrStalled)
		if took := failed.Sub(start); took != 30*time.Second {
			t.Errorf("failed after %v, want 30s", took)
		}
	})
}
