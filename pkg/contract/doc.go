// Package contract runs work that must hold, judges what came of it and has the
// verdict signed (CON-1 to CON-3).
//
// It owns the schema of contract files, the decision what a step's end means,
// and sessions: which step is next, what is recorded before it begins, and how
// one goes on after a crash. What it starts has a process group, limits and an
// environment of its own, and leaves nothing behind.
//
// It never decides who may run which contract, and keeps no evidence beside the
// ledger and the session's directory in it.
//
// # Decisions
//
//   - A step is confined by its own process between fork and exec (package proc):
//     Landlock and limits bind whoever asks for them, so the runner cannot do it on
//     the child's behalf, and a program in between would cost a start of itself for
//     each step.
//   - landlock-lsm/go-landlock writes the rules. From ABI 3 on, which covers
//     truncation, the verdict says "landlock"; anything less would be a claim that
//     a step can break. Networks are left by a namespace, not by Landlock, which
//     knows only some protocols. Work that is a command keeps the network: building
//     often needs it. Checks do not.
//   - What a step may read is listed, not what it may not: the system's
//     directories, a few files of /etc, the contract's directory, and the
//     directories of the PATH that it lets through.
//   - Paths are opened as those of evidence are, without following links, and a step's working
//     directory is handed over as the open file that was checked: neither the work
//     nor anybody else can put a link in its place in between.
//   - A session runs in the process that was asked for it, under a lock that the
//     kernel lets go of when that dies. So "interrupted" is what is left: no
//     verdict, and nobody who holds the lock. Others who ask for the session follow
//     its ledger.
//   - Limits are those of setrlimit, for each process: the kernel has no other
//     without privileges.
//   - A step that wrote more than max_output is an error and not a failure: what
//     it wrote cannot be judged.
package contract
