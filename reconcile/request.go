package reconcile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// request is something a caller wants from the loop.
type request struct {
	dry    bool
	read   bool                  // read the files first
	orders func(Intents) Intents // nil for none
	done   chan Passed           // capacity 1
}

// Passed is what became of a request: the plan of the pass that answered it,
// and the state after it.
type Passed struct {
	State State
	Plan  Plan
}

// answer serves r and everything else that waits, in one pass of its own kind:
// a request that arrives during a pass is answered by the next (HOT-7).
func (l *Loop) answer(ctx context.Context, r *request) {
	if r.dry {
		l.answerDry(ctx, r)
		return
	}
	batch := []*request{r}
	var dry []*request
	for more := true; more; {
		select {
		case other := <-l.requests:
			if other.dry {
				dry = append(dry, other)
			} else {
				batch = append(batch, other)
			}
		default:
			more = false
		}
	}
	if slices.ContainsFunc(batch, func(r *request) bool { return r.read }) {
		l.read(ctx)
	}
	for _, r := range batch {
		if r.orders != nil {
			l.intents = r.orders(l.intents)
		}
	}
	plan := l.pass(nil)
	for _, r := range batch {
		r.done <- Passed{State: l.State(), Plan: plan}
	}
	for _, r := range dry {
		l.answerDry(ctx, r)
	}
}

// answerDry plans without keeping anything of what it read.
func (l *Loop) answerDry(ctx context.Context, r *request) {
	loaded, intents := l.loaded, l.intents
	l.read(ctx)
	plan := l.pass(r)
	s := l.State()
	s.OK, s.Faults, s.Warnings = len(l.loaded.Faults) == 0, l.loaded.Faults, l.loaded.Warnings
	l.loaded, l.intents = loaded, intents
	r.done <- Passed{State: s, Plan: plan}
}

// Plan reads the files and returns what a reload would do, without doing it.
func (l *Loop) Plan(ctx context.Context) (Passed, error) {
	return l.ask(ctx, &request{dry: true, read: true})
}

// Reload reads the files now, puts them in force and returns when the result
// was published and every upstream it started has answered, or after wait
// (HOT-7). The state is that of the moment it returns, the faults are those of
// the reading it asked for.
func (l *Loop) Reload(ctx context.Context, wait time.Duration) (Passed, error) {
	p, err := l.ask(ctx, &request{read: true})
	if err != nil {
		return p, err
	}
	return p, l.settled(ctx, p.Plan, wait)
}

// Order changes the intents (LIF-1) without reading the files, and returns
// when the plan of it was begun.
func (l *Loop) Order(ctx context.Context, orders func(Intents) Intents) (Passed, error) {
	return l.ask(ctx, &request{orders: orders})
}

func (l *Loop) ask(ctx context.Context, r *request) (Passed, error) {
	r.done = make(chan Passed, 1)
	select {
	case l.requests <- r:
	case <-ctx.Done():
		return Passed{}, fmt.Errorf("reach the reconciler: %w", ctx.Err())
	}
	select {
	case p := <-r.done:
		return p, nil
	case <-ctx.Done():
		return Passed{}, fmt.Errorf("wait for the reconciler: %w", ctx.Err())
	}
}

// settled waits until nothing is owed and every upstream that plan started has
// answered, or for at most wait, which is no error.
func (l *Loop) settled(ctx context.Context, plan Plan, wait time.Duration) error {
	var names []string
	for _, s := range plan {
		if s.Kind == KindUpstream && (s.Op == OpStart || s.Op == OpSwap || s.Op == OpReplace) {
			names = append(names, s.Name)
		}
	}
	return l.Until(ctx, wait, func() bool {
		return !l.State().Owed && !slices.ContainsFunc(names, func(n string) bool { return !l.world.Answered(n) })
	})
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
