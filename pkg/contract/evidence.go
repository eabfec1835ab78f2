package contract

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"harness/pkg/durable"
	"harness/pkg/ledger"
)

// evidenceDir is where a session keeps what its steps said, below its own.
const evidenceDir = "evidence"

// keepEvidence writes what was seen of a step, for good and 0400, and returns
// the digest by which the ledger commits to it.
func keepEvidence(dir string, entry int, step stepResult, o Observed, began time.Time) (string, error) {
	data, err := ledger.Canonical(map[string]any{
		"schema": "harness/contract-evidence/v1", "step": step.Step, "name": step.Name, "entry": entry,
		"exit_code": o.Exit, "signal": orNull(o.Signal), "problem": orNull(o.Problem),
		"began_at": began.UTC().Format(time.RFC3339Nano), "duration_ms": step.Millis, "sandbox": step.Sandbox,
		"stdout": output(o.Stdout), "stderr": output(o.Stderr),
	})
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, evidenceDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep evidence: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%04d.json", entry))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return "", fmt.Errorf("keep evidence: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", fmt.Errorf("keep evidence: %w", err)
	}
	return ledger.SHA256(data), durable.SyncDir(dir)
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
