package upstream

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRelay_GivesEachCallExactlyOneOutcomeWhateverHappens lets 64 callers call
// while a random hand crashes, kills, swaps, replaces, restarts and stops the
// upstream, and sessions take calls back.
func TestRelay_GivesEachCallExactlyOneOutcomeWhateverHappens(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				t := r.t
				r.mem.seen = map[string]int{}
				l := r.launch("up", script{})
				l.RestartDelay = 10 * time.Millisecond
				r.pool.Start(l, 1)
				end := time.Now().Add(20 * time.Second)
				done := make(chan *storm, 64)
				for i := range uint64(64) {
					s := &storm{rig: r, agent: newAgent(), rnd: rand.New(rand.NewPCG(seed, i)), end: end}
					go func() {
						s.callAll()
						done <- s
					}()
				}
				meddle(r, rand.New(rand.NewPCG(seed, 1000)), end)
				answered := 0
				for range 64 {
					s := <-done
					s.agent.once(t, s.cancelled...)
					answered += s.answered
				}
				for unique, n := range r.mem.sent() {
					if n > 1 {
						t.Errorf("call %s was sent %d times", unique, n)
					}
				}
				if answered < 1000 {
					t.Errorf("only %d calls were answered", answered)
				}
			})
		})
	}
}

// storm is one caller.
type storm struct {
	rig       *rig
	agent     *agent
	rnd       *rand.Rand
	end       time.Time
	answered  int
	cancelled []*outcome
}

func (s *storm) callAll() {
	var open []*outcome
	for time.Now().Before(s.end) {
		// In a bubble time passes only while everybody waits.
		time.Sleep(time.Duration(1+s.rnd.IntN(100)) * time.Millisecond)
		u := s.rig.pool.Unit("up")
		if u == nil {
			continue
		}
		tool := []string{"echo", "sleep", "hold", "die", "blob"}[pick(s.rnd, 60, 25, 10, 1, 4)]
		o := s.agent.send(u, tool, fmt.Sprintf(`{"name":"up__x","arguments":%d,"unique":"%p %d"}`, s.rnd.IntN(300), s, s.agent.last), nil)
		if s.rnd.IntN(10) == 0 && u.Cancel(o.call, nil) {
			s.cancelled = append(s.cancelled, o)
			continue
		}
		if open = append(open, o); s.rnd.IntN(3) > 0 {
			s.settle(open)
			open = nil
		}
	}
	s.settle(open)
}

// settle waits for the outcomes; what the upstream holds is taken back.
func (s *storm) settle(open []*outcome) {
	for _, o := range open {
		select {
		case <-o.done:
			if o.err == nil {
				s.answered++
			}
			continue
		case <-time.After(time.Second):
		}
		if s.rig.pool.cancelAny(o) {
			s.cancelled = append(s.cancelled, o)
			continue
		}
		<-o.done
	}
}

// cancelAny takes a call back from whatever unit it is with.
func (p *Pool) cancelAny(o *outcome) bool {
	for _, u := range p.all() {
		if u.Cancel(o.call, nil) {
			return true
		}
	}
	return false
}

// pick returns an index with the weights given.
func pick(rnd *rand.Rand, weights ...int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	n := rnd.IntN(total)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	return 0
}

// meddle does what an operator, an edit and bad luck do.
func meddle(r *rig, rnd *rand.Rand, end time.Time) {
	for version := 0; time.Now().Before(end); version++ {
		l := r.launch("up", script{Tools: []string{fmt.Sprint("v", version)}})
		l.RestartDelay = 10 * time.Millisecond
		switch pick(rnd, 30, 30, 5, 10, 5, 3, 3) {
		case 0:
			r.pool.Swap(l)
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
			r.pool.Promote()
		case 1:
			r.pool.Promote()
		case 2:
			r.pool.Start(l, r.status("up").Nonce)
		case 3:
			if children := r.mem.children(); len(children) > 0 {
				children[rnd.IntN(len(children))].kill()
				children[len(children)-1].kill()
			}
		case 4:
			r.pool.Start(r.status("up").Launch, uint64(version))
		case 5:
			r.pool.Cancel("up")
		case 6:
			r.pool.Stop("up")
			time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
			r.pool.Start(l, uint64(version))
		}
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
	}
}

func TestRelay_LosesNoCallOverAHundredSwaps(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.start(script{})
		end := time.Now().Add(10 * time.Second)
		done := make(chan *agent, 32)
		for range 32 {
			go func() {
				a := newAgent()
				for n := 0; time.Now().Before(end); n++ {
					o := a.call(r.pool.Unit("up"), "sleep", strconv.Itoa(1+n%70))
					if o.wait(t); o.err != nil {
						t.Errorf("a call failed: %s", o.text)
					}
				}
				done <- a
			}()
		}
		for i := 0; time.Now().Before(end); i++ {
			r.pool.Swap(r.launch("up", script{Tools: []string{fmt.Sprint("v", i)}}))
			time.Sleep(time.Duration(i%90) * time.Millisecond)
			r.pool.Promote()
			time.Sleep(time.Millisecond)
		}
		for range 32 {
			(<-done).once(t)
		}
		time.Sleep(time.Minute)
		if s := r.status("up"); s.Instances != 1 || s.State != Running {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

func TestRelay_FailsWhatWaitsForAnUpstreamThatDoesNotRead(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		deaf := a.call(u, "deaf", "{}")
		synctest.Wait()
		begun := time.Now()
		big := `"` + strings.Repeat("x", 3<<20) + `"`
		waits := []*outcome{a.call(u, "echo", big), a.call(u, "echo", "1"), a.call(u, "echo", big)}
		refused := a.call(u, "echo", big)
		if refused.open() || !strings.Contains(refused.text, "too much is waiting for it to read its input") {
			t.Errorf("over the limit: %.200s", refused.text)
		}
		for _, o := range append(waits, deaf) {
			if got := o.wait(t); time.Since(begun) > 31*time.Second || !strings.Contains(got, "did not read its input for 30s") {
				t.Errorf("after %s: %.200s", time.Since(begun), got)
			}
		}
		time.Sleep(time.Minute)
		if got := a.call(u, "echo", "1").wait(t); !strings.Contains(got, "result") {
			t.Errorf("after the restart: %s", got)
		}
		a.once(t)
	})
}

// sent returns how often each call reached a process.
func (m *memory) sent() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// note counts a call that reached a process.
func (m *memory) note(unique string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen != nil {
		m.seen[unique]++
	}
}
