package contract

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Fleet is the daemon, as far as contracts need one.
type Fleet interface {
	// Announce has a session be among the runs. over is called once, when the
	// session's chain is closed; it does not fail: that a run is shown is not what
	// a contract is about.
	Announce(session string) (over func())
	// Work runs a harness to its end as a bounded run. After an error nothing was
	// run, or nobody knows what came of it, and the error names the run.
	Work(ctx context.Context, w HarnessWork) (HarnessEnd, error)
}

// HarnessWork is one bounded run of a harness, on behalf of a session.
type HarnessWork struct {
	Session string
	Harness string
	Prompt  string
	Timeout time.Duration
	Key     string // idempotency
}

// HarnessEnd is what came of it.
type HarnessEnd struct {
	Run      string // id
	State    string // exited, timed_out, cancelled or failed
	ExitCode *int
	Signal   string
	Reason   string
	Receipt  string // digest of its final receipt, which commits to all of its evidence
}

// Why a harness is not run.
var (
	// ErrNoFleet is for where no daemon answers.
	ErrNoFleet = errors.New("a harness is run by the daemon, and none answers: start it with `harness daemon`, or name a cmd")
	errAlone   = errors.New("a harness is run by the daemon, which --standalone does without: leave that out, or name a cmd")
)

// harness does the work by a harness of the fleet.
func (x *Execution) harness(ctx context.Context, prompt string, entry int) Observed {
	fleet := x.runner.Fleet
	if fleet == nil {
		return Observed{End: Unstarted, Problem: errAlone.Error()}
	}
	w := x.spec.Work
	job := HarnessWork{Session: x.id, Harness: w.Harness, Prompt: prompt, Timeout: x.spec.Timeout, Key: fmt.Sprintf("%s/%d", x.id, entry)}
	if w.Timeout > 0 {
		job.Timeout = w.Timeout
	}
	end, err := fleet.Work(ctx, job)
	if err != nil {
		return Observed{End: Unstarted, Problem: err.Error()}
	}
	return end.observed(ctx)
}

// observed is the end of a run as that of a step.
func (e HarnessEnd) observed(ctx context.Context) Observed {
	o := Observed{Exit: e.ExitCode, Signal: e.Signal, Run: e.Run, Receipt: e.Receipt}
	switch e.State {
	case "timed_out":
		o.End = TimeOver
	case "cancelled":
		o.End = Cut
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			o.End = TimeOver
		}
	case "failed":
		o.End, o.Problem = Unstarted, "run "+e.Run+" failed: "+e.Reason
	}
	return o
}
