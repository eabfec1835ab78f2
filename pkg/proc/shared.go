package proc

import (
	"sync"
	"sync/atomic"
	"time"
)

// shared runs one job for many callers: each returns once a run that began
// after its call is complete, so that a crowd costs two runs and not a crowd
// of them.
type shared struct {
	calls atomic.Uint64
	runs  atomic.Uint64 // that began
	mu    sync.Mutex
	done  uint64 // calls up to this one are answered
}

// within reports whether a run of the job begins within d, or before stop is
// closed.
func (s *shared) within(d time.Duration, stop <-chan struct{}) bool {
	before := s.runs.Load()
	select {
	case <-stop:
	case <-time.After(d):
	}
	return s.runs.Load() != before
}

func (s *shared) do(job func()) {
	call := s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done >= call {
		return
	}
	s.runs.Add(1)
	s.done = s.calls.Load()
	job()
}
