package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
)

// saver writes state files on a goroutine of its own, in the order in which
// they came: a sync takes as long as the disk likes, and neither a publish nor
// an edit should wait for it. Of several versions of one file the last wins.
type saver struct {
	state *stateDir
	log   *slog.Logger
	wake  chan struct{} // capacity 1

	mu    sync.Mutex
	queue []stateWrite  // oldest first, each name once
	idle  chan struct{} // closed when all that was put is written; nil while it is
}

// stateWrite is one file to be written. Its value is not changed any more.
type stateWrite struct {
	name  string
	value any
}

func newSaver(state *stateDir, log *slog.Logger) *saver {
	return &saver{state: state, log: log, wake: make(chan struct{}, 1)}
}

// String names the service in the supervisor's log.
func (s *saver) String() string { return "state files" }

// put has v written as the state file name, or the file removed where v is nil.
// It never waits.
func (s *saver) put(name string, v any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(w stateWrite) bool { return w.name == name })
	s.queue = append(s.queue, stateWrite{name, v})
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
}

// wait returns when what was put so far is on the disk, or ctx ends.
func (s *saver) wait(ctx context.Context) {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Serve writes until ctx ends. What is put at the very end is left to flush.
func (s *saver) Serve(ctx context.Context) error {
	for {
		s.flush()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
		}
	}
}

// flush writes what was put and is not written yet.
func (s *saver) flush() {
	for {
		w, more := s.next()
		if !more {
			return
		}
		if err := s.write(w); err != nil {
			s.log.Error("state not saved", "error", err)
		}
	}
}

func (s *saver) write(w stateWrite) error {
	if w.value == nil {
		return s.state.remove(w.name)
	}
	return s.state.save(w.name, w.value)
}

// next takes the oldest file out of the queue.
func (s *saver) next() (w stateWrite, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		if s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
		return stateWrite{}, false
	}
	w = s.queue[0]
	s.queue = s.queue[1:]
	return w, true
}
