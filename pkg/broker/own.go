package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// OwnTool is a tool of the endpoint itself.
type OwnTool struct {
	Tool mcp.Tool
	// Write marks one that changes something: it is listed to, and done for,
	// callers with that right alone (WHO-3).
	Write bool
	// Handle does it. arguments is what the caller sent, an empty object for
	// nothing. A [*wire.Error] reaches the caller as it is; any other error, and
	// a panic, is internal. It must return soon after ctx ends.
	Handle func(ctx context.Context, call *OwnCall, arguments json.RawMessage) (*mcp.CallToolResult, error)
}

// OwnCall is one call of an [OwnTool].
type OwnCall struct {
	// Scope is the caller's at the time of the call.
	Scope *Scope
	// Who is the caller.
	Who Caller

	s      *session
	tool   *OwnTool
	cancel context.CancelFunc
	then   []func()

	mu       sync.Mutex
	answered bool
}

var _ Upstream = (*OwnCall)(nil)

var errNoResult = errors.New("the tool gave no result")

func newOwnCall(s *session, tool *OwnTool) *OwnCall {
	return &OwnCall{Scope: s.who.Scope(), Who: s.who, s: s, tool: tool}
}

// Then has f run once the answer is on its way to the caller, or nobody waits
// for it any more. Only the handler may call it.
func (c *OwnCall) Then(f func()) { c.then = append(c.then, f) }

// do has the tool handle its arguments, and returns the raw result.
func (c *OwnCall) do(ctx context.Context, arguments json.RawMessage) (raw []byte, err error) {
	if c.tool.Write && !c.Scope.Write {
		return nil, c.denied()
	}
	var result *mcp.CallToolResult
	if panicked := guard(func() { result, err = c.tool.Handle(ctx, c, arguments) }); panicked != nil {
		return nil, panicked
	}
	if err == nil && result == nil {
		err = errNoResult
	}
	if err != nil {
		return nil, err
	}
	return plainJSON(result)
}

// guard runs f and returns its panic, if there is one: a call must never cost
// the daemon.
func guard(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return nil
}

// denied says what a caller lacks, and where it would be granted.
func (c *OwnCall) denied() *wire.Error {
	if c.Scope.Harness == "" {
		return wire.New(wire.PermissionDenied, c.tool.Tool.Name+" needs the write scope, and this session belongs to no harness")
	}
	if strings.Contains(c.Scope.Harness, "/") { // a project's, which grants itself nothing (CFG-4)
		return wire.New(wire.PermissionDenied, c.tool.Tool.Name+" needs the write scope, which a project's harness never has; only one of the global file can be granted it")
	}
	return wire.New(wire.PermissionDenied, fmt.Sprintf("%s needs the write scope; the owner grants it with mcp_allow = [\"read\", \"write\"] in [harness.%s]", c.tool.Tool.Name, c.Scope.Harness))
}

// Relay implements [Upstream]: it begins the call, beside the session.
func (c *OwnCall) Relay(call *jsonrpc.Call, line []byte, m *jsonrpc.Message, _ *jsonrpc.Batch) *wire.Error {
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(orEmpty(m.Params.In(line)), &params); err != nil {
		return wire.New(wire.InvalidArgument, c.tool.Tool.Name+": the params are not an object")
	}
	if len(params.Arguments) == 0 {
		params.Arguments = json.RawMessage(`{}`)
	}
	ctx, cancel := context.WithCancel(c.s.ctx)
	c.cancel = cancel
	c.s.own.Go(func() {
		defer cancel()
		result, err := c.do(ctx, params.Arguments)
		c.finish(call, result, err)
		for _, f := range c.then {
			if err := guard(f); err != nil {
				_ = c.s.explain(c.tool.Tool.Name, err) // the caller has its answer
			}
		}
	})
	return nil
}

// finish answers the call, unless it was taken back.
func (c *OwnCall) finish(call *jsonrpc.Call, result []byte, err error) {
	if !c.claim() {
		return
	}
	if err != nil {
		e := c.s.explain(c.tool.Tool.Name, err)
		c.s.finish(call, func(b []byte) []byte { return wire.AppendToolError(b, call.ID, e) })
		return
	}
	c.s.finish(call, func(b []byte) []byte { return wire.AppendResult(b, call.ID, result) })
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
	s.edge.Commit(build(s.edge.Buffer()), call.ID)
	s.forgetLocked(call)
	s.flushLocked()
}

// explain returns what an agent is told of err: what was made for it as it is,
// of anything else no more than where to look.
func (s *session) explain(operation string, err error) *wire.Error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	ref := newCorrelation()
	s.b.opt.Logger.Error("tool not done", "operation", operation, "correlation_id", ref, "error", err)
	return &wire.Error{Code: wire.Internal, Message: "internal error; the daemon's log has its correlation id", Correlation: ref}
}
