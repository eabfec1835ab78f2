// Package upstream keeps MCP servers running like their definitions and passes
// calls to them.
//
// It owns the processes of the upstreams from spawn to the last of their group
// (LIF-1 to LIF-8), the handshake with each, what each offers, and every call
// between the moment an agent's line is handed to [Unit.Relay] and its one
// answer. It never reads a config file, decides what should run, names a tool
// for agents, or decodes what it relays.
//
// # How it is built
//
// A [Unit] is a machine and a shell around it. The machine (machine.go,
// seat.go) is pure: words and results go in with the time, effects come out.
// The shell (unit.go) changes it under one lock, shows and routes accordingly
// before the lock is released, and leaves the effects to one goroutine, which
// does them in order. A life (life.go) is one process: it reports what
// happened and is told when to leave. The board (board.go) knows where calls
// go and which are under way; the relay path touches nothing else.
//
// # Decisions
//
// suture runs one service for each unit and is the net for bugs, no more: its
// failure count is per supervisor, so one flapping upstream would hold its
// healthy neighbours back. The restart rule is restart.Policy, per unit.
//
// A word takes effect on what [Pool.Snapshot] shows before it returns, though
// nothing was done yet: the reconciler compares desired and observed state and
// would otherwise order everything twice. That is why the machine is under a
// lock, and not behind a channel.
//
// No client library: the handshake and the paged lists are a few raw lines,
// while a typed relay loses schema keywords, unknown fields, error codes and
// large numbers, and writes to a child that does not read under a lock.
//
// Requests are numbered by one table for all processes of a unit. Routing and
// registering are one critical section, so a swap cannot lose a call between
// two processes and needs no second try: nothing is ever sent twice.
//
// What sessions have asked for that outlives a process (keep.go: subscriptions,
// the level of the log) is asked again of every process that takes over, at the
// moment when calls begin to go to it. Answers to that are of no interest.
//
// A question of a process to its client (ask.go) is put to the only session with
// a call under way there, or refused in words: it is never put to two, and never
// to one that merely might be meant. A shared upstream is told that it may ask
// for sampling and elicitation, and not for roots: those are asked for at the
// start, when it works for nobody.
//
// With isolation = "session" (private.go) the unit of the pool has a process only
// to learn what there is to list. Each session that calls is given a unit of its
// own, with the same machine; the pool's unit knows them, passes definitions and
// stops on, and is not over before they are. They share its log. A changed
// definition starts beside the old one, as in any swap, and takes over when the
// session has nothing under way. Once such a unit was closed, or has ended with
// its definition, no word starts it again: an edit that comes while its process
// is on its way out must not leave one that belongs to nobody.
//
// A process that accepts nothing for 30 seconds while data waits for it is
// ended like one that crashed (MCP-6): what it was sent is torn, so nothing
// else could follow. A single batch over the limit is only refused.
//
// Locks are taken in this order: the pool's, a unit's, its board's, a session's.
// An owner is told of progress under the board's lock, so a session must not
// hold its own when it calls a unit.
//
// A command is looked up in the daemon's PATH, not in that of its definition:
// the message that it was not found names the PATH searched, and values of a
// definition or an env_file are in no message.
package upstream
