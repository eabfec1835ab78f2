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

// become has the child become its program, and does not return. Nothing may be
// allocated here, no stack may grow, no lock be taken, and nothing of the Go
// runtime run: its other threads are not there. So all signals are blocked until
// their handlers are gone, and there are no calls but to the kernel.
//
//go:noinline
//go:nosplit
//go:norace
//go:nocheckptr
func (b *burden) become() {
	result, _, _ := syscall.RawSyscall6(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	b.pid = int32(result)
	for i := range b.calls {
		c := &b.calls[i]
		if c.rules&ofPrior != 0 {
			c.args[0] = result
		}
		var errno syscall.Errno
		result, _, errno = syscall.RawSyscall6(c.trap, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if c.rules&careless != 0 || errno == 0 && (c.rules&checked == 0 || result == c.want) {
			continue
		}
		if errno == 0 {
			errno = unix.ESRCH // nobody is there that it could be the child of
		}
		b.report[0], b.report[1] = int32(c.stage), int32(errno)
		syscall.RawSyscall6(unix.SYS_WRITE, uintptr(b.fault[1]), uintptr(unsafe.Pointer(&b.report)), unsafe.Sizeof(b.report), 0, 0, 0)
		break
	}
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
	}
}
