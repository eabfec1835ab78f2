package config

import "log/slog"

// redacted stands for a secret wherever one is printed.
const redacted = "***"

// Secret is a string that must reach a child process and nothing else. Every
// way of printing it gives "***"; only Reveal gives the text.
type Secret string

// EnvVar is one variable of an env_file.
type EnvVar struct {
	Name  string
	Value Secret
}

// Reveal returns the text itself, for the environment of a child.
func (s Secret) Reveal() string { return string(s) }

// String implements [fmt.Stringer].
func (s Secret) String() string { return redacted }

// GoString implements [fmt.GoStringer].
func (s Secret) GoString() string { return redacted }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements [encoding/json.Marshaler].
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText implements [encoding.TextMarshaler].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
