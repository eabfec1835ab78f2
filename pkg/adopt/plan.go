package adopt

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"harness/pkg/adapter"
	"harness/pkg/config"
)

// Plan is what would be written, and what would not.
type Plan struct {
	// Servers are in the order of their keys.
	Servers []Server
	// Skipped are left out, and those that the file has as a comment alone.
	Skipped []Skipped
	// Notes say what an agent's entry says and the server does not.
	Notes []Skipped
}

// Source is where an agent has a server.
type Source struct {
	Agent string `json:"agent"`
	File  string `json:"file"`
	Name  string `json:"name"`
}

// Skipped is a server of an agent that is left out, and why.
type Skipped struct {
	Source
	Reason string `json:"reason"`
}

// Server is one [mcp.*] table. Its words are spelled as in the file.
type Server struct {
	Key     string
	Cmd     string
	Args    []string
	Workdir string // "" is where the file is
	Enabled bool
	// Env are variables that take the value of another, by its name.
	Env map[string]string
	// Secrets are the others, by name.
	Secrets                   []config.EnvVar
	StartTimeout, CallTimeout time.Duration
	Allow, Deny               []string // globs; a nil Allow is all
	Sources                   []Source
	// Held says why the table would be refused, "" where it would not be.
	Held string

	sure bool // Workdir is said by an entry, and not just where the agent was
}

// Variables are the names of all variables that are set, sorted.
func (s Server) Variables() []string {
	names := slices.Collect(maps.Keys(s.Env))
	for _, v := range s.Secrets {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names
}

// Make plans what becomes of servers, of which each agent uses the last of a
// name. env is what a harness.toml is loaded with.
func Make(found []adapter.OwnServer, env config.Env) Plan {
	var p Plan
	var rest []Server
	for i, own := range found {
		source := Source{own.Agent, own.File, own.Name}
		skip := func(reason string) { p.Skipped = append(p.Skipped, Skipped{source, reason}) }
		if own.Why != "" {
			skip(own.Why)
			continue
		}
		if isHarness(own) {
			skip("it is harness itself")
			continue
		}
		s, notes, problem := translate(own, env)
		if problem != "" {
			skip(problem)
			continue
		}
		if j := later(found, i); j >= 0 {
			// What it runs here is one with what it would run elsewhere, or hides it.
			other, _, problem := translate(found[j], env)
			if problem != "" || found[j].Why != "" || !alike(s, other) {
				skip(found[j].File + " has another of this name, which " + own.Agent + " uses here")
				continue
			}
		}
		for _, note := range notes {
			p.Notes = append(p.Notes, Skipped{source, note})
		}
		// A name that can be a key is not taken by what is only called alike.
		if !p.keeps(s) && !p.joins(s) {
			rest = append(rest, s)
		}
	}
	for _, s := range rest {
		if !p.joins(s) {
			p.rename(s)
		}
	}
	slices.SortFunc(p.Servers, func(a, b Server) int { return cmp.Compare(a.Key, b.Key) })
	p.hold(env)
	return p
}

// later is the entry that an agent uses in place of another one, or -1.
func later(found []adapter.OwnServer, i int) int {
	for j := len(found) - 1; j > i; j-- {
		if found[j].Agent == found[i].Agent && found[j].Name == found[i].Name {
			return j
		}
	}
	return -1
}

// keeps gives a server its own name as its key, where it can have that.
func (p *Plan) keeps(s Server) bool {
	s.Key = config.UpstreamKey(s.name(), "")
	if s.Key != s.name() || p.has(s.Key) {
		return false
	}
	p.Servers = append(p.Servers, s)
	return true
}

// joins makes a server one with another that is called alike and is alike.
func (p *Plan) joins(s Server) bool {
	for i, other := range p.Servers {
		if config.SameKey(config.UpstreamKey(s.name(), ""), config.UpstreamKey(other.name(), "")) && alike(s, other) {
			p.Servers[i] = merged(other, s)
			return true
		}
	}
	return false
}

// rename gives a server the key nearest to its name that is free.
func (p *Plan) rename(s Server) {
	suffix := ""
	for n := 1; ; n++ {
		if s.Key = config.UpstreamKey(s.name(), suffix); !p.has(s.Key) {
			p.Servers = append(p.Servers, s)
			return
		}
		if suffix = "_" + s.Sources[0].Agent; n > 1 {
			suffix = "_" + strconv.Itoa(n)
		}
	}
}

// has reports whether no other server can have the key.
func (p *Plan) has(key string) bool {
	return slices.ContainsFunc(p.Servers, func(s Server) bool { return config.SameKey(s.Key, key) })
}

// name is what the first of its agents calls the server.
func (s Server) name() string { return s.Sources[0].Name }

// alike reports whether one process would do for both.
func alike(a, b Server) bool {
	return a.Cmd == b.Cmd && slices.Equal(a.Args, b.Args) && maps.Equal(a.Env, b.Env) && slices.Equal(a.Secrets, b.Secrets) &&
		(a.Workdir == b.Workdir || !a.sure && !b.sure && (a.Workdir == "" || b.Workdir == "")) &&
		(a.Allow == nil) == (b.Allow == nil) && slices.Equal(a.Allow, b.Allow) && slices.Equal(a.Deny, b.Deny)
}

// merged is what two servers are that are alike: as patient as either, and on
// where one of them is.
func merged(a, b Server) Server {
	a.Workdir = cmp.Or(a.Workdir, b.Workdir)
	a.sure = a.sure || b.sure
	a.Enabled = a.Enabled || b.Enabled
	a.StartTimeout, a.CallTimeout = max(a.StartTimeout, b.StartTimeout), max(a.CallTimeout, b.CallTimeout)
	a.Sources = append(slices.Clone(a.Sources), b.Sources...)
	return a
}

// isHarness reports whether an entry is the endpoint that all this is for.
func isHarness(own adapter.OwnServer) bool {
	argv := make([]string, 0, 1+len(own.Args))
	for _, t := range append([]adapter.Text{own.Cmd}, own.Args...) {
		var b strings.Builder
		for _, part := range t {
			b.WriteString(part.Text)
		}
		argv = append(argv, b.String())
	}
	if path.Base(argv[0]) == "env" {
		i := slices.IndexFunc(argv[1:], func(word string) bool { return !strings.ContainsAny(word, "=-") })
		argv = argv[1+max(i, 0):]
	}
	return len(argv) > 1 && path.Base(argv[0]) == "harness" && slices.Contains(argv[1:], "mcp")
}

// hold finds the tables that would be refused.
func (p *Plan) hold(env config.Env) {
	for i := range p.Servers {
		s := &p.Servers[i]
		_, _, faults := config.Load(config.Source{Path: "/harness.toml", Data: []byte(s.table("/"))}, env)
		var why []string
		for _, f := range faults {
			key := strings.TrimPrefix(f.Key, "mcp."+s.Key)
			why = append(why, strings.TrimPrefix(strings.TrimPrefix(key, ".")+": "+f.Message, ": "))
		}
		if s.Held = strings.Join(why, "; "); s.Held == "" {
			continue
		}
		for _, source := range s.Sources {
			p.Skipped = append(p.Skipped, Skipped{source, "harness would refuse it, so it is a comment in the file: " + s.Held})
		}
	}
}
