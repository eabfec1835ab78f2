package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/thejerf/suture/v4"

	"harness/pkg/config"
	"harness/pkg/proc"
)

const (
	// logSize and logKeep bound the log of one harness (LIF-7).
	logSize = 10 << 20
	logKeep = 2
	// unitBudget is how long the supervisor waits for a unit at the end. The
	// ladder of LIF-3 ends sooner, so this only ever catches a bug.
	unitBudget = time.Hour
)

// ErrUnknown is what Attach returns for a harness that was never started.
var ErrUnknown = errors.New("the harness was never started")

// LogPath returns the log file of a harness in the log directory dir.
func LogPath(dir, name string) string {
	return filepath.Join(dir, url.PathEscape(name)+".log")
}

// Options is what a [Pool] needs from outside. All functions may be called by
// any goroutine.
type Options struct {
	// Host starts the processes.
	Host *proc.Host
	// LogDir is where each harness's log is; see [LogPath].
	LogDir string
	// Env returns the daemon's environment without HARNESS_* (LIF-8).
	Env func() []string
	// FindExe finds the program that a command names, at each start.
	FindExe func(cmd string) (string, error)
	// ReadFile reads an env_file, at each start (CFG-5).
	ReadFile func(path string) ([]byte, error)
	// Prepare says how a launch, whose environment is env so far, is spawned
	// beyond its definition: wired to the endpoint, and with an identity (WHO-1,
	// WHO-4).
	Prepare func(l config.AgentLaunch, runID string, env []string) (Spawn, error)
	// Runs keeps what was run.
	Runs   Recorder
	Logger *slog.Logger
	// Changed says that something in Snapshot is not as it was; nil for nobody.
	// It must neither block nor call the pool.
	Changed func()
	// Event tells what happened to a harness, in order for each; nil for nobody.
	// It must neither block nor call the pool.
	Event func(Event)
	// Server bounds the pool until SetLimits: StopGrace.
	Server config.Server
}

// Spawn is what a spawn has beyond its definition.
type Spawn struct {
	// Args are all arguments of the command.
	Args []string
	// Env is set over what the definition and env_file say.
	Env map[string]string
	// Bound is called with the process as soon as it is there, Ended when it has
	// exited or never was.
	Bound func(pid int, start uint64)
	Ended func()
}

// Recorder keeps runs.
type Recorder interface {
	// Begin notes that a harness is about to be spawned. It returns once that
	// is on the disk (EVI-1).
	Begin(l config.AgentLaunch, at time.Time) (Run, error)
}

// Run is one process from spawn to exit. What is written to it is what its
// terminal printed; writing never waits for long and never fails.
type Run interface {
	io.Writer
	ID() string
	// Started notes that the process is there.
	Started()
	// End notes how it ended, or why there never was one.
	End(exit proc.Exit, err error)
}

// Event is something that happened to a harness, for whoever watches.
type Event struct {
	At      time.Time
	Name    string
	State   State // after it
	PID     int
	Message string // names no secret
}

// Status is one harness as it is now. It is a copy; what it points to is
// immutable.
type Status struct {
	Name string
	// Next is the definition of the next start.
	Next config.AgentLaunch
	// Spawned is what the process was started from, nil where there is none.
	Spawned *config.AgentLaunch
	Nonce   uint64
	State   State
	// Enabled is false once Stop was called.
	Enabled bool
	// PID is 0 where there is no process.
	PID int
	// Restarts counts automatic restarts since the last manual start.
	Restarts int
	LastExit *proc.Exit // nil before the first
	// Started is when the process was spawned, zero where there is none.
	Started time.Time
	// Error is the last failure, "" while all is well.
	Error string
	// NextRetry is when it is started again, zero when nothing is planned.
	NextRetry time.Time
	// Answered is true when, since the last word that started it, it came up or
	// its first try failed, or there is nothing to wait for (CLI-6).
	Answered bool
	// RunID is that of the newest process.
	RunID string
}

// status is what is shown of a machine.
func (m *machine) status(run string) *Status {
	return &Status{
		Name: m.name, Next: m.next, Spawned: m.spawned, Nonce: m.nonce, State: m.state, Enabled: m.enabled, PID: m.pid,
		Restarts: m.restarts, LastExit: m.lastExit, Started: m.started, Error: m.err, NextRetry: m.retryAt, Answered: m.answered, RunID: run,
	}
}

// Pool keeps the harnesses that were started. Its words never wait for a
// process: they decide, and Snapshot shows what they decided on when they
// return. They may come in any order and from any goroutine, before Serve too.
type Pool struct {
	opt        Options
	supervisor *suture.Supervisor

	mu    sync.RWMutex
	limit time.Duration // stop_grace
	units map[string]*entry
}

// entry is a unit and what the pool knows of it.
type entry struct {
	*unit
	removed bool // to be forgotten once it is stopped; guarded by Pool.mu
}

// NewPool returns a pool without harnesses. It starts nothing.
func NewPool(o Options) *Pool {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	p := &Pool{opt: o, limit: o.Server.StopGrace, units: map[string]*entry{}}
	p.supervisor = suture.New("harnesses", suture.Spec{EventHook: p.mishap, Timeout: unitBudget})
	return p
}

// mishap logs what the supervisor met. The units restart their processes
// themselves, so whatever it is, it is a bug.
func (p *Pool) mishap(e suture.Event) {
	if e.Type() == suture.EventTypeServicePanic || e.Type() == suture.EventTypeStopTimeout {
		p.opt.Logger.Error("a harness's supervision failed", "event", e.String())
	}
}

// String names the pool's service.
func (p *Pool) String() string { return "harnesses" }

// Serve runs the units until ctx ends, then ends every process, in parallel,
// and returns when nothing is left of them (LIF-4). It is called once.
func (p *Pool) Serve(ctx context.Context) error {
	err := p.supervisor.Serve(ctx)
	p.Close()
	return err
}

// Close lets go of what outlives the processes. Only a pool that was never served
// needs it; no Serve may follow.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.units {
		e.close()
	}
}

// close ends what outlives the processes.
func (u *unit) close() {
	u.term.close()
	_ = u.log.Close() // what it could not write it has noted
}

// Start starts a harness, or starts it again if it is there: with an exit count
// of zero, and after what runs was stopped.
func (p *Pool) Start(l config.AgentLaunch, nonce uint64) {
	p.entry(l.Name).apply(func(m *machine) { m.start(l, nonce) })
}

// Update puts a definition in force for the next start (HOT-5).
func (p *Pool) Update(l config.AgentLaunch) {
	if e := p.find(l.Name); e != nil {
		e.apply(func(m *machine) { m.update(l) })
	}
}

// Stop takes a harness out of service: it is stopped as LIF-3 says.
func (p *Pool) Stop(name string) {
	if e := p.find(name); e != nil {
		e.apply(func(m *machine) { m.stop() })
	}
}

// Remove stops a harness and forgets it once nothing is left of it. Who looks at
// its terminal sees the end.
func (p *Pool) Remove(name string) {
	p.mu.Lock()
	e := p.units[name]
	if e != nil {
		e.removed = true
	}
	p.mu.Unlock()
	if e != nil {
		e.apply(func(m *machine) { m.stop() })
	}
}

// forget takes u out of the pool if it was removed and nothing is left of it,
// under the lock that Start takes: one that is started again stays.
func (p *Pool) forget(u *unit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.units[u.name]
	if e == nil || e.unit != u || !e.removed || u.view.Load().State != Stopped {
		return false
	}
	delete(p.units, u.name)
	return true
}

// SetLimits puts stop_grace in force for whatever is stopped from now on.
func (p *Pool) SetLimits(s config.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = s.StopGrace
}

func (p *Pool) grace() time.Duration {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.limit
}

// Snapshot describes every harness that was started, sorted by name.
func (p *Pool) Snapshot() []Status {
	p.mu.RLock()
	list := make([]Status, 0, len(p.units))
	for _, e := range slices.Collect(maps.Values(p.units)) {
		list = append(list, *e.view.Load())
	}
	p.mu.RUnlock()
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Status describes one harness, if it was started.
func (p *Pool) Status(name string) (Status, bool) {
	if e := p.find(name); e != nil {
		return *e.view.Load(), true
	}
	return Status{}, false
}

// Attach looks at the terminal of a harness that was started.
func (p *Pool) Attach(name string, v Viewer) (*Attachment, error) {
	if e := p.find(name); e != nil {
		return e.term.attach(v), nil
	}
	return nil, ErrUnknown
}

// Screen returns what is on a harness's screen, as plain lines.
func (p *Pool) Screen(name string) ([]string, error) {
	e := p.find(name)
	if e == nil {
		return nil, ErrUnknown
	}
	return e.term.text(), nil
}

func (p *Pool) find(name string) *entry {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.units[name]
}

// entry returns the harness name, made where it is new.
func (p *Pool) entry(name string) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.units[name]; e != nil {
		e.removed = false
		return e
	}
	u := newUnit(name, p)
	e := &entry{unit: u}
	p.supervisor.Add(u)
	p.units[name] = e
	return e
}
