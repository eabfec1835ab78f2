package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// OwnTool is a tool of the endpoint itself. Its definition is served by the
// protocol library.
type OwnTool struct {
	Tool mcp.Tool
	// Write marks one that changes something: it is listed to, and done for,
	// callers with that right alone (WHO-3).
	Write bool
	// Handle does it. arguments is what the caller sent, nil for nothing. A
	// [*wire.Error] reaches the caller as it is; any other error is internal.
	// It must return soon after ctx ends.
	Handle func(ctx context.Context, call *OwnCall, arguments json.RawMessage) (*mcp.CallToolResult, error)
}

// OwnCall is one call of an [OwnTool].
type OwnCall struct {
	// Scope is the caller's at the time of the call.
	Scope *Scope

	s      *session
	name   string
	cancel context.CancelFunc
	failed error
	then   []func()

	mu       sync.Mutex
	answered bool
}

var _ Upstream = (*OwnCall)(nil)

var errNoResult = errors.New("the tool gave no result")

func newOwnCall(s *session, name string) *OwnCall {
	return &OwnCall{Scope: s.who.Scope(), s: s, name: name}
}

// Then has f run once the answer is on its way to the caller, or nobody waits
// for it any more. Only the handler may call it.
func (c *OwnCall) Then(f func()) { c.then = append(c.then, f) }

// ownCallKey is where the context of a handler has its *OwnCall.
type ownCallKey struct{}

// handle is the library's side of a tool.
func (t OwnTool) handle(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c, ok := ctx.Value(ownCallKey{}).(*OwnCall)
	if !ok {
		return nil, errors.New("a tool of the endpoint was called by nobody")
	}
	if t.Write && !c.Scope.Write {
		c.failed = c.denied()
		return &mcp.CallToolResult{}, nil
	}
	result, err := t.Handle(ctx, c, req.Params.RawArguments)
	if err != nil || result == nil {
		// The library would answer with a code of its own.
		c.failed = cmp.Or(err, errNoResult)
		return &mcp.CallToolResult{}, nil
	}
	return result, nil
}

// denied says what a caller lacks, and where it would be granted.
func (c *OwnCall) denied() *wire.Error {
	if c.Scope.Harness == "" {
		return wire.New(wire.PermissionDenied, c.name+" needs the write scope, and this session belongs to no harness")
	}
	return wire.New(wire.PermissionDenied, fmt.Sprintf("%s needs the write scope; the owner grants it with mcp_allow = [\"read\", \"write\"] in [harness.%s]", c.name, c.Scope.Harness))
}

// Relay implements [Upstream]: it begins the call, beside the session.
func (c *OwnCall) Relay(call *jsonrpc.Call, line []byte, m *jsonrpc.Message, _ *jsonrpc.Batch) *wire.Error {
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(orEmpty(m.Params.In(line)), &params); err != nil {
		return wire.New(wire.InvalidArgument, c.name+": the params are no object")
	}
	clean := append(wire.AppendQuoted([]byte(`{"name":`), c.name), `,"arguments":`...)
	if len(params.Arguments) == 0 {
		params.Arguments = json.RawMessage(`{}`)
	}
	clean = append(append(clean, params.Arguments...), '}')
	ctx, cancel := context.WithCancel(context.WithValue(c.s.ctx, ownCallKey{}, c))
	c.cancel = cancel
	core := c.s.catalog().core
	c.s.own.Go(func() {
		defer cancel()
		answer, err := core.handle(ctx, nil, call.ID, "tools/call", clean)
		c.finish(call, answer, err)
		for _, f := range c.then {
			f()
		}
	})
	return nil
}

// finish answers the call, unless it was taken back.
func (c *OwnCall) finish(call *jsonrpc.Call, answer []byte, err error) {
	if !c.claim() {
		return
	}
	if c.failed != nil {
		err = c.failed
	}
	if err != nil {
		e := c.s.explain(c.name, err)
		c.s.finish(call, func(b []byte) []byte { return wire.AppendToolError(b, call.ID, e) })
		return
	}
	c.s.finish(call, func(b []byte) []byte { return append(b, answer...) })
}

// Cancel implements [Upstream].
func (c *OwnCall) Cancel(*jsonrpc.Call, []byte) bool {
	mine := c.claim() // first: what the handler does of it is no answer any more
	c.cancel()
	return mine
}

// claim reports whether the call is the claimant's to answer, or to forget.
func (c *OwnCall) claim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := !c.answered
	c.answered = true
	return mine
}

// finish commits the answer of a call of the endpoint's own, and sends it.
func (s *session) finish(call *jsonrpc.Call, build func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edge.Commit(build(s.edge.Buffer()))
	s.forgetLocked(call)
	s.flushLocked()
}

// explain returns what an agent is told of err: what was made for it as it is,
// of anything else no more than where to look.
func (s *session) explain(operation string, err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	ref := newCorrelation()
	s.b.opt.Logger.Error("tool not done", "operation", operation, "correlation_id", ref, "error", err)
	return &wire.Error{Code: wire.Internal, Message: "internal error; the daemon's log has its correlation id", Correlation: ref}
}
