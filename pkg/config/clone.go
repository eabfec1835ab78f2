package config

import (
	"maps"
	"slices"
)

// Clone is a copy that shares nothing that can be written to.
func (c *Config) Clone() *Config {
	out := *c
	out.Server = c.Server.Clone()
	out.Upstreams = cloneEach(c.Upstreams, Upstream.Clone)
	out.PromptPaths = slices.Clone(c.PromptPaths)
	out.Agents = cloneEach(c.Agents, Agent.Clone)
	out.Profiles = cloneEach(c.Profiles, Profile.Clone)
	return &out
}

// Clone is a copy that shares nothing that can be written to.
func (s Server) Clone() Server {
	s.Roots = slices.Clone(s.Roots)
	return s
}

// Clone is a copy that shares nothing that can be written to.
func (u Upstream) Clone() Upstream {
	u.Args = slices.Clone(u.Args)
	u.Env = maps.Clone(u.Env)
	u.Tools.Allow = slices.Clone(u.Tools.Allow)
	u.Tools.Deny = slices.Clone(u.Tools.Deny)
	return u
}

// Clone is a copy that shares nothing that can be written to.
func (l Launch) Clone() Launch {
	l.Upstream = l.Upstream.Clone()
	return l
}

// Clone is a copy that shares nothing that can be written to.
func (a Agent) Clone() Agent {
	a.Args = slices.Clone(a.Args)
	a.Env = maps.Clone(a.Env)
	a.MCPAllow = slices.Clone(a.MCPAllow)
	a.MCP = slices.Clone(a.MCP)
	a.EnvPass = slices.Clone(a.EnvPass)
	return a
}

// Clone is a copy that shares nothing that can be written to.
func (p Profile) Clone() Profile {
	p.Members = slices.Clone(p.Members)
	return p
}

func cloneEach[V any](m map[string]V, clone func(V) V) map[string]V {
	out := make(map[string]V, len(m))
	for k, v := range m {
		out[k] = clone(v)
	}
	return out
}
