// Package run keeps what was run: every spawn of a harness has a directory
// runs/<id> in the state directory, with what its terminal printed and how it
// ended (EVI-1, EVI-5). It never starts a process.
//
// # Decisions
//
// An id begins with the time, so that ids sort as runs began, and names files:
// one that was made up by somebody else is refused before it meets a path.
//
// The output is cut at 4 MiB, with a note of that: it is evidence of how a run
// went, while the rotated log has the newest of it. Whoever prints never waits
// for the disk: it is written to by a goroutine of the run's own, and what waits
// for that is no more than what is kept in all.
package run
