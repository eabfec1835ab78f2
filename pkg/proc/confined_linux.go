package proc

import (
	"encoding/binary"
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

// stageName says what failed.
func stageName(stage int32) string {
	return [...]string{
		"fork", "make namespaces", "begin a session", "raise the loopback interface", "set a limit", "enter its directory",
		"open its standard files", "hold it to its directories", "start",
	}[stage]
}

// customaryFiles is the soft limit of open files. Go raises its own to the hard
// one, which is more than programs that go through all of them can bear.
const customaryFiles = 1024

// signals is how many there are.
const signals = 64

// burden is all that the child needs. It is made before the fork, and on the heap:
// from then on nothing can be allocated, and nothing may move.
type burden struct {
	calls     []call
	lonely    bool
	flags     uintptr
	pidfd     int32  // -1 where the kernel gives none
	pid       int32  // the child's, which writes it here
	born      [2]int // on which the child says who it is
	mapped    [2]int // written to by the parent when the child's users are mapped
	fault     [2]int // closed by exec, or written to by the child
	report    [2]int32
	all, mask uint64
	handler   [8]uint64 // struct sigaction of a default, on any machine
	mute      byte
	loopback  [40]byte // struct ifreq
	limits    []unix.Rlimit
	path      *byte
	argv, env []*byte
}

// call is one system call of the child: what it gives up is a list of them. All
// words are of one size, for assembly.
type call struct {
	trap  uintptr
	args  [6]uintptr
	rules uintptr
	want  uintptr // the result, where it is checked
	stage uintptr
}

const (
	ofPrior  = 1 << iota // the first argument is the result of the call before
	careless             // whether it fails does not matter
	checked              // the result has to be the one that is wanted
)

// forkConfined starts spec on the calling thread, which must be locked. It does
// what syscall.ForkExec does, which knows neither limits nor Landlock, and calls
// born before the child runs one instruction of its program. Until the child is
// its program, the thread may stand still in fork: what the child waits for is
// done on another.
func forkConfined(spec Spec, argv []string, files []uintptr, m maternity) (child, error) {
	b, err := newBurden(spec, argv, files)
	if err != nil {
		return child{}, err
	}
	var released error
	var midwife sync.WaitGroup
	midwife.Go(func() { released = b.release(m) })
	syscall.ForkLock.Lock()
	pid, errno := b.fork()
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(b)
	unix.Close(b.mapped[0])
	unix.Close(b.born[1]) // where no child is, none is waited for
	unix.Close(b.fault[1])
	fault := os.NewFile(uintptr(b.fault[0]), "fault")
	defer fault.Close()
	midwife.Wait()
	if errno != 0 {
		return child{}, &Unconfined{stageName(stageFork), errno}
	}
	c := child{pid: int(pid)}
	if b.pidfd >= 0 && unix.SetNonblock(int(b.pidfd), true) == nil {
		c.pidfd = os.NewFile(uintptr(b.pidfd), "pidfd")
	}
	if released != nil {
		kill(c.pid)
		c.wait()
		c.reap()
		return child{}, &Unconfined{stageName(stageMap), released}
	}
	return c, b.outcome(c, fault)
}

func kill(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

func newBurden(spec Spec, argv []string, files []uintptr) (*burden, error) {
	c := spec.Confined
	b := &burden{lonely: c.NoNetwork, pidfd: -1, all: ^uint64(0), flags: uintptr(unix.SIGCHLD) | unix.CLONE_PIDFD}
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
	if err := b.pipes(); err != nil {
		return nil, err
	}
	if err := b.plan(c, files); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// plan lists what the child does once it is there.
func (b *burden) plan(c *Confined, files []uintptr) error {
	add := func(c call) { b.calls = append(b.calls, c) }
	add(call{stage: stageMap, trap: unix.SYS_WRITE, args: [6]uintptr{uintptr(b.born[1]), uintptr(unsafe.Pointer(&b.pid)), unsafe.Sizeof(b.pid)}})
	add(call{stage: stageMap, trap: unix.SYS_CLOSE, args: [6]uintptr{uintptr(b.mapped[1])}})
	add(call{stage: stageMap, trap: unix.SYS_READ, args: [6]uintptr{uintptr(b.mapped[0]), uintptr(unsafe.Pointer(&b.mute)), 1}, rules: checked, want: 1})
	add(call{stage: stageSession, trap: unix.SYS_SETSID})
	add(call{stage: stageSession, trap: unix.SYS_PRCTL, args: [6]uintptr{unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)}})
	add(call{stage: stageSession, trap: unix.SYS_GETPPID, rules: checked, want: uintptr(os.Getpid())})
	if b.lonely {
		add(call{stage: stageLoopback, trap: unix.SYS_SOCKET, args: [6]uintptr{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}})
		add(call{stage: stageLoopback, trap: unix.SYS_IOCTL, args: [6]uintptr{0, unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&b.loopback))}, rules: ofPrior})
	}
	if err := b.limit(c.Limits); err != nil {
		return err
	}
	add(call{stage: stageDir, trap: unix.SYS_FCHDIR, args: [6]uintptr{c.Dir.Fd()}})
	for i, fd := range files {
		add(call{stage: stageFiles, trap: unix.SYS_DUP3, args: [6]uintptr{fd, uintptr(i)}})
	}
	add(call{stage: stageLandlock, trap: unix.SYS_PRCTL, args: [6]uintptr{unix.PR_SET_NO_NEW_PRIVS, 1}})
	if c.Ruleset != nil {
		add(call{stage: stageLandlock, trap: unix.SYS_LANDLOCK_RESTRICT_SELF, args: [6]uintptr{c.Ruleset.Fd()}})
	}
	for i := range uintptr(signals) {
		add(call{trap: unix.SYS_RT_SIGACTION, args: [6]uintptr{i + 1, uintptr(unsafe.Pointer(&b.handler)), 0, 8}, rules: careless})
	}
	add(call{trap: unix.SYS_RT_SIGPROCMASK, args: [6]uintptr{unix.SIG_SETMASK, uintptr(unsafe.Pointer(&b.mask)), 0, 8}, rules: careless})
	add(call{stage: stageExec, trap: unix.SYS_EXECVE, args: [6]uintptr{uintptr(unsafe.Pointer(b.path)), uintptr(unsafe.Pointer(&b.argv[0])), uintptr(unsafe.Pointer(&b.env[0]))}})
	return nil
}

func (b *burden) limit(limits []Limit) error {
	var open unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &open); err != nil {
		return err
	}
	open.Cur = min(open.Max, customaryFiles)
	resources := []uintptr{unix.RLIMIT_NOFILE}
	b.limits = append(make([]unix.Rlimit, 0, 1+len(limits)), open)
	for _, l := range limits {
		resources = append(resources, uintptr(l.Resource))
		b.limits = append(b.limits, unix.Rlimit{Cur: l.Value, Max: l.Value})
	}
	for i, resource := range resources {
		b.calls = append(b.calls, call{stage: stageLimit, trap: unix.SYS_PRLIMIT64, args: [6]uintptr{0, resource, uintptr(unsafe.Pointer(&b.limits[i]))}})
	}
	return nil
}

func (b *burden) pipes() error {
	for i, p := range b.pairs() {
		flags := unix.O_CLOEXEC
		if p == &b.born {
			flags |= unix.O_NONBLOCK // waited for without a thread
		}
		if err := unix.Pipe2(p[:], flags); err != nil {
			for _, made := range b.pairs()[:i] {
				unix.Close(made[0])
				unix.Close(made[1])
			}
			return err
		}
	}
	return nil
}

func (b *burden) pairs() []*[2]int { return []*[2]int{&b.mapped, &b.fault, &b.born} }

func (b *burden) close() {
	for _, p := range b.pairs() {
		unix.Close(p[0])
		unix.Close(p[1])
	}
}

// release waits for the child and has it go on, once it is known, and users and
// groups have their numbers in its namespace. Whoever forks is held up until then.
func (b *burden) release(m maternity) error {
	defer unix.Close(b.mapped[1])
	born := os.NewFile(uintptr(b.born[0]), "born")
	defer born.Close()
	var name [4]byte
	if _, err := io.ReadFull(born, name[:]); err != nil {
		return err
	}
	pid := int(binary.NativeEndian.Uint32(name[:]))
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
func (b *burden) outcome(c child, fault *os.File) error {
	var said [2]int32
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&said)), unsafe.Sizeof(b.report))
	_, err := io.ReadFull(fault, raw)
	if errors.Is(err, io.EOF) {
		return nil
	}
	kill(c.pid)
	c.wait()
	c.reap()
	switch {
	case err != nil:
		return &Unconfined{stageName(stageFork), err}
	case said[0] == stageExec:
		return syscall.Errno(said[1])
	}
	return &Unconfined{stageName(said[0]), syscall.Errno(said[1])}
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
