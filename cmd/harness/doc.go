// Command harness runs agent CLIs' MCP servers once, for all of them, and
// follows every edit of its files while it runs.
//
// It turns argv into one call. It owns exit codes, tables and words to people;
// everything else is a thin client over the daemon's socket, but for `daemon`,
// which is the daemon, and for what needs none: validate, init, demo, help.
//
// # Decisions
//
// spf13/cobra is the command tree: there are many verbs, and completion and
// help come from the same tree. There are no package-level commands and no
// init: the tree is built by newRoot from what it is given, so that a test can
// build another. `harness mcp` is decided before the tree is built: an agent
// starts one for each of its sessions and waits for it (PRF-3).
package main
