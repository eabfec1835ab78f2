package handover

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Ends are an agent's two descriptors: what it sends and what it reads. Both
// wait in the poller, so that a read can be given up.
type Ends struct {
	In, Out *os.File
	blocked []int // descriptors that block again once nobody uses the ends
}

// Dup returns an agent's ends from the descriptors that a process was started
// with, which stay open. Only pipes and sockets are taken: others may be shared
// with processes that expect to wait in a read. stderr is checked for being one
// of the two.
func Dup(in, out, stderr *os.File) (*Ends, error) {
	e := &Ends{}
	for _, f := range []*os.File{in, out} {
		fd, err := control(f)
		if err == nil {
			err = checkEnd(fd)
		}
		if err != nil {
			return nil, err
		}
	}
	if stderr != nil && (same(stderr, in) || same(stderr, out)) {
		return nil, errors.New("stderr is where stdin or stdout is")
	}
	var err error
	if e.In, err = e.dup(in); err != nil {
		return nil, err
	}
	if e.Out, err = e.dup(out); err != nil {
		e.In.Close()
		return nil, err
	}
	return e, nil
}

func (e *Ends) dup(f *os.File) (*os.File, error) {
	fd, err := control(f)
	if err != nil {
		return nil, err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	if flags&unix.O_NONBLOCK == 0 {
		e.blocked = append(e.blocked, fd)
	}
	return pollable(dup, f.Name())
}

// Close closes the ends. With restore, descriptors that were made not to block
// do so again.
func (e *Ends) Close(restore bool) {
	e.In.Close()
	e.Out.Close()
	if !restore {
		return
	}
	for _, fd := range e.blocked {
		// Who has the other end may notice, nobody else.
		_ = unix.SetNonblock(fd, false)
	}
}

// pollable makes a file of a descriptor, which it owns in any case.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func checkEnd(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return nil
	case unix.S_IFSOCK:
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err == nil && kind == unix.SOCK_STREAM {
			return nil
		}
	}
	return errors.New("neither a pipe nor a stream socket")
}

// same reports whether two files are one pipe or socket.
func same(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// Rights is the control message that hands the ends and the memory over.
func Rights(e *Ends, m *Memory) ([]byte, error) {
	in, err := control(e.In)
	if err != nil {
		return nil, err
	}
	out, err := control(e.Out)
	if err != nil {
		return nil, err
	}
	return syscall.UnixRights(in, out, m.fd), nil
}

// control is the descriptor of a file that is used beside it.
func control(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Control(func(n uintptr) { fd = int(n) })
	}
	return fd, err
}

// Received is a session whose descriptors were handed over, until it begins.
type Received struct {
	In, Out *os.File
	Memory  *Memory
}

// Receive takes what a control message has. It closes all of it on an error.
func Receive(oob []byte) (*Received, error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, os.NewSyscallError("receive descriptors", err)
	}
	var fds []int
	for i := range messages {
		some, err := syscall.ParseUnixRights(&messages[i])
		if err == nil {
			fds = append(fds, some...)
		}
	}
	r, err := receive(fds)
	if err != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	return r, err
}

func receive(fds []int) (*Received, error) {
	if len(fds) != 3 {
		return nil, errors.New("a session is three descriptors")
	}
	if err := errors.Join(checkEnd(fds[0]), checkEnd(fds[1])); err != nil {
		return nil, err
	}
	m, err := adopt(fds[2])
	if err != nil {
		return nil, err
	}
	for _, fd := range fds[:2] {
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
	}
	return &Received{In: os.NewFile(uintptr(fds[0]), "in"), Out: os.NewFile(uintptr(fds[1]), "out"), Memory: m}, nil
}

// Close closes what was received.
func (r *Received) Close() {
	r.In.Close()
	r.Out.Close()
	r.Memory.Close()
}
