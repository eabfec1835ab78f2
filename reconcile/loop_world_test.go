package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"harness/pkg/config"
)

// fleet is a world in memory. The test edits it, the loop acts on it; what
// happens is in the trace, with the time since the beginning.
type fleet struct {
	t     *testing.T
	begun time.Time
	loop  *Loop
	dirty chan struct{}

	mu      sync.Mutex
	file    Loaded
	reading time.Duration // what one Load takes
	lame    bool          // there can be no publish
	panics  string        // the method that panics next, once
	units   map[string]*unit
	kept    map[string]string // offers known from earlier, by key
	shown   map[string]string // offers as published, by key
	trace   []string
	loads   int
	adopted int
	commits []Kept
	reports []Report
}

// unit is one upstream of a fleet.
type unit struct {
	launch   config.Launch
	pending  *config.Launch
	nonce    uint64
	answered bool
	offer    string // "" while nothing is known
	next     string // offer of the pending definition, once it is ready
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, begun: time.Now(), dirty: make(chan struct{}, 1), units: map[string]*unit{}, shown: map[string]string{}}
	f.loop = NewLoop(f, f.dirty, Kept{})
	f.write()
	return f
}

// start runs the loop until the test ends.
func (f *fleet) start() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f.serve(ctx) {
		}
	}()
	f.t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
}

// serve is Serve under a supervisor, which calls it again after a panic that the
// test asked for.
func (f *fleet) serve(ctx context.Context) (again bool) {
	defer func() {
		if v := recover(); v != nil {
			err, _ := v.(error)
			if again = errors.Is(err, errAsked); !again {
				f.t.Errorf("panic: %v", v)
			}
		}
	}()
	if err := f.loop.Serve(ctx); !errors.Is(err, context.Canceled) || ctx.Err() == nil {
		f.t.Errorf("Serve returned %v while its context had %v", err, ctx.Err())
	}
	return false
}

var errAsked = errors.New("a panic that the test asked for")

// def is one table of the file: a key, with what makes it another definition.
type def func(*config.Launch)

// table returns the table of key.
func table(key string, change ...def) config.Launch {
	l := launch()
	l.Key, l.Exe = key, "/bin/"+key
	for _, c := range change {
		c(&l)
	}
	return l
}

// write changes the file, so that it holds these tables; nobody is told.
func (f *fleet) write(tables ...config.Launch) {
	c := &config.Config{Server: config.DefaultServer(), Upstreams: map[string]config.Upstream{}}
	launches := map[string]config.Launch{}
	for _, l := range tables {
		c.Upstreams[l.Key], launches[l.Key] = l.Upstream, l
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	prompts := f.file.Desired
	f.file = Loaded{Desired: NewDesired(c, Launches{Upstreams: launches}, nil), File: EnabledIn(c)}
	if prompts != nil {
		f.file.Desired.Prompts = prompts.Prompts
	}
}

// edit is a write that the watcher sees.
func (f *fleet) edit(tables ...config.Launch) {
	f.t.Helper()
	f.write(tables...)
	f.touch()
}

// touch has the files read.
func (f *fleet) touch() {
	f.dirty <- struct{}{}
	synctest.Wait()
}

// with changes the fleet under its lock.
func (f *fleet) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// keys are the upstreams that there are.
func (f *fleet) keys() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.units))
}

// answer has an upstream come up with an offer, or its swap.
func (f *fleet) answer(key, offer string) {
	f.t.Helper()
	f.with(func() {
		u := f.units[key]
		u.answered = true
		if u.pending != nil {
			u.next = offer
		} else {
			u.offer = offer
		}
	})
	f.loop.Wake()
	synctest.Wait()
}

// fail has the first try of an upstream fail.
func (f *fleet) fail(key string) {
	f.with(func() { f.units[key].answered = true })
	f.loop.Wake()
	synctest.Wait()
}

func (f *fleet) noteLocked(format string, args ...any) {
	f.trace = append(f.trace, fmt.Sprintf("%v ", time.Since(f.begun))+fmt.Sprintf(format, args...))
}

// traced returns what happened since the last call.
func (f *fleet) traced() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	trace := f.trace
	f.trace = nil
	return trace
}

// meet panics if the test wants that of method.
func (f *fleet) meetLocked(method string) {
	if f.panics == method {
		f.panics = ""
		panic(errAsked)
	}
}

var _ World = (*fleet)(nil)

// Load implements [World].
func (f *fleet) Load(ctx context.Context) Loaded {
	f.mu.Lock()
	wait := f.reading
	f.mu.Unlock()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.meetLocked("Load")
	f.loads++
	return f.file
}

// Adopt implements [World].
func (f *fleet) Adopt() { f.with(func() { f.adopted++ }) }

// Upstreams implements [World].
func (f *fleet) Upstreams() map[string]ObservedUpstream {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]ObservedUpstream{}
	for key, u := range f.units {
		all[key] = ObservedUpstream{InForce: u.launch, Pending: u.pending, Enabled: true, Nonce: u.nonce, State: "running"}
	}
	return all
}

// Agents implements [World]; the loop's own part in them is what Diff says.
func (f *fleet) Agents() map[string]ObservedAgent { return nil }

// Do implements [World].
func (f *fleet) Do(step Step, d *Desired) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.meetLocked("Do")
	f.noteLocked("%s %s", step.Op, step.Name)
	if step.Kind != KindUpstream {
		return
	}
	want, u := d.Upstreams[step.Name], f.units[step.Name]
	switch step.Op {
	case OpStart, OpReplace:
		next := &unit{launch: want.Launch, nonce: want.Nonce, offer: f.kept[step.Name]}
		if u != nil {
			next.offer = u.offer
		}
		f.units[step.Name] = next
	case OpSwap:
		u.pending, u.answered, u.next = &want.Launch, false, ""
	case OpUpdate:
		if step.Cancel {
			u.pending, u.next, u.answered = nil, "", true
		}
		u.launch = want.Launch
	case OpStop:
		delete(f.units, step.Name)
	default:
		f.t.Errorf("asked to %s", step)
	}
}

// Progress implements [World].
func (f *fleet) Progress() Progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Progress{Unanswered: map[string]bool{}, Unknown: map[string]bool{}, Stale: !maps.Equal(f.shown, f.offersLocked())}
	for key, u := range f.units {
		p.Stale = p.Stale || u.next != ""
		if !u.answered {
			p.Unanswered[key], p.Unknown[key] = true, u.offer == ""
		}
	}
	maps.DeleteFunc(p.Unknown, func(_ string, unknown bool) bool { return !unknown })
	return p
}

func (f *fleet) offersLocked() map[string]string {
	offers := map[string]string{}
	for key, u := range f.units {
		if u.offer != "" {
			offers[key] = u.offer
		}
	}
	return offers
}

// Publish implements [World].
func (f *fleet) Publish(d *Desired, generation uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.meetLocked("Publish")
	if f.lame {
		f.noteLocked("no publish")
		return false
	}
	for _, u := range f.units {
		if u.next != "" {
			u.launch, u.offer, u.pending, u.next = *u.pending, u.next, nil, ""
		}
	}
	f.shown = f.offersLocked()
	maps.DeleteFunc(f.shown, func(key, _ string) bool { return !d.Upstreams[key].Enabled })
	var seen []string
	for key, offer := range f.shown {
		seen = append(seen, key+"="+offer)
	}
	for _, p := range d.Prompts {
		seen = append(seen, p.Name+".md")
	}
	slices.Sort(seen)
	f.noteLocked("publish %d [%s]", generation, strings.Join(seen, " "))
	return true
}

// Commit implements [World].
func (f *fleet) Commit(k Kept) { f.with(func() { f.commits = append(f.commits, k) }) }

// Report implements [World].
func (f *fleet) Report(r Report) { f.with(func() { f.reports = append(f.reports, r) }) }
