package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// sealSchema is what a seal says it is.
const sealSchema = "harness/seal/v1"

// Seal commits to a chain that is over, and to every file beside it.
type Seal struct {
	Schema  string    `json:"schema"`
	Chain   string    `json:"chain"`
	Records int       `json:"records"`
	Head    string    `json:"head_sha256"`
	At      time.Time `json:"at"`
	// Files has the digest of each file, by its path in the directory.
	Files map[string]string `json:"files"`
	Body  json.RawMessage   `json:"body"`
	// Sum is the digest of the seal as it is stored with an empty Sum.
	Sum string `json:"sha256"`
}

// NewSeal returns a seal as it is stored.
func NewSeal(chain string, head Head, at time.Time, files map[string]string, body any) ([]byte, error) {
	raw, err := Canonical(body)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	s := Seal{sealSchema, chain, head.N, head.Sum, at.UTC().Round(0), files, bytes.TrimSuffix(raw, []byte("\n")), ""}
	return s.encode()
}

func (s *Seal) encode() ([]byte, error) {
	s.Sum = ""
	data, err := Canonical(s)
	if err != nil {
		return nil, err
	}
	s.Sum = Digest(data)
	return Canonical(s)
}

// CheckSeal reads a seal called name and holds it against the chain and the
// files that are there, by path. The error is a [*Fault]: of the seal, or of the
// file that is not as it was sealed.
func CheckSeal(name string, data []byte, chain string, head Head, files map[string]string) (Seal, error) {
	fault := func(message string) (Seal, error) { return Seal{}, &Fault{Entry: name, Message: message} }
	if IsTorn(data) {
		return Seal{}, &Fault{Entry: name, Message: "torn: it was not written to its end", Torn: true}
	}
	var s Seal
	if err := DecodeCanonical(data, &s); err != nil {
		return fault(err.Error())
	}
	sum := s.Sum
	if again, err := s.encode(); err != nil || s.Sum != sum || !bytes.Equal(again, data) {
		return fault("its digest is not that of its content")
	}
	if s.Schema != sealSchema || s.Chain != chain {
		return fault("it seals something else")
	}
	for _, path := range slices.Sorted(maps.Keys(s.Files)) {
		switch have, there := files[path]; {
		case !there:
			return Seal{}, &Fault{Entry: path, Message: "missing: it was there when this was sealed"}
		case have != s.Files[path]:
			return Seal{}, &Fault{Entry: path, Message: "not as it was when this was sealed"}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if _, sealed := s.Files[path]; !sealed {
			return Seal{}, &Fault{Entry: path, Message: "added: it was not there when this was sealed"}
		}
	}
	if s.Records != head.N || s.Head != head.Sum {
		return fault("the chain is another than when it was sealed")
	}
	return s, nil
}
