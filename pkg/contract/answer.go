package contract

import (
	"maps"
	"path/filepath"
	"slices"

	"harness/pkg/ledger"
)

// What a session is.
const (
	Running     = "running"
	Done        = "done"
	Interrupted = "interrupted" // its process died; it goes on when somebody asks for it
)

// ExportTool is the tool that exports the bundle of a session.
const ExportTool = "harness_ledger_export"

// Answer is what a session has come to (section 10 of the contract).
type Answer struct {
	Session   string          `json:"session"`
	Status    string          `json:"status"`
	Verdict   *ledger.Verdict `json:"verdict"`
	HeadHash  string          `json:"head_hash"`
	BundleRef BundleRef       `json:"bundle_ref"`
	// Steps are those that have ended, in the order of the contract: for eyes.
	Steps []Ended `json:"-"`
}

// Ended is a step of a session that has ended.
type Ended struct {
	Step            int // 0 is the work, a check is its place from 1
	Outcome, Reason string
	Exit            *int    // nil where it has no exit status
	Evidence        *string // digest; nil for none
	Name            string  // of the step, as its contract has it
	File            string  // the evidence, below the session's directory; "" for none
}

// BundleRef says which tool exports the evidence of an answer.
type BundleRef struct {
	Tool    string `json:"tool"`
	Session string `json:"session"`
}

// answer tells what entries say. busy is whether some process goes on with them.
func answer(session string, entries []ledger.Entry, busy bool) (Answer, error) {
	v, err := ledger.VerdictOf(entries)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{
		Session: session, Status: Interrupted, Verdict: v,
		HeadHash: entries[len(entries)-1].SHA256, BundleRef: BundleRef{ExportTool, session},
	}
	h, err := replay(entries)
	if err != nil {
		return Answer{}, err
	}
	for _, n := range slices.Sorted(maps.Keys(h.done)) {
		r := h.done[n]
		e := Ended{Step: n, Outcome: r.Outcome, Reason: r.Reason, Exit: r.ExitCode, Evidence: r.Evidence, Name: r.Name}
		if r.Evidence != nil {
			e.File = filepath.Join(ledger.EvidenceName, evidenceName(h.began[n]))
		}
		a.Steps = append(a.Steps, e)
	}
	switch {
	case v != nil:
		a.Status = Done
	case busy:
		a.Status = Running
	}
	return a, nil
}

// Progress is one thing that happened to a session.
type Progress struct {
	Done, Total int    // steps
	Step        string // the step that this is about
	Outcome     string // "" when it begins
	Reason      string
}
