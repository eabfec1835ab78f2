package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/thejerf/suture/v4"

	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/proc"
	"harness/pkg/prompt"
	"harness/pkg/upstream"
	"harness/reconcile"
	"harness/watch"
)

// Options is what a daemon runs on.
type Options struct {
	Paths   control.Paths
	Version string
	Home    string
	Log     io.Writer // one record a line (FIL-4)
	JSONLog bool
	// Ready is called once the socket answers and the first generation is in
	// force; nil for nobody.
	Ready func()
}

// stateFile keeps what survives a restart of the daemon.
const stateFile = "state.json"

// reapWithin bounds the end of what a killed predecessor left behind (LIF-4).
const reapWithin = 5 * time.Second

// firstPublish bounds the wait for the first generation before the socket
// answers: an agent that is there first should see the lists that are known.
const firstPublish = 2 * time.Second

// Run serves until ctx ends, then stops everything in order and returns nil.
// An error means that the daemon could not start, or that a part of it broke
// for good.
func Run(ctx context.Context, opt Options) error {
	level := new(slog.LevelVar)
	log := newLogger(opt, level)
	state, err := openState(opt.Paths.State, log)
	if err != nil {
		return err
	}
	release, err := lock(opt.Paths.State)
	if err != nil {
		return err
	}
	defer release()
	listener, err := control.Listen(ctx, opt.Paths.Socket)
	if err != nil {
		return err
	}
	defer listener.Close()
	d, err := build(opt, state, level, log)
	if err != nil {
		return err
	}
	defer d.host.Close()
	if err := d.reap(ctx); err != nil {
		return err
	}
	return d.serve(ctx, listener)
}

func newLogger(opt Options, level *slog.LevelVar) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if opt.JSONLog {
		return slog.New(slog.NewJSONHandler(opt.Log, o))
	}
	return slog.New(slog.NewTextHandler(opt.Log, o))
}

// daemon is every room, built and not started.
type daemon struct {
	opt     Options
	log     *slog.Logger
	host    *proc.Host
	pool    *upstream.Pool
	watcher *watch.Watcher
	loop    *reconcile.Loop
	broker  *broker.Broker
	control *control.Server
}

func build(opt Options, state *stateDir, level *slog.LevelVar, log *slog.Logger) (*daemon, error) {
	d := &daemon{opt: opt, log: log}
	var err error
	if d.host, err = proc.NewHost(opt.Paths.State, log); err != nil {
		return nil, fmt.Errorf("prepare to start processes: %w", err)
	}
	logs, err := state.sub("logs")
	if err != nil {
		return nil, err
	}
	var kept reconcile.Kept
	state.load(stateFile, &kept, func() bool { return true })
	hub := &control.Hub{}
	emit := emitTo(hub)
	lim := &limits{}
	lim.set(config.DefaultServer())
	d.watcher = watch.New(watch.Options{Settle: config.DefaultServer().Settle, Logger: log})
	d.pool = upstream.NewPool(upstream.Options{
		Host: d.host, StateDir: state.path, LogDir: logs, Env: environment, ReadFile: os.ReadFile, Logger: log,
		Changed: func() { d.loop.Wake() }, Event: func(e upstream.Event) { d.tell(e, emit) },
		Version: opt.Version, Server: config.DefaultServer(),
	})
	empty, err := broker.Merge(opt.Version, nil, nil)
	if err != nil {
		return nil, err
	}
	d.broker = broker.New(empty, broker.Options{
		Version: opt.Version, Logger: log, StopGrace: lim.stopGrace,
		Event: func(e broker.Event) { emit(e.Kind, e.Session, 0, e.Message) },
	})
	w := &world{
		loader: newLoader(opt, state, d.watcher, log), pool: d.pool, broker: d.broker, watcher: d.watcher, state: state,
		log: log, level: level, limits: lim, version: opt.Version, nonces: map[string]uint64{}, published: map[string][32]byte{}, emit: emit,
		server: config.DefaultServer(),
	}
	d.loop = reconcile.NewLoop(w, d.watcher.Dirty(), kept)
	d.control = control.NewServer(&ops{
		loop: d.loop, pool: d.pool, broker: d.broker, watcher: d.watcher, limits: lim, version: opt.Version,
		config: opt.Paths.Config, logs: logs, started: time.Now(),
	}, control.Options{Version: opt.Version, Logger: log, UID: os.Getuid(), Events: hub})
	return d, nil
}

func newLoader(opt Options, state *stateDir, watcher *watch.Watcher, log *slog.Logger) *loader {
	key := make([]byte, 32)
	// crypto/rand.Read never fails.
	_, _ = rand.Read(key)
	l := &loader{
		path: opt.Paths.Config, env: config.Env{Home: opt.Home, Lookup: os.LookupEnv}, state: state, watcher: watcher, log: log,
		prompts: prompt.OSFS{}, key: key, first: true, settle: config.DefaultServer().Settle,
	}
	if text, ok := state.loadLastGood(opt.Paths.Config); ok {
		l.good = text
	}
	return l
}

// environment is what children inherit (LIF-8).
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HARNESS_") {
			env = append(env, kv)
		}
	}
	return env
}

func emitTo(hub *control.Hub) emitter {
	return func(kind, name string, generation uint64, message string) {
		hub.Publish(control.Event{At: time.Now().UTC(), Kind: kind, Name: control.OrNull(name), Generation: control.OrNull(generation), Message: message})
	}
}

// tell logs what happened to an upstream and passes it on.
func (d *daemon) tell(e upstream.Event, emit emitter) {
	d.log.Info("upstream", "upstream", e.Key, "state", string(e.State), "pid", e.PID, "message", e.Message)
	emit("state", reconcile.UpstreamName(e.Key), 0, string(e.State)+": "+e.Message)
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
	return nil
}

// serve starts the stages one after the other and stops them in reverse, each
// before the next: nothing new comes in, then nothing is started any more,
// then every process ends.
func (d *daemon) serve(ctx context.Context, listener *net.UnixListener) error {
	upstreams := d.stage("upstreams", d.pool)
	defer upstreams.stop()
	engine := d.stage("engine", d.watcher, d.loop)
	defer engine.stop()
	if err := d.loop.Until(ctx, firstPublish, func() bool { return d.loop.State().Published > 0 }); err != nil {
		return nil // asked to stop before it was up
	}
	front := d.stage("front", &frontService{d.control, listener})
	defer front.stop()
	if err := control.WritePointer(d.opt.Paths.Pointer, d.opt.Paths.Socket); err != nil {
		return err
	}
	defer func() {
		if err := control.RemovePointer(d.opt.Paths.Pointer, d.opt.Paths.Socket); err != nil {
			d.log.Warn("socket pointer not removed", "error", err)
		}
	}()
	d.log.Info("serving", "socket", d.opt.Paths.Socket, "config", d.opt.Paths.Config, "generation", d.loop.State().Generation)
	if d.opt.Ready != nil {
		d.opt.Ready()
	}
	select {
	case <-ctx.Done():
		d.log.Info("stopping")
		return nil
	case err := <-front.done:
		return fmt.Errorf("the socket is gone: %w", err)
	}
}

// frontService is the server on its one listener: when that breaks there is
// nothing to restart it on.
type frontService struct {
	server   *control.Server
	listener *net.UnixListener
}

func (f *frontService) String() string { return "control" }

// Serve implements [suture.Service].
func (f *frontService) Serve(ctx context.Context) error {
	err := f.server.Serve(ctx, f.listener)
	if ctx.Err() == nil {
		return errors.Join(suture.ErrTerminateSupervisorTree, err)
	}
	return err
}

// stage is one supervisor with its services.
type stage struct {
	cancel context.CancelFunc
	done   <-chan error
}

// stageBudget is how long a stage may take to stop. The services have bounds
// of their own that are shorter; this one only catches a bug.
const stageBudget = 30 * time.Second

// stage starts a supervisor of its own: cancelling one root would stop all at
// once.
func (d *daemon) stage(name string, services ...suture.Service) *stage {
	s := suture.New(name, suture.Spec{Timeout: stageBudget, EventHook: func(e suture.Event) {
		d.log.Error("supervisor", "stage", name, "event", e.String())
	}})
	for _, service := range services {
		s.Add(service)
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &stage{cancel, s.ServeBackground(ctx)}
}

// stop ends the stage and waits for it.
func (s *stage) stop() {
	s.cancel()
	<-s.done
}
