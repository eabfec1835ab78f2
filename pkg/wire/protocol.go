package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// ServerName is what the endpoint calls itself in initialize.
const ServerName = "harness"

// Latest is the newest handshake revision served, and the one proposed when a
// client asks for one that is not known (MCP-0).
const Latest = "2025-11-25"

// Negotiate returns the handshake revision to answer to one that asked for
// asked: the same when it is served, else [Latest] (MCP-0).
func Negotiate(asked string) string {
	if slices.Contains([]string{"2024-11-05", "2025-03-26", "2025-06-18", Latest}, asked) {
		return asked
	}
	return Latest
}

// Kind is one of the three things a session lists and is notified about.
type Kind int

// The kinds, in the order their notifications are sent.
const (
	Tools Kind = iota
	Prompts
	Resources
	Kinds // how many there are
)

// String returns the kind as it stands in method names: "tools".
func (k Kind) String() string { return [Kinds]string{"tools", "prompts", "resources"}[k] }

// ListMethod returns the method that lists k: "tools/list".
func (k Kind) ListMethod() string { return k.String() + "/list" }

// ChangedMethod returns the notification that k's list changed.
func (k Kind) ChangedMethod() string { return "notifications/" + k.String() + "/list_changed" }

// EmptyList returns the result of k's list method when there is nothing.
func (k Kind) EmptyList() []byte { return []byte(`{"` + k.String() + `":[]}`) }

// ListSum identifies the result of a list method by its bytes, the same in every
// process. It is never 0.
func ListSum(result []byte) uint64 {
	sum := sha256.Sum256(result)
	return binary.BigEndian.Uint64(sum[:]) | 1
}

// AppendInitialize appends the answer, without a newline, to an initialize
// request that asked for the revision asked. While no daemon is there, there are
// no instructions, and the capabilities are [Capabilities] (MCP-1).
func AppendInitialize(dst, id []byte, asked, version, capabilities, instructions string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"result":{"protocolVersion":`...)
	dst = AppendQuoted(dst, Negotiate(asked))
	dst = append(dst, `,"capabilities":`...)
	dst = append(dst, capabilities...)
	dst = append(dst, `,"serverInfo":{"name":"`+ServerName+`","version":`...)
	dst = append(AppendQuoted(dst, version), '}')
	if instructions != "" {
		dst = AppendQuoted(append(dst, `,"instructions":`...), instructions)
	}
	return append(dst, `}}`...)
}

// Capabilities is the raw JSON of what the endpoint announces in initialize
// (MCP-0).
const Capabilities = `{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`

// MaxInstructions is how many characters of joined instructions are sent to a
// session (MCP-4): agents cut what is longer.
const MaxInstructions = 2048

// MaxName is the length that an exposed name may have (MCP-2): agents prefix
// it with mcp__harness__ and stop at 64.
const MaxName = 50
