package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// Token is the secret of one spawn. However it is printed it does not show, nor
// does it as an unexported field of something else that is printed, which is why
// it is behind a function.
type Token struct{ text func() string }

// Mint returns a new token of 256 random bits.
func Mint() Token {
	var b [32]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[:])
	text := base64.RawURLEncoding.EncodeToString(b[:])
	return Token{func() string { return text }}
}

// Reveal returns the secret, for the environment of the process it belongs to
// and for nothing else.
func (t Token) Reveal() string { return t.text() }

// Format implements [fmt.Formatter] for every verb.
func (Token) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("[token]")) }

// MarshalText implements [encoding.TextMarshaler]: JSON does not show it either.
func (Token) MarshalText() ([]byte, error) { return []byte("[token]"), nil }

// digest is what a token is looked up by, so that how long a lookup takes says
// nothing about the secret.
func digest(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }
