package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"harness/pkg/control"
	"harness/pkg/run"
	"harness/pkg/upstream"
)

// Options is what a daemon runs on.
type Options struct {
	Paths   control.Paths
	Version string
	Home    string    // the home directory, "" when it is not known
	Log     io.Writer // one record a line (FIL-4)
	JSONLog bool
	// Commands are those of the program, for whoever asks what it can be told
	// (RES-2). It is called once; nil is for a program without commands.
	Commands func() (run.Catalog, error)
	// Ready is called once the socket answers and the first generation is in
	// force; nil for nobody.
	Ready func()
	// Kill, once closed, ends every process at once instead of politely: a
	// second signal of whoever stops the daemon (LIF-4). It may be nil.
	Kill <-chan struct{}
}

const (
	// reapWithin bounds the end of what a killed predecessor left behind
	// (LIF-4).
	reapWithin = 5 * time.Second
	// firstPublish bounds the wait for the first publish before the socket
	// answers, which takes its own half second at most (HOT-6): an agent that
	// is there first sees the lists that are known, and not an empty one.
	firstPublish = 2 * time.Second
	// startSoon bounds how long the archive waits for the start of processes.
	startSoon = 250 * time.Millisecond
	// stopWithin is how long a start that has nothing running yet may take to stop.
	stopWithin = time.Second
	// stopMargin is what a stage may need to stop beside stop_grace.
	stopMargin = 10 * time.Second
)

// Run serves until ctx ends, then stops everything in order and returns nil
// (LIF-4). An error means that the daemon could not start, or that a part of it
// broke for good.
func Run(ctx context.Context, opt Options) error {
	level := new(slog.LevelVar)
	log := newLogger(opt, level)
	var ready ready
	err := within(ctx, func() (err error) {
		ready, err = prepare(ctx, opt, level, log)
		return err
	})
	if errors.Is(err, errHeldUp) {
		log.Warn("stopped while it was starting", "error", err)
		return nil
	}
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer ready.close()
	return ready.serve(ctx, ready.state, ready.listener)
}

// ready is a daemon that may serve, and what it holds for it.
type ready struct {
	*daemon
	state    *stateDir
	listener *net.UnixListener
	close    func()
}

// prepare does what comes before anything is started.
func prepare(ctx context.Context, opt Options, level *slog.LevelVar, log *slog.Logger) (_ ready, err error) {
	var held []func()
	release := func() {
		for _, f := range slices.Backward(held) {
			f()
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	state, err := openState(opt.Paths.State, log)
	if err != nil {
		return ready{}, err
	}
	unlock, err := lock(ctx, opt.Paths.State, log)
	if err != nil {
		return ready{}, err
	}
	held = append(held, unlock)
	listener, err := opt.Paths.Listen(ctx)
	if err != nil {
		return ready{}, err
	}
	held = append(held, func() { _ = listener.Close() }) // closed already where it served
	d, err := build(opt, state, level, log)
	if err != nil {
		return ready{}, err
	}
	held = append(held, func() { d.archive.close(log) }, d.host.Close)
	return ready{d, state, listener, release}, d.reap(ctx)
}

// errHeldUp is why a start is given up that does not hear of a stop.
var errHeldUp = errors.New("something in the state directory or the config cannot be read: a disk or a file system that does not answer")

// within returns what f returns, or errHeldUp where it has not returned stopWithin
// after the end of ctx. What f waits for is then the kernel's and ends with the
// process: no stop waits for a disk that does not answer.
func within(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(stopWithin):
		return errHeldUp
	}
}

// unlessStopped returns err, or nil where it only says that the daemon was
// asked to stop before it was up.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

func newLogger(opt Options, level *slog.LevelVar) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if opt.JSONLog {
		return slog.New(slog.NewJSONHandler(opt.Log, o))
	}
	return slog.New(slog.NewTextHandler(opt.Log, o))
}

// reap ends what a predecessor that was killed left behind, before anything is
// started (LIF-4).
func (d *daemon) reap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reapWithin)
	defer cancel()
	n, err := d.host.Reap(ctx)
	if err != nil {
		return fmt.Errorf("end what an earlier daemon left behind: %w", err)
	}
	if n > 0 {
		d.log.Warn("ended what an earlier daemon left behind", "processes", n)
	}
	d.wiring.clearAll()
	return nil
}

// serve starts the stages, and stops them one after the other, each before the
// next: nothing new comes in, then nothing is decided any more, then every
// process ends. The engine starts before the harnesses do: what it has them do
// waits for them, and they wait for the archive. Whoever comes early waits until
// there is something to serve.
func (d *daemon) serve(ctx context.Context, state *stateDir, listener *net.UnixListener) error {
	defer d.heed(d.opt.Kill)()
	opening := make(chan error, 1)
	var opener sync.WaitGroup
	defer opener.Wait() // what it opens is closed after it
	upstreams := begin(ctx, "upstreams", d.log, d.pool)
	defer d.stop(upstreams)
	defer d.saver.flush() // what the engine left
	engine := begin(ctx, "engine", d.log, d.saver, d.watcher, d.loop)
	opener.Go(func() {
		d.starting(ctx)
		opening <- d.open(ctx, state)
	})
	door := begin(ctx, "front", d.log, &front{d.control, listener})
	if err := orEnd(ctx, opening); err != nil {
		d.stop(door)
		d.stop(engine)
		d.agents.Close()
		return unlessStopped(ctx, err)
	}
	harnesses := begin(ctx, "harnesses", d.log, d.agents, d.bounded, d.contracts, d.archive.flows, d.herald)
	defer d.stop(harnesses)
	defer d.stop(engine)
	defer d.stop(door)
	if !d.published(ctx) {
		return nil // asked to stop before it was up
	}
	close(d.ready)
	defer d.point()()
	d.log.Info("serving", "socket", d.opt.Paths.Socket, "config", d.opt.Paths.Config, "generation", d.loop.State().Generation)
	if d.opt.Ready != nil {
		d.opt.Ready()
	}
	select {
	case <-ctx.Done():
		d.log.Info("stopping")
		return nil
	case err := <-upstreams.failed:
		return err
	case err := <-harnesses.failed:
		return err
	case err := <-engine.failed:
		return err
	case err := <-door.failed:
		return err
	}
}

// orEnd returns what comes of something, or the error of ctx where that ends first:
// no stop waits for a slow disk.
func orEnd(ctx context.Context, result <-chan error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-result:
		return err
	}
}

// heed ends every process as soon as kill is closed, until the function that it
// returns is called.
func (d *daemon) heed(kill <-chan struct{}) (stop func()) {
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-kill:
			d.log.Warn("ending every process at once")
			d.host.Close()
		case <-over:
		}
	})
	return func() {
		close(over)
		wg.Wait()
	}
}

// stop ends one stage. A process may take the stop_grace it was started under.
func (d *daemon) stop(s *stage) { s.stop(d.limits.longestStop() + stopMargin) }

// starting waits until the upstreams are on their way, which take longer to come
// up than the archive to open, and for no slow one.
func (d *daemon) starting(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startSoon)
	defer cancel()
	_ = d.loop.Until(ctx, startSoon, func() bool { return d.loop.State().Pass > 0 })
	for slices.ContainsFunc(d.pool.Snapshot(), unborn) {
		select {
		case <-ctx.Done():
			return
		case <-d.stirred:
		}
	}
}

// unborn reports whether the process of an upstream that starts is not there yet.
func unborn(s upstream.Status) bool { return s.State == upstream.Starting && s.PID == 0 }

// published waits until there is something to serve, and reports whether to
// serve it.
func (d *daemon) published(ctx context.Context) bool {
	return d.loop.Until(ctx, firstPublish, func() bool {
		s := d.loop.State()
		// A pass that owes nothing is shown before the first publish, which holds the
		// endpoint's own tools all the same.
		return s.Shown > 0 && s.Published > 0
	}) == nil
}

// point lets clients without an environment find the socket (WHO-2a), and
// returns what takes that back. It is a help, not a condition.
func (d *daemon) point() (undo func()) {
	pointer, socket := d.opt.Paths.Pointer, d.opt.Paths.Socket
	if err := control.WritePointer(pointer, socket); err != nil {
		d.log.Warn("socket pointer not written", "error", err)
	}
	return func() {
		if err := control.RemovePointer(pointer, socket); err != nil {
			d.log.Warn("socket pointer not removed", "error", err)
		}
	}
}
