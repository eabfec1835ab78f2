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
// collector included. From there to leaveSyscall no stack may grow. The child
// gets no further than become, whose frames are below this one.
//
//go:noinline
//go:nosplit
//go:norace
//go:nocheckptr
func (b *burden) fork() (pid uintptr, errno syscall.Errno) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.all)), uintptr(unsafe.Pointer(&b.mask)), 8, 0, 0)
	enterSyscall()
	pid, errno = cloneVM(b.flags|unix.CLONE_VM|unix.CLONE_VFORK, &b.pidfd)
	if errno == 0 && pid == 0 {
		b.become()
	}
	leaveSyscall()
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.mask)), 0, 8, 0, 0)
	return pid, errno
}

// cloneVM is clone on the stack of its caller. What the child leaves there, the
// parent does not read: not even where to return to.
//
//go:noescape
func cloneVM(flags uintptr, pidfd *int32) (pid uintptr, errno syscall.Errno)

//go:linkname enterSyscall runtime.entersyscallblock
func enterSyscall()

//go:linkname leaveSyscall runtime.exitsyscall
func leaveSyscall()
