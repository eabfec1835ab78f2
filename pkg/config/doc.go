// Package config turns the bytes of one harness.toml into a valid [Config], or
// into every fault it has, each with its line.
//
// It owns the schema: which tables and keys there are, what they may hold,
// what they default to and how `~`, `${VAR}` and relative paths are resolved.
// It also reads the dotenv format of env_file, because that is the other half
// of a definition's environment.
//
// It never touches a file, an environment variable or a clock: bytes and a
// lookup function come in as values, so a load is a pure function of its
// arguments and can be repeated, fuzzed and run in parallel.
//
// # Decisions
//
// koanf loads, its Unmarshal is not used. Unmarshal folds case and converts
// types (5 becomes "5", "one" becomes ["one"], restart_delay = 2 becomes two
// nanoseconds) and its errors have no lines. The tree it loaded is walked
// against a table of keys instead, so that a key is spelled exactly, a type is
// exactly the one asked for, and all faults of a file come at once.
//
// Lines come from a second reading of the same bytes with go-toml's unstable
// parser, the only public one that keeps positions. Its API may change, so it
// is used in scan.go and recover.go alone.
//
// A syntax error does not end a load. The broken expression is blanked out and
// reading goes on behind it, because a user who made two mistakes wants to hear
// of both. What could be a mere consequence of a syntax error (a missing cmd in
// the same table, a profile member that is declared in the torn part) is not
// reported beside it.
//
// Lists whose order has no meaning (roots, mcp_allow, mcp, env_pass, members)
// are sorted and freed of duplicates at load, so that reordering them is no
// change to anybody downstream.
package config
