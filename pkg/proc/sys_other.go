//go:build unix && !linux

package proc

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Without /proc, subreapers and parent-death signals, a Host does what any
// Unix allows: it signals the process group and knows when that is empty. It
// finds no descendant that left the group, adopts no orphan, and proves
// nothing about the processes of a predecessor, so Reap ends none.

func prepareProcess() error { return nil }

func thread() int { return 0 }

// child is the direct child of a group.
type child struct{ pid int }

type userMaps struct{}

func readUserMaps() userMaps { return userMaps{} }

func fork(spec Spec, argv []string, files []uintptr, _ maternity) (child, error) {
	if spec.Confined != nil {
		return child{}, &Unconfined{"start", syscall.ENOSYS}
	}
	pid, err := syscall.ForkExec(spec.Path, argv, &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: spec.TTY != nil},
	})
	return child{pid}, err
}

// wait waits until the child has exited, and reaps it. While others are left
// in its group, the number stays taken.
func (c child) wait() Exit {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.pid, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return Exit{Code: -1}
		case status.Signaled():
			return Exit{Code: -1, Signal: unix.SignalName(status.Signal())}
		default:
			return Exit{Code: status.ExitStatus()}
		}
	}
}

func (c child) reap() {}

func reapOrphan(int) {}

func signalGroup(pgid int, sig syscall.Signal) { _ = syscall.Kill(-pgid, sig) }

func signalProcess(ident, syscall.Signal) {}

// readTable gives each group that is not empty one line that stands for all
// that is in it.
func readTable(groups []int) (table, error) {
	t := make(table)
	for _, pgid := range groups {
		if syscall.Kill(-pgid, 0) == nil {
			t[-pgid] = entry{ident: ident{PID: -pgid}, group: pgid, session: pgid}
		}
	}
	return t, nil
}

// readEntry stands in for the process table's line of pid. Time passes for
// what comes after, so that no two processes look the same.
func readEntry(pid int) (entry, error) {
	session := os.Getpid()
	return entry{ident: ident{PID: pid, Start: uint64(time.Now().UnixNano())}, session: session}, nil
}

func readChildren(int) ([]int, error) { return nil, errors.ErrUnsupported }

func readPipes(int) []uint64 { return nil }

func readBoot() string { return "" }

func readSpace() string { return "" }

func setPipeSize(*os.File, int) bool { return false }
