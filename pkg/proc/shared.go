package proc

import (
	"sync"
	"sync/atomic"
)

// shared runs one job for many callers: each returns once a run that began
// after its call is complete, so that a crowd costs two runs and not a crowd
// of them.
type shared struct {
	calls atomic.Uint64
	mu    sync.Mutex
	done  uint64 // calls up to this one are answered
}

func (s *shared) do(job func()) {
	call := s.calls.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done >= call {
		return
	}
	s.done = s.calls.Load()
	job()
}
