// Package daemon builds every room of harness, adapts their types to each
// other, runs them as one supervised tree and stops them in order.
//
// It owns the state directory: the lock that makes a daemon the only one, the
// last good text of each config file, and the generation and intents that
// survive a restart. It never decides what should run (package reconcile does)
// and never talks to a terminal.
//
// # Decisions
//
// thejerf/suture/v4 is the tree and the barrier against panics. Cancelling its
// root would stop everything at the same instant, so there is a supervisor for
// each stage, and the stages are stopped one after the other: the front first,
// so that no new work comes in, then the engine, so that nothing restarts what
// is being stopped, then the upstreams. Each may take what stop_grace allows. A
// service that panics is started again; one that cannot be kept running ends
// the daemon with an error, since one that no longer sees edits looks healthy.
//
// State files are written by a goroutine of their own: a sync takes as long as
// the disk likes, and no publish waits for it. Who is answered "stopped" may
// rely on it, so an order is answered once it is on the disk.
//
// The socket answers after the first publish. Until then there would be an empty
// list to see, and agents pay for every change of it; where the kept lists say
// it all, that is at once.
//
// gofrs/flock holds the lock: a lock of the kernel's is gone with its holder,
// which a file with a pid in it is not.
package daemon
