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
// A resource keeps its URI. Where two upstreams have one URI neither keeps it:
// each is read under its URI and the mark of its key, and the bare one is an
// error that says so, so that nobody is given the other's content in silence.
// What an upstream is subscribed to is counted here, per resource; that it is
// asked again after a restart is the upstream's side's.
//
// What an upstream asks its client goes to one session under an id that no other
// session, and no other daemon, ever uses; an answer to no question is dropped.
//
// Some agents refuse a whole list for one tool in it. The list of such an agent
// is a view of its own, without that tool; what it objects to is for
// [Options].Lint to say, since this room knows no agent.
//
// What the endpoint itself answers (initialize, ping, its own tools, prompts and
// logging levels) is answered here too, in the types of mark3labs/mcp-go/mcp and
// without the server of that library. Everything listed is rendered with the
// catalog and never changed afterwards, so what a session sees is exactly one
// published catalog, never half of a plan (SHP-2); the library's registries
// notify when nothing differs, and clear what they refill. Its server also
// compiles JSON schemas as it is loaded, which costs more than the rest of the
// start of a bridge (PRF-3).
//
// A session's edge is an interface ([Edge]): a session begins over the socket of
// its bridge, and goes on over the agent's own descriptors where the bridge hands
// them over. What has to be known after a kill is noted there before anything is
// done: a request before its line is consumed, and that before it is relayed.
package broker
