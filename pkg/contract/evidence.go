package contract

import (
	"fmt"
	"path/filepath"
	"time"

	"harness/pkg/evidence"
	"harness/pkg/ledger"
)

// evidenceDir is where a session keeps what its steps said, below its own.
const evidenceDir = "evidence"

// keepEvidence writes what was seen of a step, for good and 0400, and returns
// the digest by which the ledger commits to it.
func keepEvidence(dir *evidence.Dir, entry int, step stepResult, o Observed, began time.Time) (string, error) {
	data, err := ledger.Canonical(map[string]any{
		"schema": "harness/contract-evidence/v1", "step": step.Step, "name": step.Name, "entry": entry,
		"exit_code": o.Exit, "signal": orNull(o.Signal), "problem": orNull(o.Problem),
		"began_at": began.UTC().Format(time.RFC3339Nano), "duration_ms": step.Millis, "sandbox": step.Sandbox,
		"stdout": output(o.Stdout), "stderr": output(o.Stderr),
	})
	if err != nil {
		return "", err
	}
	if err := dir.Write(fmt.Sprintf("%04d.json", entry), data); err != nil {
		return "", fmt.Errorf("keep evidence: %w", err)
	}
	return ledger.SHA256(data), nil
}

// openEvidence opens, or makes, the directory of a session's evidence.
func openEvidence(session string) (*evidence.Dir, error) {
	session, err := filepath.EvalSymlinks(session) // on the way to the state directory a link is the user's
	if err != nil {
		return nil, fmt.Errorf("open the evidence: %w", err)
	}
	dir, err := evidence.OpenDir(session)
	if err != nil {
		return nil, fmt.Errorf("open the evidence: %w", err)
	}
	defer dir.Close()
	kept, err := dir.Ensure(evidenceDir)
	if err != nil {
		return nil, fmt.Errorf("open the evidence: %w", err)
	}
	return kept, nil
}

// output is one stream as evidence: what was kept of it is bytes, not text.
func output(data []byte) map[string]any {
	return map[string]any{"bytes": len(data), "sha256": ledger.SHA256(data), "base64": append([]byte{}, data...)}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
