package handover

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// What a bridge and the daemon say to each other about a session, each on a line
// of its own. No agent can say such a line: it is no message, and the bridge
// passes none of those on.
const (
	// Prefix begins what the bridge says, and no message.
	Prefix = `{"harness":`
	// Hold asks for nothing more to be sent over the socket.
	Hold = `{"harness":"hold"}`
	// Held is the last that is sent over the socket.
	Held = `{"harness":"held"}`
	// Taken and Refused are the answers to [Take].
	Taken   = `{"harness":"taken"}`
	Refused = `{"harness":"refused"}`
)

// Take is the line that the descriptors come with.
type Take struct {
	Input  int64 `json:"input"`  // bytes of input in the memory
	Output int64 `json:"output"` // bytes of output in the memory
}

const takeHead = `{"harness":"take","input":`

// Append appends the line with its newline.
func (t Take) Append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, takeHead...), t.Input, 10)
	dst = strconv.AppendInt(append(dst, `,"output":`...), t.Output, 10)
	return append(dst, "}\n"...)
}

// ParseTake is the inverse of Append, without the newline.
func ParseTake(line []byte) (t Take, ok bool) {
	if !bytes.HasPrefix(line, []byte(takeHead)) {
		return t, false
	}
	return t, json.Unmarshal(line, &t) == nil
}
