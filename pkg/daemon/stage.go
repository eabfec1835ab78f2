package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/thejerf/suture/v4"

	"harness/pkg/control"
)

// stage is one supervisor with the services that start and stop together:
// cancelling one root for all would stop everything at the same instant.
type stage struct {
	name   string
	log    *slog.Logger
	cancel context.CancelFunc
	failed chan error    // capacity 1: it ended, or cannot keep a service running
	done   chan struct{} // closed when nothing of it runs any more
}

// begin starts a stage. It lives until stop: the end of ctx is for the daemon
// to act on, in its order.
func begin(ctx context.Context, name string, log *slog.Logger, services ...suture.Service) *stage {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stage{name: name, log: log, cancel: cancel, failed: make(chan error, 1), done: make(chan struct{})}
	// Services stop within bounds of their own; stop has the last word.
	supervisor := suture.New(name, suture.Spec{Timeout: forEver, EventHook: s.mishap})
	for _, service := range services {
		supervisor.Add(service)
	}
	ended := supervisor.ServeBackground(ctx)
	go func() {
		defer close(s.done)
		err := <-ended
		if ctx.Err() == nil {
			s.fail(fmt.Errorf("%s ended: %w", name, err))
		}
	}()
	return s
}

// forEver is longer than anybody waits for a daemon to stop.
const forEver = 1000 * time.Hour

// mishap logs what the supervisor met. A service that fails again and again is
// a failure of the daemon: it would go on without seeing edits, and say
// nothing.
func (s *stage) mishap(e suture.Event) {
	switch e := e.(type) {
	case suture.EventServicePanic:
		s.log.Error("panic", "service", e.ServiceName, "value", e.PanicMsg, "stack", e.Stacktrace)
	case suture.EventServiceTerminate:
		s.log.Error("service ended", "service", e.ServiceName, "error", e.Err)
	case suture.EventBackoff:
		s.fail(fmt.Errorf("%s cannot be kept running", s.name))
	}
}

func (s *stage) fail(err error) {
	select {
	case s.failed <- err:
	default: // one reason is enough
	}
}

// stop ends the stage and waits for it, at most limit.
func (s *stage) stop(limit time.Duration) {
	s.cancel()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.log.Error("stage does not stop", "stage", s.name, "limit", limit)
	}
}

// front is the server on its one listener: when that breaks there is nothing
// to restart it on.
type front struct {
	server   *control.Server
	listener *net.UnixListener
}

// String names the service in the supervisor's log.
func (f *front) String() string { return f.server.String() }

// Serve implements [suture.Service].
func (f *front) Serve(ctx context.Context) error {
	err := f.server.Serve(ctx, f.listener)
	if ctx.Err() == nil {
		return errors.Join(suture.ErrTerminateSupervisorTree, err)
	}
	return err
}
