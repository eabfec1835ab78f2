package reconcile

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
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
	c := canon{sha256.New()}
	c.text("harness/desired/v1")
	c.value(reflect.ValueOf(sorted))
	return hex.EncodeToString(c.hash.Sum(nil))
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
type canon struct{ hash hash.Hash }

func (c canon) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		c.text(v.String())
	case reflect.Bool:
		c.number(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.number(v.Uint())
	case reflect.Slice, reflect.Array:
		c.number(uint64(v.Len()))
		for _, element := range v.Seq2() {
			c.value(element)
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
func (c canon) fields(v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if undigested(v.Type(), field.Name) {
			continue
		}
		c.text(field.Name)
		c.value(v.Field(i))
	}
}

// table writes a map with keys of text.
func (c canon) table(v reflect.Value) {
	byKey := make(map[string]reflect.Value, v.Len())
	for key, value := range v.Seq2() {
		byKey[key.String()] = value
	}
	c.number(uint64(len(byKey)))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		c.text(key)
		c.value(byKey[key])
	}
}

// text writes s with its length in front. A hash never fails.
func (c canon) text(s string) {
	c.number(uint64(len(s)))
	c.hash.Write([]byte(s))
}

func (c canon) number(n uint64) {
	var buf [8]byte
	c.hash.Write(binary.BigEndian.AppendUint64(buf[:0], n))
}
