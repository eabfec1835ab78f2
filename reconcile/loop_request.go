package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// request is something a caller wants from the loop.
type request struct {
	dry    bool                  // only plan
	read   bool                  // read the files first
	since  time.Time             // when it was asked for, if that matters
	orders func(Intents) Intents // nil for none
	amend  func() error          // done before the files are read; nil for nothing
	done   chan Passed           // capacity 1; closed at the end, answered or not
	err    error                 // why amend was not done; set before done is sent to
}

// Passed is what became of a request: the plan of the pass that answered it,
// with what Reload adds to it, and the state after it.
type Passed struct {
	State State
	Plan  Plan
	// Started are the upstreams that the last plan with a step started: this
	// one or, where the watcher was faster than the request, the one before.
	Started []string
}

// errUnanswered is what a caller gets whose request met a panic or the end.
var errUnanswered = errors.New("the reconciler gave no answer; see the daemon's log")

// answer serves r and everything else that waits. What is no dry run shares
// one pass: all of it arrived before that began (HOT-7).
func (l *Loop) answer(ctx context.Context, r *request) {
	batch := l.gather(r)
	defer func() {
		for _, r := range batch {
			close(r.done)
		}
	}()
	var acts, dry []*request
	for _, r := range batch {
		if r.dry {
			dry = append(dry, r)
		} else {
			acts = append(acts, r)
		}
	}
	if acts = amended(acts); len(acts) > 0 {
		l.carryOut(ctx, acts)
	}
	for _, r := range dry {
		if p, ok := l.dryRun(ctx); ok {
			r.done <- p
		}
	}
}

// amended has each request change what is followed, and returns those that are
// still to be done. One that could not is answered at once.
func amended(batch []*request) []*request {
	return slices.DeleteFunc(batch, func(r *request) bool {
		if r.amend != nil {
			r.err = r.amend()
		}
		if r.err != nil {
			r.done <- Passed{}
		}
		return r.err != nil
	})
}

// gather returns r and the requests that wait behind it.
func (l *Loop) gather(r *request) []*request {
	batch := []*request{r}
	for {
		select {
		case other := <-l.requests:
			batch = append(batch, other)
		default:
			return batch
		}
	}
}

// carryOut does what a batch asks for in one pass. What was ordered is later
// than what was read.
func (l *Loop) carryOut(ctx context.Context, batch []*request) {
	if slices.ContainsFunc(batch, func(r *request) bool { return r.read }) && !l.load(ctx) {
		return
	}
	for _, r := range batch {
		if r.orders != nil {
			l.intents = r.orders(l.intents)
		}
	}
	plan := l.pass()
	for _, r := range batch {
		if l.loaded.Refused {
			r.since = time.Time{} // what went well before is not the answer
		}
		r.done <- Passed{State: l.State(), Plan: l.trail.before(plan, r.since), Started: l.started}
	}
}

// dryRun plans without keeping anything of what it reads. It is false when ctx
// ended before all was read.
func (l *Loop) dryRun(ctx context.Context) (Passed, bool) {
	loaded := l.world.Load(ctx)
	if ctx.Err() != nil {
		return Passed{}, false
	}
	s := l.State()
	s.Desired = loaded.Desired.With(l.following(loaded))
	s.At, s.OK, s.Faults, s.Warnings = time.Now(), len(loaded.Faults) == 0, loaded.Faults, loaded.Warnings
	plan, _ := l.plan(s.Desired)
	return Passed{State: s, Plan: plan}, true
}

// Plan reads the files and returns what a reload would do, without doing it.
func (l *Loop) Plan(ctx context.Context) (Passed, error) {
	return l.ask(ctx, &request{dry: true, read: true})
}

// Reload reads the files now, puts them in force and returns when everything of
// that is published, with what the resulting generation started up or failed for
// the first time, or after wait (HOT-7). An upstream that hangs since an earlier
// generation delays nobody (LIF-5). The plan it returns is of its own pass and
// of those that followed an edit after asked: a watcher that was faster than
// the way here took nothing away from the answer. A zero asked leaves them out.
func (l *Loop) Reload(ctx context.Context, asked time.Time, wait time.Duration) (Passed, error) {
	p, err := l.ask(ctx, &request{read: true, since: asked})
	if err != nil {
		return p, err
	}
	return p, l.Until(ctx, wait, func() bool {
		s := l.State()
		return s.Shown >= p.State.Pass && !slices.ContainsFunc(s.Waiting, func(name string) bool { return slices.Contains(p.Started, name) })
	})
}

// Order changes the intents (LIF-1) without reading the files, and returns
// when the plan of it was begun.
func (l *Loop) Order(ctx context.Context, orders func(Intents) Intents) (Passed, error) {
	return l.ask(ctx, &request{orders: orders})
}

// Amend has the loop's goroutine call change, which says which files are
// followed from now on, then reads the files, and returns when the plan of that
// was begun. An error of change is returned as it is, and nothing else is done.
func (l *Loop) Amend(ctx context.Context, change func() error) (Passed, error) {
	return l.ask(ctx, &request{read: true, amend: change})
}

func (l *Loop) ask(ctx context.Context, r *request) (Passed, error) {
	r.done = make(chan Passed, 1)
	select {
	case l.requests <- r:
	case <-ctx.Done():
		return Passed{}, fmt.Errorf("reach the reconciler: %w", ctx.Err())
	}
	select {
	case p, answered := <-r.done:
		if !answered {
			return Passed{}, errUnanswered
		}
		return p, r.err
	case <-ctx.Done():
		return Passed{}, fmt.Errorf("wait for the reconciler: %w", ctx.Err())
	}
}

// Until waits until ok holds, looking again whenever anything changes, for at
// most limit; running into that limit is no error. ok is called by the caller's
// goroutine.
func (l *Loop) Until(ctx context.Context, limit time.Duration, ok func() bool) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		changed := l.changed.next()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait for the fleet: %w", ctx.Err())
		}
	}
}

// broadcast wakes everyone who waits, by closing the channel they took.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed at the next tell.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
