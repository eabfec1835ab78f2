package reconcile

import (
	"context"
	"maps"
	"reflect"
	"slices"
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
	// Faults say why files were refused; Refused is set where the global one was
	// among them. A project's holds back nobody else (CFG-4).
	Faults   []config.Fault
	Refused  bool
	Warnings []config.Fault
	// File is the `enabled` of every table as the accepted text writes it. It
	// is nil where no text was ever good: then nothing is put in force, and
	// the intents stay what they were.
	File map[string]bool
}

// World is what the loop reads and acts on. Its methods are called by the
// loop's goroutine alone, and none of them waits for a child process (SHP-2).
type World interface {
	// Load reads every followed file now. Nothing is kept of it, which is all
	// that a dry run needs. It may return early, with anything, once ctx ends.
	Load(ctx context.Context) Loaded
	// Adopt makes the last Load the one that counts: its files are followed,
	// and its text and prompts are what later ones fall back on.
	Adopt()
	// Upstreams returns what is in force, by key.
	Upstreams() map[string]ObservedUpstream
	// Agents returns the harnesses that were started, by full name.
	Agents() map[string]ObservedAgent
	// Do begins one step towards d. A restart by hand may be any of start and
	// replace; it is told by the nonce.
	Do(step Step, d *Desired)
	// Progress returns how far the upstreams are now.
	Progress() Progress
	// Publish puts the catalog of d in force and tells the sessions what
	// differs for them. After false they see what they saw before.
	Publish(d *Desired, generation uint64) bool
	// Commit keeps what must survive a restart of the daemon. It does not wait
	// for the disk.
	Commit(Kept)
	// Report tells the log and the events what a pass meant.
	Report(Report)
}

// Progress is how far the upstreams are.
type Progress struct {
	// Unanswered are those that were started, swapped or replaced and have
	// neither come up nor failed their first try.
	Unanswered map[string]bool
	// Unknown are those of them of which not even an earlier list of tools is
	// known.
	Unknown map[string]bool
	// Stale is true when something else is on offer than what was published
	// last.
	Stale bool
}

// Kept is what survives a restart of the daemon.
type Kept struct {
	Generation uint64  `json:"generation"`
	Digest     string  `json:"digest"`
	Intents    Intents `json:"intents"`
}

// equal reports whether k and o say the same.
func (k Kept) equal(o Kept) bool {
	return k.Generation == o.Generation && k.Digest == o.Digest && maps.Equal(k.Intents, o.Intents)
}

// Report is the outcome of one pass.
type Report struct {
	State State
	Plan  Plan // what was begun
	// Read is true for a pass that read the files, false for one that an order
	// was the reason of.
	Read bool
}

// State is an immutable snapshot of what the loop has put in force.
type State struct {
	// Generation and Digest are zero before anything was put in force.
	Generation uint64
	Digest     string
	// Pass counts the passes. Shown is the last of them of which everything is
	// published.
	Pass, Shown uint64
	// Published counts the publishes.
	Published uint64
	// Waiting are the upstreams that a plan started and that have neither come
	// up in a publish nor failed their first try.
	Waiting  []string
	At       time.Time // of the last reading of the files
	OK       bool      // that reading was not refused
	Faults   []config.Fault
	Warnings []config.Fault
	Desired  *Desired
}

// Loop is the one goroutine that owns desired state (SHP-2). Everything else
// raises a flag or sends a request.
type Loop struct {
	world    World
	dirty    <-chan struct{}
	wake     chan struct{} // capacity 1
	requests chan *request
	state    atomic.Pointer[State]
	changed  broadcast

	// The fields below belong to the goroutine in Serve. A Serve that is called
	// again after a panic goes on with them.
	loaded    Loaded
	read      time.Time // when loaded was
	fresh     bool      // no pass has seen loaded yet
	intents   Intents
	kept      Kept
	committed Kept
	inForce   bool     // this process has put a generation in force
	started   []string // upstreams, by the last plan that had a step
	deferred  []Step   // stops of what was removed: after the publish
	trail     trail    // what edits made it begin lately
	pace      pacer
}

// NewLoop returns a loop that continues from kept and reads the files when
// dirty says so. It starts nothing.
func NewLoop(world World, dirty <-chan struct{}, kept Kept) *Loop {
	l := &Loop{
		world: world, dirty: dirty, kept: kept, committed: kept, intents: kept.Intents,
		wake: make(chan struct{}, 1), requests: make(chan *request),
	}
	l.state.Store(&State{Desired: &Desired{Server: config.DefaultServer()}})
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

// Serve runs the loop until ctx ends. It may be called again after it
// returned, or panicked: every call begins with a pass, which takes up what is
// left to do.
func (l *Loop) Serve(ctx context.Context) error {
	l.follow(ctx)
	for {
		var alarm <-chan time.Time
		if at := l.pace.wake; !at.IsZero() {
			alarm = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.dirty:
			l.follow(ctx)
		case r := <-l.requests:
			l.answer(ctx, r)
		case <-l.wake:
			l.look()
		case <-alarm:
			l.look()
		}
	}
}

// follow reads the files and puts them in force.
func (l *Loop) follow(ctx context.Context) {
	if !l.load(ctx) {
		return
	}
	first := l.State().Pass == 0
	if plan := l.pass(); !first { // nobody edited anything to have a daemon start
		l.trail.add(time.Now(), plan)
	}
}

// load reads the files and lets the intents follow them (LIF-1). It returns
// false, having changed nothing, when ctx ended meanwhile: what was read then
// may be half a file.
func (l *Loop) load(ctx context.Context) bool {
	loaded := l.world.Load(ctx)
	if ctx.Err() != nil {
		return false
	}
	l.world.Adopt()
	l.loaded, l.read, l.fresh, l.intents = loaded, time.Now(), true, l.following(loaded)
	return true
}

// following returns the intents under what was loaded.
func (l *Loop) following(loaded Loaded) Intents {
	if loaded.File == nil {
		return l.intents
	}
	return l.intents.Follow(loaded.File)
}

// pass compares what is desired with what is in force and begins every step of
// the difference. It returns what was begun.
func (l *Loop) pass() Plan {
	desired := l.loaded.Desired.With(l.intents)
	plan, stops := l.plan(desired)
	l.number(plan, desired)
	l.begin(plan, desired)
	l.deferred = stops
	l.pace.forget(stops)
	l.snapshot(func(s *State) {
		s.Pass++
		if !l.pace.owed {
			s.Shown = s.Pass
		}
		if l.inForce {
			s.Generation, s.Digest = l.kept.Generation, l.kept.Digest
		}
		s.Desired, s.Waiting = desired, l.pace.waiting()
		s.At, s.OK, s.Faults, s.Warnings = l.read, len(l.loaded.Faults) == 0, l.loaded.Faults, l.loaded.Warnings
	})
	l.world.Report(Report{State: l.State(), Plan: plan, Read: l.fresh})
	l.fresh = false
	if l.State().Published == 0 {
		l.preview()
	}
	l.look()
	if !l.kept.equal(l.committed) {
		l.world.Commit(l.kept)
		l.committed = l.kept
	}
	return plan
}

// plan returns what there is to begin, and the stops that wait for the publish
// with those among them that an earlier pass has put there: for everybody else
// they were done then.
func (l *Loop) plan(desired *Desired) (fresh Plan, stops []Step) {
	all := Diff(desired, l.observed())
	for _, s := range all {
		if !slices.ContainsFunc(l.deferred, func(d Step) bool { return s.Op == d.Op && s.Kind == d.Kind && s.Name == d.Name }) {
			fresh = append(fresh, s)
		}
	}
	return fresh, all.AfterPublish()
}

// started returns the upstreams of which the plan starts a process.
func (p Plan) started() []string {
	var names []string
	for _, s := range p {
		if s.Kind == KindUpstream && (s.Op == OpStart || s.Op == OpSwap || s.Op == OpReplace) {
			names = append(names, s.Name)
		}
	}
	return names
}

// observed returns what is in force. What has no process is in force as soon
// as a pass wanted it: it only waits for its publish.
func (l *Loop) observed() *Observed {
	d := l.State().Desired
	o := &Observed{
		Server: d.Server, Upstreams: l.world.Upstreams(), Prompts: d.Prompts, PromptPaths: d.PromptPaths,
		Agents: l.world.Agents(), Defined: make(map[string]config.AgentLaunch, len(d.Agents)),
		Profiles: d.Profiles, Projects: d.Projects,
	}
	for name, a := range d.Agents {
		o.Defined[name] = a.Launch
	}
	return o
}

// number counts the generation up when the plan has a step (HOT-7). A daemon
// that starts over the desired state of its predecessor goes on with the
// number of that, although everything has to be started.
func (l *Loop) number(plan Plan, desired *Desired) {
	if l.loaded.File == nil {
		return // an empty fleet for want of a good file is no generation
	}
	l.kept.Intents = l.intents
	if l.inForce && reflect.DeepEqual(desired, l.State().Desired) {
		return // cheaper than to make the same digest again (PRF-5)
	}
	digest := desired.Digest()
	if l.inForce && len(plan) > 0 || !l.inForce && digest != l.kept.Digest {
		l.kept.Generation++
	}
	l.kept.Digest, l.inForce = digest, true
}

// begin does the steps of plan that come before its publish. Those it leaves
// are the publish itself, and the stops of what was removed (HOT-4: publish <
// stop).
func (l *Loop) begin(plan Plan, desired *Desired) {
	for _, s := range plan.BeforePublish() {
		l.world.Do(s, desired)
	}
	if len(plan) > 0 {
		l.started = plan.started()
		l.pace.open(time.Now(), l.started)
	}
}

// preview publishes what is known before anything has come up. Where the kept
// lists say it all (MCP-3a), nobody has to wait for more.
func (l *Loop) preview() {
	if l.show() {
		l.pace.settleFor(l.world.Progress().Unknown)
	}
}

// look publishes what a plan owes, or what came up by itself, if it is time.
func (l *Loop) look() {
	now, p := time.Now(), l.world.Progress()
	if l.pace.due(now, p) {
		l.publish(now, p)
	}
	if waiting := l.pace.waiting(); !slices.Equal(waiting, l.State().Waiting) {
		l.snapshot(func(s *State) { s.Waiting = waiting })
	}
}

// publish puts a catalog in force, then stops what is no longer in it. Where
// there can be none, the stops wait for the next try.
func (l *Loop) publish(now time.Time, p Progress) {
	if !l.show() {
		l.pace.failed(now)
		return
	}
	desired := l.State().Desired
	for _, step := range l.deferred {
		l.world.Do(step, desired)
	}
	l.deferred = nil
	l.pace.done(now, p)
	l.snapshot(func(s *State) { s.Shown, s.Waiting = s.Pass, l.pace.waiting() })
}

// show publishes what is desired as far as it is there.
func (l *Loop) show() bool {
	s := l.State()
	if !l.world.Publish(s.Desired, s.Generation) {
		return false
	}
	l.snapshot(func(s *State) { s.Published++ })
	return true
}

// snapshot replaces the state that others see and tells who waits for it.
func (l *Loop) snapshot(change func(*State)) {
	s := l.State()
	change(&s)
	l.state.Store(&s)
	l.changed.tell()
}
