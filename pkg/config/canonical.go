package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// The canonical forms are JSON of what a thing means: equal for equal meaning,
// whatever the order, layout and comments of the file. Values of env are in
// them as hashes. A hash of a weak secret can be guessed, so a canonical form
// is for comparing and digesting; it is not for showing.

// Canonical is the canonical form of everything a file says.
func Canonical(c *Config) []byte {
	upstreams := make(map[string]json.RawMessage, len(c.Upstreams))
	for key, u := range c.Upstreams {
		upstreams[key] = u.Canonical()
	}
	agents := make(map[string]json.RawMessage, len(c.Agents))
	for name, a := range c.Agents {
		agents[name] = a.Canonical()
	}
	return encode(struct {
		Config                               // the outer fields hide those of one name
		Upstreams map[string]json.RawMessage `json:"upstreams"`
		Agents    map[string]json.RawMessage `json:"agents"`
	}{*c, upstreams, agents})
}

// Canonical is the canonical form of one definition. Of a Launch it is that of
// the definition alone.
func (u Upstream) Canonical() []byte {
	type definition Upstream // without the methods
	return encode(struct {
		definition
		Env map[string]string `json:"env"`
	}{definition(u), hashed(u.Env)})
}

// Canonical is the canonical form of one definition.
func (a Agent) Canonical() []byte {
	type definition Agent
	return encode(struct {
		definition
		Env map[string]string `json:"env"`
	}{definition(a), hashed(a.Env)})
}

func hashed(env map[string]string) map[string]string {
	out := make(map[string]string, len(env))
	for name, value := range env {
		sum := sha256.Sum256([]byte(value))
		out[name] = hex.EncodeToString(sum[:])
	}
	return out
}

// encode never fails: the types it is given hold nothing that JSON has no form
// for.
func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("config: encode %T: %v", v, err))
	}
	return out
}
