package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
)

// verdictSchema is what a signed verdict says it is.
const verdictSchema = "harness/verdict/v1"

// Verdict is what a session came to, in a form that can be checked without the
// rest. Signature is over the RFC 8785 form of {"schema","session","verdict"},
// the last being the first four fields; PublicKey says by whom.
type Verdict struct {
	Outcome        string    `json:"outcome"` // pass fail error timeout cancelled
	ContractSHA256 string    `json:"contract_sha256"`
	Sandbox        string    `json:"sandbox"` // what was in force; "none"
	Checks         []Checked `json:"checks"`
	Signature      string    `json:"signature"`
	PublicKey      string    `json:"public_key"`
}

// Checked is what one check came to.
type Checked struct {
	Name           string  `json:"name"`
	Outcome        string  `json:"outcome"`         // as that of a verdict, or "skipped"
	ExitCode       *int    `json:"exit_code"`       // null where nothing exited by itself
	EvidenceSHA256 *string `json:"evidence_sha256"` // null where nothing was run
}

// unsigned is what of the verdict is signed.
func (v *Verdict) unsigned() map[string]any {
	return map[string]any{
		"outcome": v.Outcome, "contract_sha256": v.ContractSHA256, "sandbox": v.Sandbox, "checks": v.Checks,
	}
}

func (v *Verdict) form(session string) ([]byte, error) {
	return Canonical(map[string]any{"schema": verdictSchema, "session": session, "verdict": v.unsigned()})
}

func (v *Verdict) sign(session string, key ed25519.PrivateKey) error {
	form, err := v.form(session)
	if err != nil {
		return err
	}
	v.Signature = encode64(ed25519.Sign(key, form))
	v.PublicKey = encode64(key.Public().(ed25519.PublicKey))
	return nil
}

// check says what is wrong with v as the verdict of the chain that entries are.
func (v *Verdict) check(session string, entries []Entry, ring Ring) error {
	last := entries[len(entries)-1]
	if v == nil {
		if last.Type == Decided {
			return faultf(last.N, "the verdict that it records is missing")
		}
		return nil
	}
	if last.Type != Decided {
		return faultf(0, "the verdict is recorded by no entry")
	}
	raw, err := decode64(v.PublicKey, ed25519.PublicKeySize)
	if err != nil {
		return faultf(0, "the verdict's public_key: %s", err)
	}
	form, err := v.form(session)
	switch {
	case err != nil:
		return faultf(0, "the verdict has no canonical form")
	case !ring.has(Fingerprint(raw)):
		return faultf(0, "the verdict is signed by a key that is not among the public keys")
	case !signed(raw, form, v.Signature):
		return faultf(0, "the verdict's signature does not fit: it was changed, or is of another session")
	}
	var body struct {
		Verdict json.RawMessage `json:"verdict"`
	}
	if err := json.Unmarshal(last.Body, &body); err != nil {
		return faultf(last.N, "its body is not that of a verdict")
	}
	want, errWant := Canonical(body.Verdict)
	have, errHave := Canonical(v)
	if errWant != nil || errHave != nil || !bytes.Equal(want, have) {
		return faultf(last.N, "it records another verdict")
	}
	if h, err := last.Head(); err != nil || h.ContractSHA256 != v.ContractSHA256 {
		return faultf(last.N, "its verdict is about another contract")
	}
	return nil
}
