package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a confined child does before it becomes its program, in this order.
const (
	stageFork = iota
	stageMap
	stageSession
	stageLoopback
	stageLimit
	stageDir
	stageFiles
	stageLandlock
	stageExec
)

// stages name what failed.
var stages = [...]string{
	"fork", "make namespaces", "begin a session", "raise the loopback interface", "set a limit", "enter its directory",
	"open its standard files", "hold it to its directories", "start",
}

// customaryFiles is the soft limit of open files. Go raises its own to the hard
// one, which is more than programs that go through all of them can bear.
const customaryFiles = 1024

// burden is all that the child needs. It is made before the fork: from then on
// nothing can be allocated.
type burden struct {
	path      *byte
	argv, env []*byte
	files     [3]uintptr
	dir       uintptr
	ruleset   uintptr
	landlock  bool
	lonely    bool
	limits    []burdenLimit
	loopback  [40]byte // struct ifreq
	flags     uintptr
	parent    uintptr
	pidfd     int32  // -1 where the kernel gives none
	mapped    [2]int // written to by the parent when the child's users are mapped
	fault     [2]int // closed by exec, or written to by the child
	report    [2]int32
	all, mask uint64
	handler   [8]uint64 // struct sigaction of a default, on any machine
	mute      byte
}

type burdenLimit struct {
	resource uintptr
	values   unix.Rlimit
}

// forkConfined starts spec on the calling thread, which must be locked. It does
// what syscall.ForkExec does, which knows neither limits nor Landlock, and calls
// born before the child runs one instruction of its program.
func forkConfined(spec Spec, argv []string, files []uintptr, m maternity) (child, error) {
	b, err := newBurden(spec, argv, files)
	if err != nil {
		return child{}, err
	}
	syscall.ForkLock.Lock()
	err = b.pipes()
	if err != nil {
		syscall.ForkLock.Unlock()
		return child{}, err
	}
	pid, errno := b.fork()
	syscall.ForkLock.Unlock()
	unix.Close(b.mapped[0])
	unix.Close(b.fault[1])
	fault := os.NewFile(uintptr(b.fault[0]), "fault")
	defer fault.Close()
	if errno != 0 {
		unix.Close(b.mapped[1])
		return child{}, &Unconfined{stages[stageFork], errno}
	}
	c := child{pid: int(pid)}
	if b.pidfd >= 0 && unix.SetNonblock(int(b.pidfd), true) == nil {
		c.pidfd = os.NewFile(uintptr(b.pidfd), "pidfd")
	}
	if err := b.release(c.pid, m); err != nil {
		kill(c.pid)
		c.wait()
		c.reap()
		return child{}, &Unconfined{stages[stageMap], err}
	}
	return c, b.outcome(c, spec, fault)
}

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

func newBurden(spec Spec, argv []string, files []uintptr) (*burden, error) {
	c := spec.Confined
	b := &burden{lonely: c.NoNetwork, parent: uintptr(os.Getpid()), pidfd: -1, all: ^uint64(0), flags: uintptr(unix.SIGCHLD) | unix.CLONE_PIDFD}
	if b.lonely {
		b.flags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNET
		copy(b.loopback[:], "lo")
		*(*uint16)(unsafe.Pointer(&b.loopback[unix.IFNAMSIZ])) = unix.IFF_UP | unix.IFF_RUNNING
	}
	var err error
	if b.path, err = syscall.BytePtrFromString(spec.Path); err != nil {
		return nil, err
	}
	if b.argv, err = syscall.SlicePtrFromStrings(argv); err != nil {
		return nil, err
	}
	if b.env, err = syscall.SlicePtrFromStrings(spec.Env); err != nil {
		return nil, err
	}
	copy(b.files[:], files)
	b.dir = c.Dir.Fd()
	if c.Ruleset != nil {
		b.ruleset, b.landlock = c.Ruleset.Fd(), true
	}
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err != nil {
		return nil, err
	}
	open.Cur = min(open.Max, customaryFiles)
	b.limits = append(b.limits, burdenLimit{unix.RLIMIT_NOFILE, open})
	for _, l := range c.Limits {
		b.limits = append(b.limits, burdenLimit{uintptr(l.Resource), unix.Rlimit{Cur: l.Value, Max: l.Value}})
	}
	return b, nil
}

func (b *burden) pipes() error {
	if err := unix.Pipe2(b.mapped[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	if err := unix.Pipe2(b.fault[:], unix.O_CLOEXEC); err != nil {
		unix.Close(b.mapped[0])
		unix.Close(b.mapped[1])
		return err
	}
	return nil
}

// fork returns in the parent only. In the child nothing may be allocated, no
// stack may grow, no lock be taken, and nothing of the Go runtime run: its other
// threads are not there. So all signals are blocked until their handlers are
// gone, and there are no calls but to the kernel.
//
//go:noinline
//go:norace
//go:nocheckptr
func (b *burden) fork() (pid uintptr, errno syscall.Errno) {
	var n, i uintptr
	stage := int32(stageMap)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.all)), uintptr(unsafe.Pointer(&b.mask)), 8, 0, 0)
	if runtime.GOARCH == "s390x" {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, 0, b.flags, uintptr(unsafe.Pointer(&b.pidfd)), 0, 0, 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, b.flags, 0, uintptr(unsafe.Pointer(&b.pidfd)), 0, 0, 0)
	}
	if errno != 0 || pid != 0 {
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.mask)), 0, 8, 0, 0)
		return pid, errno
	}

	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(b.mapped[1]), 0, 0)
	if n, _, errno = syscall.RawSyscall(unix.SYS_READ, uintptr(b.mapped[0]), uintptr(unsafe.Pointer(&b.mute)), 1); errno != 0 || n != 1 {
		goto failed
	}
	stage = stageSession
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0); errno != 0 {
		goto failed
	}
	if n, _, _ = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); n != b.parent {
		errno = unix.ESRCH
		goto failed
	}
	stage = stageLoopback
	if b.lonely {
		if n, _, errno = syscall.RawSyscall(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); errno != 0 {
			goto failed
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, n, unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&b.loopback))); errno != 0 {
			goto failed
		}
	}
	stage = stageLimit
	for i = 0; i < uintptr(len(b.limits)); i++ {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, b.limits[i].resource, uintptr(unsafe.Pointer(&b.limits[i].values)), 0, 0, 0); errno != 0 {
			goto failed
		}
	}
	stage = stageDir
	if _, _, errno = syscall.RawSyscall(unix.SYS_FCHDIR, b.dir, 0, 0); errno != 0 {
		goto failed
	}
	stage = stageFiles
	for i = 0; i < uintptr(len(b.files)); i++ {
		if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, b.files[i], i, 0); errno != 0 {
			goto failed
		}
	}
	stage = stageLandlock
	if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		goto failed
	}
	if b.landlock {
		if _, _, errno = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, b.ruleset, 0, 0); errno != 0 {
			goto failed
		}
	}
	stage = stageExec
	for i = 1; i <= 64; i++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, i, uintptr(unsafe.Pointer(&b.handler)), 0, 8, 0, 0)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.mask)), 0, 8, 0, 0)
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(b.path)), uintptr(unsafe.Pointer(&b.argv[0])), uintptr(unsafe.Pointer(&b.env[0])))

failed:
	b.report[0], b.report[1] = stage, int32(errno)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(b.fault[1]), uintptr(unsafe.Pointer(&b.report)), unsafe.Sizeof(b.report))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
	}
}

// release has a child go on, once it is known, and users and groups have their
// numbers in its namespace.
func (b *burden) release(pid int, m maternity) error {
	defer unix.Close(b.mapped[1])
	var known sync.WaitGroup
	known.Go(func() { m.born(pid) })
	var err error
	if b.lonely {
		err = m.users().give(pid)
	}
	known.Wait()
	if err == nil {
		_, err = unix.Write(b.mapped[1], []byte{1})
	}
	return err
}

// outcome waits until the child became its program, and says why where not.
func (b *burden) outcome(c child, spec Spec, fault *os.File) error {
	var said [2]int32
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&said)), unsafe.Sizeof(said))
	_, err := io.ReadFull(fault, raw)
	if errors.Is(err, io.EOF) {
		return nil
	}
	kill(c.pid)
	c.wait()
	c.reap()
	switch {
	case err != nil:
		return &Unconfined{stages[stageFork], err}
	case said[0] == stageExec:
		return syscall.Errno(said[1])
	}
	return &Unconfined{stages[said[0]], syscall.Errno(said[1])}
}

// userMaps give users and groups the same numbers in a namespace as here: root
// all that it has, anybody else itself alone, which is what the kernel allows
// without privileges.
type userMaps struct {
	uids, gids string
	alone      bool
}

// readUserMaps makes those of this process, which do not change while it lives.
func readUserMaps() userMaps {
	if os.Geteuid() == 0 {
		if uids, gids := sameNumbers("/proc/self/uid_map"), sameNumbers("/proc/self/gid_map"); uids != "" && gids != "" {
			return userMaps{uids, gids, false}
		}
	}
	return userMaps{fmt.Sprintf("%d %[1]d 1\n", os.Geteuid()), fmt.Sprintf("%d %[1]d 1\n", os.Getegid()), true}
}

// give has them in force in the namespace of pid.
func (m userMaps) give(pid int) error {
	write := func(name, text string) error {
		return os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, name), []byte(text), 0)
	}
	if m.alone { // without privileges, groups may be mapped by who cannot leave any
		if err := write("setgroups", "deny"); err != nil {
			return err
		}
	}
	if err := write("gid_map", m.gids); err != nil {
		return err
	}
	return write("uid_map", m.uids)
}

// sameNumbers maps all that is mapped here onto itself; "" where that cannot be
// read.
func sameNumbers(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var all strings.Builder
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line) // here, outside, how many
		if len(fields) != 3 {
			return ""
		}
		fmt.Fprintf(&all, "%s %[1]s %s\n", fields[0], fields[2])
	}
	return all.String()
}
