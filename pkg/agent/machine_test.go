package agent

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"harness/pkg/config"
	"harness/pkg/proc"
)

// model drives a machine as a shell would: lives that are spawned, exit and are
// gone in any order that is possible.
type model struct {
	t       *rapid.T
	m       machine
	now     time.Time
	spawns  []effect        // asked for, not done
	alive   map[uint64]bool // spawned and not exited
	late    []uint64        // given up, and yet to exit
	ending  map[uint64]bool // a stop or a sweep is on its way
	alarms  []effect
	told    []State
	wantRun bool
}

// legal are the changes of state there are.
var legal = map[State][]State{
	Stopped:    {Starting},
	Starting:   {Running, Stopping, Restarting, Degraded, Failed, Starting},
	Running:    {Stopping, Restarting, Degraded, Failed},
	Restarting: {Starting, Stopped, Stopping},
	Degraded:   {Starting, Stopped, Stopping},
	Failed:     {Starting, Stopped, Stopping},
	Stopping:   {Starting, Stopped},
}

func (x *model) settle() {
	was := Stopped
	if len(x.told) > 0 {
		was = x.told[len(x.told)-1]
	}
	for _, e := range x.m.take() {
		switch e.do {
		case doTell:
			ok := false
			for _, s := range legal[was] {
				ok = ok || s == e.state
			}
			if !ok {
				x.t.Fatalf("%s became %s", was, e.state)
			}
			was = e.state
			x.told = append(x.told, e.state)
		case doSpawn:
			if len(x.alive) > 0 || len(x.ending) > 0 || len(x.spawns) > 0 {
				x.t.Fatalf("a spawn beside %v %v %v", x.alive, x.ending, x.spawns)
			}
			x.spawns = append(x.spawns, e)
		case doStop, doSweep:
			if x.ending[e.life] {
				x.t.Fatalf("life %d is ended twice", e.life)
			}
			x.ending[e.life] = true
		case doWake:
			x.alarms = append(x.alarms, e)
		}
	}
	if was != x.m.state {
		x.t.Fatalf("it is %s and said %s", x.m.state, was)
	}
}

// step does one thing that could happen.
func (x *model) step() {
	x.now = x.now.Add(time.Duration(rapid.IntRange(0, 70).Draw(x.t, "seconds")) * time.Second)
	l := config.AgentLaunch{Agent: config.Agent{RestartDelay: time.Second}}
	switch rapid.IntRange(0, 8).Draw(x.t, "step") {
	case 0:
		x.m.start(l, x.m.nonce+1)
		x.wantRun = true
	case 1:
		x.m.stop()
		x.wantRun = false
	case 2:
		x.m.update(l)
	case 3, 4: // the shell does what it was asked
		if len(x.spawns) > 0 {
			e := x.spawns[0]
			x.spawns = x.spawns[1:]
			if rapid.Bool().Draw(x.t, "spawn fails") {
				delete(x.ending, e.life) // nothing to end
				x.m.failed(e.life, "no", x.now, 0)
			} else {
				x.alive[e.life] = true
				x.m.up(e.life, e.launch, 7, x.now)
			}
		}
	case 5:
		for life := range x.alive {
			delete(x.alive, life)
			x.m.exited(life, proc.Exit{Code: 1}, x.now, 0)
		}
	case 6:
		for life := range x.ending {
			switch {
			case x.alive[life] && x.m.state == Stopping && rapid.Bool().Draw(x.t, "it is given up"):
				delete(x.alive, life)
				x.late = append(x.late, life)
			case x.alive[life]:
				delete(x.alive, life)
				x.m.exited(life, proc.Exit{Code: 1}, x.now, 0)
				x.settle()
			}
			if len(x.spawns) == 0 {
				delete(x.ending, life)
				x.m.gone(life)
			}
		}
	case 7:
		for _, life := range x.late {
			x.m.exited(life, proc.Exit{Code: 1}, x.now, 0)
		}
		x.late = nil
	default:
		for _, e := range x.alarms {
			x.m.ring(e.life)
			x.settle()
		}
		x.alarms = nil
	}
	x.settle()
	if running := x.m.state == Running; running != (x.m.pid != 0) && x.m.state != Stopping {
		x.t.Fatalf("it is %s with process %d", x.m.state, x.m.pid)
	}
}

func TestMachine_StaysLegalAndDoesWhatIsWanted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := &model{t: t, m: newMachine("a"), now: time.Unix(1000, 0), alive: map[uint64]bool{}, ending: map[uint64]bool{}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			x.step()
			if x.m.enabled != x.wantRun {
				t.Fatalf("enabled is %v", x.m.enabled)
			}
		}
		// Left alone, and with spawns that work, it ends where it should.
		for range 20 {
			for len(x.spawns) > 0 {
				e := x.spawns[0]
				x.spawns = nil
				x.alive[e.life] = true
				x.m.up(e.life, e.launch, 7, x.now)
				x.settle()
			}
			for life := range x.ending {
				if x.alive[life] {
					delete(x.alive, life)
					x.m.exited(life, proc.Exit{}, x.now, 0)
				}
				delete(x.ending, life)
				x.m.gone(life)
				x.settle()
			}
			for _, e := range x.alarms {
				x.m.ring(e.life)
			}
			x.alarms = nil
			x.settle()
		}
		switch {
		case !x.wantRun && (x.m.state != Stopped || len(x.alive) > 0):
			t.Fatalf("told to stop it is %s, with %d processes", x.m.state, len(x.alive))
		case x.wantRun && x.m.state != Running && x.m.state != Failed:
			t.Fatalf("told to run it is %s", x.m.state)
		case x.m.state == Running && (len(x.alive) != 1 || x.m.pid == 0):
			t.Fatalf("running with %d processes", len(x.alive))
		}
	})
}

func TestMachine_FailsAfterTheLastTryAndWaitsForItsUser(t *testing.T) {
	t.Parallel()
	m, now := newMachine("a"), time.Unix(0, 0)
	l := config.AgentLaunch{Agent: config.Agent{RestartDelay: time.Second}}
	m.start(l, 1)
	var states []State
	for range 100 {
		for _, e := range m.take() {
			switch e.do {
			case doSpawn:
				m.up(e.life, e.launch, 1, now)
				m.exited(e.life, proc.Exit{Code: 1}, now, 0)
			case doSweep:
				m.gone(e.life)
			case doWake:
				now = e.at
				m.ring(e.life)
			case doTell:
				if n := len(states); n == 0 || states[n-1] != e.state {
					states = append(states, e.state)
				}
			case doStop:
				t.Fatal("stopped")
			}
		}
	}
	if m.state != Failed || m.restarts != 14 || m.err == "" || !m.retryAt.IsZero() {
		t.Errorf("%s after %d restarts: %s", m.state, m.restarts, m.err)
	}
	if got := fmt.Sprint(states[:6]); got != "[starting running restarting starting running restarting]" {
		t.Errorf("states %s", got)
	}
	m.update(l)
	if m.state != Failed {
		t.Error("an update alone starts it")
	}
	m.start(l, 1)
	if m.state != Starting || m.restarts != 0 {
		t.Errorf("a start makes it %s after %d restarts", m.state, m.restarts)
	}
}
