package proc

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Spec says what to start. Nothing in it is looked up, expanded or added to.
type Spec struct {
	Path  string   // the executable: absolute, no search in PATH
	Args  []string // the arguments after argv[0]
	Argv0 string   // argv[0]; "" means Path
	Env   []string // "NAME=value", the whole environment of the child
	Dir   string   // working directory; "" means that of this process
	Name  string   // for the log and the record: "mcp.gitea"
	// TTY gives the child a terminal of this size, which controls its session,
	// in place of pipes; nil for pipes.
	TTY *Size
	// Confined has the child give things up before it becomes its program; nil for
	// none. Where it cannot, Start returns an [*Unconfined]. It has no TTY.
	Confined *Confined
}

// Size is that of a terminal, in characters.
type Size struct{ Cols, Rows uint16 }

// Exit is how a child ended.
type Exit struct {
	Code   int       // exit status; -1 when a signal ended it
	Signal string    // "SIGKILL"; "" when it exited by itself
	At     time.Time // when it was seen
}

// String gives "code 3" or "SIGKILL".
func (e Exit) String() string {
	if e.Signal != "" {
		return e.Signal
	}
	return fmt.Sprintf("code %d", e.Code)
}

// Proc is a child of a Host with everything that descends from it. All methods
// may be called by any goroutine, any number of times.
type Proc struct {
	// Our ends of the child's three pipes: non-blocking, with working
	// deadlines and SyscallConn. Stop and Kill close Stdin; the caller closes
	// Stdout and Stderr when it has read what it wants.
	Stdin, Stdout, Stderr *os.File
	// TTY is our end of the child's terminal, non-blocking too; the pipes are
	// nil then. The caller closes it. After the last process that has the
	// terminal, reading from it fails with EIO.
	TTY *os.File

	host   *Host
	child  child
	exited chan struct{}
	exit   Exit          // valid once exited is closed
	looked chan struct{} // closed when somebody has looked what is left since the exit
	gone   chan struct{} // closed when nothing of it is left
	polite sync.Once     // SIGTERM is sent once: some take a second one as "at once"

	group group // guarded by host.mu
	room  int   // of host.room, guarded by host.mu
}

// PID is the child's process id, which is also the number of its group and
// of its session.
func (p *Proc) PID() int { return p.child.pid }

// StartTime is when the child was forked, in clock ticks since boot, as
// /proc/PID/stat has it: together with PID it names this process for good.
func (p *Proc) StartTime() uint64 { return p.group.leader.Start }

// Exited is closed at the exit of the child itself, also where a descendant
// lives on and holds its pipes. What is left then is ended by Stop or Kill;
// nothing else ends it before Close of the Host.
func (p *Proc) Exited() <-chan struct{} { return p.exited }

// Exit says how the child ended. It is valid once Exited is closed.
func (p *Proc) Exit() Exit { return p.exit }

// The pace at which a stop looks whether anything is left.
const (
	firstPoll   = 2 * time.Millisecond
	slowestPoll = 50 * time.Millisecond
	killAgain   = 20 * time.Millisecond
	// killPatience is how long SIGKILL is repeated. What survives that hangs
	// in the kernel, or belongs to another user.
	killPatience = 5 * time.Second
)

// Stop is the ladder of LIF-3: it closes Stdin, sends SIGTERM after a third of
// grace and SIGKILL after grace, both to everything that descends from the
// child, and returns when nothing of it is left. A child on a terminal has no
// input to close: it gets SIGTERM and SIGHUP at once.
func (p *Proc) Stop(grace time.Duration) {
	// While the child lives, what descends from it can be told by its parents.
	p.host.look()
	if p.TTY == nil {
		p.Stdin.Close()
		if p.endsWithin(grace / 3) {
			return
		}
		grace -= grace / 3
	}
	p.terminate(grace)
}

// Terminate is Stop of a child that does not live by its input, as a server does:
// it gets SIGTERM at once.
func (p *Proc) Terminate(grace time.Duration) {
	p.host.look()
	if p.Stdin != nil {
		p.Stdin.Close()
	}
	p.terminate(grace)
}

// terminate asks by signal, and ends what has not gone within grace.
func (p *Proc) terminate(grace time.Duration) {
	p.polite.Do(func() {
		p.signal(syscall.SIGTERM)
		if p.TTY != nil {
			p.signal(syscall.SIGHUP) // what a shell waits for that ignores SIGTERM
		}
	})
	if p.endsWithin(grace) {
		return
	}
	p.Kill()
}

// Kill closes Stdin, sends SIGKILL to everything that descends from the child
// and returns when nothing of it is left.
func (p *Proc) Kill() {
	if p.Stdin != nil {
		p.Stdin.Close()
	}
	select {
	case <-p.exited:
		<-p.looked // most have left nothing
	default:
	}
	for began := time.Now(); time.Since(began) < killPatience; {
		p.signal(syscall.SIGKILL)
		if p.endsWithin(killAgain) {
			return
		}
	}
	p.host.log.Warn("processes survive SIGKILL", "name", p.group.name, "pid", p.PID(), "left", p.host.left(p))
}

// endsWithin waits until nothing of p is left, at most for d.
func (p *Proc) endsWithin(d time.Duration) bool {
	if p.isGone() {
		return true
	}
	deadline := time.NewTimer(max(d, 0))
	defer deadline.Stop()
	select {
	case <-p.gone:
		return true
	case <-p.exited:
	case <-deadline.C:
		return false
	}
	for poll := firstPoll; ; poll = min(2*poll, slowestPoll) {
		p.host.look()
		select {
		case <-p.gone:
			return true
		case <-deadline.C:
			return false
		case <-time.After(poll):
		}
	}
}

// signal sends sig to the group and to the descendants that left it.
func (p *Proc) signal(sig syscall.Signal) {
	if p.isGone() {
		return
	}
	p.host.look()
	p.host.mu.Lock()
	defer p.host.mu.Unlock() // p is not reaped meanwhile, so its number is its own
	if p.isGone() {
		return
	}
	signalGroup(p.PID(), sig)
	for id, m := range p.group.members {
		if m.group != p.PID() {
			signalProcess(id, sig)
		}
	}
}

func (p *Proc) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// await publishes the exit of the child.
func (p *Proc) await() {
	exit := p.child.wait()
	exit.At = time.Now()
	p.host.mu.Lock()
	p.exit, p.group.exited = exit, true
	p.host.mu.Unlock()
	close(p.exited)
	if !p.host.glance(p) {
		p.host.look()
	}
	close(p.looked)
}
