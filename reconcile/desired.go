package reconcile

import (
	"strings"

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
	Agents      map[string]Agent    // by full name, the disabled ones too
	Profiles    map[string]config.Profile
	Projects    map[string]Project // those that are up, by name
}

// Project is one project that is up (CFG-4). What it declares is among the rest
// of the desired state, under its full name.
type Project struct {
	// Path is that of its file.
	Path string
	// PromptPaths are the directories it declares.
	PromptPaths []string
}

// Agent is one harness as it should be.
type Agent struct {
	Launch config.AgentLaunch
	// Enabled is the intent, as an Upstream's is.
	Enabled bool
	// Nonce counts the manual starts and restarts so far.
	Nonce uint64
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
	Agents      map[string]ObservedAgent      // those that were started, by full name
	Defined     map[string]config.AgentLaunch // the definitions as published
	Profiles    map[string]config.Profile
	Projects    map[string]Project
}

// ObservedAgent is one harness that was started.
type ObservedAgent struct {
	// Next is the definition of its next start.
	Next config.AgentLaunch
	// Spawned is what its process was started from, nil where there is none.
	Spawned *config.AgentLaunch
	// Enabled is false for one that was told to stop.
	Enabled bool
	// Nonce is the last request that was carried out.
	Nonce uint64
	// State is the word of LIF-1.
	State string
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

// Launches is each definition of a file as it would be spawned now, by its own
// name there.
type Launches struct {
	Upstreams map[string]config.Launch
	Agents    map[string]config.AgentLaunch
}

// NewDesired puts together what the global file asks for. What has no launch
// counts as its bare definition. prompts must hold each name once. The
// arguments are shared, not copied.
func NewDesired(c *config.Config, launches Launches, prompts []prompt.Prompt) *Desired {
	d := &Desired{
		Server: c.Server, Prompts: prompts, PromptPaths: c.PromptPaths, Profiles: c.Profiles,
		Upstreams: make(map[string]Upstream, len(c.Upstreams)),
		Agents:    make(map[string]Agent, len(c.Agents)),
		Projects:  map[string]Project{},
	}
	d.take(c, "", launches)
	return d
}

// AddProject adds what the file of a project asks for. Its prompts are among
// those given to NewDesired.
func (d *Desired) AddProject(c *config.Config, launches Launches) {
	name := c.Project.Name
	d.Projects[name] = Project{Path: c.Path, PromptPaths: c.PromptPaths}
	d.take(c, name, launches)
}

// take adds the upstreams and harnesses of one file.
func (d *Desired) take(c *config.Config, project string, launches Launches) {
	enabled := EnabledIn(c)
	for key, def := range c.Upstreams {
		launch, ok := launches.Upstreams[key]
		if !ok {
			launch = config.Launch{Upstream: def}
		}
		launch.Key = FullName(project, key)
		d.Upstreams[launch.Key] = Upstream{Launch: launch, Enabled: launch.Enabled}
	}
	for name, def := range c.Agents {
		launch, ok := launches.Agents[name]
		if !ok {
			launch = config.AgentLaunch{Agent: def}
		}
		launch.Name, launch.Project = FullName(project, name), project
		d.Agents[launch.Name] = Agent{Launch: launch, Enabled: enabled[launch.Name]}
	}
}

// FullName is what a harness is called, or an upstream's key is, outside its
// project: "shop/reviewer". The project "" is the global file.
func FullName(project, name string) string {
	if project == "" {
		return name
	}
	return project + "/" + name
}

// SplitName is the inverse of FullName.
func SplitName(full string) (project, name string) {
	if project, name, ok := strings.Cut(full, "/"); ok {
		return project, name
	}
	return "", full
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
	next.Agents = make(map[string]Agent, len(d.Agents))
	for name, a := range d.Agents {
		intent := intents.of(name, a.Enabled)
		a.Enabled, a.Nonce = intent.Enabled, intent.Nonce
		next.Agents[name] = a
	}
	return &next
}
