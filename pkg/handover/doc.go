// Package handover is how the daemon comes to read an agent's stdin and write
// its stdout without a bridge in between, and without losing, doubling or
// breaking a line when it is killed.
//
// It owns the layout of the memory that a bridge and the daemon share for one
// session ([Table], [Recover]), and the two ends in it ([Intake], [Outlet]).
// It never knows what a line means, and never waits for anybody but the agent.
//
// # Decisions
//
// A process can be killed between any two instructions, and so between a read
// or a write and the note of it. Output is therefore written to the memory
// first, counted there, and sent with sendfile(2), whose offset is in the
// memory too: the kernel stores how far it came before the call returns. Input
// is read into the memory, where everything behind what is counted is zero;
// what was read and not counted is found by not being zero, since no line of
// JSON holds a NUL.
//
// A request is noted before its line counts as consumed, and is consumed before
// anything is done about it. Where its answer ends in the output is noted before
// the output counts as published. So what has no answer, what was never looked
// at, and what must not be asked again are told apart at every point.
//
// Positions are offsets in a sparse file that only grow: nothing is written
// twice in one place, so what a pipe still refers to is never changed. What was
// consumed, and what the agent has read, is punched out by the page.
//
// The daemon writes this memory and does not believe it: what it needs it keeps
// to itself, and a line is copied out before it is looked at. The file is sealed
// against shrinking, and an access that fails nevertheless ends one session.
package handover
