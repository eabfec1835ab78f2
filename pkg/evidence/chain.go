package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// recordSchema is what a record says it is.
const recordSchema = "harness/record/v1"

// MaxRecord bounds one record, in bytes.
const MaxRecord = 1 << 20

// Fault is what is wrong with one entry of a chain, or of a directory of
// evidence. Nothing of what the entry belongs to can be believed.
type Fault struct {
	Entry   string // a path in the directory, such as "receipts/0002-started.json"
	Message string // never what is in the entry
	// Torn is true where the entry is what a crash leaves of the last one.
	Torn bool

	missing bool
}

// Missing reports whether the entry is not there at all.
func (f *Fault) Missing() bool { return f.missing }

// Error implements error.
func (f *Fault) Error() string { return f.Entry + ": " + f.Message }

// In returns the fault as one of an entry below dir.
func (f *Fault) In(dir string) *Fault {
	below := *f
	below.Entry = dir + "/" + f.Entry
	return &below
}

// Within returns the [*Fault] that err is as one of an entry below dir. Any other
// error is returned as it is.
func Within(dir string, err error) error {
	if f, is := errors.AsType[*Fault](err); is {
		return f.In(dir)
	}
	return err
}

// Digest is a SHA-256 in hex.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Record is one record of a chain.
type Record struct {
	Schema string          `json:"schema"`
	N      int             `json:"n"`           // from 1
	Prev   string          `json:"prev_sha256"` // of the record before as it is stored
	Type   string          `json:"type"`
	At     time.Time       `json:"at"`
	Body   json.RawMessage `json:"body"`
	// Sum is the digest of the record as it is stored with an empty Sum.
	Sum string `json:"sha256"`

	stored string
}

// Stored is the digest of the record as it is stored, of one that was checked.
func (r Record) Stored() string { return r.stored }

// Head is the end of a chain: how many records it has, and the digest of the
// last as it is stored.
type Head struct {
	N   int
	Sum string
}

// Entry is a record as it is stored.
type Entry struct {
	Name string
	Data []byte
}

// Genesis is the head of the chain of that name while it has no record.
func Genesis(chain string) Head { return Head{Sum: Digest([]byte("harness/chain/v1\n" + chain))} }

// IsName reports whether s can be the name of a thing that has evidence: one
// component of a path, of at most 64 characters, that is no hidden file.
func IsName(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		case i > 0 && (c == '.' || c == '-'):
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// EntryName is the name of record n of a type.
func EntryName(n int, typ string) string { return fmt.Sprintf("%04d-%s.json", n, typ) }

// lostName stands for record n of which nobody knows the type.
func lostName(n int) string { return fmt.Sprintf("%04d-*", n) }

// Holds returns a [*Fault] where the chain that ends in h is not the one that ends
// in want: of the record that it lacks, or of all, "." for the directory.
func (h Head) Holds(want Head) error {
	switch {
	case h == want:
		return nil
	case h.N < want.N:
		return &Fault{Entry: lostName(h.N + 1), Message: "missing: it was written"}
	}
	return &Fault{Entry: ".", Message: "not the records that were written"}
}

// ParseEntryName takes apart what [EntryName] made, and nothing else.
func ParseEntryName(name string) (n int, typ string, ok bool) {
	number, rest, found := strings.Cut(name, "-")
	typ, json := strings.CutSuffix(rest, ".json")
	n, err := strconv.Atoi(number)
	if err != nil || !found || !json || n < 1 || !typeOK(typ) || EntryName(n, typ) != name {
		return 0, "", false
	}
	return n, typ, true
}

// typeOK reports whether a type of record can be part of a file's name.
func typeOK(typ string) bool {
	if typ == "" || len(typ) > 40 {
		return false
	}
	for _, c := range typ {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// Append makes the record that follows the head, and the head that it makes.
// A type is of lower case letters, digits and _.
func (h Head) Append(typ string, at time.Time, body any) (Entry, Head, error) {
	if !typeOK(typ) {
		return Entry{}, h, fmt.Errorf("append a record: %q is not a type", typ)
	}
	raw, err := Canonical(body)
	if err != nil {
		return Entry{}, h, fmt.Errorf("append a record: %w", err)
	}
	r := Record{Schema: recordSchema, N: h.N + 1, Prev: h.Sum, Type: typ, At: at.UTC().Round(0), Body: bytes.TrimSuffix(raw, []byte("\n"))}
	data, err := r.encode()
	if err != nil {
		return Entry{}, h, fmt.Errorf("append a record: %w", err)
	}
	if len(data) > MaxRecord {
		return Entry{}, h, fmt.Errorf("append a record: it has %d bytes, and %d are the limit", len(data), MaxRecord)
	}
	return Entry{EntryName(r.N, typ), data}, Head{r.N, Digest(data)}, nil
}

// encode seals the record and returns it as it is stored.
func (r *Record) encode() ([]byte, error) {
	r.Sum = ""
	data, err := Canonical(r)
	if err != nil {
		return nil, err
	}
	r.Sum = Digest(data)
	return Canonical(r)
}

// Canonical is the one spelling of a value that is evidence: JSON on one line
// that ends in a line break, without the escapes that are for HTML.
func Canonical(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

// DecodeCanonical reads into v what [Canonical] made of a value of its type. No
// other spelling is taken.
func DecodeCanonical(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return errors.New("malformed JSON, or not of this kind")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	again, err := Canonical(v)
	if err != nil || !bytes.Equal(again, data) {
		return errors.New("not as it was written")
	}
	return nil
}

// IsTorn reports whether data is what a crash leaves of a record or a seal: it
// lacks the line break that ends it, and so has none. Anything else that is not
// as it was written was changed.
func IsTorn(data []byte) bool { return bytes.IndexByte(data, '\n') < 0 }

// Check takes one more entry of a chain: it returns the record and the head that
// it makes, or a [*Fault].
func (h Head) Check(e Entry) (Record, Head, error) {
	fault := func(message string) (Record, Head, error) {
		return Record{}, h, &Fault{Entry: e.Name, Message: message}
	}
	n, typ, ok := ParseEntryName(e.Name)
	switch {
	case !ok:
		return fault("not the name of a record")
	case n <= h.N:
		return fault(fmt.Sprintf("record %d is there twice", n))
	case n != h.N+1:
		return Record{}, h, &Fault{Entry: lostName(h.N + 1), Message: fmt.Sprintf("missing: record %d follows record %d", n, h.N)}
	case IsTorn(e.Data):
		return Record{}, h, &Fault{Entry: e.Name, Message: "torn: it was not written to its end", Torn: true}
	}
	var r Record
	if err := DecodeCanonical(e.Data, &r); err != nil {
		return fault(err.Error())
	}
	sum := r.Sum
	if again, err := r.encode(); err != nil || r.Sum != sum || !bytes.Equal(again, e.Data) {
		return fault("its digest is not that of its content")
	}
	switch {
	case r.Schema != recordSchema:
		return fault("not a record of this version")
	case r.N != n || r.Type != typ:
		return fault("its name is not that of its content")
	case r.Prev != h.Sum:
		return fault("the record before it is another than when it was written")
	}
	r.stored = Digest(e.Data)
	return r, Head{r.N, r.stored}, nil
}

// Verify checks a whole chain, in the order of its numbers. A [*Fault] that is
// Torn is one of the last entry.
func Verify(chain string, entries []Entry) ([]Record, Head, error) {
	head := Genesis(chain)
	records := make([]Record, 0, len(entries))
	for i, e := range entries {
		r, next, err := head.Check(e)
		if err != nil {
			var f *Fault
			if errors.As(err, &f) && f.Torn && i != len(entries)-1 {
				f.Torn = false
			}
			return nil, head, err
		}
		records, head = append(records, r), next
	}
	return records, head, nil
}
