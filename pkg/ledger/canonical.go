package ledger

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gowebpki/jcs"
)

// Canonical is v as RFC 8785 JSON. Numbers must be exact as doubles.
func Canonical(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	out, err := jcs.Transform(data)
	if err != nil {
		return nil, fmt.Errorf("bring to canonical form: %w", err)
	}
	return out, nil
}

// SHA256 is the lower-case hex digest of data.
func SHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// encode64 and decode64 are how keys and signatures are written. There is one
// spelling of each value only.
func encode64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func decode64(text string, size int) ([]byte, error) {
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	switch {
	case err != nil || encode64(data) != text:
		return nil, errors.New("not base64")
	case len(data) != size:
		return nil, fmt.Errorf("%d bytes, expected %d", len(data), size)
	}
	return data, nil
}

// signed reports whether signature is that of data by the holder of key.
func signed(key ed25519.PublicKey, data []byte, signature string) bool {
	raw, err := decode64(signature, ed25519.SignatureSize)
	return err == nil && ed25519.Verify(key, data, raw)
}
