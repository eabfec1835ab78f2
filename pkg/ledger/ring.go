package ledger

import (
	"crypto/ed25519"
	"fmt"
)

// keySchema is what a statement about a key says it is.
const keySchema = "harness/ledger-key/v1"

// Key is a public key with the statement that makes it part of a ring: signed
// by itself, and by the key before it.
type Key struct {
	Fingerprint string `json:"fingerprint"` // hex SHA-256 of the 32 bytes
	PublicKey   string `json:"public_key"`  // base64 of the 32 bytes
	Since       string `json:"since"`       // RFC 3339
	// Previous is the fingerprint of the key that this one replaced; null for
	// the first.
	Previous *string `json:"previous"`
	// Signature and PreviousSignature are over the RFC 8785 form of
	// {"schema","public_key","since","previous"}, by this key and by the previous.
	Signature         string  `json:"signature"`
	PreviousSignature *string `json:"previous_signature"`
}

// Ring is every key that a ledger ever had, oldest first.
type Ring []Key

// Fingerprint names a public key.
func Fingerprint(key ed25519.PublicKey) string { return SHA256(key) }

func (k Key) statement() ([]byte, error) {
	return Canonical(map[string]any{"schema": keySchema, "public_key": k.PublicKey, "since": k.Since, "previous": k.Previous})
}

// certify makes the statement about a new key that replaces the last of ring,
// whose private half is old (nil for the first of all).
func certify(ring Ring, old, key ed25519.PrivateKey, since string) (Key, error) {
	public := key.Public().(ed25519.PublicKey)
	k := Key{Fingerprint: Fingerprint(public), PublicKey: encode64(public), Since: since}
	if len(ring) > 0 {
		k.Previous = &ring[len(ring)-1].Fingerprint
	}
	form, err := k.statement()
	if err != nil {
		return Key{}, err
	}
	k.Signature = encode64(ed25519.Sign(key, form))
	if old != nil {
		by := encode64(ed25519.Sign(old, form))
		k.PreviousSignature = &by
	}
	return k, nil
}

// keys checks the ring and returns its keys by fingerprint.
func (r Ring) keys() (map[string]ed25519.PublicKey, error) {
	if len(r) == 0 {
		return nil, faultf(0, "there is no public key")
	}
	keys := make(map[string]ed25519.PublicKey, len(r))
	for i, k := range r {
		key, err := r.check(i)
		if err != nil {
			return nil, faultf(0, "public key %d: %s", i+1, err)
		}
		if _, twice := keys[k.Fingerprint]; twice {
			return nil, faultf(0, "public key %d: it is there twice", i+1)
		}
		keys[k.Fingerprint] = key
	}
	return keys, nil
}

// check checks key i against itself and the one before it.
func (r Ring) check(i int) (ed25519.PublicKey, error) {
	k := r[i]
	raw, err := decode64(k.PublicKey, ed25519.PublicKeySize)
	if err != nil {
		return nil, fmt.Errorf("public_key: %w", err)
	}
	key := ed25519.PublicKey(raw)
	form, err := k.statement()
	switch {
	case err != nil:
		return nil, err
	case Fingerprint(key) != k.Fingerprint:
		return nil, fmt.Errorf("fingerprint is that of another key")
	case !signed(key, form, k.Signature):
		return nil, fmt.Errorf("its own signature does not fit")
	case i == 0 && (k.Previous != nil || k.PreviousSignature != nil):
		return nil, fmt.Errorf("the first key names one before it")
	case i == 0:
		return key, nil
	case k.Previous == nil || k.PreviousSignature == nil || *k.Previous != r[i-1].Fingerprint:
		return nil, fmt.Errorf("it does not follow the key before it")
	}
	before, err := decode64(r[i-1].PublicKey, ed25519.PublicKeySize)
	if err != nil || !signed(before, form, *k.PreviousSignature) {
		return nil, fmt.Errorf("the signature of the key before it does not fit")
	}
	return key, nil
}

// has reports whether the ring has the key of that fingerprint.
func (r Ring) has(fingerprint string) bool {
	for _, k := range r {
		if k.Fingerprint == fingerprint {
			return true
		}
	}
	return false
}
