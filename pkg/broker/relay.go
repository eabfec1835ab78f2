package broker

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

var _ jsonrpc.Owner = (*session)(nil)

// call relays one tools/call (MCP-3).
func (s *session) call(line []byte, m *jsonrpc.Message) {
	id := m.ID.In(line)
	name, err := jsonrpc.Unquote(m.Name.In(line))
	if err != nil {
		s.toolError(id, wire.New(wire.InvalidArgument, "tools/call takes the name of a tool"))
		return
	}
	r, e := s.catalog().find(name)
	if e != nil {
		s.toolError(id, e)
		return
	}
	if r.own != nil {
		r.up = newOwnCall(s, r.own)
	}
	s.relay(r, "tools/call", m.Name, line, m)
}

// relay hands a request to the upstream, which splices and batches it: what is
// at that place is replaced by the upstream's own name. It is registered under
// the agent's id first.
func (s *session) relay(r route, method string, at jsonrpc.Span, line []byte, m *jsonrpc.Message) {
	id := m.ID.In(line)
	r = s.ownRoute(r)
	f := &inflight{call: jsonrpc.NewCall(s, id, m.ProgressToken.In(line)), up: r.up, of: r}
	f.call.Key, f.call.Method, f.call.Name = r.key, method, jsonrpc.Edit{At: at, With: r.name}
	switch {
	case method == "resources/subscribe":
		f.asked = bytes.Clone(at.In(line))
	case method == "tools/call" && r.tasks:
		f.task = augmented(line, m)
	}
	if !s.register(f) {
		s.refuse(id, wire.InvalidRequest, "invalid request: the id is that of a request still in flight")
		return
	}
	if e := r.up.Relay(f.call, line, m, &s.batch); e != nil {
		s.forget(f.call)
		s.reply(id, func(b []byte) []byte { return appendFailure(b, method, id, e) })
	}
}

// appendFailure appends the answer to a request that failed in harness: a tool
// result for a call, an error for everything else (MCP-7).
func appendFailure(b []byte, method string, id []byte, e *wire.Error) []byte {
	switch {
	case method == "tools/call":
		return wire.AppendToolError(b, id, e)
	case e.Code == wire.InvalidArgument:
		return wire.AppendError(b, id, wire.InvalidParams, e)
	}
	return wire.AppendError(b, id, wire.InternalError, e)
}

// register notes f under the agent's id, unless that is in use.
func (s *session) register(f *inflight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(f.call.ID)
	if _, taken := s.calls[key]; taken {
		return false
	}
	s.calls[key] = f
	return true
}

func (s *session) forget(c *jsonrpc.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(c)
}

func (s *session) forgetLocked(c *jsonrpc.Call) {
	delete(s.calls, string(c.ID))
	if s.idle != nil && len(s.calls) == 0 {
		close(s.idle)
		s.idle = nil
	}
}

func (s *session) toolError(id []byte, e *wire.Error) {
	s.reply(id, func(b []byte) []byte { return wire.AppendToolError(b, id, e) })
}

// Answer passes the upstream's answer on under the agent's own id. Failures
// are marked with the upstream's key (MCP-7); everything else stays as sent.
func (s *session) Answer(c *jsonrpc.Call, line []byte, m *jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.Error.Present() {
		s.settleLocked(c, line, m)
		s.edge.SetUp()
	}
	b := s.edge.Buffer()
	switch {
	case m.Error.Present():
		b = jsonrpc.AppendErrorPrefix(b, line, m, c.ID, "upstream "+c.Key+": ")
	case m.IsError && c.Method == "tools/call":
		b = jsonrpc.AppendUpstreamMark(b, line, m, c.ID, c.Key)
	default:
		b = jsonrpc.Splice(b, line, jsonrpc.Edit{At: m.ID, With: c.ID})
	}
	s.edge.Commit(b, c.ID)
	s.forgetLocked(c)
}

// Progress passes a progress notification on under the agent's own token.
func (s *session) Progress(c *jsonrpc.Call, line []byte, m *jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edge.Commit(jsonrpc.Splice(s.edge.Buffer(), line, jsonrpc.Edit{At: m.ParamsToken, With: c.Token}), nil)
}

// Fail answers c with a failure that harness made.
func (s *session) Fail(c *jsonrpc.Call, e *wire.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edge.Commit(appendFailure(s.edge.Buffer(), c.Method, c.ID, e), c.ID)
	s.forgetLocked(c)
}

// cancel passes a cancellation on. One for a call that is over, or never was,
// is no fault: some agents send it after every call.
func (s *session) cancel(line []byte, m *jsonrpc.Message) {
	id := m.RequestID.In(line)
	if len(id) == 0 {
		return
	}
	s.mu.Lock()
	f := s.calls[string(id)]
	s.mu.Unlock()
	if f == nil {
		return
	}
	// What is still in the batch has to reach the upstream before its
	// cancellation does.
	s.batch.Flush()
	if f.up.Cancel(f.call, line) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forgetLocked(f.call)
		s.edge.Forget(f.call.ID)
	}
}

// newCorrelation returns an id that ties an answer to a log line.
func newCorrelation() string {
	var b [8]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
