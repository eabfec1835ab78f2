package upstream

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"harness/pkg/config"
	"harness/pkg/jsonrpc"
)

// mute is a session that is asked nothing.
type mute struct{ *agent }

func (mute) Ask(*jsonrpc.Question, []byte, *jsonrpc.Message) string { return "it is mute" }
func (mute) Withdraw(*jsonrpc.Question, []byte)                     {}

// isolated returns a definition of which each session has a process.
func (r *rig) isolated(s script) config.Launch {
	l := r.launch("up", s)
	l.Isolation = config.IsolationSession
	return l
}

// private starts l, and returns its unit, and one of a session with a process
// that has answered a call.
func (r *rig) private(l config.Launch) (of, own *Unit, a *agent) {
	r.t.Helper()
	r.pool.Start(l, 1)
	synctest.Wait()
	of, a = r.pool.Unit("up"), newAgent()
	own = of.Private(Peer{Answerer: mute{a}, Capabilities: "{}", Heard: func([]byte, *jsonrpc.Message) {}})
	a.call(own, "echo", "{}").wait(r.t)
	return of, own, a
}

// gone fails the test unless nothing is left of the sessions' units.
func (r *rig) gone(of *Unit) {
	r.t.Helper()
	time.Sleep(10 * time.Minute)
	for _, s := range r.pool.Snapshot() {
		if s.Instances != 0 || s.State != Stopped {
			r.t.Errorf("%d instances, %s", s.Instances, s.State)
		}
	}
	if n := len(of.family()); n != 0 {
		r.t.Errorf("%d units are left", n)
	}
}

func TestPrivate_ThatWasClosedIsStartedByNoEdit(t *testing.T) {
	for name, edit := range map[string]func(r *rig){
		"server":  func(r *rig) { r.pool.SetLimits(config.DefaultServer()) },
		"swap":    func(r *rig) { r.pool.Swap(r.isolated(script{Tools: []string{"new"}})) },
		"restart": func(r *rig) { r.pool.Start(r.isolated(script{IgnoreEOF: true, IgnoreTerm: true}), 2) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				of, own, _ := r.private(r.isolated(script{IgnoreEOF: true, IgnoreTerm: true}))
				own.Close()
				edit(r) // its process takes all of stop_grace to end
				r.gone(of)
			})
		})
	}
}

func TestPrivate_WithAnEditThatWaitsIsOverAllTheSame(t *testing.T) {
	for name, end := range map[string]func(r *rig, own *Unit){
		"closed":  func(_ *rig, own *Unit) { own.Close() },
		"removed": func(r *rig, _ *Unit) { r.pool.Stop("up") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				of, own, a := r.private(r.isolated(script{}))
				c := a.call(own, "sleep", "2000")
				l := r.isolated(script{Tools: []string{"new"}})
				l.Update = config.Replace
				r.pool.Start(l, 1)
				synctest.Wait()
				end(r, own)
				c.wait(r.t)
				r.gone(of)
			})
		})
	}
}

func TestPrivate_IsClosedAfterItsCalls(t *testing.T) {
	inBubble(t, func(r *rig) {
		of, own, a := r.private(r.isolated(script{}))
		c := a.call(own, "sleep", "60000") // longer than stop_grace
		own.Close()
		if got := c.wait(r.t); !strings.Contains(got, "slept") {
			r.t.Errorf("told: %s", got)
		}
		r.gone(of)
	})
}

func TestPrivate_EndsWithItsDefinitionForGood(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		l := r.isolated(script{})
		of, own, a := r.private(l)
		if own.Ended() {
			t.Error("ended while it runs")
		}
		r.pool.Stop("up")
		r.gone(of)
		r.pool.Start(l, 2)
		synctest.Wait()
		if !own.Ended() || !of.Private(own.private.peer).Ended() {
			t.Error("of a definition that is gone, a unit is said to be of use")
		}
		again := r.pool.Unit("up").Private(own.private.peer)
		if got := a.call(again, "echo", "1").wait(t); again.Ended() || !strings.Contains(got, `"echo":1`) {
			t.Errorf("the next one answers %s", got)
		}
	})
}

// A definition that all share takes no process of a session over: the session
// lets go of its own when it is published.
func TestPrivate_IsNotSwappedForASharedOne(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, own, _ := r.private(r.isolated(script{}))
		r.pool.Swap(r.launch("up", script{}))
		time.Sleep(time.Minute)
		if s := own.view.Load(); s.PID == 0 || s.Restarts != 0 || s.Launch.Isolation != config.IsolationSession {
			r.t.Errorf("its own: %+v", s)
		}
		own.Close()
		time.Sleep(time.Minute)
		if s := r.pool.Snapshot()[0]; s.Instances != 1 || s.State != Running {
			r.t.Errorf("the shared one: %s with %d instances", s.State, s.Instances)
		}
	})
}

func TestPrivate_IsMadeWhileLimitsChange(t *testing.T) {
	r := newRig(t)
	r.pool.Start(r.isolated(script{}), 1)
	var both sync.WaitGroup
	both.Go(func() {
		for range 50 {
			r.pool.SetLimits(config.DefaultServer())
		}
	})
	both.Go(func() {
		for range 50 {
			r.pool.Unit("up").Private(Peer{Answerer: mute{newAgent()}, Capabilities: "{}"}).Close()
		}
	})
	both.Wait()
	until(t, "all are gone", func() bool { return len(r.pool.Unit("up").family()) == 0 })
}
