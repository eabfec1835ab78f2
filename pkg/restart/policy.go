package restart

import (
	"fmt"
	"time"
)

// The numbers of LIF-2.
const (
	// Window is how far back exits count towards Burst, and how long a run
	// must last to clear what came before it.
	Window = 60 * time.Second
	// Burst is how many exits within Window make a name degraded.
	Burst = 5
	// Tries is how many more starts a degraded name gets before it is failed.
	Tries = 10
	// Ceiling bounds the doubled delay, whatever the configured one.
	Ceiling = 60 * time.Second
	// Factor bounds the doubled delay as a multiple of the configured one.
	Factor = 50
	// MinDelay replaces a smaller configured delay, so that nothing spins.
	MinDelay = 10 * time.Millisecond
)

// State is what a name is while it waits for its next try.
type State string

// The three ways to wait, spelled as the states of LIF-1.
const (
	Restarting State = "restarting" // the configured delay
	Degraded   State = "degraded"   // a doubled delay
	Failed     State = "failed"     // given up, or tried again at RetryFailed only
)

// Policy is what the user configured for one name.
type Policy struct {
	// Delay is the wait before an ordinary restart (restart_delay); less than
	// MinDelay counts as MinDelay.
	Delay time.Duration
	// RetryFailed is the wait before another try of a failed name; 0 means
	// that it waits for its user.
	RetryFailed time.Duration
}

// Decision is what follows from an exit.
type Decision struct {
	State State
	// Delay is the wait before the next try, counted from the exit. It is 0
	// only for Failed, and then means: no further try until the History is cleared.
	Delay time.Duration
	// Why says which rule was applied, in words for a status line.
	Why string
}

// String gives the decision as one line: "degraded, next try in 8s: …".
func (d Decision) String() string {
	if d.Delay == 0 {
		return fmt.Sprintf("%s: %s", d.State, d.Why)
	}
	return fmt.Sprintf("%s, next try in %s: %s", d.State, d.Delay, d.Why)
}

// Exit counts one exit and decides what follows; an exit with status 0 and a
// start that was never answered count like any other. started is when the run
// came up; the zero Time says that it never did, so that a start that merely
// took long clears nothing. rnd in [0,1) is the jitter.
//
// Both times should come from time.Now: their monotonic readings keep the rule
// steady when the wall clock jumps.
func (p Policy) Exit(h History, started, now time.Time, rnd float64) (History, Decision) {
	if !started.IsZero() && now.Sub(started) > Window {
		h = h.settle()
	}
	h = h.add(now)
	switch {
	case h.level > Tries:
		return h, Decision{Failed, max(p.RetryFailed, 0), fmt.Sprintf("exited again after %d slower tries", Tries)}
	case h.level > 0:
		why := fmt.Sprintf("%d exits within %s, try %d of %d", Burst, Window, h.level, Tries)
		return h, Decision{Degraded, p.slower(h.level, rnd), why}
	default:
		return h, Decision{Restarting, p.delay(), "exited"}
	}
}

// Bound is the longest wait before a restart that is not a retry of a failed
// name: Ceiling or Factor times the configured delay, whichever is less, but
// never less than the configured delay itself.
func (p Policy) Bound() time.Duration {
	delay := p.delay()
	if delay >= Ceiling {
		return delay
	}
	return min(Ceiling, Factor*delay)
}

func (p Policy) delay() time.Duration { return max(p.Delay, MinDelay) }

// slower doubles the configured delay level times, within Bound, and takes up
// to a tenth off again.
func (p Policy) slower(level int, rnd float64) time.Duration {
	delay, bound := p.delay(), p.Bound()
	for range level {
		if delay >= bound/2 {
			delay = bound
			break
		}
		delay *= 2
	}
	jitter := time.Duration(float64(delay/10) * min(max(rnd, 0), 1))
	return max(delay-jitter, p.delay())
}
