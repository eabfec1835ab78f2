// Package control is the daemon's private door: HTTP and JSON over a Unix
// socket, both ends of it. The server side turns requests into calls of
// [Ops]; the client side is what every thin verb of the command line speaks.
//
// It owns the listening socket, the connections that speak HTTP, the shapes of
// every JSON answer (CLI-3, HOT-7) and where the socket and the state directory
// are found (paths.go, pure). A connection that was upgraded to an agent's MCP
// session belongs to Ops from then on. It never reads configuration, never
// starts a process and never decides anything about the fleet.
//
// # Decisions
//
// The transport is net/http: it hijacks, streams, bounds and times out as
// needed, and "curl --unix-socket" works when nothing else does.
//
// The bridge's way in, [DialSession], is written by hand instead. It is run by
// every agent and stays in memory for as long as that agent lives, and it must
// hand over the bare connection with not one byte of the session swallowed by
// a buffered reader.
//
// A peer is checked by SO_PEERCRED on each connection and not by the mode of
// the socket alone: the mode is set a moment after the socket appears. The
// client checks the daemon the same way before it sends a token.
//
// The version of the interface is a header rather than a path alone, so that a
// client of another major gets an answer that names both versions (CLI-5).
package control
