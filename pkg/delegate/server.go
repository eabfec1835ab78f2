package delegate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"

	"harness/pkg/contract"
	"harness/pkg/jsonrpc"
	"harness/pkg/ledger"
	"harness/pkg/wire"
)

// maxCalls is how many calls of tools may be under way.
const maxCalls = 256

// Options are what a server is made of.
type Options struct {
	Runner  *contract.Runner
	Find    func(contract string) (contract.Source, error)
	Version string
	Log     *slog.Logger
}

// Serve speaks MCP on in and out until in ends and all that was asked for is
// answered, or until ctx ends, when what runs is interrupted.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opt Options) error {
	s := &server{Options: opt, out: &writer{out: out}, calls: map[string]*call{}, free: make(chan struct{}, maxCalls)}
	ended := make(chan error, 1)
	// A call ends with its session, which ctx interrupts, and is answered then.
	calls := context.WithoutCancel(ctx)
	go func() { ended <- s.read(calls, newReader(in)) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	// Calls end when their sessions do; sessions that nobody waits for go on.
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.busy.Wait()
		s.Runner.Wait()
	}()
	select {
	case <-over:
	case <-ctx.Done():
		s.Runner.Stop()
		<-over
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// server is one connection.
type server struct {
	Options
	out  *writer
	busy sync.WaitGroup
	free chan struct{}

	mu    sync.Mutex
	calls map[string]*call // by raw id, while under way
}

// call is a tools/call that waits for a session.
type call struct {
	execution *contract.Execution // nil until it has one
	gone      context.CancelFunc
}

// read takes messages until there are none.
func (s *server) read(ctx context.Context, in reader) error {
	for {
		message, f, err := in.next()
		if bad, ok := errors.AsType[*errFrame](err); ok {
			s.out.put(bad.framing, wire.AppendPlainError(nil, nil, wire.ParseError, bad.why))
			continue
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			s.out.put(f, wire.AppendPlainError(nil, nil, wire.ParseError, "the input ends within a message"))
			return io.EOF
		}
		if err != nil {
			return err
		}
		s.take(ctx, message, f)
	}
}

// take answers one message, or one batch of them.
func (s *server) take(ctx context.Context, message []byte, f framing) {
	reply := func(answer []byte) {
		if answer != nil {
			s.out.put(f, answer)
		}
	}
	if jsonrpc.Valid(message) != nil {
		reply(wire.AppendPlainError(nil, nil, wire.ParseError, "the message is not JSON in UTF-8"))
		return
	}
	if message[0] != '[' && bytes.TrimSpace(message)[0] != '[' {
		s.one(ctx, message, f, reply)
		return
	}
	s.batch(ctx, message, f, reply)
}

// batch answers its requests in one array, as revision 2025-03-26 has it.
func (s *server) batch(ctx context.Context, message []byte, f framing, reply func([]byte)) {
	var items []json.RawMessage
	if json.Unmarshal(message, &items) != nil || len(items) == 0 || len(items) > maxCalls {
		reply(wire.AppendPlainError(nil, nil, wire.InvalidRequest, "a batch has at least one message, and not too many"))
		return
	}
	var (
		mu      sync.Mutex
		answers [][]byte
		waiting sync.WaitGroup
	)
	for _, item := range items {
		waiting.Add(1)
		s.one(ctx, item, f, func(answer []byte) {
			mu.Lock()
			if answer != nil {
				answers = append(answers, bytes.Clone(answer))
			}
			mu.Unlock()
			waiting.Done()
		})
	}
	s.busy.Go(func() {
		waiting.Wait()
		if len(answers) > 0 {
			reply(append(append([]byte{'['}, bytes.Join(answers, []byte{','})...), ']'))
		}
	})
}

// members are those of an object, by their exact names; nil where it is none.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// text is a member that is a string.
func text(raw json.RawMessage) (string, bool) {
	var s *string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// one answers one message. reply is called exactly once, with nil where there
// is no answer.
func (s *server) one(ctx context.Context, message []byte, f framing, reply func([]byte)) {
	var m jsonrpc.Message
	r := members(message)
	if version, ok := text(r["jsonrpc"]); jsonrpc.Peek(message, &m) != nil || !ok || version != "2.0" {
		reply(wire.AppendPlainError(nil, nil, wire.InvalidRequest, "the message is not JSON-RPC 2.0"))
		return
	}
	method, asks := text(r["method"])
	id, usable := usableID(r["id"])
	switch {
	case !asks:
		reply(nil) // an answer, and nothing was asked
	case r["id"] != nil && !usable:
		reply(wire.AppendPlainError(nil, nil, wire.InvalidRequest, "an id is a string or a number"))
	case !usable:
		s.notified(method, r["params"])
		reply(nil)
	default:
		s.asked(ctx, id, method, r["params"], f, reply)
	}
}

// usableID is the raw id of a request.
func usableID(raw json.RawMessage) (json.RawMessage, bool) {
	if len(raw) == 0 || len(raw) > 1<<10 {
		return nil, false
	}
	c := raw[0]
	return raw, c == '"' || c == '-' || c >= '0' && c <= '9'
}

// notified heeds the one notification that means anything here.
func (s *server) notified(method string, params json.RawMessage) {
	if method != "notifications/cancelled" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[string(members(params)["requestId"])]
	if c == nil {
		return
	}
	c.gone()
	if c.execution != nil && !s.shared(c) {
		c.execution.Cancel()
	}
}

// shared reports whether another call waits for the session of c: whoever gives
// up does not take it from the others.
func (s *server) shared(c *call) bool {
	for _, other := range s.calls {
		if other != c && other.execution == c.execution {
			return true
		}
	}
	return false
}

// asked answers a request.
func (s *server) asked(ctx context.Context, id json.RawMessage, method string, params json.RawMessage, f framing, reply func([]byte)) {
	switch method {
	case "initialize":
		revision, _ := text(members(params)["protocolVersion"]) // what is odd is another one
		result, _ := json.Marshal(map[string]any{
			"protocolVersion": wire.Negotiate(revision),
			"capabilities":    map[string]any{"tools": map[string]any{}},
			"serverInfo":      map[string]any{"name": "harness-contracts", "version": s.Version},
			"instructions":    "Delegate work that must hold: harness_run_contract runs a contract and returns a signed verdict.",
		})
		reply(wire.AppendResult(nil, id, result))
	case "ping":
		reply(wire.AppendResult(nil, id, []byte(`{}`)))
	case "tools/list":
		if members(params)["cursor"] != nil {
			reply(wire.AppendError(nil, id, wire.InvalidParams, wire.New(wire.InvalidArgument, "the list is one page; there is no such cursor")))
			return
		}
		result, _ := json.Marshal(map[string]any{"tools": tools()})
		reply(wire.AppendResult(nil, id, result))
	case "tools/call":
		s.called(ctx, id, params, f, reply)
	default:
		reply(wire.AppendPlainError(nil, id, wire.MethodNotFound, "there is no method "+string(wire.AppendQuoted(nil, cut(method)))))
	}
}

func orEmpty(params json.RawMessage) json.RawMessage {
	if len(params) == 0 {
		return json.RawMessage(`{}`)
	}
	return params
}

func cut(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most]
	}
	return s
}

// called answers a tools/call beside the reader, and what is wrong with it as the
// result of a tool (MCP-7).
func (s *server) called(ctx context.Context, id, params json.RawMessage, f framing, reply func([]byte)) {
	p := members(params)
	name, ok := text(p["name"])
	if !ok {
		reply(wire.AppendToolError(nil, id, wire.New(wire.InvalidArgument, "tools/call takes a name and arguments")))
		return
	}
	run, ok := s.tool(name)
	if !ok {
		reply(wire.AppendToolError(nil, id, wire.New(wire.UnknownTool, "there is no tool "+string(wire.AppendQuoted(nil, cut(name))))))
		return
	}
	select {
	case s.free <- struct{}{}:
	default:
		reply(wire.AppendToolError(nil, id, wire.New(wire.OperationFailed, "too many calls are under way; wait for some of them")))
		return
	}
	ctx, gone := context.WithCancel(ctx)
	c := &call{gone: gone}
	key := string(id)
	s.mu.Lock()
	s.calls[key] = c
	s.mu.Unlock()
	token, _ := usableID(members(p["_meta"])["progressToken"])
	s.busy.Go(func() {
		defer func() { <-s.free }()
		result, err := run(ctx, c, orEmpty(p["arguments"]), s.progress(token, f))
		s.mu.Lock()
		if s.calls[key] == c {
			delete(s.calls, key)
		}
		s.mu.Unlock()
		if ctx.Err() != nil {
			reply(nil) // the client does not want it any more
			return
		}
		gone()
		reply(s.result(id, result, err))
	})
}

// result renders what a tool returned.
func (s *server) result(id json.RawMessage, v any, err error) []byte {
	if err != nil {
		return wire.AppendToolError(nil, id, s.explain(err))
	}
	structured, err := ledger.Canonical(v)
	if err != nil {
		return wire.AppendToolError(nil, id, s.explain(err))
	}
	dst := append([]byte(nil), `{"content":[{"type":"text","text":`...)
	dst = wire.AppendQuoted(dst, string(structured))
	dst = append(append(append(dst, `}],"structuredContent":`...), structured...), '}')
	return wire.AppendResult(nil, id, dst)
}

// CodeOf is what an error of a session is called, here and by whoever else offers
// contracts; false for one that nobody foresaw.
func CodeOf(err error) (wire.Code, bool) {
	switch {
	case errors.As(err, new(*contract.Invalid)), errors.As(err, new(ledger.BadName)):
		return wire.InvalidArgument, true
	case errors.Is(err, contract.ErrConflict):
		return wire.IdempotencyConflict, true
	case errors.Is(err, ledger.ErrUnknown):
		return wire.UnknownRun, true
	case errors.As(err, new(*ledger.Fault)):
		return wire.InvalidEvidence, true
	}
	return "", false
}

// explain says what an error means to a caller. What nobody foresaw is in the
// log, and has a number.
func (s *server) explain(err error) *wire.Error {
	if own, ok := errors.AsType[*wire.Error](err); ok {
		return own
	}
	if code, ok := CodeOf(err); ok {
		return wire.New(code, err.Error())
	}
	e := wire.New(wire.Internal, "something went wrong; the log says more")
	e.Correlation = rand.Text()[:12]
	s.Log.Error("tool failed", "correlation_id", e.Correlation, "error", err)
	return e
}
