package upstream

import (
	"maps"
	"slices"
	"time"

	"harness/pkg/config"
)

// State is where an upstream is in its lifecycle (LIF-1).
type State string

// The states, spelled as status and errors show them.
const (
	// Stopped: no process and none wanted, or not until its first use.
	Stopped State = "stopped"
	// Starting: a process that has not answered initialize yet.
	Starting State = "starting"
	// Running: initialize was answered.
	Running State = "running"
	// Degraded: it exits again and again; the delay grows (LIF-2).
	Degraded State = "degraded"
	// Restarting: it exited and waits for its restart_delay.
	Restarting State = "restarting"
	// Stopping: on its way out, or waiting for its predecessor to be gone.
	Stopping State = "stopping"
	// Failed: given up, but for a try every five minutes.
	Failed State = "failed"
)

// Status is one upstream as it is now. It is a copy; what it points to is
// immutable.
type Status struct {
	Key string
	// Launch is the definition in force: what the process that calls go to
	// was, or will be, started from.
	Launch config.Launch
	// Nonce is the manual start the definition in force goes back to.
	Nonce uint64
	// Pending is a changed definition whose process is not in service yet.
	Pending *config.Launch
	// PendingReady is true when that process waits for Promote.
	PendingReady bool
	// PendingErr says why it did not come up so far.
	PendingErr string
	State      State
	// Enabled is false once Stop was called; such a unit is on its way out and
	// gone from the snapshot as soon as its processes are.
	Enabled bool
	// PID is that of the process in service, 0 when there is none.
	PID int
	// Restarts counts automatic restarts since the last manual start or
	// changed definition.
	Restarts int
	// Error is the last failure, "" while all is well.
	Error string
	// NextRetry is when it is started again, zero when nothing is planned.
	NextRetry time.Time
	// Instances is how many of its processes live.
	Instances int
	// Offer is what it offers, nil when that was never known or it is on its
	// way out.
	Offer *Offer
	// Answered is true when, since the last word that started a process,
	// that process came up or its first try failed, or there is nothing to
	// wait for (HOT-6).
	Answered bool
	// Refused is why the last thing that it asked its client was asked of
	// nobody, "" for nothing (MCP-5).
	Refused string
}

// Event is something that happened to an upstream, for whoever watches.
type Event struct {
	At  time.Time
	Key string
	// State is the state after it.
	State State
	PID   int
	// Message says what happened; it names no secret.
	Message string
}

// sameSpawn reports whether a and b would spawn the same process: everything
// else applies in place (HOT-4).
func sameSpawn(a, b config.Launch) bool {
	return sameExe(a, b) && slices.Equal(a.Args, b.Args) &&
		a.EnvFile == b.EnvFile && a.EnvDigest == b.EnvDigest && maps.Equal(a.Env, b.Env) &&
		a.Workdir == b.Workdir && a.Isolation == b.Isolation
}

// sameExe reports whether the same program would be run. What counts is what
// PATH makes of cmd; where it makes nothing of either, cmd itself.
func sameExe(a, b config.Launch) bool {
	if a.Exe == "" && b.Exe == "" {
		return a.Cmd == b.Cmd
	}
	return a.Exe == b.Exe
}

// withLiveKeys returns the process of spawn with the keys of l that apply in
// place. Another word for the same program is one of them.
func withLiveKeys(spawn, l config.Launch) config.Launch {
	s := l
	if !sameExe(spawn, l) {
		s.Cmd = spawn.Cmd
	}
	s.Exe, s.ExeErr, s.Args = spawn.Exe, spawn.ExeErr, spawn.Args
	s.EnvFile, s.EnvDigest, s.Env = spawn.EnvFile, spawn.EnvDigest, spawn.Env
	s.Workdir, s.Isolation = spawn.Workdir, spawn.Isolation
	return s
}

// route is the life that calls go to, 0 for none, and whether they wait for
// one: for a first start that has not failed yet, and nothing else (LIF-6).
func (m *machine) route() (id lifeID, wait bool) {
	switch {
	case !m.enabled || m.closing:
		return 0, false
	case m.main.serves():
		return m.main.life, false
	}
	next := m.next != nil && (m.next.fresh || m.next.serves() && !m.next.answered)
	return 0, m.main.fresh || next
}

// state is the unit's state as LIF-1 names it.
func (m *machine) state() State {
	if m.enabled && !m.closing {
		return m.main.state()
	}
	if len(m.lives) == 0 {
		return Stopped
	}
	return Stopping
}

// status describes the unit. What it points to is never changed.
func (m *machine) status() Status {
	s := Status{
		Key: m.main.launch.Key, Launch: m.main.launch, Nonce: m.nonce, State: m.state(), Enabled: m.enabled,
		PID: m.main.pid, Restarts: max(0, m.main.spawns-1), Error: m.main.err, NextRetry: m.main.nextRetry(),
		Instances: len(m.lives), Offer: m.main.offer, Answered: m.main.answered || m.main.idle,
		Refused: m.refused,
	}
	if m.next != nil {
		pending := m.next.launch
		s.Pending, s.PendingReady, s.PendingErr = &pending, m.next.ready(), m.next.err
		s.Answered = m.next.answered
	}
	return s
}
