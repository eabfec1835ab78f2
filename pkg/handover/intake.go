package handover

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// windowLen is how much of the input is mapped while nothing large passes.
	windowLen = 32 << 10
	// mostRead is how much is read at once, in bytes.
	mostRead = 4 << 20
	// lazy is how much of what is over is kept before it is punched out.
	lazy = 128 << 10
	// slack is how much of a line over the limit is kept, beyond the limit.
	slack = 64 << 10
)

// Intake is the input of a session whose descriptors the daemon has. Read and
// Consume belong to one goroutine.
type Intake struct {
	file  *os.File
	raw   syscall.RawConn
	mem   *Memory
	limit int64 // of one line
	do    func(fd uintptr) bool

	given int64 // end of what came with the session
	fed   int64 // how much of that was returned

	mu       sync.Mutex // held while the descriptor or the memory is touched
	closed   bool
	window   []byte // mapped, at windowAt
	windowAt int64
	read     int64
	reserved int64
	consumed int64
	punched  int64
	cut      int64 // end of what was dropped
	p        []byte
	n        int
	err      error
}

var _ io.Reader = (*Intake)(nil)

// newIntake returns the input of a session that came with given bytes.
func newIntake(file *os.File, mem *Memory, given, limit int64) (*Intake, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	i := &Intake{
		file: file, raw: raw, mem: mem, limit: limit, given: inputAt + given, fed: inputAt,
		read: inputAt + given, reserved: inputAt + given, consumed: inputAt, punched: inputAt,
	}
	i.do = i.try
	return i, nil
}

// Read implements [io.Reader]. What it returns is noted in the memory, and a
// copy.
func (i *Intake) Read(p []byte) (n int, err error) {
	err = guarded(func() error {
		n, err = i.take(p)
		return err
	})
	return n, err
}

func (i *Intake) take(p []byte) (int, error) {
	if n := least(i.given-i.fed, len(p)); n > 0 {
		return i.feed(p[:n])
	}
	if err := i.prepare(least(int64(len(p)), mostRead)); err != nil {
		return 0, err
	}
	i.p = p
	err := i.raw.Read(i.do)
	i.p = nil
	if i.err != nil {
		err = i.err
	}
	return i.n, err
}

// feed returns what came with the session.
func (i *Intake) feed(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return 0, os.ErrClosed
	}
	n, err := i.mem.ReadAt(p, i.fed)
	i.fed += int64(n)
	return n, err
}

// prepare makes room for n bytes at most.
func (i *Intake) prepare(n int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return os.ErrClosed
	}
	i.drop()
	if left := i.windowAt + int64(len(i.window)) - i.read; left < int64(min(n, windowLen/4)) || n > windowLen && left < int64(n) {
		if err := i.slide(n); err != nil {
			return err
		}
	}
	end := i.windowAt + int64(len(i.window))
	if want := min(i.read+int64(n), end); want > i.reserved {
		to := min(max(roundUp(want), roundUp(i.reserved+windowLen/2)), end)
		if err := i.mem.reserve(i.reserved, to); err != nil {
			return err
		}
		i.reserved = to
		i.mem.table.set(wordReserved, to)
	}
	return nil
}

// slide maps the part of the input that comes next.
func (i *Intake) slide(n int) error {
	if i.window != nil {
		_ = unix.Munmap(i.window)
		i.window = nil
	}
	i.windowAt = roundDown(i.read)
	var err error
	i.window, err = i.mem.window(i.windowAt, int(roundUp(int64(max(windowLen, n))+page())))
	return err
}

// drop lets go of all but the beginning of a line that is too long anyway. All
// lines before it were consumed, else nothing would be read.
func (i *Intake) drop() {
	if i.limit <= 0 || i.read-i.consumed <= i.limit+slack {
		return
	}
	keep := i.consumed + i.limit + slack
	if i.cut <= i.consumed {
		i.mem.table.set(wordCutFrom, keep)
	}
	from := max(i.cut, keep)
	i.cut = i.read
	i.mem.table.set(wordCutTo, i.cut)
	i.mem.punch(roundUp(from), roundDown(i.cut))
}

// try reads once. It is called again each time there may be something.
func (i *Intake) try(fd uintptr) (done bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n, i.err = 0, nil
	if i.closed {
		i.err = os.ErrClosed
		return true
	}
	room := i.window[i.read-i.windowAt : min(i.reserved, i.windowAt+int64(len(i.window)))-i.windowAt]
	room = room[:min(len(room), len(i.p))]
	for {
		n, err := syscall.Read(int(fd), room)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			i.err = os.NewSyscallError("read", err)
		case n == 0:
			i.err = io.EOF
		default:
			i.read += int64(n)
			i.mem.table.set(wordRead, i.read)
			i.n = n
			copy(i.p, room[:n])
		}
		return true
	}
}

// end is the position rest bytes before the end of what was returned.
func (i *Intake) end(rest int) int64 {
	if i.fed < i.given {
		return i.fed - int64(rest)
	}
	return i.read - int64(rest)
}

// Consume notes that all that was returned is not to be seen by anybody else,
// but for the last rest bytes. On an error it is somebody else's.
func (i *Intake) Consume(rest int) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return os.ErrClosed
	}
	i.consumed = i.end(rest)
	return guarded(i.noteConsumed)
}

func (i *Intake) noteConsumed() error {
	i.mem.table.set(wordConsumed, i.consumed)
	if i.consumed-i.punched >= lazy {
		to := roundDown(i.consumed)
		i.mem.punch(i.punched, to)
		i.punched = to
	}
	return nil
}

// Close makes sure that the descriptor and the memory are not touched any more.
func (i *Intake) Close() {
	i.mu.Lock()
	i.closed = true
	if i.window != nil {
		_ = unix.Munmap(i.window)
		i.window = nil
	}
	i.mu.Unlock()
	// A reader that waits may be about to look at the descriptor once more, and
	// finds that the intake is closed.
	_ = i.file.SetReadDeadline(time.Unix(1, 0))
	_ = i.file.Close()
}
