package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"harness/pkg/config"
	"harness/pkg/proc"
)

// spawner starts processes. It is this package's seam to the operating system:
// its tests put programs in memory behind it.
type spawner interface {
	Start(spec proc.Spec) (child, error)
}

// child is one started process.
type child interface {
	Stdin() io.Writer
	Stdout() io.ReadCloser
	Stderr() io.ReadCloser
	PID() int
	// Exited is closed at the exit of the process itself, also where a
	// descendant holds its pipes.
	Exited() <-chan struct{}
	// Exit is valid once Exited is closed.
	Exit() proc.Exit
	// Stop ends the process and all that descends from it, politely for
	// grace, and returns when nothing is left (LIF-3).
	Stop(grace time.Duration)
}

// hostSpawner starts real processes.
type hostSpawner struct{ host *proc.Host }

var _ spawner = hostSpawner{}

// Start implements [spawner].
func (h hostSpawner) Start(spec proc.Spec) (child, error) {
	p, err := h.host.Start(spec)
	if err != nil {
		return nil, err
	}
	return hostChild{p}, nil
}

// hostChild is a real process.
type hostChild struct{ *proc.Proc }

func (c hostChild) Stdin() io.Writer      { return c.Proc.Stdin }
func (c hostChild) Stdout() io.ReadCloser { return c.Proc.Stdout }
func (c hostChild) Stderr() io.ReadCloser { return c.Proc.Stderr }

// prepare returns what to start for l: the environment of LIF-8 and the file
// that cmd names now. It is called at each start, so that a changed env_file
// or a newly installed program counts (CFG-5).
func prepare(l config.Launch, base []string, read func(string) ([]byte, error)) (proc.Spec, error) {
	vars, err := config.ReadEnvFile(l.EnvFile, read)
	if err != nil {
		return proc.Spec{}, err
	}
	exe, err := FindExe(l.Cmd, lookup(base, "PATH"))
	if err != nil {
		return proc.Spec{}, err
	}
	if info, err := os.Stat(l.Workdir); err != nil || !info.IsDir() {
		return proc.Spec{}, fmt.Errorf("workdir %s is not a directory", l.Workdir)
	}
	return proc.Spec{
		Path: exe, Argv0: l.Cmd, Args: l.Args, Dir: l.Workdir, Name: "mcp." + l.Key,
		Env: config.Environ(base, vars, l.Env),
	}, nil
}

// exitReason words how a process ended.
func exitReason(e proc.Exit) string {
	if e.Signal != "" {
		return "was killed (" + e.Signal + ")"
	}
	return fmt.Sprintf("exited (code %d)", e.Code)
}

// tail reads a process's stdout to its end, or, once the process is over, to
// the end of what is in the pipe at that moment: a descendant that holds the
// pipe open must not keep calls waiting (LIF-6).
type tail struct {
	src  io.Reader
	over bool // src is read to left, not to its end
	left int
}

// deadliner is a pipe whose reads can be interrupted.
type deadliner interface {
	SetReadDeadline(t time.Time) error
	syscall.Conn
}

// finish interrupts the reader where its source can be. It is called once, by
// any goroutine.
func (t *tail) finish() {
	if d, ok := t.src.(deadliner); ok {
		// A pipe without deadlines ends with its last writer.
		_ = d.SetReadDeadline(time.Unix(1, 0))
	}
}

// Read implements [io.Reader].
func (t *tail) Read(p []byte) (int, error) {
	if !t.over {
		n, err := t.src.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := t.measure(); err != nil {
			return 0, err
		}
	}
	if t.left == 0 {
		return 0, io.EOF
	}
	n, err := t.src.Read(p[:min(len(p), t.left)])
	t.left -= n
	return n, err
}

// measure finds out how much is in the pipe.
func (t *tail) measure() error {
	d, ok := t.src.(deadliner)
	if !ok {
		return io.EOF
	}
	if err := d.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := d.SyscallConn()
	if err != nil {
		return err
	}
	t.over = true
	var ioctl error
	err = raw.Control(func(fd uintptr) { t.left, ioctl = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return errors.Join(err, ioctl)
}
