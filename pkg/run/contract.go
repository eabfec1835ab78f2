package run

import (
	"encoding/json"
	"fmt"
	"time"

	"harness/pkg/evidence"
)

// The states of a run.
const (
	Starting  = "starting"
	Running   = "running"
	Exited    = "exited"
	TimedOut  = "timed_out"
	Cancelled = "cancelled"
	Failed    = "failed"
)

// Over reports whether a state is one that a run ends in.
func Over(state string) bool { return state != Starting && state != Running }

// The kinds of actors (EVI-2).
const (
	Operator   = "operator" // by uid: somebody at the command line
	ByHarness  = "harness"  // by name: an agent, over MCP or at the command line
	ByContract = "contract"
	Instance   = "instance" // the daemon itself, or a session that is nobody's
)

// Actor is on whose behalf something was done.
type Actor struct {
	Kind string  `json:"kind"`
	Name *string `json:"name"`
	UID  *int    `json:"uid"`
	// Run is that of the harness that acted.
	Run *string `json:"run,omitempty"`
}

// ByOperator is the actor of a user's command.
func ByOperator(uid int) Actor { return Actor{Kind: Operator, UID: &uid} }

// Named is an actor of any other kind.
func Named(kind, name string) Actor { return Actor{Kind: kind, Name: &name} }

// contractSchema is what a launch contract says it is.
const contractSchema = "harness/launch-contract/v2"

// contractVersion is that of the contracts that are written. Version 1 had no
// catalog and no card.
const contractVersion = 2

// ContractVersions lists those that can be read.
func ContractVersions() []int { return []int{1, contractVersion} }

// Prompt says what a run was given to work on, without its text.
type Prompt struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// Contract is what a run was launched as, sealed before its process started.
type Contract struct {
	Schema  string   `json:"schema"`
	Version int      `json:"version"`
	Run     string   `json:"run"`
	Harness string   `json:"harness"`
	Bounded bool     `json:"bounded"` // false for a spawn of a supervised harness
	Argv    []string `json:"argv"`    // the program by its base name
	// DefinitionSHA256 is over the definition without values of its environment.
	DefinitionSHA256 string    `json:"definition_sha256"`
	CatalogSHA256    string    `json:"catalog_sha256"`
	CardSHA256       string    `json:"card_sha256"`
	Role             *string   `json:"role"`
	Actor            Actor     `json:"actor"`
	IdempotencyKey   *string   `json:"idempotency_key"`
	Prompt           *Prompt   `json:"prompt"`
	TimeoutMS        *int64    `json:"timeout_ms"`
	At               time.Time `json:"at"`
}

// The types of a run's receipts.
const (
	typeSealed  = "sealed"
	typeStarted = "started"
	typeMessage = "message"
	typeTorn    = "torn"
	typeEnded   = "ended"
)

// sealedBody commits to what was sealed before the process started.
type sealedBody struct {
	Run            string `json:"run"`
	Actor          Actor  `json:"actor"`
	ContractSHA256 string `json:"contract_sha256"`
	CatalogSHA256  string `json:"catalog_sha256"`
	CardSHA256     string `json:"card_sha256"`
}

type startedBody struct {
	Actor Actor `json:"actor"`
}

type endedBody struct {
	Actor    Actor   `json:"actor"`
	State    string  `json:"state"`
	ExitCode *int    `json:"exit_code"`
	Signal   *string `json:"signal"`
	Reason   *string `json:"reason"` // why it ended so, where its exit does not say
	// OutputBytes is how much of the output is kept, OutputCut whether there was
	// more.
	OutputBytes int64 `json:"output_bytes"`
	OutputCut   bool  `json:"output_cut"`
}

// Info is one run as it is shown.
type Info struct {
	ID                 string     `json:"id"`
	Harness            string     `json:"harness"`
	State              string     `json:"state"`
	ExitCode           *int       `json:"exit_code"` // null where a signal ended it, and where nobody saw the end
	Role               *string    `json:"role"`
	Actor              Actor      `json:"actor"`
	StartedAt          time.Time  `json:"started_at"`
	EndedAt            *time.Time `json:"ended_at"` // null while it runs
	IdempotencyKey     *string    `json:"idempotency_key"`
	LaunchContract     int        `json:"launch_contract"` // its version
	CatalogSHA256      *string    `json:"catalog_sha256"`
	FinalReceiptSHA256 *string    `json:"final_receipt_sha256"`
	Replayed           bool       `json:"replayed"`
	Signal             *string    `json:"signal"`
	Reason             *string    `json:"reason"`
	Bounded            bool       `json:"bounded"`
	Bytes              int64      `json:"bytes"`     // of its output that is kept
	Truncated          bool       `json:"truncated"` // there was more output, known once it is over
}

// stored is what status.json has: the receipts say the rest.
type stored struct {
	Info
	Truncated *bool `json:"truncated,omitempty"` // in place of that of the run; never there
}

// project makes what is shown of a run from its evidence. final is the digest of
// the final receipt, "" before there is one.
func project(c Contract, records []evidence.Record, final string, bytes int64) (Info, error) {
	info := Info{
		ID: c.Run, Harness: c.Harness, State: Starting, Role: c.Role, Actor: c.Actor, StartedAt: c.At, IdempotencyKey: c.IdempotencyKey,
		LaunchContract: c.Version, Bounded: c.Bounded, Bytes: bytes,
	}
	if c.CatalogSHA256 != "" {
		info.CatalogSHA256 = &c.CatalogSHA256
	}
	if final != "" {
		info.FinalReceiptSHA256 = &final
	}
	for _, r := range records {
		switch r.Type {
		case typeStarted:
			info.State = Running
		case typeEnded:
			var end endedBody
			if err := json.Unmarshal(r.Body, &end); err != nil {
				return Info{}, fmt.Errorf("read the end of a run: %w", err)
			}
			at := r.At
			info.State, info.ExitCode, info.Signal, info.Reason, info.EndedAt = end.State, end.ExitCode, end.Signal, end.Reason, &at
			info.Bytes, info.Truncated = end.OutputBytes, end.OutputCut
		}
	}
	return info, nil
}
