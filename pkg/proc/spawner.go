package proc

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// spawner is one goroutine on a thread of its own that does every fork.
//
// PDEATHSIG is bound to the thread that forked, not to the process: were that
// thread to end, the kernel would kill the child. So the thread lives as long
// as the spawner. It is never the main thread, because orphans are re-parented
// to that one, and its children are not among those that were forked here.
type spawner struct {
	work   chan func()
	ended  sync.WaitGroup
	thread atomic.Int64 // its number; 0 until it is known
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func())}
	s.ended.Go(s.serve)
	return s
}

func (s *spawner) serve() {
	runtime.LockOSThread()
	s.thread.Store(int64(thread()))
	if s.thread.Load() == int64(os.Getpid()) {
		// While this goroutine holds the main thread, another gets another.
		s.ended.Add(1)
		inner := make(chan struct{})
		go func() {
			defer s.ended.Done()
			defer close(inner)
			s.serve()
		}()
		<-inner
		runtime.UnlockOSThread()
		return
	}
	// Returning without unlocking ends the thread, and with it every child
	// that is left.
	for job := range s.work {
		job()
	}
}

// do runs job on the thread and waits for it.
func (s *spawner) do(job func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		job()
	}
	<-done
}

// close ends the thread. No do may follow.
func (s *spawner) close() {
	close(s.work)
	s.ended.Wait()
}
