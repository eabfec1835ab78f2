// Package durable owns how a state file gets onto the disk: as a whole, private
// and there for good, or not at all (FIL-1, FIL-3); and a file that is the user's
// own, which is as private as they like.
// It never decides what is in a file or whether that can be used, and it logs
// nothing.
//
// # Decisions
//
//   - google/renameio writes a file beside the one it replaces. Without a
//     directory of its own it would first try whether /tmp would do, and a state
//     file has no business there.
//   - The directory is synced after the rename: one that is lost in a power cut
//     is a state file that went back in time.
//   - The record of process groups (package proc) is no file of this kind: it is
//     written at every start of a process, which must not wait for the disk.
package durable
