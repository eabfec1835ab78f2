//go:build linux && !amd64 && !arm64

package proc

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fork returns in the parent only, at once: the child has a copy of this process,
// and of its threads only this one.
//
//go:noinline
//go:norace
//go:nocheckptr
func (b *burden) fork() (pid uintptr, errno syscall.Errno) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.all)), uintptr(unsafe.Pointer(&b.mask)), 8, 0, 0)
	if runtime.GOARCH == "s390x" {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, 0, b.flags, uintptr(unsafe.Pointer(&b.pidfd)), 0, 0, 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, b.flags, 0, uintptr(unsafe.Pointer(&b.pidfd)), 0, 0, 0)
	}
	if errno == 0 && pid == 0 {
		b.become()
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.mask)), 0, 8, 0, 0)
	return pid, errno
}
