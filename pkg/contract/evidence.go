package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"harness/pkg/evidence"
	"harness/pkg/ledger"
)

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
	if err := dir.Write(evidenceName(entry), data); err != nil {
		return "", fmt.Errorf("keep evidence: %w", err)
	}
	return ledger.SHA256(data), nil
}

// evidenceName is the file of the step that began with an entry.
func evidenceName(entry int) string { return fmt.Sprintf("%04d.json", entry) }

// kept is a file that an entry commits to.
type kept struct {
	entry int
	name  string
	sum   string
}

// maxEvidence bounds what is read of a file: more than a step's output can be.
const maxEvidence = 4 * maxOutput

// read returns the chain of a session by way of get, after a check of the evidence
// that it commits to. The error is a [*ledger.Fault] where that is not what it was.
func (r *Runner) read(id string, get func() ([]ledger.Entry, error)) ([]ledger.Entry, error) {
	session, err := r.Ledger.OpenDir(id)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	dir, err := session.Sub(ledger.EvidenceName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &ledger.Fault{Message: fmt.Sprintf("%s of session %s is not a directory, or cannot be read", ledger.EvidenceName, id)}
	}
	var seen []evidence.Info
	if dir != nil {
		defer dir.Close()
		// First: what there is then, an entry that is read afterwards knows of.
		if seen, err = dir.List(); err != nil {
			return nil, fmt.Errorf("list the evidence: %w", err)
		}
	}
	entries, err := get()
	if err != nil {
		return nil, err
	}
	h, err := replay(entries)
	if err != nil {
		return nil, err
	}
	return entries, h.holds(id, dir, seen)
}

// holds says which file of a session's evidence is not what an entry commits to, or
// of no step. dir is nil where there is none, seen what is in it.
func (h *history) holds(id string, dir *evidence.Dir, seen []evidence.Info) error {
	fault := func(entry int, name, wrong string) error {
		return &ledger.Fault{Entry: entry, Message: fmt.Sprintf("%s of session %s %s", filepath.Join(ledger.EvidenceName, name), id, wrong)}
	}
	for _, k := range h.kept {
		if wrong := k.problem(dir); wrong != "" {
			return fault(k.entry, k.name, wrong)
		}
	}
	for _, info := range seen {
		if !h.places[info.Name] {
			return fault(0, info.Name, "belongs to no step")
		}
		if wrong := info.Sealed(); wrong != "" {
			return fault(0, info.Name, "cannot be believed: "+wrong)
		}
	}
	return nil
}

// Said returns what a step wrote that has ended, as it is kept in the directory of
// its session. Nothing is checked: that is for who verifies.
func Said(kept *ledger.Store, session string, e Ended) (stdout, stderr []byte, err error) {
	if e.File == "" {
		return nil, nil, nil
	}
	dir, err := kept.OpenDir(session)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	data, _, err := dir.Read(e.File, maxEvidence)
	if err != nil {
		return nil, nil, fmt.Errorf("read the evidence: %w", err)
	}
	type stream struct{ Base64 []byte }
	var said struct{ Stdout, Stderr stream }
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, nil, fmt.Errorf("read the evidence %s: %w", e.File, err)
	}
	return said.Stdout.Base64, said.Stderr.Base64, nil
}

// problem says what is wrong with the file, or "". dir is nil where there is none.
func (k kept) problem(dir *evidence.Dir) string {
	if dir == nil {
		return "is missing"
	}
	f, info, err := dir.OpenFile(k.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is missing"
	case errors.Is(err, evidence.ErrLink), errors.Is(err, evidence.ErrIrregular):
		return "was replaced by something else than a file"
	case err != nil:
		return "cannot be read"
	}
	defer f.Close()
	if wrong := info.Sealed(); wrong != "" {
		return "cannot be believed: " + wrong
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxEvidence)); err != nil {
		return "cannot be read"
	}
	if hex.EncodeToString(sum.Sum(nil)) != k.sum {
		return "was changed: evidence_sha256 is another digest"
	}
	return ""
}

// openEvidence opens, or makes, the directory of a session's evidence.
func (r *Runner) openEvidence(id string) (*evidence.Dir, error) {
	dir, err := r.Ledger.OpenDir(id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	kept, err := dir.Ensure(ledger.EvidenceName)
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
