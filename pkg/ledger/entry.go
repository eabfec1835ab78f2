package ledger

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strconv"
)

// origin is what the first entry of a chain has in place of the digest of the
// one before.
const origin = "0000000000000000000000000000000000000000000000000000000000000000"

// The types of entries that the ledger itself knows. What else there is, is
// said by whoever appends.
const (
	// Opened is the first entry of every chain: what was agreed.
	Opened = "opened"
	// Torn notes that a last line was cut off by a crash and set aside.
	Torn = "torn"
	// Decided is the last entry of a finished chain: its verdict.
	Decided = "verdict"
)

// Entry is one link of a chain. SHA256 and Signature are over the RFC 8785
// form of the other four.
type Entry struct {
	N         int             `json:"n"` // from 1
	Prev      string          `json:"prev_sha256"`
	Type      string          `json:"type"`
	Body      json.RawMessage `json:"body"`
	SHA256    string          `json:"sha256"`
	Signature string          `json:"signature"` // base64
}

// Principal is on whose behalf a session runs, fixed for each process (CON-5).
type Principal struct {
	Tenant string `json:"tenant"`
	User   string `json:"user"`
}

// Head is what the body of every entry has.
type Head struct {
	Session        string    `json:"session"`
	Principal      Principal `json:"principal"`
	ContractSHA256 string    `json:"contract_sha256"`
	At             string    `json:"at"`  // RFC 3339, UTC
	Key            string    `json:"key"` // fingerprint of the key that signed it
}

// Head reads what every body has.
func (e Entry) Head() (Head, error) {
	var h Head
	if err := json.Unmarshal(e.Body, &h); err != nil {
		return Head{}, fmt.Errorf("body: %w", err)
	}
	return h, nil
}

// form is what is hashed and signed, where the body is canonical. Members are in
// their order then, so it is put together and not sorted again: that is most of
// what a check would cost beside the signatures.
func (e Entry) form() []byte {
	b := append([]byte(`{"body":`), e.Body...)
	b = strconv.AppendInt(append(b, `,"n":`...), int64(e.N), 10)
	b = append(append(b, `,"prev_sha256":`...), quoteLeast(e.Prev)...)
	b = append(append(b, `,"type":`...), quoteLeast(e.Type)...)
	return append(b, '}')
}

// line is the whole entry in canonical form, where the body is.
func (e Entry) line() []byte {
	b := append([]byte(`{"body":`), e.Body...)
	b = strconv.AppendInt(append(b, `,"n":`...), int64(e.N), 10)
	b = append(append(b, `,"prev_sha256":`...), quoteLeast(e.Prev)...)
	b = append(append(b, `,"sha256":`...), quoteLeast(e.SHA256)...)
	b = append(append(b, `,"signature":`...), quoteLeast(e.Signature)...)
	b = append(append(b, `,"type":`...), quoteLeast(e.Type)...)
	return append(b, '}')
}

// settle brings bodies to canonical form, and returns the entries as lines.
func settle(entries []Entry) ([][]byte, error) {
	lines, faults := make([][]byte, len(entries)), make([]error, len(entries))
	parallel(len(entries), func(i int) {
		e := &entries[i]
		if e.Body, faults[i] = Canonical(e.Body); faults[i] == nil {
			lines[i] = e.line()
		}
	})
	for i, err := range faults {
		if err != nil {
			return nil, faultf(i+1, "its body is not JSON that has a canonical form")
		}
	}
	return lines, nil
}

// seal makes the entry that follows last (nil for the first).
func seal(last *Entry, kind string, head Head, fields map[string]any, key ed25519.PrivateKey) (Entry, error) {
	body := map[string]any{
		"session": head.Session, "principal": head.Principal, "contract_sha256": head.ContractSHA256,
		"at": head.At, "key": head.Key,
	}
	for name, v := range fields {
		if _, taken := body[name]; taken {
			return Entry{}, fmt.Errorf("an entry cannot have the field %q of its own", name)
		}
		body[name] = v
	}
	raw, err := Canonical(body)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{N: 1, Prev: origin, Type: kind, Body: raw}
	if last != nil {
		e.N, e.Prev = last.N+1, last.SHA256
	}
	form := e.form()
	e.SHA256 = SHA256(form)
	e.Signature = encode64(ed25519.Sign(key, form))
	return e, nil
}

// Fault says what is wrong with a chain, a bundle or a ring of keys.
type Fault struct {
	Entry   int // number of the entry concerned; 0 where it is none
	Message string
}

// Error renders "entry 3: its signature does not fit".
func (f *Fault) Error() string {
	if f.Entry > 0 {
		return fmt.Sprintf("entry %d: %s", f.Entry, f.Message)
	}
	return f.Message
}

func faultf(entry int, format string, args ...any) error {
	return &Fault{entry, fmt.Sprintf(format, args...)}
}

// checkChain, of entries whose bodies are canonical, says what is wrong with entries as the chain of session, signed by
// keys of the ring, or nil. It is no fault of a chain that it has not ended.
func checkChain(session string, entries []Entry, ring Ring) error {
	keys, err := ring.keys()
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return faultf(0, "the chain has no entry")
	}
	heads, faults := make([]Head, len(entries)), make([]error, len(entries))
	parallel(len(entries), func(i int) { heads[i], faults[i] = checkEntry(entries[i], session, keys) })
	prev, contract := origin, ""
	for i, e := range entries {
		n := i + 1
		switch {
		case e.N != n:
			return faultf(n, "it is numbered %d: an entry was removed, repeated or moved", e.N)
		case e.Prev != prev:
			return faultf(n, "it does not follow the one before: prev_sha256 is another digest")
		case (e.Type == Opened) != (n == 1):
			return faultf(n, "%q is the first entry of a chain and no other", Opened)
		case i > 0 && entries[i-1].Type == Decided:
			return faultf(n, "it stands behind the verdict")
		}
		if faults[i] != nil {
			return faults[i]
		}
		if n == 1 {
			contract = heads[i].ContractSHA256
		} else if heads[i].ContractSHA256 != contract {
			return faultf(n, "it is about another contract")
		}
		prev = e.SHA256
	}
	return nil
}

// checkEntry checks one entry without its neighbours.
func checkEntry(e Entry, session string, keys map[string]ed25519.PublicKey) (Head, error) {
	form := e.form()
	if SHA256(form) != e.SHA256 {
		return Head{}, faultf(e.N, "its content was changed: sha256 is another digest")
	}
	h, err := e.Head()
	if err != nil {
		return Head{}, faultf(e.N, "its body is not that of an entry")
	}
	key, ok := keys[h.Key]
	switch {
	case h.Session != session:
		return Head{}, faultf(e.N, "it is of another session")
	case !ok:
		return Head{}, faultf(e.N, "it is signed by a key that is not among the public keys")
	case !signed(key, form, e.Signature):
		return Head{}, faultf(e.N, "its signature does not fit")
	}
	return h, nil
}
