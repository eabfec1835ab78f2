package reconcile

import (
	"context"
	"sync/atomic"
	"time"

	"harness/pkg/config"
)

// Loaded is what one reading of all followed files gave.
type Loaded struct {
	// Desired is what the files ask for; where the global file was refused it
	// is what the last good text asks for, with today's env_files and prompts
	// (CFG-3). It is never nil.
	Desired *Desired
	// Faults say why the global file was refused; empty means it is in force.
	Faults   []config.Fault
	Warnings []config.Fault
	// File is the `enabled` of every table as the file in force writes it.
	File map[string]bool
}

// World is what the loop reads and acts on. Its methods are called by the
// loop's goroutine alone, and none of them waits for a child process (SHP-2).
type World interface {
	// Load reads every followed file now, and follows what it named.
	Load(ctx context.Context) Loaded
	// Observe returns what is in force.
	Observe() *Observed
	// Do begins one step towards d.
	Do(step Step, d *Desired)
	// Answered reports whether an upstream that was started, swapped or
	// replaced has come up, or failed its first try.
	Answered(name string) bool
	// Stale reports whether the upstreams offer something else than what was
	// published last.
	Stale() bool
	// Publish puts the catalog of d in force and tells the sessions what
	// differs for them.
	Publish(d *Desired, generation uint64)
	// Commit keeps what must survive a restart of the daemon.
	Commit(Kept)
	// Report tells the log and the events what a pass meant.
	Report(Report)
}

// Kept is what survives a restart of the daemon.
type Kept struct {
	Generation uint64  `json:"generation"`
	Digest     string  `json:"digest"`
	Intents    Intents `json:"intents"`
}

// Report is the outcome of one pass.
type Report struct {
	State State
	Plan  Plan
}

// State is an immutable snapshot of what the loop has put in force.
type State struct {
	Generation uint64
	Digest     string
	// Published is how many publishes there were; it changes with each.
	Published uint64
	// Owed is true while a plan of this generation waits for its publish.
	Owed     bool
	At       time.Time // of the last reading of the files
	OK       bool      // that reading was not refused
	Faults   []config.Fault
	Warnings []config.Fault
	Desired  *Desired
}

// publishWithin is how long a plan's publish waits for the upstreams that the
// plan started (HOT-6).
const publishWithin = 500 * time.Millisecond

// publishEvery spaces the publishes of what comes up later or changes its own
// lists (HOT-6).
const publishEvery = time.Second

// Loop is the one goroutine that owns desired state (SHP-2). Everything else
// raises a flag or sends a request.
type Loop struct {
	world    World
	dirty    <-chan struct{}
	wake     chan struct{}
	requests chan *request
	state    atomic.Pointer[State]
	changed  broadcast

	// The fields below belong to the goroutine in Serve.
	loaded   Loaded
	intents  Intents
	kept     Kept
	deferred []Step // stops of what was removed: after the publish
	pace     pacer
	first    bool
}

// NewLoop returns a loop that continues from kept and reads the files when
// dirty says so. It starts nothing.
func NewLoop(world World, dirty <-chan struct{}, kept Kept) *Loop {
	l := &Loop{
		world: world, dirty: dirty, kept: kept, intents: kept.Intents, first: true,
		wake: make(chan struct{}, 1), requests: make(chan *request),
	}
	l.state.Store(&State{Generation: kept.Generation, Digest: kept.Digest, Desired: &Desired{}})
	return l
}

// String names the service in the supervisor's log.
func (l *Loop) String() string { return "reconciler" }

// State returns what is in force now.
func (l *Loop) State() State { return *l.state.Load() }

// Wake says that something the upstreams report has changed. It never blocks.
func (l *Loop) Wake() {
	select {
	case l.wake <- struct{}{}:
	default: // the flag is up already
	}
	l.changed.tell()
}

// Serve runs the loop until ctx ends.
func (l *Loop) Serve(ctx context.Context) error {
	l.read(ctx)
	l.pass(nil)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.dirty:
			l.read(ctx)
			l.pass(nil)
		case r := <-l.requests:
			l.answer(ctx, r)
		case <-l.wake:
		case <-l.pace.timer():
		}
		l.publishIfDue(time.Now())
	}
}

// read loads the files and lets the intents follow them (LIF-1).
func (l *Loop) read(ctx context.Context) {
	l.loaded = l.world.Load(ctx)
	l.intents = l.intents.Follow(l.loaded.File)
}

// pass compares what is desired with what is in force and begins every step
// of the difference. It returns the plan.
func (l *Loop) pass(r *request) Plan {
	desired := l.loaded.Desired.With(l.intents)
	plan := Diff(desired, l.world.Observe())
	if r != nil && r.dry {
		return plan
	}
	now := time.Now()
	if l.news(plan) || l.kept.Generation == 0 {
		l.kept.Generation++
	}
	if l.first && l.kept.Digest == desired.Digest() && l.state.Load().Generation > 0 {
		// A restart of the daemon puts the same desired state in force again.
		l.kept.Generation = l.state.Load().Generation
	}
	l.kept.Digest, l.kept.Intents = desired.Digest(), l.intents
	l.begin(plan, desired, now)
	l.snapshot(func(s *State) {
		s.Generation, s.Digest, s.Desired = l.kept.Generation, l.kept.Digest, desired
		s.At, s.OK, s.Faults, s.Warnings = now, len(l.loaded.Faults) == 0, l.loaded.Faults, l.loaded.Warnings
		s.Owed = l.pace.owed
	})
	l.world.Commit(l.kept)
	l.world.Report(Report{State: l.State(), Plan: plan})
	if l.first {
		// Sessions that are there before the upstreams see the kept lists.
		l.first = false
		l.publish(now)
		l.pace.open(now, l.pace.waiting)
	}
	l.publishIfDue(now)
	return plan
}

// news reports whether plan has a step that no earlier pass had begun.
func (l *Loop) news(plan Plan) bool {
	for _, s := range plan {
		if !l.isDeferred(s) {
			return true
		}
	}
	return false
}

func (l *Loop) isDeferred(s Step) bool {
	for _, d := range l.deferred {
		if d.Kind == s.Kind && d.Name == s.Name && d.Op == s.Op {
			return true
		}
	}
	return false
}

// begin does the steps of plan, keeping the stops of what was removed for
// after the publish (HOT-4: publish < stop).
func (l *Loop) begin(plan Plan, desired *Desired, now time.Time) {
	l.deferred = nil
	var started []string
	for _, s := range plan {
		if s.Kind != KindUpstream {
			continue
		}
		switch s.Op {
		case OpStop:
			l.deferred = append(l.deferred, s)
			continue
		case OpStart, OpSwap, OpReplace:
			started = append(started, s.Name)
		}
		l.world.Do(s, desired)
	}
	if len(plan) > 0 {
		l.pace.open(now, started)
	}
}

// publishIfDue publishes what a plan owes, or what came up by itself.
func (l *Loop) publishIfDue(now time.Time) {
	if l.pace.due(now, l.world.Answered, l.world.Stale) {
		l.publish(now)
	}
}

// publish puts a catalog in force, then stops what is no longer in it.
func (l *Loop) publish(now time.Time) {
	s := l.State()
	l.world.Publish(s.Desired, s.Generation)
	for _, step := range l.deferred {
		l.world.Do(step, s.Desired)
	}
	l.deferred = nil
	l.pace.done(now)
	l.snapshot(func(s *State) { s.Published++; s.Owed = false })
}

// snapshot replaces the state that others see and tells who waits for it.
func (l *Loop) snapshot(change func(*State)) {
	s := l.State()
	change(&s)
	l.state.Store(&s)
	l.changed.tell()
}
