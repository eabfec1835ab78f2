package jsonrpc

import "harness/pkg/wire"

// Call is one request of an agent on its way through an upstream. Whoever
// makes it fills it before it is handed on; from then on nobody changes it,
// but for Relay. The slices are its own.
type Call struct {
	Owner Owner
	ID    []byte // raw, as the agent spelled it
	Token []byte // raw progress token as the agent spelled it, or nil
	// Name is where the request names what it is about (a tool, a prompt, a
	// resource), and the upstream's own name for that, raw JSON with quotes.
	Name Edit
	// Method is the request's; it decides what a failure looks like (MCP-7).
	Method string
	Key    string // of the upstream
	Relay  any    // owned by the upstream's side

	memory [48]byte // of ID and Token, if they fit
}

// NewCall returns a Call with copies of the raw id and the raw progress token
// (nil when there is none).
func NewCall(owner Owner, id, token []byte) *Call {
	c := &Call{Owner: owner}
	both := append(append(c.memory[:0], id...), token...)
	c.ID = both[:len(id):len(id)]
	if token != nil {
		c.Token = both[len(id):len(both):len(both)]
	}
	return c
}

// CallError is why a call fails that its upstream never answered (MCP-7).
type CallError = wire.Error

// Owner is the side a [Call] came from. Its methods run on the goroutine that
// reads the upstream, must not block, and may not keep line. A call gets
// exactly one Answer or Fail, and nothing once it was cancelled.
type Owner interface {
	// Answer delivers the upstream's response: line with the upstream's id.
	Answer(c *Call, line []byte, m *Message)
	// Progress delivers a progress notification with the upstream's token.
	Progress(c *Call, line []byte, m *Message)
	// Fail says that there will be no answer.
	Fail(c *Call, e *CallError)
	// Flush follows the last of the above that came in together.
	Flush()
}
