package reconcile

import (
	"harness/pkg/config"
	"harness/pkg/prompt"
)

// Desired is what should run, made from files and intents that validated. It is
// immutable once made; nothing in it is about what does run.
type Desired struct {
	Server      config.Server
	Upstreams   map[string]Upstream // by key, the disabled ones too
	Prompts     []prompt.Prompt     // each name once
	PromptPaths []string            // the followed directories, in order of precedence
	Agents      map[string]config.Agent
	Profiles    map[string]config.Profile
}

// Upstream is one upstream as it should be.
type Upstream struct {
	// Launch is the definition and what the file system adds to it.
	Launch config.Launch
	// Enabled is the intent (LIF-1). Launch.Enabled is only what the file says
	// and serves to tell where an intent came from.
	Enabled bool
	// Nonce counts the manual starts and restarts so far: another number is
	// another request.
	Nonce uint64
}

// Observed is what is in force, in the shape of Desired.
type Observed struct {
	Server      config.Server
	Upstreams   map[string]ObservedUpstream // by key
	Prompts     []prompt.Prompt             // as published
	PromptPaths []string
	Agents      map[string]config.Agent
	Profiles    map[string]config.Profile
}

// ObservedUpstream is one upstream as it is.
type ObservedUpstream struct {
	// InForce is the definition that is served.
	InForce config.Launch
	// Pending is the definition of a swap that is not in force yet, nil when
	// there is none.
	Pending *config.Launch
	// Enabled is false for one that is known but was told to stop, whether its
	// process is gone yet or not. It may be left out instead; then a later
	// start reads "added".
	Enabled bool
	// Nonce is the last request that was carried out.
	Nonce uint64
	// State is the word of LIF-1. Diff only asks whether there is something to
	// stop ("stopped" and "failed" say no).
	State string
}

// NewDesired puts together what a file asks for. launches holds each upstream
// of c as it would be spawned now; one that is missing there counts as its bare
// definition. prompts must hold each name once. The arguments are shared, not
// copied.
func NewDesired(c *config.Config, launches map[string]config.Launch, prompts []prompt.Prompt) *Desired {
	d := &Desired{
		Server:      c.Server,
		Upstreams:   make(map[string]Upstream, len(c.Upstreams)),
		Prompts:     prompts,
		PromptPaths: c.PromptPaths,
		Agents:      c.Agents,
		Profiles:    c.Profiles,
	}
	for key, def := range c.Upstreams {
		launch, ok := launches[key]
		if !ok {
			launch = config.Launch{Upstream: def}
		}
		d.Upstreams[key] = Upstream{Launch: launch, Enabled: launch.Enabled}
	}
	return d
}

// With returns the desired state under intents, which decide over what the file
// says (LIF-1). The receiver is left as it is.
func (d *Desired) With(intents Intents) *Desired {
	next := *d
	next.Upstreams = make(map[string]Upstream, len(d.Upstreams))
	for key, u := range d.Upstreams {
		intent := intents.of(UpstreamName(key), u.Launch.Enabled)
		u.Enabled, u.Nonce = intent.Enabled, intent.Nonce
		next.Upstreams[key] = u
	}
	return &next
}
