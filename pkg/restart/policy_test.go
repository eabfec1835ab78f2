package restart_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/restart"
)

// exit is one line of a story.
type exit struct {
	after time.Duration // since the previous exit
	run   time.Duration // how long it was up; 0: it never came up
}

// tell plays exits against p and returns the decisions as text.
func tell(p restart.Policy, rnd float64, exits []exit) (restart.History, []string) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var h restart.History
	var d restart.Decision
	var said []string
	for _, e := range exits {
		now = now.Add(e.after)
		started := now.Add(-e.run)
		if e.run == 0 {
			started = time.Time{}
		}
		h, d = p.Exit(h, started, now, rnd)
		said = append(said, d.String())
	}
	return h, said
}

// every is n exits, one each interval, after runs of the given length.
func every(n int, interval, run time.Duration) []exit {
	exits := make([]exit, n)
	for i := range exits {
		exits[i] = exit{interval, run}
	}
	return exits
}

func TestExit_FollowsTheRule(t *testing.T) {
	const again = ": exited"
	const slow = ": 5 exits within 1m0s, try "
	for _, tc := range []struct {
		name   string
		policy restart.Policy
		rnd    float64
		exits  []exit
		want   []string
	}{{
		name:   "one exit restarts after the delay, with status 0 too",
		policy: restart.Policy{Delay: time.Second},
		exits:  every(1, 0, 30*time.Second),
		want:   []string{"restarting, next try in 1s" + again},
	}, {
		name:   "the fifth exit within 60 s degrades and doubles up to 50 delays",
		policy: restart.Policy{Delay: 100 * time.Millisecond},
		exits:  every(11, 10*time.Second, time.Millisecond),
		want: []string{
			"restarting, next try in 100ms" + again,
			"restarting, next try in 100ms" + again,
			"restarting, next try in 100ms" + again,
			"restarting, next try in 100ms" + again,
			"degraded, next try in 200ms" + slow + "1 of 10",
			"degraded, next try in 400ms" + slow + "2 of 10",
			"degraded, next try in 800ms" + slow + "3 of 10",
			"degraded, next try in 1.6s" + slow + "4 of 10",
			"degraded, next try in 3.2s" + slow + "5 of 10",
			"degraded, next try in 5s" + slow + "6 of 10",
			"degraded, next try in 5s" + slow + "7 of 10",
		},
	}, {
		name:   "up to 60 s where 50 delays are more",
		policy: restart.Policy{Delay: 7 * time.Second},
		exits:  every(9, 7*time.Second, 0),
		want: []string{
			"restarting, next try in 7s" + again,
			"restarting, next try in 7s" + again,
			"restarting, next try in 7s" + again,
			"restarting, next try in 7s" + again,
			"degraded, next try in 14s" + slow + "1 of 10",
			"degraded, next try in 28s" + slow + "2 of 10",
			"degraded, next try in 56s" + slow + "3 of 10",
			"degraded, next try in 1m0s" + slow + "4 of 10",
			"degraded, next try in 1m0s" + slow + "5 of 10",
		},
	}, {
		name:   "exactly 60 s from the first to the fifth still counts",
		policy: restart.Policy{Delay: time.Second},
		exits:  every(5, 15*time.Second, 0),
		want: []string{
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"degraded, next try in 2s" + slow + "1 of 10",
		},
	}, {
		name:   "a little more does not, however often it happens",
		policy: restart.Policy{Delay: time.Second},
		exits:  every(6, 15*time.Second+time.Millisecond, 14*time.Second),
		want: []string{
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
		},
	}, {
		name:   "a run that outlives 60 s resets, one of 60 s does not",
		policy: restart.Policy{Delay: time.Second},
		exits: append(every(5, time.Second, 0),
			exit{62 * time.Second, 60 * time.Second},
			exit{65 * time.Second, 60*time.Second + 1},
			exit{time.Second, 0}),
		want: []string{
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"degraded, next try in 2s" + slow + "1 of 10",
			"degraded, next try in 4s" + slow + "2 of 10",
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
		},
	}, {
		name:   "a start that was never answered resets nothing, however long it took",
		policy: restart.Policy{Delay: time.Second},
		exits:  append(every(5, time.Second, 0), exit{61 * time.Second, 0}),
		want: []string{
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"degraded, next try in 2s" + slow + "1 of 10",
			"degraded, next try in 4s" + slow + "2 of 10",
		},
	}, {
		name:   "jitter takes up to a tenth off, at the bound as well",
		policy: restart.Policy{Delay: time.Second},
		rnd:    0.5,
		exits:  every(11, 5*time.Second, 0),
		want: []string{
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"restarting, next try in 1s" + again,
			"degraded, next try in 1.9s" + slow + "1 of 10",
			"degraded, next try in 3.8s" + slow + "2 of 10",
			"degraded, next try in 7.6s" + slow + "3 of 10",
			"degraded, next try in 15.2s" + slow + "4 of 10",
			"degraded, next try in 30.4s" + slow + "5 of 10",
			"degraded, next try in 47.5s" + slow + "6 of 10",
			"degraded, next try in 47.5s" + slow + "7 of 10",
		},
	}, {
		name:   "a delay above every bound is kept as it is",
		policy: restart.Policy{Delay: 2 * time.Minute},
		exits:  every(6, time.Second, 0), // by hand, far faster than it would
		want: []string{
			"restarting, next try in 2m0s" + again,
			"restarting, next try in 2m0s" + again,
			"restarting, next try in 2m0s" + again,
			"restarting, next try in 2m0s" + again,
			"degraded, next try in 2m0s" + slow + "1 of 10",
			"degraded, next try in 2m0s" + slow + "2 of 10",
		},
	}, {
		name:   "no delay at all is at least 10 ms",
		policy: restart.Policy{},
		exits:  every(1, 0, 0),
		want:   []string{"restarting, next try in 10ms" + again},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			_, got := tell(tc.policy, tc.rnd, tc.exits)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExit_FailsAfterTenMoreTries(t *testing.T) {
	const given = ": exited again after 10 slower tries"
	for _, tc := range []struct {
		name   string
		policy restart.Policy
		want   string
	}{
		{"a harness waits for its user", restart.Policy{Delay: time.Second}, "failed" + given},
		{"an upstream is tried every 5 minutes", restart.Policy{Delay: time.Second, RetryFailed: 5 * time.Minute}, "failed, next try in 5m0s" + given},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, said := tell(tc.policy, 0, every(14, time.Second, 0))
			if got := said[13]; before.Failed() || got != "degraded, next try in 50s: 5 exits within 1m0s, try 10 of 10" {
				t.Errorf("exit 14: failed %v, %q", before.Failed(), got)
			}
			after, said := tell(tc.policy, 0, every(17, time.Second, 0))
			if diff := cmp.Diff([]string{tc.want, tc.want, tc.want}, said[14:]); diff != "" {
				t.Error(diff)
			}
			if !after.Failed() || !after.Degraded() || after.Exits() != 17 {
				t.Errorf("failed %v, degraded %v, exits %d", after.Failed(), after.Degraded(), after.Exits())
			}
		})
	}
}

func TestExit_RecoversAFailedNameAfterALongRun(t *testing.T) {
	h, said := tell(restart.Policy{Delay: time.Second}, 0, append(every(15, time.Second, 0), exit{7 * time.Minute, 2 * time.Minute}))
	if diff := cmp.Diff("restarting, next try in 1s: exited", said[15]); diff != "" {
		t.Error(diff)
	}
	if h.Failed() || h.Degraded() || h.Exits() != 16 {
		t.Errorf("failed %v, degraded %v, exits %d", h.Failed(), h.Degraded(), h.Exits())
	}
}

func TestExit_LeavesTheGivenHistoryAlone(t *testing.T) {
	p := restart.Policy{Delay: time.Second}
	now := time.Now()
	var h restart.History
	p.Exit(h, now, now, 0)
	if h != (restart.History{}) {
		t.Error("the argument changed")
	}
}

func TestExit_IsNotMisledByTheWallClock_C65(t *testing.T) {
	p := restart.Policy{Delay: 10 * time.Second}
	// time.Now carries a monotonic reading; without one, times an hour apart
	// in either direction must still give the configured delay.
	now := time.Now()
	var h restart.History
	var d restart.Decision
	for _, jump := range []time.Duration{0, -time.Hour, time.Hour} {
		h, d = p.Exit(h, time.Time{}, now.Add(jump).Round(0), 0)
		if d.Delay != 10*time.Second || d.State != restart.Restarting {
			t.Errorf("after a jump of %s: %s", jump, d)
		}
	}
}
