package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"harness/pkg/agent"
	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/identity"
	"harness/pkg/upstream"
	"harness/reconcile"
	"harness/watch"
)

// paperPool is a pool without processes: what becomes of an upstream is what
// the test says.
type paperPool struct {
	mu    sync.Mutex
	all   map[string]upstream.Status
	words []string
}

var _ upstreams = (*paperPool)(nil)

func (p *paperPool) say(words ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = append(p.words, strings.Join(words, " "))
}

// heard returns what it was told so far.
func (p *paperPool) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.words)
}

// set changes one status.
func (p *paperPool) set(key string, change func(*upstream.Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.all[key]
	change(&s)
	p.all[key] = s
}

// drop takes one out.
func (p *paperPool) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, key)
}

// Snapshot implements [upstreams].
func (p *paperPool) Snapshot() []upstream.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []upstream.Status
	for _, s := range p.all {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b upstream.Status) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// Unit implements [upstreams].
func (p *paperPool) Unit(string) *upstream.Unit { return nil }

// Start implements [upstreams].
func (p *paperPool) Start(l config.Launch, nonce uint64) {
	p.say("start", l.Key)
	p.set(l.Key, func(s *upstream.Status) {
		*s = upstream.Status{Key: l.Key, Launch: l, Nonce: nonce, State: upstream.Starting, Enabled: true, Offer: s.Offer}
	})
}

// Swap implements [upstreams].
func (p *paperPool) Swap(l config.Launch) {
	p.say("swap", l.Key)
	p.set(l.Key, func(s *upstream.Status) { s.Pending, s.Answered = &l, false })
}

// Update implements [upstreams].
func (p *paperPool) Update(l config.Launch) {
	p.say("update", l.Key)
	p.set(l.Key, func(s *upstream.Status) { s.Launch = l })
}

// Cancel implements [upstreams].
func (p *paperPool) Cancel(key string) {
	p.say("cancel", key)
	p.set(key, func(s *upstream.Status) { s.Pending, s.PendingReady, s.PendingErr, s.Answered = nil, false, "", true })
}

// Stop implements [upstreams].
func (p *paperPool) Stop(key string) {
	p.say("stop", key)
	p.set(key, func(s *upstream.Status) { s.Enabled, s.State, s.Offer = false, upstream.Stopping, nil })
}

// Promote implements [upstreams].
func (p *paperPool) Promote() (switched []string) {
	for _, s := range p.Snapshot() {
		if s.PendingReady {
			p.set(s.Key, func(s *upstream.Status) { s.Launch, s.Pending, s.PendingReady = *s.Pending, nil, false })
			switched = append(switched, s.Key)
		}
	}
	return switched
}

// SetLimits implements [upstreams].
func (p *paperPool) SetLimits(s config.Server) { p.say("limits", s.StopGrace.String()) }

// offer is an offer of tools with these names.
func offer(names ...string) *upstream.Offer {
	o := &upstream.Offer{Digest: sha256.Sum256([]byte(strings.Join(names, " ")))}
	for _, name := range names {
		o.Tools = append(o.Tools, upstream.Item{Name: name, Raw: []byte(`{"name":"` + name + `"}`)})
	}
	return o
}

// runs makes an upstream one that came up with these tools.
func runs(tools ...string) func(*upstream.Status) {
	return func(s *upstream.Status) {
		s.State, s.PID, s.Answered, s.Offer, s.Instances = upstream.Running, 7, true, offer(tools...), 1
	}
}

// paperAgents are harnesses without processes: one that is started runs.
type paperAgents struct {
	mu    sync.Mutex
	all   map[string]agent.Status
	words []string
}

var _ agents = (*paperAgents)(nil)

func (p *paperAgents) change(word, name string, change func(*agent.Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = append(p.words, word+" "+name)
	s := p.all[name]
	s.Name = name
	change(&s)
	p.all[name] = s
}

// Snapshot implements [agents].
func (p *paperAgents) Snapshot() []agent.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []agent.Status
	for _, s := range p.all {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b agent.Status) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Status implements [agents].
func (p *paperAgents) Status(name string) (agent.Status, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, there := p.all[name]
	return s, there
}

// Start implements [agents].
func (p *paperAgents) Start(l config.AgentLaunch, nonce uint64) {
	p.change("start", l.Name, func(s *agent.Status) {
		*s = agent.Status{Name: l.Name, Next: l, Spawned: &l, Nonce: nonce, State: agent.Running, Enabled: true, Answered: true, PID: 11}
	})
}

// Update implements [agents].
func (p *paperAgents) Update(l config.AgentLaunch) {
	p.change("update", l.Name, func(s *agent.Status) { s.Next = l })
}

// Stop implements [agents].
func (p *paperAgents) Stop(name string) {
	p.change("stop", name, func(s *agent.Status) { s.Enabled, s.State, s.Spawned, s.PID = false, agent.Stopped, nil, 0 })
}

// Remove implements [agents].
func (p *paperAgents) Remove(name string) {
	p.change("remove", name, func(*agent.Status) {})
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, name)
}

// Attach implements [agents].
func (p *paperAgents) Attach(string, agent.Viewer) (*agent.Attachment, error) {
	return nil, agent.ErrUnknown
}

// SetLimits implements [agents].
func (p *paperAgents) SetLimits(config.Server) {}

// office is everything of a daemon but its processes, files read by hand, and
// its doors.
type office struct {
	*desk
	pool   *paperPool
	agents *paperAgents
	broker *broker.Broker
	world  *world
	loop   *reconcile.Loop
	ops    *ops
	dirty  chan struct{}

	mu     sync.Mutex
	events []string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{desk: newDesk(t, nil), pool: &paperPool{all: map[string]upstream.Status{}}, agents: &paperAgents{all: map[string]agent.Status{}}, dirty: make(chan struct{}, 1)}
	empty, err := broker.Merge(broker.Content{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&o.log, nil))
	o.broker = broker.New(empty, broker.Options{Version: "v1", Logger: log})
	lim := newLimits(config.DefaultServer())
	watcher := watch.New(watch.Options{})
	o.world = &world{
		loader: o.loader, pool: o.pool, agents: o.agents, broker: o.broker, merge: broker.Merge, limits: lim, settle: watcher.SetSettle,
		save: func(name string, v any) { o.saved[name] = v }, level: new(slog.LevelVar), log: log,
		emit: func(kind, name string, _ uint64, message string) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.events = append(o.events, strings.Join([]string{kind, name, message}, "|"))
		},
	}
	o.loop = reconcile.NewLoop(o.world, o.dirty, reconcile.Kept{})
	o.ops = &ops{
		loop: o.loop, pool: o.pool, agents: o.agents, ids: &identity.Store{}, broker: o.broker, watcher: watcher, limits: lim, saved: func(context.Context) {},
		version: "v1", config: o.loader.global.path, logs: o.path("logs"),
	}
	return o
}

// open runs the reconciler until the test ends.
func (o *office) open() {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = o.loop.Serve(ctx)
	}()
	o.t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// edit writes the config, and the daemon sees it.
func (o *office) edit(text string) {
	o.t.Helper()
	o.write("harness.toml", text)
	o.dirty <- struct{}{}
	synctest.Wait()
}

// becomes changes an upstream and says so.
func (o *office) becomes(key string, change func(*upstream.Status)) {
	o.pool.set(key, change)
	o.loop.Wake()
	synctest.Wait()
}

// gone takes an upstream out, as at its end, and says so.
func (o *office) gone(key string) {
	o.pool.drop(key)
	o.loop.Wake()
	synctest.Wait()
}

// told returns the events since the last call.
func (o *office) told() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := o.events
	o.events = nil
	return events
}

// logged returns the log since the last call.
func (o *office) logged() string {
	text := o.log.String()
	o.log = bytes.Buffer{}
	return text
}
