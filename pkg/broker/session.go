package broker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"harness/pkg/handover"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// session is one MCP connection of one agent. Its reader goroutine runs run;
// answers are appended by the upstreams' readers under mu.
type session struct {
	b     *Broker
	id    string
	since time.Time
	edge  Edge
	who   Caller
	// What the endpoint does by itself begins with it. It never ends: close takes
	// the calls back first, so that none is answered with its own cancellation.
	ctx   context.Context //nolint:containedctx // of all calls, and no call brings one
	own   sync.WaitGroup  // calls of the endpoint's own tools
	batch jsonrpc.Batch   // the reader goroutine's: what goes to upstreams
	m     jsonrpc.Message // the reader goroutine's: of the line at hand

	mu          sync.Mutex
	calls       map[string]*inflight // by the agent's own raw id
	idle        chan struct{}        // closed when calls is empty, once the input has ended
	client      string
	greeted     bool                          // initialize was answered
	initialized bool                          // notifications may be sent
	told        [wire.Kinds][sha256.Size]byte // what the session was last shown or told of
	level       severity                      // of the log messages it wants
	questions   questions
	tasks       tasks
	privates    map[string]Private // upstreams of its own, by project and key
	over        bool               // nothing can be asked of it any more
	class       atomic.Value       // string: the kind of agent it said that it is
	shown       atomic.Pointer[shown]
	// capabilities are what the agent can be asked, by name, as raw JSON.
	capabilities map[string]json.RawMessage
}

// inflight is one relayed call and where it went.
type inflight struct {
	call *jsonrpc.Call
	up   Upstream
	of   route
	// asked is the URI that a subscription was asked for with, as raw JSON.
	asked []byte
	// task is set where the call asked for a task.
	task bool
}

func newSession(ctx context.Context, b *Broker, id string, edge Edge, caller Caller) *session {
	return &session{b: b, id: id, since: time.Now(), edge: edge, who: caller, ctx: ctx, calls: map[string]*inflight{}, questions: newQuestions(), privates: map[string]Private{}}
}

func (s *session) describe() SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionInfo{ID: s.id, Harness: s.who.Scope().Harness, Client: s.client, Since: s.since}
}

// catalog is what the session sees now.
func (s *session) catalog() *Catalog {
	fleet, scope := s.b.fleet.Load(), s.who.Scope()
	if last := s.shown.Load(); last != nil && last.fleet == fleet && last.scope == scope {
		return last.catalog
	}
	c := s.look(fleet, scope)
	s.shown.Store(&shown{fleet, scope, c})
	return c
}

// shown is what a session saw last, and of what.
type shown struct {
	fleet   *Fleet
	scope   *Scope
	catalog *Catalog
}

// look finds what callers of a scope see with this session's kind of agent.
func (s *session) look(fleet *Fleet, scope *Scope) *Catalog {
	class, _ := s.class.Load().(string)
	if class == "" {
		class = scope.Class
	}
	if class == "" || s.b.opt.Lint == nil {
		return fleet.View(scope)
	}
	c := fleet.viewFor(scope, class, s.b.opt.Lint)
	if len(c.leftOut) > 0 {
		s.b.tellLeftOut(class, c.leftOut)
	}
	return c
}

// run reads lines until the agent ends its input or vanishes, then lets the
// calls in flight finish where somebody still reads the answers.
func (s *session) run() {
	for {
		line, err := s.edge.Next()
		switch {
		case err == nil:
			s.line(line)
		case !s.goOn(err):
			s.end(err)
			return
		}
		if !s.edge.More() {
			s.batch.Flush()
			s.Flush()
		}
	}
}

// goOn acts on what Next returned instead of a line, and reports whether there
// is more to come.
func (s *session) goOn(err error) bool {
	if tooLong, ok := errors.AsType[*jsonrpc.TooLong](err); ok {
		if s.edge.Consume() == nil {
			s.tooLong(tooLong)
		}
		return true
	}
	turn, ok := errors.AsType[*Turn](err)
	if ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.edge = turn.To()
	}
	return ok
}

// end closes the session. After a plain end of input the answers still due
// are delivered, for at most the stop grace (MCP-1); calls that nobody waits
// for are cancelled upstream (MCP-4).
func (s *session) end(err error) {
	s.batch.Flush()
	if errors.Is(err, io.EOF) {
		s.await()
		// The last answer may be committed and not flushed yet.
		s.Flush()
		s.drain()
	} else if !errors.Is(err, net.ErrClosed) {
		s.b.opt.Logger.Debug("session ended", "session", s.id, "error", err)
	}
	s.close()
}

// drain waits a moment for what was flushed to be accepted.
func (s *session) drain() {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	s.edge.Drain(ctx)
}

// close ends the session's connection and cancels what nobody waits for.
func (s *session) close() {
	_ = s.edge.Close()
	s.edge.Wait()
	s.mu.Lock()
	left := s.calls
	s.calls = map[string]*inflight{}
	s.mu.Unlock()
	for _, f := range left {
		f.up.Cancel(f.call, nil)
	}
	s.abandon()
	s.own.Wait()
	s.b.leaveAll(s)
	s.eachPrivate(Private.Close)
	s.b.opt.Event(Event{Kind: "session", Session: s.id, Message: "ended"})
}

// await returns when no call is in flight, the agent is gone in both
// directions, or the stop grace has passed.
func (s *session) await() {
	s.mu.Lock()
	idle := make(chan struct{})
	if len(s.calls) == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	s.mu.Unlock()
	limit := time.NewTimer(s.b.opt.StopGrace())
	defer limit.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !s.edge.Gone() {
		select {
		case <-idle:
			return
		case <-limit.C:
			return
		case <-look.C:
		}
	}
}

// line acts on one line of the agent. It is checked whole: an upstream answers
// nothing to a broken line, and the call would hang (PRF-1).
func (s *session) line(line []byte) {
	m := &s.m
	err := jsonrpc.PeekValid(line, m)
	if err == nil {
		err = s.note(line, m)
	}
	// From here on it is not looked at again, whatever happens.
	if s.edge.Consume() != nil {
		return // the next read says why
	}
	switch {
	case errors.Is(err, jsonrpc.ErrEmpty):
		return
	case errors.Is(err, jsonrpc.ErrSyntax):
		s.refuse(nil, wire.ParseError, "parse error: "+err.Error())
		return
	case err != nil:
		s.refuse(m.ReplyID(line), wire.InvalidRequest, "invalid request: "+err.Error())
		return
	}
	switch m.Kind() {
	case jsonrpc.Request:
		s.request(line, m)
	case jsonrpc.Notification:
		s.notification(line, m)
	case jsonrpc.Response:
		s.answer(line, m)
	default:
		s.refuse(m.ReplyID(line), wire.InvalidRequest, "invalid request: neither a request with an id, nor a notification, nor a response")
	}
}

// note has the edge know of what has to be known should this process end before
// it is acted on. The error is why a request is not acted on.
func (s *session) note(line []byte, m *jsonrpc.Message) error {
	method := m.Method.In(line)
	switch m.Kind() {
	case jsonrpc.Request:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.edge.Ask(m.ID.In(line), verbOf(method), line)
	case jsonrpc.Notification:
		if method, _ := jsonrpc.Text(method); string(method) == "notifications/initialized" {
			s.edge.Initialized()
		}
	default:
	}
	return nil
}

// verbOf returns what an answer in place of the daemon's has to know of a
// request's raw method.
func verbOf(raw []byte) handover.Verb {
	method, _ := jsonrpc.Text(raw) // one that is none is nobody's
	switch string(method) {
	case "tools/call":
		return handover.Call
	case "initialize":
		return handover.Greet
	case "logging/setLevel":
		return handover.Level
	case "resources/subscribe":
		return handover.Subscribe
	case "resources/unsubscribe":
		return handover.Unsubscribe
	}
	return handover.Other
}

// reply appends the answer to the request with the raw id, nil for none; it is
// sent when the input pauses.
func (s *session) reply(id []byte, build func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edge.Commit(build(s.edge.Buffer()), id)
}

// setUp is reply to a request that set up the session.
func (s *session) setUp(id []byte, build func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edge.SetUp()
	s.edge.Commit(build(s.edge.Buffer()), id)
}

// done says that a request has set up the session, and no more.
func (s *session) done(id []byte) {
	s.setUp(id, func(b []byte) []byte { return wire.AppendResult(b, id, []byte("{}")) })
}

// Flush sends what is due to the agent; it implements [jsonrpc.Owner].
func (s *session) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushLocked()
}

// flushLocked ends the session where its agent does not read (MCP-6): the
// reader goroutine sees the closed edge.
func (s *session) flushLocked() {
	if err := s.edge.Flush(); err != nil {
		_ = s.edge.Close()
	}
}

func (s *session) tooLong(t *jsonrpc.TooLong) {
	if t.Response || len(t.ID) == 0 {
		return
	}
	e := wire.New(wire.MessageTooLarge, "the request is longer than [server] max_message allows")
	s.reply(nil, func(b []byte) []byte {
		if method, err := jsonrpc.Unquote(t.Method); err == nil && method == "tools/call" {
			return wire.AppendToolError(b, t.ID, e)
		}
		return wire.AppendError(b, t.ID, wire.InternalError, e)
	})
}

// notify tells the session of each kind that differs from what it was last
// shown, and returns how many notifications that took. Before the agent's
// initialized it tells nothing (MCP-0).
func (s *session) notify() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.initialized {
		return 0
	}
	c, n := s.catalog(), 0
	for k := range wire.Kinds {
		if s.told[k] == c.digests[k] {
			continue
		}
		s.told[k] = c.digests[k]
		s.edge.Commit(wire.AppendNotification(s.edge.Buffer(), k.ChangedMethod()), nil)
		s.b.opt.Event(Event{Kind: "notification", Session: s.id, Message: k.ChangedMethod()})
		n++
	}
	if n > 0 {
		s.flushLocked()
	}
	return n
}

// notification acts on what the agent says without asking.
func (s *session) notification(line []byte, m *jsonrpc.Message) {
	method, err := jsonrpc.Unquote(m.Method.In(line))
	if err != nil {
		return
	}
	switch method {
	case "notifications/initialized":
		s.mu.Lock()
		s.initialized = s.greeted
		s.mu.Unlock()
		s.notify()
	case "notifications/cancelled":
		s.cancel(line, m)
	case "notifications/progress":
		s.advance(line, m)
	case "notifications/roots/list_changed":
		s.eachPrivate(func(p Private) { p.Notify(line) })
	}
}

// maxClientName is how many characters of a client's name are kept: every status
// has it.
const maxClientName = 128

// greet answers initialize with the instructions of the catalog in force.
func (s *session) greet(line []byte, m *jsonrpc.Message) {
	id := m.ID.In(line)
	var asked struct {
		ProtocolVersion string                     `json:"protocolVersion"`
		ClientInfo      json.RawMessage            `json:"clientInfo"`
		Capabilities    map[string]json.RawMessage `json:"capabilities"`
	}
	var client struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(m.Params.In(line), &asked); err != nil {
		s.invalid(id, "initialize takes an object with the string protocolVersion, the object capabilities and the object clientInfo")
		return
	}
	maps.DeleteFunc(asked.Capabilities, func(_ string, raw json.RawMessage) bool { return string(raw) == "null" }) // says no
	// A client that does not say who it is is served all the same.
	_ = json.Unmarshal(asked.ClientInfo, &client)
	client.Name = cutRunes(client.Name, maxClientName)
	s.class.Store(s.b.opt.Class(client.Name))
	s.shown.Store(nil)
	c := s.catalog()
	s.setUp(id, func(b []byte) []byte {
		return wire.AppendInitialize(b, id, asked.ProtocolVersion, s.b.opt.Version, c.capabilities(), c.instructions)
	})
	s.mu.Lock()
	s.greeted, s.client, s.told, s.capabilities = true, client.Name, c.digests, asked.Capabilities
	s.mu.Unlock()
	s.b.opt.Event(Event{Kind: "session", Session: s.id, Message: fmt.Sprintf("initialized by %q", client.Name)})
}
