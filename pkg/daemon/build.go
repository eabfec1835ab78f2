package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"harness/pkg/adapter"
	"harness/pkg/agent"
	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/facade"
	"harness/pkg/identity"
	"harness/pkg/jsonrpc"
	"harness/pkg/proc"
	"harness/pkg/run"
	"harness/pkg/upstream"
	"harness/reconcile"
	"harness/watch"
)

// daemon is every room, built and not started.
type daemon struct {
	opt       Options
	log       *slog.Logger
	limits    *limits
	saver     *saver
	watcher   *watch.Watcher
	broker    *broker.Broker
	host      *proc.Host
	pool      *upstream.Pool
	agents    *agent.Pool
	ids       *identity.Store
	wiring    wiring
	archive   *archive
	bounded   *bounded
	contracts *contracts
	herald    *herald
	ops       *ops
	loop      *reconcile.Loop
	control   *control.Server
	stirred   chan struct{} // capacity 1: something of the fleet may not be as it was
	ready     chan struct{} // closed when there is something to serve
}

// build makes the rooms and ties them together. Nothing runs of it but the
// host, which the caller closes, and the archive is not open.
func build(opt Options, state *stateDir, level *slog.LevelVar, log *slog.Logger) (*daemon, error) {
	defaults := config.DefaultServer()
	hub := &control.Hub{}
	emit := emitTo(hub)
	d := &daemon{
		opt: opt, log: log, limits: newLimits(defaults), saver: newSaver(state, log),
		watcher: watch.New(watch.Options{Settle: defaults.Settle, Logger: log}), ids: &identity.Store{}, herald: newHerald(),
		archive: &archive{}, stirred: make(chan struct{}, 1), ready: make(chan struct{}),
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of harness itself: %w", err)
	}
	d.wiring = wiring{d.ids, exe, opt.Paths.Socket, filepath.Join(state.path, wiredDir), log}
	logs, err := state.sub("logs")
	if err != nil {
		return nil, err
	}
	empty, err := broker.Merge(broker.Content{})
	if err != nil {
		return nil, fmt.Errorf("make the first catalog: %w", err)
	}
	d.broker = broker.New(empty, broker.Options{
		Version: opt.Version, Logger: log, StopGrace: d.limits.stopGrace,
		Class: adapter.ClientOf, Lint: adapter.Lint,
		Event: func(e broker.Event) { emit(e.Kind, e.Session, 0, e.Message) },
	})
	if d.host, err = proc.NewHost(opt.Paths.State, log); err != nil {
		return nil, fmt.Errorf("prepare to start processes: %w", err)
	}
	d.pool = upstream.NewPool(upstream.Options{
		Host: d.host, StateDir: state.path, LogDir: logs, Env: environment, ReadFile: ReadRegular, Logger: log,
		Changed: d.stir, Event: func(e upstream.Event) {
			tell(log, emit, turn{"upstream", e.Key, string(e.State), e.PID, e.Message}, reconcile.UpstreamName(e.Key))
		},
		Heard: func(full string, line []byte, m *jsonrpc.Message) {
			project, key := reconcile.SplitName(full)
			d.broker.Hear(project, key, line, m)
		},
		Version: opt.Version, Server: defaults,
	})
	d.agents = agent.NewPool(agent.Options{
		Host: d.host, LogDir: logs, Env: environment, ReadFile: ReadRegular, Logger: log, Server: defaults,
		FindExe: func(cmd string) (string, error) { return upstream.FindExe(cmd, os.Getenv("PATH")) },
		Prepare: d.wiring.prepare, Runs: recorder{d.archive, log},
		Changed: d.stir, Event: func(e agent.Event) {
			tell(log, emit, turn{"harness", e.Name, string(e.State), e.PID, e.Message}, e.Name)
		},
	})
	d.bounded = &bounded{host: d.host, wiring: d.wiring, archive: d.archive, grace: d.limits.stopGrace, log: log, cancels: map[string]context.CancelFunc{}}
	world := d.world(state, level, emit)
	d.loop = reconcile.NewLoop(world, d.watcher.Dirty(), state.loadFleet(opt.Paths.Config))
	ops := &ops{
		loop: d.loop, loader: world.loader, pool: d.pool, agents: d.agents, archive: d.archive, bounded: d.bounded, ids: d.ids, broker: d.broker, watcher: d.watcher, limits: d.limits, saved: d.saver.wait,
		paths: opt.Paths, wiring: d.wiring, version: opt.Version, config: opt.Paths.Config, logs: logs, started: time.Now(),
	}
	d.contracts = newContracts(d.archive, d.host, state.path, log)
	d.contracts.Fleet = ownFleet{ops}
	ops.contracts, d.ops = d.contracts, ops
	world.own = facade.Tools(ops)
	world.ownResources = facade.Resources(sources{ops}, world.own)
	d.herald.state, d.herald.updated = func() any { return sources{ops}.State() }, d.broker.Updated
	d.control = control.NewServer(ops, control.Options{Version: opt.Version, Logger: log, UID: os.Getuid(), Events: hub, Ready: d.ready, Barred: d.contracts.barred})
	return d, nil
}

// stir says that something of the fleet may not be as it was.
func (d *daemon) stir() {
	d.loop.Wake()
	d.herald.stir()
	select {
	case d.stirred <- struct{}{}:
	default: // it is about to be looked at
	}
}

// open opens the archive.
func (d *daemon) open(ctx context.Context, state *stateDir) error {
	err := d.archive.open(ctx, state, d.opt.Commands, run.Options{Keep: d.limits.keepRuns, Changed: d.herald.ran}, launcher{d.ops}, d.log)
	if err != nil {
		return fmt.Errorf("open the evidence in %q: %w", state.path, err)
	}
	return nil
}

// world makes what the reconciler acts on.
func (d *daemon) world(state *stateDir, level *slog.LevelVar, emit emitter) *world {
	good, _ := state.loadLastGood(d.opt.Paths.Config)
	env := config.Env{Home: d.opt.Home, Lookup: os.LookupEnv}
	loader := newLoader(d.opt.Paths.Config, good, env, d.watcher, d.saver.put, d.log)
	for _, kept := range state.loadProjects() {
		good, _ := state.loadLastGood(kept.Path)
		loader.projects = append(loader.projects, project{loader.followed(kept.Path, config.Project, good, env), kept})
	}
	return &world{
		loader: loader,
		pool:   d.pool, agents: d.agents, broker: d.broker, merge: broker.Merge, save: d.saver.put, settle: d.watcher.SetSettle,
		limits: d.limits, level: level, log: d.log, emit: emit,
	}
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
