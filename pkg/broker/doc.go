// Package broker serves one merged catalog of tools and prompts to many MCP
// sessions, and relays their calls to upstreams as the bytes they are.
//
// It owns the sessions and the catalog in force. It never starts a process,
// never decodes what it relays, and never decides what should run.
//
// # Decisions
//
// The relay path is ours: requests are peeked at, their id, name and progress
// token are spliced, and the rest is copied (MCP-3, PRF-1). Typed structs lose
// schema keywords, unknown fields and the spelling of numbers.
//
// What is published is a [Fleet]: everything there is, for everybody. A session
// sees the [Catalog] of its caller's [Scope], which is made once for all callers
// of equal scopes. The scope is asked for at each request, so a right that was
// taken away is gone at the next call.
//
// mark3labs/mcp-go serves what the endpoint itself answers: initialize, ping,
// its own tools, prompts and logging levels. Each catalog has a core of its own,
// built with the catalog and never changed afterwards: the library's own
// registries notify on every call to them, also when nothing differs, and its
// prompts are cleared before they are refilled. What a session sees is
// therefore exactly one published catalog, never half of a plan (SHP-2).
//
// A session's edge is an interface ([Edge]), because what lies behind it is
// meant to change: a socket today, the agent's own descriptors later.
package broker
