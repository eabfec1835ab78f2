package restart_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"harness/pkg/restart"
)

func drawPolicy(t *rapid.T) restart.Policy {
	return restart.Policy{
		Delay:       time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "delay")),
		RetryFailed: time.Duration(rapid.SampledFrom([]int64{0, int64(5 * time.Minute)}).Draw(t, "retry")),
	}
}

func TestExit_NeverSpinsAndNeverWaitsBeyondItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		floor := max(p.Delay, restart.MinDelay)
		now := time.Unix(1_000_000, 0)
		var h restart.History
		var d restart.Decision
		for range rapid.IntRange(1, 60).Draw(t, "exits") {
			run := time.Duration(rapid.Int64Range(0, int64(90*time.Second)).Draw(t, "run"))
			started := now.Add(d.Delay)
			now = started.Add(run)
			h, d = p.Exit(h, started, now, rapid.Float64Range(0, 0.999).Draw(t, "rnd"))
			if d.State == restart.Failed {
				if d.Delay != p.RetryFailed {
					t.Fatalf("%v: want a retry after %s", d, p.RetryFailed)
				}
				continue
			}
			if d.Delay < floor || d.Delay > p.Bound() {
				t.Fatalf("%v: not within %s and %s", d, floor, p.Bound())
			}
			if p.Bound() > floor && (p.Bound() > restart.Ceiling || p.Bound() > restart.Factor*floor) {
				t.Fatalf("bound %s for a delay of %s", p.Bound(), floor)
			}
		}
	})
}

func TestExit_GrowsUntilTheBoundAndThenFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		now := time.Unix(1_000_000, 0)
		var h restart.History
		var last restart.Decision
		for i := range restart.Burst + restart.Tries {
			now = now.Add(time.Millisecond)
			var d restart.Decision
			h, d = p.Exit(h, time.Time{}, now, rapid.Float64Range(0, 0.999).Draw(t, "rnd"))
			want := restart.Restarting
			switch {
			case i == restart.Burst+restart.Tries-1:
				want = restart.Failed
			case i >= restart.Burst-1:
				want = restart.Degraded
			}
			if d.State != want {
				t.Fatalf("exit %d: %v, want %s", i+1, d, want)
			}
			// At the bound only the jitter moves it.
			if d.State != restart.Failed && d.Delay < last.Delay && d.Delay < p.Bound()-p.Bound()/10 {
				t.Fatalf("exit %d: %v after %v", i+1, d, last)
			}
			last = d
		}
	})
}

func TestExit_CountsWhatEverHappened(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		now := time.Unix(1_000_000, 0)
		var h restart.History
		exits := rapid.IntRange(0, 40).Draw(t, "exits")
		for range exits {
			run := time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "run"))
			now = now.Add(run)
			h, _ = p.Exit(h, now.Add(-run), now, 0)
		}
		if h.Exits() != exits {
			t.Fatalf("Exits() = %d after %d", h.Exits(), exits)
		}
	})
}
