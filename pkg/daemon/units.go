package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"harness/pkg/agent"
	"harness/pkg/control"
	"harness/pkg/upstream"
	"harness/pkg/wire"
	"harness/reconcile"
)

// unitWait bounds the wait of start, stop and restart. Each upstream ends it
// long before by limits of its own: this catches a bug.
const unitWait = time.Hour

// unit is a harness or an upstream as the command line names it.
type unit struct {
	name string // "reviewer", "mcp.gitea": the name of its intent
	key  string // of an upstream; "" for a harness
}

// log returns the log file of a unit in the directory dir.
func (u unit) log(dir string) string {
	if u.key != "" {
		return upstream.LogPath(dir, u.key)
	}
	return agent.LogPath(dir, u.name)
}

// unitOf returns what a name on the command line means.
func (o *ops) unitOf(name string) (unit, error) {
	d := o.loop.State().Desired
	key, ok := strings.CutPrefix(name, "mcp.")
	if _, there := d.Upstreams[key]; ok && there {
		return unit{name, key}, nil
	}
	if _, there := d.Agents[name]; there {
		return unit{name, ""}, nil
	}
	return unit{}, &control.Problem{Code: wire.UnknownHarness, Message: fmt.Sprintf("nothing is named %q", name), Hint: o.otherNames(d, name)}
}

// otherNames says what could have been meant.
func (o *ops) otherNames(d *reconcile.Desired, name string) string {
	if _, there := d.Upstreams[name]; there {
		return fmt.Sprintf("did you mean %s?", reconcile.UpstreamName(name))
	}
	names := slices.Sorted(maps.Keys(d.Agents))
	for _, key := range slices.Sorted(maps.Keys(d.Upstreams)) {
		names = append(names, reconcile.UpstreamName(key))
	}
	if len(names) == 0 {
		return "nothing is declared; add a [harness.<name>] or [mcp.<key>] table to " + o.config
	}
	return "declared: " + strings.Join(names, ", ")
}

// otherHarnesses says what harness could have been meant.
func (o *ops) otherHarnesses(d *reconcile.Desired, name string) string {
	key, _ := strings.CutPrefix(name, "mcp.")
	if _, there := d.Upstreams[key]; there {
		return fmt.Sprintf("mcp.%s is a server; `harness status` shows it", key)
	}
	names := slices.Sorted(maps.Keys(d.Agents))
	if len(names) == 0 {
		return "none is declared; add a [harness.<name>] table to " + o.config
	}
	return "declared: " + strings.Join(names, ", ")
}

// standing is how a unit stands, whatever it is.
type standing struct {
	there    bool // it was started once
	enabled  bool
	running  bool
	answered bool
	state    control.UnitState
}

func (o *ops) standing(u unit) standing {
	st := standing{state: control.UnitState{Name: u.name, State: string(upstream.Stopped)}}
	if u.key != "" {
		if s, there := find(o.pool, u.key); there {
			d := describe(s)
			st.there, st.enabled, st.running, st.answered = true, s.Enabled, s.State == upstream.Running, s.Answered
			st.state.State, st.state.PID, st.state.Error = d.State, d.PID, d.Error
			st.state.Ready = s.Enabled && s.Answered && s.State == upstream.Stopped
		}
		return st
	}
	if s, there := o.agents.Status(u.name); there {
		st.there, st.enabled, st.running, st.answered = true, s.Enabled, s.State == agent.Running, s.Answered
		st.state.State, st.state.PID, st.state.Error = string(s.State), control.OrNull(s.PID), control.OrNull(s.Error)
	}
	return st
}

// wanted reports whether a unit should run. A stop that waits for its publish
// shows there alone.
func wanted(d *reconcile.Desired, u unit) bool {
	if u.key != "" {
		return d.Upstreams[u.key].Enabled
	}
	return d.Agents[u.name].Enabled
}

// word is one of start, stop and restart: what it does to an intent, when there
// is nothing to do, and when it is done.
type word struct {
	tell    func(reconcile.Intents, string) (reconcile.Intents, bool)
	already func(standing) bool
	done    func(standing) bool
	// overtaken is why it came to nothing where somebody else decided meanwhile,
	// "" where nobody did.
	overtaken func(standing) string
}

// toStart leaves one that runs alone, and one that is in its first try is not
// started again, only waited for.
func toStart() word {
	return word{reconcile.Intents.Start, func(s standing) bool { return s.enabled && (s.running || !s.answered) }, started, stoppedMeanwhile}
}

func toRestart() word { return word{reconcile.Intents.Restart, never, started, stoppedMeanwhile} }

func toStop() word { return word{reconcile.Intents.Stop, never, stopped, startedMeanwhile} }

// Start implements [control.Ops] (CLI-6): it returns when each runs or its
// first try has failed.
func (o *ops) Start(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, toStart())
}

// Restart implements [control.Ops] (CLI-6).
func (o *ops) Restart(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, toRestart())
}

// Stop implements [control.Ops] (CLI-6): it returns when each is stopped.
func (o *ops) Stop(ctx context.Context, names []string) ([]control.UnitState, error) {
	return o.order(ctx, names, toStop())
}

func never(standing) bool { return false }

// started reports whether a start is over: it runs, its first try failed, or
// somebody else has stopped or removed it meanwhile.
func started(s standing) bool { return !s.there || !s.enabled || s.running || s.answered }

// stopped reports whether a stop is over: nothing is left of it, or somebody
// else has started it again.
func stopped(s standing) bool {
	return !s.there || s.enabled || s.state.State == string(agent.Stopped)
}

func stoppedMeanwhile(s standing) string {
	if s.there && s.enabled || s.running {
		return ""
	}
	return "it was stopped meanwhile, by hand or by an edit"
}

func startedMeanwhile(s standing) string {
	if !s.there || !s.enabled || s.state.State == string(agent.Stopped) {
		return ""
	}
	return "it was started again meanwhile, by hand or by an edit"
}

// wish is a word about one unit.
type wish struct {
	unit
	word
}

// order has a word done to each name.
func (o *ops) order(ctx context.Context, names []string, w word) ([]control.UnitState, error) {
	wishes := make([]wish, len(names))
	for i, name := range names {
		u, err := o.unitOf(name)
		if err != nil {
			return nil, err
		}
		wishes[i] = wish{u, w}
	}
	return o.grant(ctx, wishes)
}

// grant changes the intents in one pass and waits until each wish is done. One
// that already is as wanted is only waited for.
func (o *ops) grant(ctx context.Context, wishes []wish) ([]control.UnitState, error) {
	d := o.loop.State().Desired
	todo := slices.DeleteFunc(slices.Clone(wishes), func(w wish) bool {
		s := o.standing(w.unit)
		return s.there && wanted(d, w.unit) && w.already(s)
	})
	pass, err := o.give(ctx, todo)
	if err != nil {
		return nil, stopping(err)
	}
	err = o.loop.Until(ctx, unitWait, func() bool {
		return o.loop.State().Shown >= pass && !slices.ContainsFunc(wishes, func(w wish) bool { return !w.done(o.standing(w.unit)) })
	})
	if err != nil {
		return nil, stopping(err)
	}
	states := make([]control.UnitState, len(wishes))
	for i, w := range wishes {
		s := o.standing(w.unit)
		if why := w.overtaken(s); why != "" && s.state.Error == nil {
			s.state.Error = &why
		}
		states[i] = s.state
	}
	return states, nil
}

// give passes wishes on, and returns the pass that took them, 0 for none. An
// intent outlives the daemon as soon as its word is answered.
func (o *ops) give(ctx context.Context, wishes []wish) (pass uint64, err error) {
	if len(wishes) == 0 {
		return 0, nil
	}
	passed, err := o.loop.Order(ctx, func(in reconcile.Intents) reconcile.Intents {
		for _, w := range wishes {
			in, _ = w.tell(in, w.name)
		}
		return in
	})
	if err != nil {
		return 0, err
	}
	o.saved(ctx)
	return passed.State.Pass, nil
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
