package broker

import (
	"fmt"
	"path"
	"slices"
)

// Scope is what one caller sees and may do. It is immutable; two of the same
// content see the same catalog.
type Scope struct {
	// Harness is the full name of the harness that calls, "" for nobody in
	// particular (WHO-2).
	Harness string
	// Project is the one whose upstreams and prompts are seen beside the global
	// ones, "" for none (CFG-4).
	Project string
	// MCP are globs over the keys of the upstreams that are seen (PRM-6).
	MCP []string
	// Class is the kind of agent that the harness runs, where that is known; it
	// counts where the agent does not say itself what it is.
	Class string
	// Write allows the tools that change something (WHO-3).
	Write bool

	key string
}

// NewScope returns a scope. mcp is shared and must not be written to.
func NewScope(harness, project string, mcp []string, write bool) *Scope {
	s := &Scope{Harness: harness, Project: project, MCP: mcp, Write: write}
	parts := append([]string{project, "read"}, slices.Sorted(slices.Values(mcp))...)
	if write {
		parts[1] = "write"
	}
	s.key = fmt.Sprintf("%q", parts) // a glob may hold any character
	return s
}

// Unattributed returns the scope of a session that is nobody's: it reads, and
// sees what is global (WHO-2).
func Unattributed() *Scope { return NewScope("", "", []string{"*"}, false) }

// sees reports whether the upstream key is visible. A pattern that is none
// matches nothing.
func (s *Scope) sees(key string) bool {
	return slices.ContainsFunc(s.MCP, func(glob string) bool {
		ok, err := path.Match(glob, key)
		return ok && err == nil
	})
}

// Caller is the other end of a session. Whose it is, and what that one may do,
// is asked at each request (WHO-2), by many goroutines.
type Caller interface{ Scope() *Scope }

// Scope implements [Caller], for one that is always the same.
func (s *Scope) Scope() *Scope { return s }
