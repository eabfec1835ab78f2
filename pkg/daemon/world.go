package daemon

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/prompt"
	"harness/pkg/upstream"
	"harness/pkg/wire"
	"harness/reconcile"
	"harness/watch"
)

// world is what the reconciler reads and acts on. All of it but the rooms
// behind it belongs to the reconciler's goroutine.
type world struct {
	loader  *loader
	pool    *upstream.Pool
	broker  *broker.Broker
	watcher *watch.Watcher
	state   *stateDir
	log     *slog.Logger
	level   *slog.LevelVar
	limits  *limits
	version string

	server    config.Server // in force
	nonces    map[string]uint64
	shown     reconcile.Observed // prompts and definitions as published
	published map[string][32]byte
	told      string // the faults and warnings that were reported last
	emit      emitter
}

// emitter tells whoever watches that something happened. It never blocks.
type emitter func(kind, name string, generation uint64, message string)

var _ reconcile.World = (*world)(nil)

// Load implements [reconcile.World].
func (w *world) Load(ctx context.Context) reconcile.Loaded { return w.loader.load(ctx) }

// Observe implements [reconcile.World].
func (w *world) Observe() *reconcile.Observed {
	o := w.shown
	o.Server = w.server
	o.Upstreams = map[string]reconcile.ObservedUpstream{}
	for _, s := range w.pool.Snapshot() {
		o.Upstreams[s.Key] = reconcile.ObservedUpstream{
			InForce: s.Launch, Pending: s.Pending, Enabled: s.Enabled, Nonce: w.nonces[s.Key], State: string(s.State),
		}
	}
	return &o
}

// Do implements [reconcile.World].
func (w *world) Do(step reconcile.Step, d *reconcile.Desired) {
	if step.Kind == reconcile.KindServer {
		w.apply(d.Server)
		return
	}
	want := d.Upstreams[step.Name]
	switch step.Op {
	case reconcile.OpStart:
		w.pool.Start(want.Launch, want.Nonce)
	case reconcile.OpSwap:
		w.pool.Swap(want.Launch)
	case reconcile.OpReplace:
		w.replace(step.Name, want)
	case reconcile.OpUpdate:
		if step.Cancel {
			w.pool.Cancel(step.Name)
		}
		w.pool.Update(want.Launch)
	case reconcile.OpStop:
		w.pool.Stop(step.Name)
	}
	w.nonces[step.Name] = want.Nonce
}

// find returns the status of one upstream, if it has one.
func find(pool *upstream.Pool, key string) (upstream.Status, bool) {
	all := pool.Snapshot()
	i, ok := slices.BinarySearchFunc(all, key, func(s upstream.Status, key string) int { return strings.Compare(s.Key, key) })
	if !ok {
		return upstream.Status{}, false
	}
	return all[i], true
}

// replace stops what runs and starts want; a restart by hand also clears the
// count of exits (LIF-2).
func (w *world) replace(key string, want reconcile.Upstream) {
	if want.Nonce != w.nonces[key] {
		w.pool.Start(want.Launch, want.Nonce)
		return
	}
	w.pool.Replace(want.Launch)
}

// apply puts the daemon's own settings in force.
func (w *world) apply(s config.Server) {
	w.server = s
	w.watcher.SetSettle(s.Settle)
	w.pool.SetLimits(s)
	w.limits.set(s)
	// The config has checked the word.
	_ = w.level.UnmarshalText([]byte(s.LogLevel))
}

// Answered implements [reconcile.World].
func (w *world) Answered(name string) bool {
	s, ok := find(w.pool, name)
	return !ok || s.Answered
}

// Stale implements [reconcile.World].
func (w *world) Stale() bool {
	offered := 0
	for _, s := range w.pool.Snapshot() {
		if s.PendingReady {
			return true
		}
		if !s.Enabled || s.Offer == nil {
			continue
		}
		offered++
		if digest, ok := w.published[s.Key]; !ok || digest != s.Offer.Digest {
			return true
		}
	}
	return offered != len(w.published)
}

// Publish implements [reconcile.World].
func (w *world) Publish(d *reconcile.Desired, generation uint64) {
	w.pool.Promote()
	offers := w.offers(d)
	catalog, err := broker.Merge(w.version, offers, prompts(d.Prompts))
	if err != nil {
		w.log.Error("catalog not published", "error", err)
		return
	}
	for _, warning := range catalog.Warnings {
		w.log.Warn("catalog", "warning", warning)
	}
	p := w.broker.Publish(catalog)
	w.shown = reconcile.Observed{Prompts: d.Prompts, PromptPaths: d.PromptPaths, Agents: d.Agents, Profiles: d.Profiles}
	var kinds []string
	for k := range wire.Kinds {
		if p.Changed[k] {
			kinds = append(kinds, k.String())
		}
	}
	if len(kinds) > 0 {
		w.log.Info("published", "generation", generation, "changed", strings.Join(kinds, ","), "tools", catalog.Tools(), "prompts", catalog.Prompts(), "notifications", p.Notified)
		w.emit("publish", "", generation, strings.Join(kinds, ", ")+" changed")
	}
}

// offers is what the upstreams that should run bring to the catalog.
func (w *world) offers(d *reconcile.Desired) []broker.Offer {
	w.published = map[string][32]byte{}
	var offers []broker.Offer
	for _, s := range w.pool.Snapshot() {
		if !d.Upstreams[s.Key].Enabled || !s.Enabled {
			continue
		}
		o := broker.Offer{Key: s.Key, Upstream: w.pool.Unit(s.Key)}
		if s.Offer != nil {
			w.published[s.Key] = s.Offer.Digest
			o.Known, o.Instructions = true, s.Offer.Instructions
			for _, t := range s.Offer.Tools {
				o.Tools = append(o.Tools, broker.Tool{Name: t.Name, Raw: t.Raw})
			}
		}
		offers = append(offers, o)
	}
	return offers
}

// prompts adapts prompt files to what the broker serves.
func prompts(files []prompt.Prompt) []broker.Prompt {
	out := make([]broker.Prompt, len(files))
	for i, p := range files {
		out[i] = broker.Prompt{Name: p.Name, Title: p.Title, Description: p.Description, Body: p.Digest, Render: func(arguments map[string]string) (string, error) {
			text, err := p.Render(arguments)
			return string(text), err
		}}
		for _, a := range p.Arguments {
			out[i].Arguments = append(out[i].Arguments, broker.Argument{Name: a.Name, Description: a.Description, Required: a.Required})
		}
	}
	return out
}

// Commit implements [reconcile.World].
func (w *world) Commit(kept reconcile.Kept) {
	w.loader.keep()
	if err := w.state.save(stateFile, kept); err != nil {
		w.log.Error("state not saved", "error", err)
	}
}

// Report implements [reconcile.World]: one log line and one event for each
// thing that happened, and nothing for a pass without news.
func (w *world) Report(r reconcile.Report) {
	s := r.State
	if said := say(s.Faults, s.Warnings); said != w.told {
		w.told = said
		for _, f := range s.Faults {
			w.log.Error("config refused", "fault", f.String())
			w.emit("refused", "", s.Generation, f.String())
		}
		for _, f := range s.Warnings {
			w.log.Warn("config", "warning", f.String())
			w.emit("warning", "", s.Generation, f.String())
		}
		if s.OK && len(s.Warnings) == 0 {
			w.emit("load", "", s.Generation, "files are in force")
		}
	}
	for _, step := range r.Plan {
		w.log.Info("step", "generation", s.Generation, "step", step.String())
		w.emit("step", step.Name, s.Generation, step.String())
	}
}

func say(lists ...[]config.Fault) string {
	var b strings.Builder
	for i, list := range lists {
		for _, f := range list {
			b.WriteString(string(rune('0'+i)) + f.String() + "\n")
		}
	}
	return b.String()
}

// known are the names that start, stop and restart take, sorted.
func known(d *reconcile.Desired) []string {
	var names []string
	for key := range maps.Keys(d.Upstreams) {
		names = append(names, reconcile.UpstreamName(key))
	}
	return slices.Sorted(slices.Values(names))
}
