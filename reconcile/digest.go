package reconcile

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"reflect"
	"slices"

	"harness/pkg/prompt"
)

// Digest returns the SHA-256, in hex, over the canonical form of the desired
// state (HOT-7). It depends on no order that has no meaning, and on nothing
// that is secret to files beside the configuration: the content of an env_file
// has no part in it (CFG-5).
func (d *Desired) Digest() string {
	sorted := *d
	sorted.Prompts = slices.SortedFunc(slices.Values(d.Prompts), func(a, b prompt.Prompt) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Name, b.Name))
	})
	c := &canon{hash: sha256.New(), structs: map[reflect.Type][]part{}}
	c.text("harness/desired/v1")
	c.value(reflect.ValueOf(sorted))
	return hex.EncodeToString(c.sum())
}

// undigested reports whether a field has no part in the digest.
func undigested(owner reflect.Type, field string) bool {
	switch owner.Name() + "." + field {
	case "Launch.EnvDigest", "AgentLaunch.EnvDigest": // derived from secrets, with a key of this process
		return true
	case "Launch.ExeErr", "AgentLaunch.ExeErr": // words about Exe, which has a part
		return true
	case "Upstream.Nonce", "Agent.Nonce": // a request, not a state
		return true
	case "Upstream.Line", "Agent.Line", "Profile.Line": // where it stands has no meaning
		return true
	case "Prompt.Body": // Prompt.Digest stands for it
		return true
	}
	return false
}

// canon writes values in a form that is equal exactly for equal values: every
// text and every list has its length in front, maps are in the order of their
// keys, and an absent list is an empty one.
//
// It is made anew with each generation, for the whole fleet: it looks at each
// type once, and hashes in pieces (PRF-5).
type canon struct {
	hash    hash.Hash
	pending []byte // not hashed yet
	structs map[reflect.Type][]part
}

// part is a field of a struct that has a part in the digest.
type part struct {
	index int
	name  string
}

// piece is about how many bytes are hashed at a time.
const piece = 4 << 10

func (c *canon) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		c.text(v.String())
	case reflect.Bool:
		c.truth(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.number(v.Uint())
	case reflect.Slice, reflect.Array:
		c.number(uint64(v.Len()))
		for i := range v.Len() {
			c.value(v.Index(i))
		}
	case reflect.Map:
		c.table(v)
	case reflect.Struct:
		c.fields(v)
	default:
		// Reached by a new kind of field only, and then by the tests.
		panic("digest: no canonical form for " + v.Type().String())
	}
}

// fields writes a struct with the names of its fields, so that a value cannot
// move from one to the next unseen.
func (c *canon) fields(v reflect.Value) {
	for _, p := range c.parts(v.Type()) {
		c.text(p.name)
		c.value(v.Field(p.index))
	}
}

func (c *canon) parts(of reflect.Type) []part {
	if known, ok := c.structs[of]; ok {
		return known
	}
	var parts []part
	for i := range of.NumField() {
		if name := of.Field(i).Name; !undigested(of, name) {
			parts = append(parts, part{i, name})
		}
	}
	c.structs[of] = parts
	return parts
}

// table writes a map with keys of text.
func (c *canon) table(v reflect.Value) {
	c.number(uint64(v.Len()))
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	for _, key := range keys {
		c.text(key.String())
		c.value(v.MapIndex(key))
	}
}

// text writes s with its length in front.
func (c *canon) text(s string) {
	c.number(uint64(len(s)))
	c.pending = append(c.pending, s...)
}

func (c *canon) truth(yes bool) {
	if yes {
		c.number(1)
		return
	}
	c.number(0)
}

func (c *canon) number(n uint64) {
	if len(c.pending) >= piece {
		c.flush()
	}
	c.pending = binary.BigEndian.AppendUint64(c.pending, n)
}

// flush hashes what is pending. A hash never fails.
func (c *canon) flush() {
	c.hash.Write(c.pending)
	c.pending = c.pending[:0]
}

func (c *canon) sum() []byte {
	c.flush()
	return c.hash.Sum(nil)
}
