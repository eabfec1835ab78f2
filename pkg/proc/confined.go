package proc

import (
	"fmt"
	"os"
)

// Confined is what a child gives up between its fork and its program, so that
// not one instruction of that runs with more.
type Confined struct {
	// Dir is the working directory, in place of that of the Spec: the open one, so
	// that nobody can put another in its place.
	Dir *os.File
	// NoNetwork leaves it, in user and network namespaces of its own, nothing but a
	// loopback interface.
	NoNetwork bool
	// Ruleset is that of Landlock which it is held to; nil for none.
	Ruleset *os.File
	// Limits are set as soft and hard ones. That of open files is its customary
	// soft one unless it is here.
	Limits []Limit
}

// maternity is what a confined child needs of its Host before it runs.
type maternity struct {
	users func() userMaps
	born  func(pid int) // has it in the record: nobody else knows of it, should this process be killed
}

// Limit is one of setrlimit.
type Limit struct {
	Resource int // RLIMIT_CPU
	Value    uint64
}

// Unconfined is why a child did not give up what it had to; it never became its
// program.
type Unconfined struct {
	What string // that it could not do
	Err  error
}

// Error implements error.
func (e *Unconfined) Error() string { return fmt.Sprintf("confine it: %s: %s", e.What, e.Err) }

// Unwrap returns what the kernel said.
func (e *Unconfined) Unwrap() error { return e.Err }
