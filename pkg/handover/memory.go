package handover

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is what a bridge and the daemon share for one session. The table stays
// mapped as long as somebody has the Memory.
type Memory struct {
	fd    int
	table Table
	once  sync.Once
}

var _ io.ReaderAt = (*Memory)(nil)

// seals are what both sides rely on: nobody can take pages away by making the
// file shorter, or allow that again.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Setup is what a session is made of when it is handed over.
type Setup struct {
	Input       []byte // read from the agent, and not acted on
	Output      []byte // whole lines that the agent has yet to get
	Initialized bool
	// Shown identifies the list of each kind that the agent was given last, 0
	// for none.
	Shown [Lists]uint64
}

// NewMemory makes the memory of a session. The caller closes it.
func NewMemory(s Setup) (*Memory, error) {
	if err := unlimited(); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("harness-session", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m, err := initialize(fd, s)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("prepare the memory of a session: %w", err)
	}
	return m, nil
}

func initialize(fd int, s Setup) (*Memory, error) {
	if err := unix.Ftruncate(fd, size); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, err
	}
	m, err := mapped(fd)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(m.write(s.Input, inputAt), m.write(s.Output, outputAt)); err != nil {
		return nil, err
	}
	for word, to := range map[int]int64{
		wordConsumed: inputAt, wordRead: inputAt + int64(len(s.Input)), wordReserved: inputAt + int64(len(s.Input)),
		wordSent: outputAt, wordPublished: outputAt + int64(len(s.Output)), wordVersion: version,
	} {
		m.table.set(word, to)
	}
	if s.Initialized {
		m.table.set(wordState, stateInitialized)
	}
	for i, sum := range s.Shown {
		m.table.set(wordShown+i, int64(sum))
	}
	return m, nil
}

// adopt checks memory that was received, and maps it. It owns fd from the time
// it returns without an error.
func adopt(fd int) (*Memory, error) {
	if err := unlimited(); err != nil {
		return nil, err
	}
	has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, os.NewSyscallError("get the seals of the memory", err)
	}
	if has&seals != seals || has&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0 {
		return nil, errors.New("the memory is not sealed as it has to be")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if stat.Size != size || stat.Blksize > smallAt {
		return nil, errors.New("the memory has another layout")
	}
	m, err := mapped(fd)
	if err != nil {
		return nil, err
	}
	if m.table.get(wordVersion) != version {
		return nil, errors.New("the memory has another version")
	}
	return m, nil
}

// unlimited refuses where a file may not be as large as the memory is: the
// kernel would not fail the write, but end the process.
func unlimited() error {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &most); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if most.Cur < size {
		return errors.New("the size of files is limited")
	}
	return nil
}

func mapped(fd int) (*Memory, error) {
	b, err := unix.Mmap(fd, 0, tableLen, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	m := &Memory{fd: fd, table: Table{b}}
	// Who still notes an answer when a session ends is not waited for.
	runtime.AddCleanup(m, func(b []byte) { _ = unix.Munmap(b) }, b)
	return m, nil
}

// Close closes the file. No method but that may be called any more.
func (m *Memory) Close() { m.once.Do(func() { unix.Close(m.fd) }) }

// Revoke takes the memory back from a daemon that has not begun to use it. It
// reports false where the daemon has.
func (m *Memory) Revoke() bool { return m.table.claim(ownerBridge) }

// ReadAt implements [io.ReaderAt].
func (m *Memory) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) {
		got, err := unix.Pread(m.fd, b[n:], at+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, os.NewSyscallError("pread", err)
		case got == 0:
			return n, io.EOF
		}
		n += max(got, 0)
	}
	return n, nil
}

func (m *Memory) write(b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(m.fd, b, at)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("pwrite", err)
		}
		b, at = b[max(n, 0):], at+int64(max(n, 0))
	}
	return nil
}

// reserve makes pages be there, so that what is read into them cannot fail half
// way.
func (m *Memory) reserve(from, to int64) error {
	for {
		err := unix.Fallocate(m.fd, unix.FALLOC_FL_KEEP_SIZE, from, to-from)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fallocate", err)
		}
	}
}

// punch gives back whole pages. One that cannot be is used longer than needed.
func (m *Memory) punch(from, to int64) {
	if from < to {
		_ = unix.Fallocate(m.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
	}
}

// window maps a part of the file.
func (m *Memory) window(at int64, length int) ([]byte, error) {
	b, err := unix.Mmap(m.fd, at, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return b, os.NewSyscallError("mmap", err)
}

// sentAt is where the kernel stores how far a sendfile has come.
func (t Table) sentAt() *int64 { return (*int64)(unsafe.Pointer(&t.b[8*wordSent])) }

// page is the granularity of holes, for a page of any size.
func page() int64 { return int64(os.Getpagesize()) }

func roundDown(n int64) int64 { return n &^ (page() - 1) }

func roundUp(n int64) int64 { return roundDown(n + page() - 1) }

// guarded runs f and returns an access to memory that is not there as an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("%w: no page at %#x", ErrMemory, r.Addr())
		default:
			panic(r)
		}
	}()
	return f()
}

// least bounds n to what an int can be on every machine.
func least(n int64, most int) int { return int(min(n, int64(most), math.MaxInt32)) }
