package workflow

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"harness/pkg/evidence"
)

// Stuck is why a workflow cannot go on: its journal could not be written. What it
// has under way ends, and nothing more begins before a resume.
type Stuck struct {
	ID  string // of the workflow
	err error
}

// Reason says so without a path.
func (s *Stuck) Reason() string {
	reason := "its journal cannot be written"
	if errno, is := errors.AsType[syscall.Errno](s.err); is {
		reason += ": " + errno.Error()
	}
	return reason
}

// Error implements error.
func (s *Stuck) Error() string {
	return fmt.Sprintf("workflow %s cannot go on: its journal cannot be written: %v", s.ID, s.err)
}

// Unwrap returns what was in the way.
func (s *Stuck) Unwrap() error { return s.err }

// free opens a workflow that is stuck again, as the next daemon would: what is on
// the disk counts. It stays stuck while something of it is under way, whose end
// would be noted in the journal before. The caller holds f.mu.
func (e *Engine) free(f *flow) error {
	if f.stuck == nil {
		return nil
	}
	if len(f.state.UnderWay()) > 0 {
		return f.stuck
	}
	now := time.Now()
	fresh, err := e.open(f.spec.ID, now)
	if _, wrong := errors.AsType[*evidence.Fault](err); wrong {
		return named(f.spec.ID, err)
	}
	if err == nil && fresh == nil {
		err = ErrUnknown // its journal was there a moment ago
	}
	if err != nil {
		return &Stuck{f.spec.ID, err}
	}
	err = errors.Join(f.journal.Close(), f.dir.Close())
	f.dir, f.journal, f.state, f.asked, f.stuck = fresh.dir, fresh.journal, fresh.state, fresh.asked, nil
	if err != nil {
		e.log.Warn("a workflow's files not closed", "workflow", f.spec.ID, "error", err)
	}
	if state, _ := f.state.View(); state != Running {
		return nil
	}
	return e.interrupt(f, now)
}
