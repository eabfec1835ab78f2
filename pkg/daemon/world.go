package daemon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/prompt"
	"harness/pkg/upstream"
	"harness/pkg/wire"
	"harness/reconcile"
)

// upstreams is the pool as the reconciler and the operations use it.
type upstreams interface {
	Snapshot() []upstream.Status
	Unit(key string) *upstream.Unit
	Start(l config.Launch, nonce uint64)
	Swap(l config.Launch)
	Update(l config.Launch)
	Cancel(key string)
	Stop(key string)
	Promote() (switched []string)
	SetLimits(s config.Server)
}

var _ upstreams = (*upstream.Pool)(nil)

// publisher is the broker as the reconciler uses it.
type publisher interface {
	Publish(f *broker.Fleet) broker.Published
	Refresh() int
}

// world is what the reconciler reads and acts on. What is in it belongs to the
// reconciler's goroutine.
type world struct {
	loader *loader
	pool   upstreams
	agents agents
	broker publisher
	merge  func(broker.Content) (*broker.Fleet, error)
	save   func(name string, v any) // keeps a state file
	settle func(time.Duration)      // tells the watcher
	limits *limits
	level  *slog.LevelVar
	log    *slog.Logger
	emit   emitter

	own []broker.OwnTool // the facade
	// ownResources are those of the endpoint itself.
	ownResources broker.OwnResources
	published    map[string][sha256.Size]byte // digests of the offers in the catalog, by key
	odd          []string                     // the catalog's warnings
	said         said
	seen         sight // what the catalog in force was made of
}

var _ reconcile.World = (*world)(nil)

// Load implements [reconcile.World].
func (w *world) Load(ctx context.Context) reconcile.Loaded { return w.loader.load(ctx) }

// Adopt implements [reconcile.World].
func (w *world) Adopt() { w.loader.adopt() }

// Upstreams implements [reconcile.World].
func (w *world) Upstreams() map[string]reconcile.ObservedUpstream {
	all := map[string]reconcile.ObservedUpstream{}
	for _, s := range w.pool.Snapshot() {
		all[s.Key] = reconcile.ObservedUpstream{
			InForce: s.Launch, Pending: s.Pending, Enabled: s.Enabled, Nonce: s.Nonce, State: string(s.State),
		}
	}
	return all
}

// Agents implements [reconcile.World].
func (w *world) Agents() map[string]reconcile.ObservedAgent {
	all := map[string]reconcile.ObservedAgent{}
	for _, s := range w.agents.Snapshot() {
		all[s.Name] = reconcile.ObservedAgent{Next: s.Next, Spawned: s.Spawned, Enabled: s.Enabled, Nonce: s.Nonce, State: string(s.State)}
	}
	return all
}

// Do implements [reconcile.World].
func (w *world) Do(step reconcile.Step, d *reconcile.Desired) {
	want := d.Upstreams[step.Name]
	switch {
	case step.Kind == reconcile.KindServer:
		w.apply(d.Server)
	case step.Kind == reconcile.KindHarness:
		w.doAgent(step, d)
	case step.Op == reconcile.OpStart, step.Op == reconcile.OpReplace:
		// Of one that runs, a start stops it first, and with another nonce it
		// clears the count of exits (LIF-2).
		w.pool.Start(want.Launch, want.Nonce)
	case step.Op == reconcile.OpSwap:
		w.pool.Swap(want.Launch)
	case step.Op == reconcile.OpUpdate:
		if step.Cancel {
			w.pool.Cancel(step.Name)
		}
		w.pool.Update(want.Launch)
	case step.Op == reconcile.OpStop:
		w.pool.Stop(step.Name)
	}
}

// doAgent does a step of a harness. One that is not in a file any more is
// forgotten once it is stopped.
func (w *world) doAgent(step reconcile.Step, d *reconcile.Desired) {
	want, declared := d.Agents[step.Name]
	switch {
	case !declared:
		w.agents.Remove(step.Name)
	case step.Op == reconcile.OpStart, step.Op == reconcile.OpReplace:
		w.agents.Start(want.Launch, want.Nonce)
	case step.Op == reconcile.OpStop:
		w.agents.Stop(step.Name)
	case step.Op == reconcile.OpUpdate, step.Op == reconcile.OpPending:
		w.agents.Update(want.Launch)
	}
}

// apply puts the daemon's own settings in force.
func (w *world) apply(s config.Server) {
	w.settle(s.Settle)
	w.pool.SetLimits(s)
	w.agents.SetLimits(s)
	w.limits.set(s)
	// The config has checked the word.
	_ = w.level.UnmarshalText([]byte(s.LogLevel))
}

// Progress implements [reconcile.World].
func (w *world) Progress() reconcile.Progress {
	p := reconcile.Progress{Unanswered: map[string]bool{}, Unknown: map[string]bool{}}
	offered := map[string][sha256.Size]byte{}
	for _, s := range w.pool.Snapshot() {
		if !s.Enabled {
			continue // on its way out; it left the catalog before
		}
		if s.Offer != nil {
			offered[s.Key] = s.Offer.Digest
		}
		if !s.Answered {
			p.Unanswered[s.Key] = true
		}
		if !s.Answered && s.Offer == nil {
			p.Unknown[s.Key] = true
		}
		p.Stale = p.Stale || s.PendingReady
	}
	p.Stale = p.Stale || !maps.Equal(offered, w.published)
	return p
}

// Publish implements [reconcile.World]. Swaps that are ready take over first,
// so the catalog is of the processes that answer the calls to it.
func (w *world) Publish(d *reconcile.Desired, generation uint64) bool {
	w.pool.Promote()
	offers, digests := w.offers(d)
	now := look(offers, digests, d)
	if w.seen.same(now) {
		w.published = digests
		w.broker.Refresh() // a harness may see another part of it
		return true        // the catalog in force is this one
	}
	fleet, err := w.merge(broker.Content{Offers: offers, Prompts: prompts(d.Prompts), Own: w.own, OwnResources: w.ownResources})
	if err != nil {
		w.log.Error("catalog not published", "error", err)
		return false
	}
	w.published, w.seen = digests, now
	if !slices.Equal(fleet.Warnings, w.odd) {
		w.odd = fleet.Warnings
		for _, warning := range fleet.Warnings {
			w.log.Warn("catalog", "warning", warning)
		}
	}
	w.announce(fleet.View(broker.Unattributed()), w.broker.Publish(fleet), generation)
	return true
}

// sight is all that a catalog depends on: an equal one gives the same catalog,
// which need not be made again (PRF-5).
type sight struct {
	made    bool
	offers  []offered
	prompts []offeredPrompt
}

type offeredPrompt struct {
	project string
	digest  [sha256.Size]byte
}

type offered struct {
	key            string
	up             broker.Upstream
	known, stopped bool
	digest         [sha256.Size]byte
	shape          string // what of its definition shows in the catalog
}

func look(offers []broker.Offer, digests map[string][sha256.Size]byte, d *reconcile.Desired) sight {
	s := sight{made: true}
	for _, o := range offers {
		full := reconcile.FullName(o.Project, o.Key)
		l := d.Upstreams[full].Launch
		shape := fmt.Sprintf("%q %q %s", l.Tools.Allow, l.Tools.Deny, l.Isolation)
		s.offers = append(s.offers, offered{full, o.Upstream, o.Known, o.Stopped, digests[full], shape})
	}
	for _, p := range d.Prompts {
		s.prompts = append(s.prompts, offeredPrompt{p.Project, p.Digest})
	}
	return s
}

func (s sight) same(o sight) bool {
	return s.made && slices.Equal(s.offers, o.offers) && slices.Equal(s.prompts, o.prompts)
}

// offers is what the upstreams that should run bring to the catalog, with those
// that should not, and the digests to find out by whether they bring something
// else later.
func (w *world) offers(d *reconcile.Desired) ([]broker.Offer, map[string][sha256.Size]byte) {
	digests := map[string][sha256.Size]byte{}
	var offers []broker.Offer
	for _, key := range slices.Sorted(maps.Keys(d.Upstreams)) {
		if !d.Upstreams[key].Enabled {
			project, own := reconcile.SplitName(key)
			offers = append(offers, broker.Offer{Key: own, Project: project, Stopped: true})
		}
	}
	for _, s := range w.pool.Snapshot() {
		if !d.Upstreams[s.Key].Enabled || !s.Enabled {
			continue
		}
		project, key := reconcile.SplitName(s.Key)
		filter := d.Upstreams[s.Key].Launch.Tools
		o := broker.Offer{Key: key, Project: project, Upstream: w.pool.Unit(s.Key), Offers: filter.Offers}
		if d.Upstreams[s.Key].Launch.Isolation == config.IsolationSession {
			template := w.pool.Unit(s.Key)
			o.Open = func(p broker.Peer) broker.Private { return template.Private(upstream.Peer(p)) }
		}
		if s.Offer != nil {
			digests[s.Key] = s.Offer.Digest
			o.Known, o.Instructions, o.HasResources, o.Completes, o.Tasks = true, s.Offer.Instructions, s.Offer.Can.Resources, s.Offer.Can.Complete, s.Offer.Can.Tasks
			o.Tools, o.Prompts = items(s.Offer.Tools), items(s.Offer.Prompts)
			o.Resources, o.Templates = items(s.Offer.Resources), items(s.Offer.Templates)
		}
		offers = append(offers, o)
	}
	return offers, digests
}

// items adapts a list of an upstream to what the broker serves.
func items(list []upstream.Item) []broker.Item {
	out := make([]broker.Item, len(list))
	for i, item := range list {
		out[i] = broker.Item(item)
	}
	return out
}

// prompts adapts prompt files to what the broker serves.
func prompts(files []prompt.Prompt) []broker.Prompt {
	out := make([]broker.Prompt, len(files))
	for i, p := range files {
		out[i] = broker.Prompt{Name: p.Name, Project: p.Project, Title: p.Title, Description: p.Description, Body: sha256.Sum256(p.Body), Render: func(arguments map[string]string) (string, error) {
			text, err := p.Render(arguments)
			return string(text), err
		}}
		for _, a := range p.Arguments {
			out[i].Arguments = append(out[i].Arguments, broker.Argument{Name: a.Name, Description: a.Description, Required: a.Required})
		}
	}
	return out
}

// announce tells of a publish that changed something for anybody.
func (w *world) announce(c *broker.Catalog, p broker.Published, generation uint64) {
	var kinds []string
	for k := range wire.Kinds {
		if p.Changed[k] {
			kinds = append(kinds, k.String())
		}
	}
	if len(kinds) == 0 {
		return
	}
	changed := strings.Join(kinds, ", ")
	w.log.Info("published", "generation", generation, "changed", changed, "tools", c.Tools(), "prompts", c.Prompts(), "notifications", p.Notified)
	w.emit("publish", "", generation, changed+" changed")
}

// Commit implements [reconcile.World].
func (w *world) Commit(kept reconcile.Kept) {
	w.save(stateFile, fleetState{Schema: stateSchema, Config: w.loader.global.path, Kept: kept})
}
