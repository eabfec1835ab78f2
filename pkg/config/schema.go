package config

import (
	"maps"
	"slices"
	"time"
)

// fields is the key table of one kind of table: every key there is, spelled as
// in the file, and how it is read into the Go type. What is not in it is a
// fault.
type fields[T any] map[string]func(l *loader, v value, into *T)

// names are the keys in a fixed order.
func (f fields[T]) names() []string { return slices.Sorted(maps.Keys(f)) }

// sections are the tables at the top level of a file.
func sections() fields[Config] {
	return fields[Config]{
		"server":  (*loader).server,
		"mcp":     (*loader).upstreams,
		"harness": (*loader).agents,
		"profile": (*loader).profiles,
		"project": (*loader).project,
	}
}

func serverFields() fields[Server] {
	return fields[Server]{
		"log_level": func(l *loader, v value, s *Server) {
			s.LogLevel = l.oneOf(v, "debug", "info", "warn", "error")
		},
		"settle": func(l *loader, v value, s *Server) {
			s.Settle = l.duration(v, time.Millisecond, maxSettle)
		},
		"stop_grace": func(l *loader, v value, s *Server) { s.StopGrace = l.duration(v, 0, maxDuration) },
		"drain":      func(l *loader, v value, s *Server) { s.Drain = l.duration(v, 0, maxDuration) },
		"max_message": func(l *loader, v value, s *Server) {
			s.MaxMessage = l.size(v, minMessage, maxMessage)
		},
		"keep_runs": func(l *loader, v value, s *Server) { s.KeepRuns = l.integer(v, 1, maxRuns) },
		"roots":     func(l *loader, v value, s *Server) { s.Roots = asSet(l.paths(v)) },
	}
}

func upstreamFields() fields[Upstream] {
	return fields[Upstream]{
		"cmd":      func(l *loader, v value, u *Upstream) { u.Cmd = l.command(v) },
		"args":     func(l *loader, v value, u *Upstream) { u.Args = l.expandedList(v) },
		"env_file": func(l *loader, v value, u *Upstream) { u.EnvFile = l.optionalPath(v) },
		"env":      func(l *loader, v value, u *Upstream) { u.Env = l.environment(v) },
		"workdir":  func(l *loader, v value, u *Upstream) { u.Workdir = l.path(v) },
		"restart_delay": func(l *loader, v value, u *Upstream) {
			u.RestartDelay = l.duration(v, minRestartDelay, maxDuration)
		},
		"start_timeout": func(l *loader, v value, u *Upstream) {
			u.StartTimeout = l.duration(v, time.Millisecond, maxDuration)
		},
		"call_timeout": func(l *loader, v value, u *Upstream) { u.CallTimeout = l.duration(v, 0, maxDuration) },
		"enabled":      func(l *loader, v value, u *Upstream) { u.Enabled = l.boolean(v) },
		"description":  func(l *loader, v value, u *Upstream) { u.Description = l.text(v) },
		"update": func(l *loader, v value, u *Upstream) {
			u.Update = Update(l.oneOf(v, string(Swap), string(Replace)))
		},
		"isolation": func(l *loader, v value, u *Upstream) {
			u.Isolation = Isolation(l.oneOf(v, string(IsolationShared), string(IsolationSession)))
		},
		"prestart": func(l *loader, v value, u *Upstream) { u.Prestart = l.boolean(v) },
		"tools":    func(l *loader, v value, u *Upstream) { readTable(l, v, toolFields(), &u.Tools) },
	}
}

func toolFields() fields[ToolFilter] {
	return fields[ToolFilter]{
		"allow": func(l *loader, v value, t *ToolFilter) { t.Allow = asSet(l.list(v, globProblem)) },
		"deny":  func(l *loader, v value, t *ToolFilter) { t.Deny = asSet(l.list(v, globProblem)) },
	}
}

func agentFields() fields[Agent] {
	return fields[Agent]{
		"cmd":      func(l *loader, v value, a *Agent) { a.Cmd = l.command(v) },
		"args":     func(l *loader, v value, a *Agent) { a.Args = l.expandedList(v) },
		"env_file": func(l *loader, v value, a *Agent) { a.EnvFile = l.optionalPath(v) },
		"env":      func(l *loader, v value, a *Agent) { a.Env = l.environment(v) },
		"workdir":  func(l *loader, v value, a *Agent) { a.Workdir = l.path(v) },
		"restart_delay": func(l *loader, v value, a *Agent) {
			a.RestartDelay = l.duration(v, minRestartDelay, maxDuration)
		},
		"enabled": func(l *loader, v value, a *Agent) {
			a.Enabled, a.EnabledWritten = l.boolean(v), true
		},
		"description": func(l *loader, v value, a *Agent) { a.Description = l.text(v) },
		"mcp_allow":   func(l *loader, v value, a *Agent) { a.MCPAllow = l.grants(v) },
		"mcp_bridge":  func(l *loader, v value, a *Agent) { a.MCPBridge = l.boolean(v) },
		"adapter": func(l *loader, v value, a *Agent) {
			a.Adapter = l.oneOf(v, "auto", "claude-code", "codex", "opencode", "gemini", "generic")
		},
		"mcp":      func(l *loader, v value, a *Agent) { a.MCP = asSet(l.list(v, globProblem)) },
		"env_pass": func(l *loader, v value, a *Agent) { a.EnvPass = asSet(l.list(v, envNameProblem)) },
	}
}

func profileFields() fields[Profile] {
	return fields[Profile]{
		"description": func(l *loader, v value, p *Profile) { p.Description = l.text(v) },
		"members":     func(l *loader, v value, p *Profile) { p.Members = asSet(l.list(v, memberProblem)) },
		"autostart":   func(l *loader, v value, p *Profile) { p.Autostart = l.boolean(v) },
	}
}

func projectFields() fields[ProjectInfo] {
	return fields[ProjectInfo]{
		"name": func(l *loader, v value, p *ProjectInfo) { p.Name = l.projectName(v) },
	}
}

// promptFields are the keys of the reserved [mcp.prompts].
func promptFields() fields[Config] {
	return fields[Config]{
		"paths": func(l *loader, v value, c *Config) { c.PromptPaths, c.Where.prompts = l.promptPaths(v) },
	}
}

// Bounds of the schema that are not in a type of their own. Where no rule
// gives one, it is what keeps a slip of the pen from being taken seriously.
const (
	maxSettle       = 500 * time.Millisecond
	minRestartDelay = 10 * time.Millisecond
	maxDuration     = 365 * 24 * time.Hour
	minMessage      = 1 << 10
	maxMessage      = 1 << 30
	maxRuns         = 1_000_000
)

func newUpstream(key, dir string, line int) Upstream {
	return Upstream{
		Key:          key,
		Args:         []string{},
		Env:          map[string]string{},
		Workdir:      dir,
		RestartDelay: time.Second,
		StartTimeout: time.Minute,
		Enabled:      true,
		Update:       Swap,
		Isolation:    IsolationShared,
		Prestart:     true,
		Tools:        allTools(),
		Line:         line,
	}
}

// allTools filters nothing.
func allTools() ToolFilter {
	return ToolFilter{Allow: []string{"*"}, Deny: []string{}}
}

func newAgent(name, dir string, line int) Agent {
	return Agent{
		Name:         name,
		Args:         []string{},
		Env:          map[string]string{},
		Workdir:      dir,
		RestartDelay: time.Second,
		MCPAllow:     []string{"read"},
		MCPBridge:    true,
		Adapter:      "auto",
		MCP:          []string{"*"},
		EnvPass:      []string{},
		Line:         line,
	}
}
