package daemon

import (
	"context"
	"slices"
	"time"

	"harness/pkg/control"
	"harness/pkg/upstream"
	"harness/reconcile"
)

// unitWait bounds how long start, stop and restart wait for their upstreams:
// longer than any of them may take by its own limits.
const unitWait = time.Hour

// Start implements [control.Ops] (CLI-6): it returns when each runs or its
// first try has failed. One that runs already is left alone.
func (o *ops) Start(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, reconcile.Intents.Start, func(s upstream.Status, known bool) bool {
		return known && s.Enabled && s.State == upstream.Running
	}, o.answered)
}

// Restart implements [control.Ops] (CLI-6).
func (o *ops) Restart(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, reconcile.Intents.Restart, nil, o.answered)
}

// Stop implements [control.Ops] (CLI-6): it returns when each is stopped.
func (o *ops) Stop(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, reconcile.Intents.Stop, nil, func(key string) bool {
		_, there := find(o.pool, key)
		return !there
	})
}

func (o *ops) answered(key string) bool {
	s, there := find(o.pool, key)
	return there && s.Answered
}

// order changes the intent of each name and waits until done says so of each.
// Names are checked before anything is changed; one that already is as wanted
// is left out.
func (o *ops) order(ctx context.Context, names []string, word func(reconcile.Intents, string) (reconcile.Intents, bool),
	already func(upstream.Status, bool) bool, done func(key string) bool,
) ([]control.UnitState, error) {
	keys := make([]string, len(names))
	var todo []string
	for i, name := range names {
		key, err := o.upstreamOf(name)
		if err != nil {
			return nil, err
		}
		keys[i] = key
		s, there := find(o.pool, key)
		if already == nil || !already(s, there) {
			todo = append(todo, key)
		}
	}
	if len(todo) > 0 {
		_, err := o.loop.Order(ctx, func(in reconcile.Intents) reconcile.Intents {
			for _, key := range todo {
				if next, ok := word(in, reconcile.UpstreamName(key)); ok {
					in = next
				}
			}
			return in
		})
		if err != nil {
			return nil, err
		}
	}
	settled := func() bool {
		return !o.loop.State().Owed && !slices.ContainsFunc(todo, func(key string) bool { return !done(key) })
	}
	if err := o.loop.Until(ctx, unitWait, settled); err != nil {
		return nil, err
	}
	return o.states(names, keys), nil
}

// states says what became of each name.
func (o *ops) states(names, keys []string) []control.UnitState {
	states := make([]control.UnitState, len(names))
	for i, key := range keys {
		states[i] = control.UnitState{Name: names[i], State: string(upstream.Stopped)}
		if s, there := find(o.pool, key); there {
			d := describe(s)
			states[i].State, states[i].PID, states[i].Error = d.State, d.PID, d.Error
		}
	}
	return states
}
