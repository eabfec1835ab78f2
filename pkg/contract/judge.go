package contract

import (
	"fmt"
	"slices"

	"harness/pkg/ledger"
)

// Outcomes of a contract, and of each of its steps. Skipped is of a step alone:
// an earlier one decided that it was not run.
const (
	Pass      = "pass"
	Fail      = "fail"
	Error     = "error"
	Timeout   = "timeout"
	Cancelled = "cancelled"
	Skipped   = "skipped"
)

// End is why a step's processes were ended before they did so themselves.
type End int

// The ends of a step.
const (
	ByItself  End = iota
	TimeOver      // its own time, or that of the contract
	Cut           // somebody cancelled the session
	TooMuch       // it wrote more than the contract allows
	Unstarted     // it could not be started
)

// Observed is what was seen of one step.
type Observed struct {
	End            End
	Exit           *int   // null where a signal ended it
	Signal         string // "SIGKILL"; "" where it exited by itself
	Problem        string // why it could not be started, or read
	Stdout, Stderr []byte
	Holds          bool // of a file: that it is as it must be
	// Run and Receipt are the id of the run that a harness was, and the digest of
	// its final receipt; "" for any other step.
	Run, Receipt string
}

// Judged is what a step came to, and why in a few words.
type Judged struct{ Outcome, Reason string }

// JudgeWork decides whether checks are worth running.
func JudgeWork(o Observed) Judged { return judgeExit(o, 0) }

// JudgeCheck decides whether what was seen is what c demands.
func JudgeCheck(c *Check, o Observed) Judged {
	if c.Cmd == "" {
		switch {
		case o.End != ByItself:
			return judgeExit(o, 0)
		case o.Holds:
			return Judged{Pass, ""}
		}
		return Judged{Fail, o.Problem}
	}
	if j := judgeExit(o, c.Exit); j.Outcome != Pass {
		return j
	}
	for _, out := range []struct {
		name, pattern string
		text          []byte
	}{{"stdout", c.Stdout, o.Stdout}, {"stderr", c.Stderr, o.Stderr}} {
		if out.pattern == "" {
			continue
		}
		re, err := compile(out.pattern)
		switch {
		case err != nil: // Parse compiled it
			return Judged{Error, err.Error()}
		case !re.Match(out.text):
			return Judged{Fail, "nothing on " + out.name + " matches"}
		}
	}
	return Judged{Pass, ""}
}

// judgeExit decides by how a process ended.
func judgeExit(o Observed, want int) Judged {
	switch o.End {
	case TimeOver:
		return Judged{Timeout, "its time was over"}
	case Cut:
		return Judged{Cancelled, "the session was cancelled"}
	case TooMuch:
		return Judged{Error, "it wrote more than max_output"}
	case Unstarted:
		return Judged{Error, o.Problem}
	}
	switch {
	case o.Exit == nil:
		return Judged{Fail, "ended by " + o.Signal}
	case *o.Exit != want:
		return Judged{Fail, fmt.Sprintf("exit status %d, expected %d", *o.Exit, want)}
	}
	return Judged{Pass, ""}
}

// ExitCode is that of a command whose verdict has the outcome.
func ExitCode(outcome string) int {
	const errored = 4
	switch outcome {
	case Pass:
		return 0
	case Fail:
		return 1
	case Timeout:
		return 5
	case Cancelled:
		return 6
	}
	return errored
}

// Judge decides the whole: the gravest of what its steps came to. work is ""
// where there was none.
func Judge(work string, checks []ledger.Checked) string {
	outcomes := []string{work}
	for _, c := range checks {
		outcomes = append(outcomes, c.Outcome)
	}
	for _, grave := range []string{Cancelled, Error, Timeout, Fail} {
		if slices.Contains(outcomes, grave) {
			return grave
		}
	}
	return Pass
}

// Instead is what becomes of the steps that are not run, given what an earlier
// one came to: work that did not succeed leaves nothing to check.
func Instead(work string) string {
	switch work {
	case Timeout, Cancelled:
		return work
	}
	return Skipped
}
