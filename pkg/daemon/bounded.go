package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"harness/pkg/config"
	"harness/pkg/evidence"
	"harness/pkg/proc"
	"harness/pkg/run"
	"harness/pkg/upstream"
)

// pipesWithin bounds the wait for the last output of a process that is gone.
const pipesWithin = time.Second

// bounded runs harnesses once each, without a terminal, and ends them with the
// daemon (EVI-6).
type bounded struct {
	host   *proc.Host
	wiring wiring
	*archive
	grace func() time.Duration
	log   *slog.Logger

	mu      sync.Mutex
	closing bool
	wg      sync.WaitGroup
	cancels map[string]context.CancelFunc
}

// String names the service in the supervisor's log.
func (b *bounded) String() string { return "bounded runs" }

// Serve waits for ctx to end, then ends every run and waits for it.
func (b *bounded) Serve(ctx context.Context) error {
	<-ctx.Done()
	b.mu.Lock()
	b.closing = true
	for _, cancel := range b.cancels {
		cancel()
	}
	b.mu.Unlock()
	b.wg.Wait()
	return ctx.Err()
}

// task is one bounded run that is asked for.
type task struct {
	id      string // of [run.Store.NewID]
	launch  config.AgentLaunch
	more    []string // the operator's own arguments
	prompt  []byte   // nil for none
	role    string
	key     string
	timeout time.Duration
	actor   run.Actor
}

// start seals a run and starts its process. The error is one of before: nothing
// was recorded. What fails after that is how the run ended. It outlives whoever
// asked for it: Serve and cancel end it, and not the end of ctx.
func (b *bounded) start(ctx context.Context, t task) (*run.Run, error) {
	exe, err := upstream.FindExe(t.launch.Cmd, os.Getenv("PATH"))
	if err != nil {
		return nil, err
	}
	file, err := config.ReadEnvFile(t.launch.EnvFile, ReadRegular)
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := b.admit(ctx, t.id)
	if err != nil {
		return nil, err
	}
	l := run.Launch{
		ID: t.id, Harness: t.launch.Name, Bounded: true, Argv: argvOf(t.launch, t.more), Definition: definitionDigest(t.launch),
		Role: t.role, Actor: t.actor, Key: t.key, Timeout: t.timeout, At: time.Now(),
	}
	if t.prompt != nil {
		l.Prompt = &run.Prompt{SHA256: evidence.Digest(t.prompt), Bytes: len(t.prompt)}
	}
	r, err := b.runs.Begin(l)
	if err != nil {
		b.over(t.id, cancel)
		return nil, err
	}
	p, ended, err := b.spawn(t, exe, file, r)
	if err != nil {
		r.End(unstarted(b.log, t.id, err))
		b.over(t.id, cancel)
		return r, nil
	}
	if err := r.Started(time.Now()); err != nil {
		b.log.Error("start of a run not recorded", "run", t.id, "error", err)
	}
	go func() {
		defer b.over(t.id, cancel)
		b.attend(ctx, t, r, p, ended)
	}()
	return r, nil
}

// admit counts a run that is about to be.
func (b *bounded) admit(ctx context.Context, id string) (context.Context, context.CancelFunc, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return nil, nil, context.Canceled
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancels[id] = cancel
	b.wg.Add(1)
	return ctx, cancel, nil
}

func (b *bounded) over(id string, cancel context.CancelFunc) {
	cancel()
	b.mu.Lock()
	delete(b.cancels, id)
	b.mu.Unlock()
	b.wg.Done()
}

// cancel ends a run by its ladder, and reports whether it was under way.
func (b *bounded) cancel(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	cancel, there := b.cancels[id]
	if there {
		cancel()
	}
	return there
}

// spawn starts the process of a run that is sealed.
func (b *bounded) spawn(t task, exe string, file []config.EnvVar, r *run.Run) (p *proc.Proc, ended func(), err error) {
	l := t.launch
	l.Exe, l.Args = exe, append(slices.Clip(l.Args), t.more...)
	env := config.Environ(sanitized(os.Environ(), l.EnvPass), file, l.Env)
	spawn, err := b.wiring.prepareIn(l, l.Name+"."+t.id, t.id, env)
	if err != nil {
		return nil, nil, err
	}
	p, err = b.host.Start(proc.Spec{
		Path: exe, Argv0: l.Cmd, Args: spawn.Args, Env: config.Environ(config.Environ(env, nil, r.Environment()), nil, spawn.Env),
		Dir: l.Workdir, Name: "run." + t.id,
	})
	if err != nil {
		spawn.Ended()
		return nil, nil, err
	}
	spawn.Bound(p.PID(), p.StartTime())
	return p, spawn.Ended, nil
}

// sanitized is the environment of a bounded run before its definition has a say
// (EVI-6).
func sanitized(environ, pass []string) []string {
	var env []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if allowed(name, pass) {
			env = append(env, entry)
		}
	}
	return env
}

func allowed(name string, pass []string) bool {
	if strings.HasPrefix(name, "HARNESS_") {
		return false
	}
	switch name {
	case "PATH", "HOME", "LANG", "TERM", "TZ":
		return true
	}
	return slices.Contains(pass, name) || strings.HasPrefix(name, "XDG_")
}

// attend sees a run to its end: it feeds the prompt, keeps the output, and ends
// what goes on for too long, or has to.
func (b *bounded) attend(ctx context.Context, t task, r *run.Run, p *proc.Proc, ended func()) {
	var pipes sync.WaitGroup
	for _, from := range []*os.File{p.Stdout, p.Stderr} {
		pipes.Go(func() { _, _ = io.Copy(r, from) })
	}
	var feed sync.WaitGroup
	feed.Go(func() {
		_, _ = p.Stdin.Write(t.prompt) // one that does not read has not been told
		p.Stdin.Close()
	})
	state := run.Exited
	var limit <-chan time.Time
	if t.timeout > 0 {
		timer := time.NewTimer(t.timeout)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-p.Exited():
		p.Kill() // what it left
	case <-limit:
		state = run.TimedOut
		p.Terminate(b.grace())
	case <-ctx.Done():
		state = run.Cancelled
		p.Terminate(b.grace())
	}
	<-p.Exited()
	ended()
	drain(&pipes, p)
	feed.Wait()
	e := endOf(p.Exit())
	e.State = state
	r.End(e)
}

// drain waits for the last output of a process that is gone, and closes its
// pipes.
func drain(pipes *sync.WaitGroup, p *proc.Proc) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		pipes.Wait()
	}()
	select {
	case <-read:
	case <-time.After(pipesWithin):
	}
	p.Stdin.Close()
	p.Stdout.Close()
	p.Stderr.Close()
	<-read
}
