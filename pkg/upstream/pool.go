package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/thejerf/suture/v4"

	"harness/pkg/config"
	"harness/pkg/jsonrpc"
	"harness/pkg/proc"
)

// Options is what a [Pool] needs from outside. All functions may be called by
// any goroutine; they must neither block nor call the pool.
type Options struct {
	// Host starts the processes.
	Host *proc.Host
	// StateDir is where the kept lists are, under manifests (MCP-3a).
	StateDir string
	// LogDir is where each upstream's log is; see [LogPath].
	LogDir string
	// Env returns the daemon's environment without HARNESS_* (LIF-8).
	Env func() []string
	// ReadFile reads an env_file, at each start (CFG-5).
	ReadFile func(path string) ([]byte, error)
	Logger   *slog.Logger
	// Changed says that something in Snapshot is not as it was; nil for
	// nobody.
	Changed func()
	// Event tells what happened to an upstream, in order for each; nil for
	// nobody.
	Event func(Event)
	// Heard gets what an upstream says without having been asked: that a
	// resource was updated, and log messages. It must not keep line; nil for
	// nobody.
	Heard func(key string, line []byte, m *jsonrpc.Message)
	// Version is what upstreams are told that harness is.
	Version string
	// Server bounds the pool until SetLimits: StopGrace, Drain, MaxMessage.
	Server config.Server
}

// Pool keeps the upstreams. Its words never wait for a process: they decide,
// and Snapshot shows what they decided on when they return; the units, served
// by a supervisor of the pool's own, do it. They may come in any order and
// from any goroutine, before Serve too. Of one key two processes run only
// while a swap lasts (LIF-5): whatever else follows on a process waits until
// nothing is left of it.
type Pool struct {
	opt        Options
	spawner    spawner
	manifests  manifests
	keeper     *keeper
	supervisor *suture.Supervisor

	mu     sync.RWMutex
	limits limits
	units  map[string]*Unit
}

// unitBudget is how long the supervisor waits for a unit at the end. The
// ladder of LIF-3 ends sooner whatever [server] says, so this only ever
// catches a bug.
const unitBudget = time.Hour

// NewPool returns a pool without upstreams. It starts nothing.
func NewPool(o Options) *Pool { return newPool(o, hostSpawner{o.Host}) }

func newPool(o Options, s spawner) *Pool {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Event == nil {
		o.Event = func(Event) {}
	}
	if o.Heard == nil {
		o.Heard = func(string, []byte, *jsonrpc.Message) {}
	}
	store := manifests{filepath.Join(o.StateDir, "manifests")}
	p := &Pool{
		opt: o, spawner: s, manifests: store, keeper: newKeeper(store, o.Logger),
		limits: limitsOf(o.Server), units: map[string]*Unit{},
	}
	p.supervisor = suture.New("upstreams", suture.Spec{EventHook: p.mishap, Timeout: unitBudget})
	p.supervisor.Add(p.keeper)
	return p
}

func limitsOf(s config.Server) limits {
	return limits{stopGrace: s.StopGrace, drain: s.Drain, maxMessage: s.MaxMessage}
}

// mishap logs what the supervisor met. The units restart their processes
// themselves, so whatever it is, it is a bug.
func (p *Pool) mishap(e suture.Event) {
	if e.Type() == suture.EventTypeServicePanic || e.Type() == suture.EventTypeStopTimeout {
		p.opt.Logger.Error("an upstream's supervision failed", "event", e.String())
	}
}

// String names the pool's service.
func (p *Pool) String() string { return "upstreams" }

// Serve runs the units until ctx ends, then ends every process, in parallel,
// and returns when nothing is left of them (LIF-4). It is called once.
func (p *Pool) Serve(ctx context.Context) error {
	err := p.supervisor.Serve(ctx)
	p.keeper.flush()
	return err
}

// Start puts an upstream in force that is not there. One that is on its way
// out starts again as soon as nothing is left of it.
//
// Of one that is in force, a changed definition replaces it (HOT-4): what runs
// is stopped, and l started when nothing is left of it; calls under way may end
// within stop_grace, new ones wait for the new process. Another nonce is a
// manual start or restart: the count of exits is cleared, and the upstream is
// started now, after what runs was stopped in the same way. A pending
// definition is the one started then.
//
// The kept list of the definition, if there is one, is offered from now on
// (MCP-3a).
func (p *Pool) Start(l config.Launch, nonce uint64) {
	known := p.known(l)
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.units[l.Key]
	if u == nil {
		u = newUnit(l.Key, p)
		u.journal, u.m.limits = openJournal(p.opt.LogDir, l.Key, u.log), p.limits
		p.units[l.Key] = u
		defer p.supervisor.Add(u)
	}
	u.apply(func(m *machine, _ time.Time) { m.start(l, nonce, known) })
	u.spread()
}

// Swap starts a changed definition beside the one in force (HOT-4). It drops
// an earlier one that is pending; with the definition in force, that is all it
// does. A process that does not run is not waited for: the new one takes over
// as soon as it is ready.
func (p *Pool) Swap(l config.Launch) {
	known := p.known(l)
	p.change(l.Key, func(m *machine, _ time.Time) { m.swap(l, known) })
}

// Update puts the keys of l that need no new process in force.
func (p *Pool) Update(l config.Launch) {
	p.change(l.Key, func(m *machine, _ time.Time) { m.update(l) })
}

// Cancel drops the pending definition of key.
func (p *Pool) Cancel(key string) {
	p.change(key, func(m *machine, _ time.Time) { m.cancel() })
}

// Stop takes an upstream out of service for good: calls under way may end
// within stop_grace, then they fail, then it is stopped (LIF-3).
func (p *Pool) Stop(key string) {
	p.change(key, func(m *machine, _ time.Time) { m.stop() })
}

// SetLimits puts [server] in force for everything that begins from now on:
// max_message for the processes started, stop_grace and drain for those that
// are stopped.
func (p *Pool) SetLimits(s config.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = limitsOf(s)
	for _, u := range p.units {
		u.apply(func(m *machine, _ time.Time) { m.limits = p.limits })
		u.spread()
	}
}

// Promote lets every pending definition whose process is ready take over:
// calls go to it from now on, the old process stops after its calls have
// ended, within [server] drain (HOT-4). It returns the keys, sorted.
func (p *Pool) Promote() (switched []string) {
	for _, u := range p.all() {
		if !u.view.Load().PendingReady {
			continue
		}
		u.apply(func(m *machine, _ time.Time) {
			if m.promote() {
				switched = append(switched, u.key)
			}
		})
	}
	return switched
}

// Snapshot describes every upstream, sorted by key.
func (p *Pool) Snapshot() []Status {
	units := p.all()
	list := make([]Status, len(units))
	for i, u := range units {
		list[i] = u.embrace(*u.view.Load())
	}
	return list
}

// Unit returns the upstream key, or nil. It stays valid after a Stop, and then
// fails every call.
func (p *Pool) Unit(key string) *Unit {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.units[key]
}

// change applies a change to the upstream key, if there is one.
func (p *Pool) change(key string, change func(m *machine, now time.Time)) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if u := p.units[key]; u != nil {
		u.apply(change)
		u.spread()
	}
}

// all returns the units, sorted by key.
func (p *Pool) all() []*Unit {
	p.mu.RLock()
	units := slices.Collect(maps.Values(p.units))
	p.mu.RUnlock()
	slices.SortFunc(units, func(a, b *Unit) int { return cmp.Compare(a.key, b.key) })
	return units
}

// known returns the kept list of l. One that cannot be used is set aside, and
// the upstream starts without.
func (p *Pool) known(l config.Launch) *Offer {
	o, err := p.manifests.load(l)
	if err != nil {
		p.opt.Logger.Warn("the kept list of an upstream is not used", "upstream", l.Key, "error", err)
	}
	return o
}

// remove takes u out of the pool if it is over, under the lock that Start
// takes: a unit that is started again stays.
func (p *Pool) remove(u *Unit) bool {
	if !u.over() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !u.over() || len(u.family()) > 0 {
		return false
	}
	delete(p.units, u.key)
	p.opt.Changed()
	return true
}
