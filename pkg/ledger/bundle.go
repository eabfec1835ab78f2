package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// BundleSchema is what an exported bundle says it is.
const BundleSchema = "harness/ledger-bundle/v1"

// Bundle is a session's chain with all that is needed to check it elsewhere.
type Bundle struct {
	Schema   string   `json:"schema"`
	Session  string   `json:"session"`
	Contract string   `json:"contract"` // the text, as it was handed over
	Verdict  *Verdict `json:"verdict"`  // null until the session is done
	Entries  []Entry  `json:"entries"`
	// PublicKeys is the whole ring, oldest first.
	PublicKeys []Key  `json:"public_keys"`
	HeadHash   string `json:"head_hash"` // sha256 of the last entry
}

// Pin is what a verifier trusts beforehand: the fingerprints of keys. A ring
// that has one of them is trusted as a whole, since its keys vouch for each
// other. Without one, a bundle is checked against itself alone.
type Pin []string

// NewPin makes a Pin of public keys (base64 of 32 bytes) or their fingerprints.
func NewPin(texts ...string) (Pin, error) {
	var p Pin
	for _, text := range texts {
		raw, err := decode64(text, 32)
		switch {
		case err == nil:
			p = append(p, Fingerprint(raw))
		case isHex(text):
			p = append(p, text)
		default:
			return nil, errors.New("neither a public key (base64 of 32 bytes) nor a fingerprint (64 lower-case hexadecimal digits)")
		}
	}
	return p, nil
}

func isHex(s string) bool {
	return len(s) == 64 && len(bytes.Trim([]byte(s), "0123456789abcdef")) == 0
}

// Encode is the bundle in the form it is exported in: RFC 8785 and a newline.
func (b *Bundle) Encode() ([]byte, error) {
	whole := *b
	whole.Entries = slices.Clone(b.Entries)
	return whole.settle()
}

// settle is Encode, and brings the bodies of b itself to canonical form.
func (b *Bundle) settle() ([]byte, error) {
	lines, err := settle(b.Entries)
	if err != nil {
		return nil, err
	}
	frame := *b
	frame.Entries = []Entry{}
	data, err := Canonical(frame)
	if err != nil {
		return nil, err
	}
	// Strings of JSON hold no bare quote, so this is the member.
	before, after, _ := bytes.Cut(data, []byte(`,"entries":[`))
	out := append(append(slices.Clip(before), `,"entries":[`...), bytes.Join(lines, []byte{','})...)
	return append(append(out, after...), '\n'), nil
}

// Verify checks an exported bundle with nothing but what is in it and what is
// pinned. The error is a [*Fault] that says precisely what does not hold.
func Verify(data []byte, pin Pin) (*Bundle, error) {
	b, err := decodeBundle(data)
	if err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if pin != nil && !pin.Vouches(b) {
		return nil, faultf(0, "none of its public keys is the pinned one: it was signed by somebody else")
	}
	return b, nil
}

// Vouches reports whether the ring of a bundle that was verified has a key of p.
func (p Pin) Vouches(b *Bundle) bool {
	return slices.ContainsFunc(p, Ring(b.PublicKeys).has)
}

// decodeBundle reads a bundle strictly: nothing unknown, nothing twice, and
// laid out in one way throughout, so that no byte of it is without meaning.
func decodeBundle(data []byte) (*Bundle, error) {
	var b Bundle
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		return nil, faultf(0, "it is not a bundle: %s", misread(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, faultf(0, "something follows the bundle")
	}
	if b.Schema != BundleSchema {
		return nil, faultf(0, "its schema is another one than %s", BundleSchema)
	}
	want, err := b.settle()
	if _, known := errors.AsType[*Fault](err); known {
		return nil, err
	}
	if err != nil {
		return nil, faultf(0, "it has no canonical form")
	}
	if bytes.Equal(data, want) {
		return &b, nil
	}
	have, err := Canonical(json.RawMessage(data))
	switch {
	case err != nil || !bytes.Equal(have, want[:len(want)-1]):
		return nil, faultf(0, "it has members that a bundle does not have, or lacks some")
	case !uniform(data):
		return nil, faultf(0, "it is laid out in more than one way: bytes were added, removed or changed")
	}
	return &b, nil
}

// misread says why a bundle could not be decoded, in words of JSON alone.
func misread(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return strings.TrimPrefix(err.Error(), "json: ")
	case wrong.Field == "":
		return "it is not an object"
	}
	kind, _, _ := strings.Cut(wrong.Value, " ")
	return fmt.Sprintf("%s: a bundle has no %s there", wrong.Field, kind)
}

// check is everything but whose keys they are.
func (b *Bundle) check() error {
	ring := Ring(b.PublicKeys)
	if err := checkChain(b.Session, b.Entries, ring); err != nil {
		return err
	}
	if err := checkText(b.Entries[0], []byte(b.Contract)); err != nil {
		return err
	}
	if err := b.Verdict.check(b.Session, b.Entries, ring); err != nil {
		return err
	}
	if b.HeadHash != b.Entries[len(b.Entries)-1].SHA256 {
		return faultf(0, "head_hash is not the digest of the last entry")
	}
	return nil
}

// checkText holds the text of a contract against the first entry.
func checkText(first Entry, text []byte) error {
	var opened struct {
		Text string `json:"text_sha256"`
	}
	if err := json.Unmarshal(first.Body, &opened); err != nil || opened.Text != SHA256(text) {
		return faultf(1, "the contract's text is not the one that was agreed: text_sha256 is another digest")
	}
	return nil
}
