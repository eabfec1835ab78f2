package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"harness/pkg/control"
	"harness/pkg/upstream"
	"harness/pkg/wire"
	"harness/reconcile"
)

// unitWait bounds the wait of start, stop and restart. Each upstream ends it
// long before by limits of its own: this catches a bug.
const unitWait = time.Hour

// Start implements [control.Ops] (CLI-6): it returns when each runs or its
// first try has failed. One that runs already is left alone, and one that is
// in its first try is not started again, only waited for.
func (o *ops) Start(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, reconcile.Intents.Start, func(s upstream.Status) bool {
		return s.Enabled && (s.State == upstream.Running || !s.Answered)
	}, started)
}

// Restart implements [control.Ops] (CLI-6).
func (o *ops) Restart(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, reconcile.Intents.Restart, never, started)
}

// Stop implements [control.Ops] (CLI-6): it returns when each is stopped.
func (o *ops) Stop(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, reconcile.Intents.Stop, never, stopped)
}

func never(upstream.Status) bool { return false }

// started reports whether a start is over: it runs, its first try failed, or
// somebody else has stopped or removed it meanwhile.
func started(s upstream.Status, there bool) bool {
	return !there || !s.Enabled || s.State == upstream.Running || s.Answered
}

// stopped reports whether a stop is over: nothing is left of it, or somebody
// else has started it again.
func stopped(s upstream.Status, there bool) bool { return !there || s.Enabled }

// order changes the intent of each name and waits until done says so of each.
// Names are checked before anything is changed; one that already is as wanted
// is only waited for.
func (o *ops) order(ctx context.Context, names []string, word func(reconcile.Intents, string) (reconcile.Intents, bool),
	already func(upstream.Status) bool, done func(s upstream.Status, there bool) bool,
) ([]control.UnitState, error) {
	keys := make([]string, len(names))
	var todo []string
	for i, name := range names {
		key, err := o.upstreamOf(name)
		if err != nil {
			return nil, err
		}
		keys[i] = key
		// A stop that waits for its publish shows in the intent alone.
		wanted := o.loop.State().Desired.Upstreams[key].Enabled
		if s, there := find(o.pool, key); !there || !wanted || !already(s) {
			todo = append(todo, reconcile.UpstreamName(key))
		}
	}
	pass, err := o.give(ctx, word, todo)
	if err != nil {
		return nil, stopping(err)
	}
	err = o.loop.Until(ctx, unitWait, func() bool {
		return o.loop.State().Shown >= pass && !slices.ContainsFunc(keys, func(key string) bool { return !done(find(o.pool, key)) })
	})
	if err != nil {
		return nil, stopping(err)
	}
	return o.states(names, keys), nil
}

// give passes a word about these names on, and returns the pass that took it,
// 0 for none. An intent outlives the daemon as soon as its word is answered.
func (o *ops) give(ctx context.Context, word func(reconcile.Intents, string) (reconcile.Intents, bool), names []string) (pass uint64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	passed, err := o.loop.Order(ctx, func(in reconcile.Intents) reconcile.Intents {
		for _, name := range names {
			in, _ = word(in, name)
		}
		return in
	})
	if err != nil {
		return 0, err
	}
	o.saved(ctx)
	return passed.State.Pass, nil
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

// find returns the status of one upstream, if it has one.
func find(pool upstreams, key string) (upstream.Status, bool) {
	all := pool.Snapshot()
	i, there := slices.BinarySearchFunc(all, key, func(s upstream.Status, key string) int { return cmp.Compare(s.Key, key) })
	if !there {
		return upstream.Status{}, false
	}
	return all[i], true
}

// stopping words the end of a wait that the end of the daemon cut short. A
// client that hung up hears nothing anyway.
func stopping(err error) error {
	if errors.Is(err, context.Canceled) {
		return &control.Problem{Code: wire.DaemonUnavailable, Message: "the daemon is stopping", Hint: "ask again once it is back"}
	}
	return err
}
