package jsonrpc

// Question is a request of an upstream to its client (MCP-5), on its way to the
// session that it is asked of. The upstream's side makes it; nobody changes it.
type Question struct {
	ID     []byte // raw, as the upstream spelled it
	Token  []byte // raw progress token as the upstream spelled it, or nil
	Method string
	// Asker hears what becomes of it.
	Asker Asker
}

// Asker is the side a [Question] came from. Its methods may be called by any
// goroutine, must not block, and may not keep line. A question gets exactly one
// Reply or Gone, and nothing once it was withdrawn.
type Asker interface {
	// Reply delivers the agent's answer: line with the id the agent was given.
	Reply(q *Question, line []byte, m *Message)
	// Advance delivers a progress notification with the token the agent was
	// given.
	Advance(q *Question, line []byte, m *Message)
	// Gone says that there will be no answer.
	Gone(q *Question)
}

// Answerer is an [Owner] that can be asked.
type Answerer interface {
	// Ask puts a question to the agent. A refusal is a sentence; then nothing
	// was asked.
	Ask(q *Question, line []byte, m *Message) (refusal string)
	// Withdraw takes a question back, with the notifications/cancelled of who
	// asked, whose requestId is replaced.
	Withdraw(q *Question, notice []byte)
}

// Cancelled returns a notifications/cancelled of harness's own with a reason,
// for [AppendCancelled].
func Cancelled(reason string) []byte {
	b := []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0`)
	if reason != "" {
		b = AppendQuoted(append(b, `,"reason":`...), reason)
	}
	return append(b, "}}"...)
}

// AppendCancelled appends notice, a notifications/cancelled, with a raw request
// id in place of its own. Every other byte stays (MCP-3). One that is nil is a
// notice without a reason.
func AppendCancelled(dst, notice, id []byte) []byte {
	if notice == nil {
		notice = Cancelled("")
	}
	var m Message
	_ = Peek(notice, &m) // it was read and checked before
	return Splice(dst, notice, Edit{m.RequestID, id})
}
