// Package adapter knows how each agent CLI is given one more MCP server when it
// is started: by flag, environment and files of the harness's own (SHP-5,
// WHO-4); and where a CLI keeps the servers of its own, and how it spells them.
// It owns the table of the CLIs; what a program is like is said here and
// nowhere else. It reads what its caller lets it read, and writes nothing; what belongs to root
// (owned.go) is the one thing it looks up.
//
// # Decisions
//
// Flags go before those of the user, where no prompt, subcommand or "--" can
// come between, and never change a word of theirs. A server named harness that
// the user has defined is theirs, and nothing is added then.
//
// JSON of the user is not decoded and encoded again: one member is put into the
// text, so that comments, order, number spelling and what only their CLI
// understands stay.
//
// A file, not a flag, wherever the CLI takes one: argv is seen by everybody on
// the machine. The token is in neither; a bridge finds it in its environment, or
// is known by its ancestors.
//
// Every CLI is told not to ask before it calls one of our tools, as
// far as it can be told for one server alone. What a harness may do is decided
// by the endpoint, and a supervised agent has nobody to ask.
//
// A server of a CLI's own is described as that CLI would start it here and now:
// which of two files counts, what is switched off, which words are variables.
// What becomes of it is not decided here.
//
// A CLI that cannot be wired is started all the same. The [Wiring] says why not,
// and what to paste.
package adapter
