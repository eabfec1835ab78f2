// Package run keeps what was run: every spawn of a harness has a directory
// runs/<id> in the state directory, with what it was launched as, what came of
// it, and how that can be checked (EVI-1 to EVI-3, EVI-5). It also keeps what was
// asked for under an idempotency key (MUT-1). It never starts a process.
//
// # Decisions
//
// An id begins with the time, so that ids sort as runs began, and names files:
// one that was made up by somebody else is refused before it meets a path.
//
// What is sealed before a process starts is synced at once and together: it is
// on the disk when Begin returns, in the time of one write to it. What is shown
// of a run is a projection and never synced.
//
// Whoever reads a run verifies all of it. The result is kept, with what every
// file was then down to the time of its last change, which nobody can set: as
// long as that is so, nothing is read again.
//
// A message has a line in a log, with its text, and a receipt, without. The line
// is written first: one without a receipt was never answered for.
//
// The output is cut at 4 MiB, and that is noted: it is evidence of how a run
// went, while the rotated log has the newest of it. Whoever prints never waits
// for the disk: it is written to by a goroutine of the run's own, and what waits
// for that is no more than what is kept in all.
//
// A key has a record of what is about to be done, under which name, and one of
// what came of it. A daemon that ended in between leaves the name: the next one
// looks for what has it before it does anything.
package run
