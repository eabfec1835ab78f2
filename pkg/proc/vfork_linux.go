//go:build linux && (amd64 || arm64)

package proc

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fork returns in the parent only, once the child is its program or is dead.
// Until then the child borrows the memory of this process, and its thread stands
// still in the kernel. Nothing is copied, and no page of a large daemon has to be
// told apart from the child's afterwards, which costs more than the rest of a
// step's start.
//
// To the runtime it is a system call that blocks: others go on, the garbage
// collector included. All signals are blocked, so that no handler of Go's runs in
// the child, which gives them up before its program.
//
//go:noinline
//go:nosplit
//go:norace
//go:nocheckptr
func (b *burden) fork() (pid uintptr, errno syscall.Errno) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.all)), uintptr(unsafe.Pointer(&b.mask)), 8, 0, 0)
	b.flags |= unix.CLONE_VM | unix.CLONE_VFORK
	enterSyscall() // no branch until leaveSyscall: where coverage is counted, it is by calls
	pid, errno = vfork(b)
	leaveSyscall()
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.mask)), 0, 8, 0, 0)
	return pid, errno
}

// vfork is clone, with the child's calls in it: no code of Go's may run in the
// child, since that could be made to count, to watch memory or to grow its stack.
// It returns in the parent only.
//
//go:noescape
func vfork(b *burden) (pid uintptr, errno syscall.Errno)

//go:linkname enterSyscall runtime.entersyscallblock
func enterSyscall()

//go:linkname leaveSyscall runtime.exitsyscall
func leaveSyscall()
