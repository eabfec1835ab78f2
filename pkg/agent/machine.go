package agent

import (
	"time"

	"harness/pkg/config"
	"harness/pkg/proc"
	"harness/pkg/restart"
)

// State is where a harness is in its lifecycle (LIF-1).
type State string

// The states, spelled as list and events show them.
const (
	// Stopped: no process and none wanted.
	Stopped State = "stopped"
	// Starting: about to be spawned.
	Starting State = "starting"
	// Running: its process was spawned and has not exited.
	Running State = "running"
	// Degraded: it exits again and again; the delay grows (LIF-2).
	Degraded State = "degraded"
	// Restarting: it exited and waits for its restart_delay.
	Restarting State = "restarting"
	// Stopping: on its way out.
	Stopping State = "stopping"
	// Failed: given up, until a manual start or another definition.
	Failed State = "failed"
)

// verb is what an effect asks the shell to do.
type verb string

const (
	doSpawn verb = "spawn" // start launch as life
	doStop  verb = "stop"  // end the process politely
	doSweep verb = "sweep" // end what an exited process left behind
	doWake  verb = "wake"  // call alarm with this number at that time
	doTell  verb = "tell"  // a new state, for whoever watches
)

// effect is one thing the machine wants done. Effects are done in order.
type effect struct {
	do     verb
	life   uint64
	launch config.AgentLaunch
	at     time.Time
	state  State
	pid    int
	why    string
}

// machine decides what becomes of one harness. It knows no clock, no process
// and no terminal; a life is one process from its spawn to the last of its
// group.
type machine struct {
	name    string
	next    config.AgentLaunch  // of the next start
	spawned *config.AgentLaunch // what the process was started from; nil without one
	nonce   uint64
	enabled bool
	state   State

	life     uint64 // number of the newest one
	left     bool   // something of it may be there still
	ending   bool   // its stop or its sweep was asked for
	again    bool   // start as soon as nothing is left
	history  restart.History
	alarm    uint64 // number of the newest doWake
	pid      int
	started  time.Time // when the process was spawned; zero without one
	retryAt  time.Time // zero when nothing is planned
	restarts int
	lastExit *proc.Exit
	err      string
	answered bool

	effects []effect
}

func newMachine(name string) machine { return machine{name: name, state: Stopped} }

// take returns what is to be done.
func (m *machine) take() []effect {
	e := m.effects
	m.effects = nil
	return e
}

func (m *machine) want(e effect) { m.effects = append(m.effects, e) }

// enter changes the state and tells of it.
func (m *machine) enter(s State, why string) {
	m.state = s
	m.want(effect{do: doTell, state: s, pid: m.pid, why: why})
}

// start is a manual start or restart, or the first one (LIF-2): the count of
// exits is cleared, and what runs is stopped first.
func (m *machine) start(l config.AgentLaunch, nonce uint64) {
	m.next, m.nonce, m.enabled = l, nonce, true
	m.history, m.restarts, m.err, m.answered = restart.History{}, 0, "", false
	m.retryAt = time.Time{}
	switch m.state {
	case Starting, Running:
		m.again = true
		m.halt("restart")
	case Stopping:
		m.again = true
	case Stopped, Degraded, Restarting, Failed:
		if m.left {
			m.again = true
			m.enter(Starting, "waits for the end of what the last one left behind")
			return
		}
		m.spawn()
	}
}

// stop is a stop for good.
func (m *machine) stop() {
	m.enabled, m.again, m.answered = false, false, true
	m.retryAt = time.Time{}
	switch m.state {
	case Starting, Running:
		m.halt("")
	case Degraded, Restarting, Failed:
		if m.left {
			m.enter(Stopping, "")
			return
		}
		m.enter(Stopped, "")
	case Stopping, Stopped:
	}
}

// update puts a definition in force for the next start (HOT-5).
func (m *machine) update(l config.AgentLaunch) { m.next = l }

// halt begins to end the process, or what is about to be one.
func (m *machine) halt(why string) {
	m.enter(Stopping, why)
	m.finish(doStop)
}

// finish has what is left of the life ended, once.
func (m *machine) finish(how verb) {
	if !m.ending {
		m.ending = true
		m.want(effect{do: how, life: m.life})
	}
}

// spawn begins a new life.
func (m *machine) spawn() {
	m.again, m.left, m.ending, m.retryAt = false, true, false, time.Time{}
	m.life++
	m.enter(Starting, "")
	m.want(effect{do: doSpawn, life: m.life, launch: m.next})
}

// up is a spawn that worked.
func (m *machine) up(life uint64, l config.AgentLaunch, pid int, now time.Time) {
	if life != m.life {
		return
	}
	m.pid, m.started, m.spawned = pid, now, &l
	if m.state == Starting {
		m.err, m.answered = "", true
		m.enter(Running, "")
	}
}

// failed is a spawn that did not work. Nothing of that life is left.
func (m *machine) failed(life uint64, why string, now time.Time, rnd float64) {
	if life != m.life {
		return
	}
	m.left, m.err, m.answered = false, why, true
	if m.state == Starting {
		m.judge(time.Time{}, now, rnd, why)
		return
	}
	m.over()
}

// exited is the exit of the process itself. What it left is not gone yet.
func (m *machine) exited(life uint64, exit proc.Exit, now time.Time, rnd float64) {
	if life != m.life {
		return
	}
	started := m.started
	m.pid, m.started, m.spawned, m.lastExit = 0, time.Time{}, nil, &exit
	if m.state == Stopping || !m.left {
		return // its stop goes on until nothing is left, or was over before
	}
	m.finish(doSweep)
	m.err = "exited with " + exit.String()
	m.judge(started, now, rnd, m.err)
}

// judge decides what follows from an exit or a failed spawn.
func (m *machine) judge(started, now time.Time, rnd float64, why string) {
	var d restart.Decision
	policy := restart.Policy{Delay: m.next.RestartDelay}
	m.history, d = policy.Exit(m.history, started, now, rnd)
	m.enter(State(d.State), why+"; "+d.Why)
	if d.State == restart.Failed {
		return
	}
	m.alarm++
	m.retryAt = now.Add(d.Delay)
	m.want(effect{do: doWake, life: m.alarm, at: m.retryAt})
}

// gone says that nothing of a life is left.
func (m *machine) gone(life uint64) {
	if life != m.life {
		return
	}
	m.left = false
	m.pid, m.started, m.spawned = 0, time.Time{}, nil
	m.over()
}

// over goes on where only the end of the last life was waited for.
func (m *machine) over() {
	switch {
	case m.again:
		m.spawn()
	case m.state == Stopping:
		m.enter(Stopped, "")
	}
}

// ring is the alarm number n.
func (m *machine) ring(n uint64) {
	if n != m.alarm || m.retryAt.IsZero() || m.state != Restarting && m.state != Degraded {
		return
	}
	m.restarts++
	if m.left {
		m.again, m.retryAt = true, time.Time{}
		return
	}
	m.spawn()
}
