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

// String is the definition's name alone: printing one must not show its env.
func (u Upstream) String() string { return "mcp." + u.Key }

// GoString is String.
func (u Upstream) GoString() string { return u.String() }

// LogValue is String.
func (u Upstream) LogValue() slog.Value { return slog.StringValue(u.String()) }

// String is the definition's name alone: printing one must not show its env.
func (a Agent) String() string { return "harness." + a.Name }

// GoString is String.
func (a Agent) GoString() string { return a.String() }

// LogValue is String.
func (a Agent) LogValue() slog.Value { return slog.StringValue(a.String()) }
