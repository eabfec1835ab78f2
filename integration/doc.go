// Package integration drives the real harness binary the way a user and an
// agent would: scripts of commands, MCP sessions over `harness mcp`, edits of
// files, and signals.
//
// It owns the architecture test, which holds the plan of the rooms and
// compares it with the tree, and the cases of the field, each a test named
// after its case. It never reaches into a package of the project: what it
// cannot see through the binary is tested beside the code.
//
// # Decisions
//
// The binary is built once per run, with -race when the tests run with it, so
// that a data race in the daemon fails the test that met it. The MCP servers
// the daemon runs are almost always package fakeup's: a real server behaves,
// and the cases are about those that do not.
//
// testscript carries what reads as a session at a terminal; Go tests carry
// what needs raw protocol lines, process trees or clocks.
package integration
