package contract

import (
	"encoding/json"
	"fmt"
	"slices"

	"harness/pkg/ledger"
)

// Types of the entries of a session, beside those that the ledger knows.
const (
	entryStarted     = "started"     // a step begins
	entryFinished    = "finished"    // a step has ended, with what it came to
	entryInterrupted = "interrupted" // steps were under way when their process died
	entryResumed     = "resumed"     // somebody asked for the rest
	entryCancelled   = "cancelled"   // somebody asked for no more
)

// workStep is the number of the work; checks are numbered from 1.
const workStep = 0

// stepResult is what an entry says of a step that has ended.
type stepResult struct {
	Step     int     `json:"step"`
	Name     string  `json:"name"`
	Outcome  string  `json:"outcome"`
	Reason   string  `json:"reason"`
	ExitCode *int    `json:"exit_code"`
	Evidence *string `json:"evidence_sha256"`
	Sandbox  string  `json:"sandbox"`
	Millis   int64   `json:"duration_ms"`
	Run      string  `json:"run"` // of a harness; "" for any other step
	Receipt  string  `json:"receipt_sha256"`
}

// opening is what the first entry says beside what the ledger puts there.
type opening struct {
	Root  string `json:"root"`
	Name  string `json:"name"`
	Steps int    `json:"steps"`
	// Prompt is the digest of what the work is told; nil where that is nothing, and
	// in sessions of before it was noted.
	Prompt *string `json:"prompt_sha256"`
}

// history is what the entries of a session tell of its steps.
type history struct {
	opening
	contract  string // digest
	done      map[int]stepResult
	underWay  []int // begun, and neither finished nor recorded as interrupted
	cancelled bool
	began     map[int]int     // the entry that a step began with last
	places    map[string]bool // names of the files that steps may have
	kept      []kept
}

// replay reads the entries of a session, oldest first (CON-3).
func replay(entries []ledger.Entry) (history, error) {
	h := history{done: map[int]stepResult{}, began: map[int]int{}, places: map[string]bool{}}
	for _, e := range entries {
		if err := h.take(e); err != nil {
			return history{}, fmt.Errorf("entry %d: %w", e.N, err)
		}
	}
	return h, nil
}

func (h *history) take(e ledger.Entry) error {
	switch e.Type {
	case ledger.Opened:
		head, err := e.Head()
		if err != nil {
			return err
		}
		h.contract = head.ContractSHA256
		return json.Unmarshal(e.Body, &h.opening)
	case entryStarted, entryFinished:
		var r stepResult
		if err := json.Unmarshal(e.Body, &r); err != nil {
			return err
		}
		h.underWay = slices.DeleteFunc(h.underWay, func(i int) bool { return i == r.Step })
		if e.Type == entryStarted {
			h.underWay = append(h.underWay, r.Step)
			h.began[r.Step] = e.N
			h.places[evidenceName(e.N)] = true
			return nil
		}
		if r.Evidence != nil {
			h.kept = append(h.kept, kept{e.N, evidenceName(h.began[r.Step]), *r.Evidence})
		}
		h.done[r.Step] = r
	case entryInterrupted:
		h.underWay = nil
	case entryCancelled:
		h.cancelled = true
	}
	return nil
}
