package contract

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"harness/pkg/proc"
)

// stepGrace is from the first polite sign to SIGKILL for a step whose time is
// over, or whose session was cancelled.
const stepGrace = 1500 * time.Millisecond

// plainPath is where commands are looked for when a contract lets no PATH
// through.
const plainPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// errCancelled is the cause of a context that ends because somebody cancelled
// the session; any other cause interrupts the step, which is then neither
// judged nor recorded.
var errCancelled = errors.New("the session was cancelled")

// Engine runs steps, each a bounded execution in a process group of its own.
type Engine struct {
	Host *proc.Host
	// Exe is the harness program, which becomes each step by way of [Confine].
	Exe string
	// Lookup reads the environment that names are let through from.
	Lookup func(string) (string, bool)
	Log    *slog.Logger

	probe   sync.Once
	sandbox Sandbox
}

// A task is one command of a contract, and where it is run.
type task struct {
	name    string
	cmd     string
	args    []string
	stdin   string
	timeout time.Duration // 0: none of its own
	network bool          // it may keep the network
	root    string
	spec    *Spec
	scratch string // "" where TMPDIR is not let through
}

// run executes t until it ends, its time is over, or ctx ends.
func (e *Engine) run(ctx context.Context, t task) Observed {
	dir, err := openBelow(t.root, t.spec.Workdir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return Observed{End: Unstarted, Problem: "workdir: " + err.Error()}
	}
	defer dir.Close()
	env := e.environment(t)
	path, err := find(t, env)
	if err != nil {
		return Observed{End: Unstarted, Problem: err.Error()}
	}
	c := e.confinement(t, path, env)
	p, err := e.start(c, dir, env, t.name)
	if err != nil {
		return Observed{End: Unstarted, Problem: err.Error()}
	}
	return e.attend(ctx, p, t, c.Nonce)
}

// start starts a Confine for c. The directory is handed over as the open file
// that was checked, so that nobody can put another in its place.
func (e *Engine) start(c confinement, dir *os.File, env []string, name string) (*proc.Proc, error) {
	told, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return e.Host.Start(proc.Spec{
		Path: e.Exe, Argv0: "harness", Args: []string{Confiner, string(told)}, Env: env,
		Dir: fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), Name: "contract." + name, NoNetwork: c.Alone,
	})
}

func (e *Engine) confinement(t task, path string, env []string) confinement {
	s := e.Sandbox()
	c := confinement{
		Nonce: rand.Text() + ": ", Path: path, Argv: append([]string{t.cmd}, t.args...),
		Alone: s.Netns && !t.network, Landlock: s.Landlock,
		CPU: int64(t.spec.MaxCPU / time.Second), Memory: t.spec.MaxMemory,
	}
	if s.Landlock {
		c.Read = append(append(systemDirs(), t.root), toolDirs(value(env, "PATH"))...)
		c.ReadFiles = systemFiles()
		if filepath.IsAbs(t.cmd) {
			c.ReadFiles = append(c.ReadFiles, t.cmd)
		}
		c.Write = []string{"."}
		if t.scratch != "" {
			c.Write = append(c.Write, t.scratch)
		}
	}
	return c
}

// environment is what the contract lets through, and nothing else.
func (e *Engine) environment(t task) []string {
	env := []string{}
	for _, name := range t.spec.Env {
		v, ok := e.Lookup(name)
		if name == "TMPDIR" && t.scratch != "" {
			v, ok = t.scratch, true
		}
		if ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func value(env []string, name string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// find finds the program of a task: a bare name in PATH, a path with a slash
// below the working directory, through no link, or an absolute one.
func find(t task, env []string) (string, error) {
	switch {
	case filepath.IsAbs(t.cmd):
		return t.cmd, executable(t.cmd)
	case strings.Contains(t.cmd, "/"):
		below := filepath.Join(t.spec.Workdir, t.cmd)
		f, err := openBelow(t.root, below, unix.O_PATH)
		if err != nil {
			return "", fmt.Errorf("command %q: %w", t.cmd, err)
		}
		f.Close()
		return filepath.Join(t.root, below), nil
	}
	path := value(env, "PATH")
	if path == "" {
		path = plainPath
	}
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, t.cmd); filepath.IsAbs(dir) && executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("command %q is not found in the PATH that the contract lets through", t.cmd)
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("command %q is not there", file)
	case err != nil:
		return fmt.Errorf("command %q is not accessible", file)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("command %q is not executable", file)
	}
	return nil
}

// attend feeds and watches a process that was started, and leaves nothing of it
// behind.
func (e *Engine) attend(ctx context.Context, p *proc.Proc, t task, nonce string) Observed {
	w := &watched{left: atomic.Int64{}, over: make(chan struct{})}
	w.left.Store(t.spec.MaxOutput)
	w.feed(p.Stdin, t.stdin)
	w.readers.Go(func() { w.stdout = w.drain(p.Stdout) })
	w.readers.Go(func() { w.stderr = w.drain(p.Stderr) })
	end := await(ctx, p, t.timeout, w.over)
	switch end {
	case ByItself, TooMuch:
		p.Kill() // what it left behind
	case TimeOver:
		p.Stop(stepGrace)
	case Cut:
		if errors.Is(context.Cause(ctx), errCancelled) {
			p.Stop(stepGrace)
		} else {
			p.Kill()
		}
	}
	w.finish(p)
	o := Observed{End: end, Stdout: w.stdout, Stderr: w.stderr}
	if w.overflown.Load() && end == ByItself {
		o.End = TooMuch
	}
	if exit := p.Exit(); exit.Signal != "" {
		o.Signal = exit.Signal
	} else {
		o.Exit = &exit.Code
	}
	if text, own := strings.CutPrefix(string(o.Stderr), nonce); own && o.Exit != nil && *o.Exit == confineFailed {
		return Observed{End: Unstarted, Problem: strings.TrimSpace(text)}
	}
	return o
}

// await says why waiting for p is over.
func await(ctx context.Context, p *proc.Proc, timeout time.Duration, over <-chan struct{}) End {
	var late <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-p.Exited():
		return ByItself
	case <-over:
		return TooMuch
	case <-late:
		return TimeOver
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return TimeOver
		}
		return Cut
	}
}

// watched is the output of one step.
type watched struct {
	left           atomic.Int64 // bytes that it may still write
	overflown      atomic.Bool
	once           sync.Once
	over           chan struct{}
	readers        sync.WaitGroup
	stdout, stderr []byte
}

// feed writes the input beside everything else: a step need not read it.
func (w *watched) feed(in io.WriteCloser, text string) {
	if text == "" {
		in.Close()
		return
	}
	w.readers.Go(func() {
		// A step that does not want its input ends the write; it is no fault.
		_, _ = io.WriteString(in, text)
		in.Close()
	})
}

// drain reads to the end, and keeps what fits into the limit.
func (w *watched) drain(r io.Reader) []byte {
	var kept []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if left := w.left.Add(-int64(n)); left >= 0 {
			kept = append(kept, buf[:n]...)
		} else {
			kept = append(kept, buf[:max(0, int64(n)+left)]...)
			w.overflown.Store(true)
			w.once.Do(func() { close(w.over) })
		}
		if err != nil {
			return kept
		}
	}
}

// finish waits for the readers. Nothing of the step is left to write, but for
// what survives SIGKILL.
func (w *watched) finish(p *proc.Proc) {
	deadline := time.Now().Add(time.Second)
	_ = p.Stdout.SetReadDeadline(deadline)
	_ = p.Stderr.SetReadDeadline(deadline)
	w.readers.Wait()
	p.Stdout.Close()
	p.Stderr.Close()
}
