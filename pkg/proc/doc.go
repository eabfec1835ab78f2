// Package proc starts process groups, on pipes or on a terminal, and can always
// end them again.
// It owns the processes it started, whatever became of them: their groups,
// descendants that left the group, orphans that were re-parented to this
// process, and the record by which a successor finds what a killed daemon left
// behind (LIF-3, LIF-4). It also keeps what they say on standard error in logs
// of bounded size (LIF-7).
// It never decides whether or when something is started: that is the restart
// package and the rooms above. And it never signals a process by a number that
// may have been handed out again.
//
// # Decisions
//
//   - A child gets a session of its own (Setsid), not only a process group. A
//     session is entered by birth only, so whatever is in it descends from the
//     child, and nothing that does can ever be in ours: that is how adopted
//     orphans are told from the children of others in this process. The child
//     has no controlling terminal but one of its own, so it cannot ask for a password
//     on the one the daemon was started from.
//   - The exited child stays a zombie until nothing else of it is left. A
//     zombie holds its number, and with it the numbers of its group and
//     session, so that a signal to the group cannot hit a stranger.
//   - PDEATHSIG is bound to the thread that forked; one locked goroutine forks
//     for all. It is not on the main thread: the kernel re-parents orphans to
//     that one, so its list of children is the list of orphans. What a child
//     makes its sibling (CLONE_PARENT) is in the list of the thread that forks.
//   - That an exited child left nothing is read from these two lists, which
//     costs the same on any machine; the process table is read where they have
//     somebody who was not started here.
//   - A confined child is made by a clone of our own, since syscall.ForkExec knows
//     neither limits nor Landlock, and copies the process where it makes a user
//     namespace: the page faults of that cost more than all else in the start of a
//     step. Ours lets the child borrow the memory (vfork) and go through a list of
//     system calls that is made before; somebody else maps its users meanwhile.
//     That takes a page of assembly, since no code of Go's can run in such a child:
//     with the race detector or coverage it would take locks that are not its own.
//     To the runtime it is a system call that blocks. Where there is no assembly,
//     the process is copied.
//   - Exits are waited for with a pidfd in the runtime's poller: no thread per
//     child, no polling, and never a wait for "any child", which would steal
//     those of os/exec.
//   - Descendants are found by looking at the process table, soon after a
//     start and then every few seconds, and at every step of a stop. An orphan
//     that daemonised itself between two looks, and shed its pipes or terminal,
//     belongs to one of the groups that lived at its birth, and is ended with
//     the last of them.
//   - The record is replaced before Start returns, which is before the child
//     is told anything, and fsynced behind its back (so not with renameio, which
//     does both at once). It names processes by number, start time, boot and
//     pid namespace.
//   - creack/pty is used for terminals: opening one is a handful of ioctls that
//     differ between systems. It leaves them blocking, so nothing else of it is
//     used, and our end is made anew.
//   - A terminal's number tells whose an orphan is, as the inodes of pipes do,
//     but is not recorded: soon after, it is another's.
//   - golang.org/x/sys/unix is used for what syscall lacks: pidfd, waitid,
//     prctl, pipe sizes.
//   - Linux alone: what other systems offer (process groups) ends neither a
//     daemon's orphans nor what left its group, and LIF-3 wants both.
package proc
