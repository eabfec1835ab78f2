package upstream

import (
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// maxQuestions is how many questions of one process may be without an answer.
const maxQuestions = 100

// asked is a question of a process that an agent has not answered yet.
type asked struct {
	q  *jsonrpc.Question
	of jsonrpc.Answerer
}

// question passes what a process asks its client on to the session on whose
// behalf it works: the only one there is, of a process that has one, else the
// only one with a call under way. Where that cannot be told nobody is asked,
// and never more than one is (MCP-5).
func (c *conn) question(method string, line []byte, m *jsonrpc.Message) {
	of, refusal := c.answerer()
	id := m.ID.In(line)
	if refusal == "" {
		q := &jsonrpc.Question{ID: append([]byte(nil), id...), Method: method, Asker: c}
		if token := m.ProgressToken.In(line); token != nil {
			q.Token = append([]byte(nil), token...)
		}
		if refusal = c.put(q, of); refusal == "" {
			if refusal = of.Ask(q, line, m); refusal == "" {
				return
			}
			c.settle(q)
		}
	}
	why := method + " was asked of nobody: " + refusal
	if c.shared() {
		why += `; with isolation = "session" each session has a process of its own`
	}
	c.refused(why)
	c.write(wire.AppendError(nil, id, wire.InternalError, wire.New(wire.OperationFailed, why)))
}

// put puts a question on the list, or says why it cannot be asked.
func (c *conn) put(q *jsonrpc.Question, of jsonrpc.Answerer) (refusal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, twice := c.questions[string(q.ID)]
	switch {
	case c.questions == nil:
		return "its process is on its way out"
	case twice:
		return "one with the same id is not answered yet"
	case len(c.questions) >= maxQuestions:
		return "too many are not answered yet"
	}
	c.questions[string(q.ID)] = asked{q, of}
	return ""
}

// answerer returns whom a question is for, or why that cannot be told.
func (c *conn) answerer() (of jsonrpc.Answerer, refusal string) {
	if c.only != nil {
		return c.only, ""
	}
	owners := c.board.owners(c)
	switch len(owners) {
	case 0:
		return nil, "no session has a call under way there"
	case 1:
		if of, ok := owners[0].(jsonrpc.Answerer); ok {
			return of, ""
		}
		return nil, "its caller cannot be asked"
	}
	return nil, "more than one session has a call under way there"
}

// shared reports whether the process works for many sessions.
func (c *conn) shared() bool { return c.only == nil }

// owners returns whose calls are under way to a process, each once.
func (b *board) owners(of *conn) []jsonrpc.Owner {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found flushes
	for _, c := range b.calls.All() {
		if ticketOf(c).conn == of {
			found.add(c.Owner)
		}
	}
	return found.owners
}

// settle takes a question off the list, and reports whether it was there.
func (c *conn) settle(q *jsonrpc.Question) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.questions[string(q.ID)].q != q {
		return false
	}
	delete(c.questions, string(q.ID))
	return true
}

// Reply implements [jsonrpc.Asker].
func (c *conn) Reply(q *jsonrpc.Question, line []byte, m *jsonrpc.Message) {
	if c.settle(q) {
		c.write(jsonrpc.Splice(nil, line, jsonrpc.Edit{At: m.ID, With: q.ID}))
	}
}

// Advance implements [jsonrpc.Asker].
func (c *conn) Advance(q *jsonrpc.Question, line []byte, m *jsonrpc.Message) {
	if q.Token != nil {
		c.write(jsonrpc.Splice(nil, line, jsonrpc.Edit{At: m.ParamsToken, With: q.Token}))
	}
}

// Gone implements [jsonrpc.Asker].
func (c *conn) Gone(q *jsonrpc.Question) {
	if c.settle(q) {
		c.write(wire.AppendError(nil, q.ID, wire.InternalError, wire.New(wire.OperationFailed, "the session that was asked has ended")))
	}
}

// withdraw takes a question back that the process has cancelled.
func (c *conn) withdraw(line []byte, m *jsonrpc.Message) {
	c.mu.Lock()
	a := c.questions[string(m.RequestID.In(line))]
	delete(c.questions, string(m.RequestID.In(line)))
	c.mu.Unlock()
	if a.q == nil {
		return
	}
	a.of.Withdraw(a.q, line)
}

// withdrawAll takes back every question of a process that is over, and has no
// more asked.
func (c *conn) withdrawAll() {
	c.mu.Lock()
	left := c.questions
	c.questions = nil
	c.mu.Unlock()
	for _, a := range left {
		a.of.Withdraw(a.q, jsonrpc.Cancelled("the server that asked is gone"))
	}
}

// capabilities returns what the unit's processes are told that they may ask, as
// a raw JSON object.
func (u *Unit) capabilities() string {
	if u.private != nil {
		return u.private.peer.Capabilities
	}
	return sharedCapabilities
}

// refuse notes why a question was put to nobody, for who asks how the unit is.
// What is said again and again is logged once.
func (u *Unit) refuse(why string) {
	news := false
	u.apply(func(m *machine, _ time.Time) { news, m.refused = m.refused != why, why })
	if news {
		u.log.Warn("a question was not asked", "reason", quoted(why))
	}
}
