// Package identity knows who is calling: which live harness process a session
// belongs to (WHO-1, WHO-2). It owns the tokens of the spawns, in memory alone.
// What a harness may do is not asked here: that is the config's to say.
//
// # Decisions
//
// A token belongs to one spawn, not to a name: a restarted harness has another
// one, and the old one ends with its process.
//
// The ancestors of a peer are read when its connection is accepted, while it is
// sure to be alive, and judged at each call: a process that descends from a
// harness does so for good, and a harness that has ended owns nothing.
//
// A process is known by its number and its start time. Numbers are handed out
// again, so each link of the way up is read twice.
package identity
