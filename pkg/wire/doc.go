// Package wire is what the bridge, the broker and the facade must say alike:
// the protocol revisions served, the static part of an initialize answer, the
// error codes and the shapes of an error (MCP-0, MCP-7), and shared limits.
//
// It owns no state and never performs I/O.
//
// # Decisions
//
// Errors are rendered by appending to a byte slice rather than through
// encoding/json values: the same bytes must come from the daemon and from a
// bridge whose daemon is gone, and the bridge is a small process.
package wire
