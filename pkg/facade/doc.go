// Package facade is the daemon's own MCP tools: thin words over the operations
// that the command line has too (WHO-3). It owns their names, schemas and
// limits. It keeps no state, and what a tool shows is what the operation
// returned: `structuredContent` is the command's --json.
//
// # Decisions
//
// Each tool is one entry of a table that says whether it reads or writes. The
// broker lists and refuses by that, so a tool that is added is classified first.
//
// A harness that restarts or stops itself is answered before it is stopped:
// otherwise its own call could not end.
package facade
