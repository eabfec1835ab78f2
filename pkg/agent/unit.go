package agent

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thejerf/suture/v4"

	"harness/pkg/config"
	"harness/pkg/plain"
	"harness/pkg/proc"
)

// drainWithin bounds the wait for the last output of a process that is gone:
// nobody can print any more.
const drainWithin = time.Second

// unit keeps one harness like its definition. Words and results change its
// machine under one lock, at once and without doing anything; what they ask for
// is done by the goroutine in Serve, in order.
type unit struct {
	name string
	pool *Pool
	term *terminal
	log  io.WriteCloser

	mu    sync.Mutex
	m     machine
	todo  []effect
	work  chan struct{} // capacity 1
	view  atomic.Pointer[Status]
	idle  sync.WaitGroup // what Serve started
	alive *life          // the process, or what is left of it; of Serve's goroutine
	alarm *time.Timer    // of the next doWake; of Serve's goroutine
}

// life is one process from its spawn to the last of its group.
type life struct {
	number uint64
	proc   *proc.Proc
	spawn  Spawn
	run    Run
	read   chan struct{} // closed when its output has ended
	told   chan struct{} // closed when the machine knows of its exit
}

func newUnit(name string, p *Pool) *unit {
	log := openLog(name, p.opt)
	u := &unit{name: name, pool: p, log: log, term: newTerminal(log), m: newMachine(name), work: make(chan struct{}, 1)}
	u.view.Store(&Status{Name: name, State: Stopped})
	return u
}

// openLog opens the log of a harness. One without a log runs all the same: its
// screen can be looked at.
func openLog(name string, opt Options) io.WriteCloser {
	log, err := proc.OpenLog(LogPath(opt.LogDir, name), logSize, logKeep)
	if err != nil {
		opt.Logger.Warn("the harness's output is not logged", "harness", name, "error", err)
		return unlogged{}
	}
	return log
}

// unlogged is the log of a harness whose file cannot be opened.
type unlogged struct{}

func (unlogged) Write(p []byte) (int, error) { return len(p), nil }

func (unlogged) Close() error { return nil }

// String names the unit's service.
func (u *unit) String() string { return "harness " + u.name }

// apply changes the machine and shows what it has become.
func (u *unit) apply(change func(m *machine)) {
	u.mu.Lock()
	change(&u.m)
	u.todo = append(u.todo, u.m.take()...)
	u.view.Store(u.m.status(u.view.Load().RunID))
	u.mu.Unlock()
	u.pool.opt.Changed()
	select {
	case u.work <- struct{}{}:
	default: // it knows
	}
}

// ran notes the run of the process that is about to be.
func (u *unit) ran(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := *u.view.Load()
	s.RunID = id
	u.view.Store(&s)
}

// Serve does what the machine asks for until ctx ends, and then what it takes
// until nothing is left; or until the unit was removed and is stopped.
func (u *unit) Serve(ctx context.Context) error {
	u.alarm = time.NewTimer(0)
	for ctx.Err() == nil {
		u.do()
		if u.pool.forget(u) {
			u.alarm.Stop()
			u.idle.Wait()
			u.close()
			u.pool.opt.Changed()
			return suture.ErrDoNotRestart
		}
		select {
		case <-ctx.Done():
		case <-u.work:
		}
	}
	u.apply(func(m *machine) { m.stop() })
	for u.do(); u.view.Load().State != Stopped; u.do() {
		<-u.work
	}
	u.alarm.Stop()
	u.idle.Wait()
	return ctx.Err()
}

// do does everything that is asked for by now.
func (u *unit) do() {
	for {
		u.mu.Lock()
		todo := u.todo
		u.todo = nil
		u.mu.Unlock()
		if len(todo) == 0 {
			return
		}
		for _, e := range todo {
			u.perform(e)
		}
	}
}

func (u *unit) perform(e effect) {
	switch e.do {
	case doTell:
		u.tell(e)
	case doSpawn:
		u.spawn(e)
	case doStop:
		u.finish(e.life, func(p *proc.Proc) { p.Stop(u.pool.grace()) })
	case doSweep:
		u.finish(e.life, (*proc.Proc).Kill)
	case doWake:
		u.alarm.Stop()
		u.alarm = time.AfterFunc(time.Until(e.at), func() { u.apply(func(m *machine) { m.ring(e.life) }) })
	}
}

// tell says what has become of it, also to who looks at its terminal.
func (u *unit) tell(e effect) {
	why := plain.Text(e.why)
	u.pool.opt.Event(Event{At: time.Now(), Name: u.name, State: e.state, PID: e.pid, Message: why})
	switch e.state {
	case Restarting, Degraded, Failed:
		u.term.say(string(e.state) + ": " + why)
	case Stopped:
		u.term.say(u.name + " is stopped")
	case Starting, Running, Stopping:
	}
}

// spawn starts the process of a life.
func (u *unit) spawn(e effect) {
	l, err := u.launch(e.launch)
	now := time.Now()
	if err != nil {
		u.apply(func(m *machine) { m.failed(e.life, err.Error(), now, rand.Float64()) })
		return
	}
	l.number = e.life
	u.alive = l
	u.term.begin(l.proc)
	u.apply(func(m *machine) { m.up(e.life, e.launch, l.proc.PID(), now) })
	u.idle.Go(func() {
		defer close(l.read)
		u.term.follow(l.proc, l.run)
	})
	u.idle.Go(func() {
		defer close(l.told)
		l.run.Started()
		<-l.proc.Exited()
		exit := l.proc.Exit()
		l.spawn.Ended()
		u.apply(func(m *machine) { m.exited(l.number, exit, time.Now(), rand.Float64()) })
	})
}

// launch makes a process of a definition. Its error names no value of an
// environment.
func (u *unit) launch(l config.AgentLaunch) (*life, error) {
	exe, err := u.pool.opt.FindExe(l.Cmd)
	if err != nil {
		return nil, err
	}
	file, err := config.ReadEnvFile(l.EnvFile, u.pool.opt.ReadFile)
	if err != nil {
		return nil, err
	}
	run, err := u.pool.opt.Runs.Begin(l, time.Now())
	if err != nil {
		return nil, fmt.Errorf("record the run: %w", err)
	}
	l.Exe = exe
	env := Environment(u.pool.opt.Env(), file, l.Env)
	spawn, err := u.pool.opt.Prepare(l, run.ID(), env)
	if err != nil {
		err = fmt.Errorf("wire to the endpoint: %w", err)
		run.End(proc.Exit{Code: -1, At: time.Now()}, err)
		return nil, err
	}
	size := u.term.measure()
	p, err := u.pool.opt.Host.Start(proc.Spec{
		Path: exe, Argv0: l.Cmd, Args: spawn.Args, Env: config.Environ(env, nil, spawn.Env), Dir: l.Workdir, Name: "harness." + u.name, TTY: &size,
	})
	if err != nil {
		spawn.Ended()
		run.End(proc.Exit{Code: -1, At: time.Now()}, err)
		return nil, err
	}
	spawn.Bound(p.PID(), p.StartTime())
	u.ran(run.ID())
	return &life{proc: p, spawn: spawn, run: run, read: make(chan struct{}), told: make(chan struct{})}, nil
}

// Environment is that of a child before it is wired (LIF-8): the daemon's, base,
// without HARNESS_*, then its env_file, then env of its definition.
func Environment(base []string, file []config.EnvVar, env map[string]string) []string {
	base = slices.DeleteFunc(slices.Clone(base), func(v string) bool { return strings.HasPrefix(v, "HARNESS_") })
	base = config.Environ(base, nil, map[string]string{"TERM": "xterm-256color"})
	return config.Environ(base, file, env)
}

// finish ends a life beside the loop, and says when nothing is left of it.
func (u *unit) finish(number uint64, end func(*proc.Proc)) {
	l := u.alive
	if l == nil || l.number != number {
		return // its spawn failed, which said so
	}
	u.idle.Go(func() {
		end(l.proc)
		select {
		case <-l.read:
		case <-time.After(drainWithin):
		}
		u.term.end(l.proc)
		<-l.read
		exit := proc.Exit{Code: -1, At: time.Now()} // of one that survives SIGKILL, and is given up
		select {
		case <-l.proc.Exited():
			exit = l.proc.Exit()
			<-l.told // the machine hears of an exit before the end
		default:
		}
		l.run.End(exit, nil)
		u.apply(func(m *machine) { m.gone(number) })
	})
}
