package contract

import (
	"context"
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
	// Lookup reads the environment that names are let through from.
	Lookup func(string) (string, bool)
	Log    *slog.Logger
	// Guard is called once, before the first step: from then on something sees to
	// it that what is left of steps ends with this process, also where that is
	// killed. nil: nothing does, and whoever comes next ends it.
	Guard func()

	guard   sync.Once
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
	dir, err := openDir(t.root, t.spec.Workdir)
	if err != nil {
		return Observed{End: Unstarted, Problem: "workdir: " + err.Error()}
	}
	defer dir.Close()
	env := e.environment(t)
	path, err := find(t, env)
	if err != nil {
		return Observed{End: Unstarted, Problem: err.Error()}
	}
	e.guarded()
	p, err := e.start(e.confinement(t, env), t, path, dir, env)
	if err != nil {
		return Observed{End: Unstarted, Problem: err.Error()}
	}
	return e.attend(ctx, p, t)
}

func (e *Engine) guarded() {
	if e.Guard != nil {
		e.guard.Do(e.Guard)
	}
}

// start starts the program at path for t, confined to c. The directory is handed
// over as the open file that was checked, so that nobody can put another in its
// place.
func (e *Engine) start(c confinement, t task, path string, dir *os.File, env []string) (*proc.Proc, error) {
	rules, err := c.rules(dir)
	if err != nil {
		return nil, err
	}
	if rules != nil {
		defer rules.Close()
	}
	return e.Host.Start(proc.Spec{
		Path: path, Argv0: t.cmd, Args: t.args, Env: env, Name: stepName + t.name,
		Confined: &proc.Confined{Dir: dir, NoNetwork: c.alone, Ruleset: rules, Limits: limits(t.spec)},
	})
}

func (e *Engine) confinement(t task, env []string) confinement {
	s := e.Sandbox()
	c := confinement{alone: s.Netns && !t.network, landlock: s.Landlock}
	if s.Landlock {
		c.read = append(append(systemDirs(), t.root), toolDirs(value(env, "PATH"))...)
		c.readFiles = systemFiles()
		if filepath.IsAbs(t.cmd) {
			c.readFiles = append(c.readFiles, t.cmd)
		}
		if t.scratch != "" {
			c.write = append(c.write, t.scratch)
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
		at := filepath.Join(t.spec.Workdir, t.cmd)
		if err := look(t.root, at); err != nil {
			return "", fmt.Errorf("command %q: %w", t.cmd, err)
		}
		return filepath.Join(t.root, at), nil
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
func (e *Engine) attend(ctx context.Context, p *proc.Proc, t task) Observed {
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
		p.Terminate(stepGrace)
	case Cut:
		if errors.Is(context.Cause(ctx), errCancelled) {
			p.Terminate(stepGrace)
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
