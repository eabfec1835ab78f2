package proc

import (
	"os"
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
}

// Proc is one child with everything that descends from it. All methods may be
// called by any goroutine, any number of times.
type Proc struct {
	// Our ends of the child's three pipes: non-blocking, with working
	// deadlines and SyscallConn. Stop and Kill close Stdin; the caller closes
	// Stdout and Stderr when it has read what it wants.
	Stdin, Stdout, Stderr *os.File

	host   *Host
	spec   Spec
	pid    int
	exited chan struct{}
	exit   Exit
}

// Exit is how a child ended.
type Exit struct {
	Code   int       // exit status; -1 when a signal ended it
	Signal string    // "SIGKILL"; "" when it exited by itself
	At     time.Time // when it was seen
}

// String gives "code 3" or "SIGKILL".
func (e Exit) String() string { return "" }

// PID is the child's process id, which is also the number of its group and
// of its session.
func (p *Proc) PID() int { return p.pid }

// Exited is closed at the exit of the child itself, also where a descendant
// lives on and holds its pipes.
func (p *Proc) Exited() <-chan struct{} { return p.exited }

// Exit says how the child ended. It is valid once Exited is closed.
func (p *Proc) Exit() Exit { return p.exit }
