package reconcile

import (
	"maps"

	"harness/pkg/config"
)

// Intent is whether one harness or upstream should run, and where that comes
// from (LIF-1): the file decides at first sight and again whenever its value
// changes; the words start, stop and restart decide in between. The later wins.
type Intent struct {
	File    bool   `json:"file"`    // enabled, as the file last said
	Enabled bool   `json:"enabled"` // the intent
	Nonce   uint64 `json:"nonce"`   // manual starts and restarts so far
}

// Intents holds the intent of every harness and upstream by the name the
// command line uses: "reviewer", "mcp.gitea" (CLI-6). It is a value: every
// method returns a new one and leaves its receiver alone. Kept as JSON, it is
// what makes an intent survive the daemon.
type Intents map[string]Intent

// UpstreamName is the name of an upstream beside those of harnesses. No harness
// can have it: their names have no dot.
func UpstreamName(key string) string { return "mcp." + key }

// EnabledIn returns what a file says about each name: the argument of
// [Intents.Follow]. The members of the profile that starts by itself are
// enabled by it, and a project's harnesses by being up, unless their table says
// no (CLI-6).
func EnabledIn(c *config.Config) map[string]bool {
	file := make(map[string]bool, len(c.Upstreams)+len(c.Agents))
	for key, u := range c.Upstreams {
		file[UpstreamName(FullName(c.Project.Name, key))] = u.Enabled
	}
	for name, a := range c.Agents {
		file[FullName(c.Project.Name, name)] = a.Enabled || c.Kind == config.Project && !a.EnabledWritten
	}
	for _, p := range c.Profiles {
		for _, member := range p.Members {
			file[member] = file[member] || p.Autostart
		}
	}
	return file
}

// Follow returns the intents after a file was read; file holds its `enabled` of
// every name. A name that is gone is forgotten, so that one added again later
// is seen for the first time.
func (in Intents) Follow(file map[string]bool) Intents {
	next := make(Intents, len(file))
	for name, enabled := range file {
		next[name] = in.of(name, enabled)
	}
	return next
}

// of is the intent for a name whose file says file now.
func (in Intents) of(name string, file bool) Intent {
	intent, known := in[name]
	if !known || intent.File != file {
		intent.File, intent.Enabled = file, file
	}
	return intent
}

// Start returns the intents after a manual start; ok is false for a name that
// is not known. The count of requests moves, so the start is a request also
// where the intent was there already: ask for it only when the unit is not
// running.
func (in Intents) Start(name string) (next Intents, ok bool) {
	return in.set(name, func(i *Intent) {
		i.Enabled = true
		i.Nonce++
	})
}

// Restart returns the intents after a manual restart. One that was stopped is
// started by it.
func (in Intents) Restart(name string) (next Intents, ok bool) { return in.Start(name) }

// Stop returns the intents after a manual stop.
func (in Intents) Stop(name string) (next Intents, ok bool) {
	return in.set(name, func(i *Intent) { i.Enabled = false })
}

func (in Intents) set(name string, change func(*Intent)) (Intents, bool) {
	intent, known := in[name]
	if !known {
		return in, false
	}
	change(&intent)
	next := maps.Clone(in)
	next[name] = intent
	return next, true
}
