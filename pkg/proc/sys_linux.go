package proc

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// prepareProcess makes orphans among the descendants of this process its
// children, and keeps descriptors that it inherited itself from its own.
func prepareProcess() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	// Kernels before 5.11 do not know the flag. Our own descriptors are
	// close-on-exec from birth; this is about those a careless parent left.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	return nil
}

// thread is the calling thread's number; that of the main one is the process's.
func thread() int { return unix.Gettid() }

// child is the direct child of a group: a number that is ours until reap.
type child struct {
	pid   int
	pidfd *os.File // nil before Linux 5.3
}

// fork starts spec on the calling thread.
func fork(spec Spec, argv []string, files []uintptr, m maternity) (child, error) {
	if spec.Confined != nil {
		return forkConfined(spec, argv, files, m)
	}
	pidfd := -1
	sys := &syscall.SysProcAttr{
		Setsid: true, Setctty: spec.TTY != nil, Ctty: 0, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd,
	}
	pid, err := syscall.ForkExec(spec.Path, argv, &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: files, Sys: sys})
	if err != nil {
		return child{}, err
	}
	c := child{pid: pid}
	// Non-blocking, it is waited for by the runtime's poller and not by a
	// thread per child.
	if pidfd >= 0 && unix.SetNonblock(pidfd, true) == nil {
		c.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	return c, nil
}

// siginfo is the part of siginfo_t that waitid fills in.
type siginfo struct {
	signo, errno, code int32
	_                  [is64bit]int32
	pid                int32
	uid                uint32
	status             int32
	_                  [128 - (6+is64bit)*4]byte
}

const (
	is64bit   = ^uint(0) >> 63
	cldExited = 1 // CLD_EXITED; everything else waited for here is a signal
)

// wait waits until the child has exited, and leaves it a zombie: until reap,
// its number names this child, its group and its session, and nothing else.
func (c child) wait() Exit {
	var info siginfo
	err := c.poll(&info)
	switch {
	case err != nil || info.pid == 0:
		return Exit{Code: -1} // somebody else waited for it
	case info.code == cldExited:
		return Exit{Code: int(info.status)}
	default:
		return Exit{Code: -1, Signal: unix.SignalName(syscall.Signal(info.status))}
	}
}

func (c child) poll(info *siginfo) error {
	if c.pidfd == nil {
		return waitid(unix.P_PID, c.pid, info, unix.WEXITED|unix.WNOWAIT)
	}
	conn, err := c.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		failed = waitid(unix.P_PIDFD, int(fd), info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG)
		return failed != nil || info.pid != 0
	})
	return errors.Join(err, failed)
}

// reap ends the zombie. From now on the number may name anything.
func (c child) reap() {
	_ = waitid(unix.P_PID, c.pid, &siginfo{}, unix.WEXITED|unix.WNOHANG)
	if c.pidfd != nil {
		c.pidfd.Close()
	}
}

func waitid(kind, id int, info *siginfo, options int) error {
	for {
		err := unix.Waitid(kind, id, (*unix.Siginfo)(unsafe.Pointer(info)), options, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// reapOrphan waits for one zombie that was re-parented to this process. It
// names the one: waiting for any child would steal those of others.
func reapOrphan(pid int) {
	_ = waitid(unix.P_PID, pid, &siginfo{}, unix.WEXITED|unix.WNOHANG)
}

// signalGroup signals a process group, whose number must be held by a child
// that is not reaped.
func signalGroup(pgid int, sig syscall.Signal) { _ = syscall.Kill(-pgid, sig) }

// signalProcess signals the very process id, and nobody who got its number
// since: the descriptor is opened first, so that what is then found to be id
// is what the descriptor refers to.
func signalProcess(id ident, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(id.PID, 0)
	if err != nil {
		fd = -1
	} else {
		defer unix.Close(fd)
	}
	if e, readErr := readEntry(id.PID); readErr != nil || e.ident != id {
		return
	}
	switch {
	case fd >= 0:
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	case errors.Is(err, unix.ENOSYS): // before Linux 5.3
		_ = syscall.Kill(id.PID, sig)
	}
}

// maxPasses bounds how often one table lists the processes: enough for any chain of
// processes that each fork the next and end.
const maxPasses = 10

// readTable reads /proc.
//
// The kernel lists who is there before anybody is read. One that forks after it
// was listed, and is gone before it is read, would be the parent of somebody who
// is in no table: so as long as some of those just listed are found dead, they are
// listed again, and whoever is new is read too.
func readTable() (table, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	t, known := table{}, map[string]bool{}
	for pass, dead := 0, true; dead && pass < maxPasses; pass++ {
		if dead, err = readNew(dir, t, known); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// readNew reads those that are not known, and reports whether any of them is dead.
func readNew(dir *os.File, t table, known map[string]bool) (dead bool, err error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || known[name] {
			continue
		}
		known[name] = true
		e, err := readEntry(pid)
		switch {
		case err == nil:
			t[pid] = e
			dead = dead || e.dead
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE):
			return false, err // a table with holes would look like an empty group
		default:
			dead = true
		}
	}
	return dead, nil
}

// readEntry reads the line of one process.
func readEntry(pid int) (entry, error) {
	var buf [1024]byte
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return entry{}, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return entry{}, err
	}
	return parseStat(buf[:n])
}

// readChildren lists what a thread of this process has forked and not waited
// for. The main thread's are also the orphans that were re-parented to this
// process. Some kernels do not have the file.
func readChildren(thread int) ([]int, error) {
	data, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(thread) + "/children")
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// readPipes lists the inodes of the pipes that pid has as descriptors 0 to 2,
// and the numbers of the terminals.
func readPipes(pid int) []uint64 {
	var inodes []uint64
	for fd := range 3 {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if err != nil {
			continue
		}
		if terminal := terminalNumber(link); terminal != 0 {
			inodes = append(inodes, terminal)
			continue
		}
		number, isPipe := strings.CutPrefix(link, "pipe:[")
		if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); isPipe && err == nil {
			inodes = append(inodes, inode)
		}
	}
	return inodes
}

// readBoot names this boot of this machine.
func readBoot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// readSpace names the pid namespace, within which a number means something.
func readSpace() string {
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return space
}

func setPipeSize(f *os.File, size int) (ok bool) {
	onFD(f, func(fd int) {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size)
		ok = err == nil
	})
	return ok
}
