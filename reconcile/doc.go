// Package reconcile compares what should run with what runs, lists the steps
// from the one to the other, and does them.
//
// All of it but the loop is a pure core: [Diff] subtracts two values with a
// function that can do no harm (SHP-1), and the resulting [Plan] is what a dry
// run prints, what the log says and what the tests compare. The loop is the one
// goroutine that owns desired state (SHP-2).
//
// It never starts a process, reads a prompt or speaks a protocol: the rooms
// that do are handed to the loop as functions.
//
// # Decisions
//
// A plan has one step for each name, not one for each of what it takes. When a
// step is due around the one publish (start < publish < stop, and the other
// orders of HOT-4) follows from its operation; a plan is sorted by that, and cut
// with [Plan.BeforePublish] and [Plan.AfterPublish].
//
// Equality is written out field by field and answers "same, live or respawn"
// with the keys that differ, because both the operation and its reason follow
// from that. Tests walk the structs by reflection and fail when a field is
// neither compared nor excluded with a reason.
//
// The digest of a desired state is written by reflection instead: there a field
// that was forgotten could not be found by comparing, so none can be forgotten.
//
// Plans that overtake each other are published together: between the two the
// loop could only show half of one or of the other. How long they can put each
// other off is bounded. A pass plans from what runs, not from what it remembers
// to have done, so the loop can be started again wherever it met a panic.
package reconcile
