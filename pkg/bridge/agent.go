package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// readAgent takes the agent's lines until they end, and sends what came in
// together when the input pauses.
func (b *bridge) readAgent() error {
	var out batch
	for {
		line, err := b.edge.Next()
		switch tooLong, ok := errors.AsType[*jsonrpc.TooLong](err); {
		case ok:
			refuseLong(tooLong, &out)
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !b.stand() {
				return nil
			}
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read from the agent: %w", err)
		default:
			b.noteSize(line)
			b.gather(line, &out)
		}
		if out.full() || !b.edge.More() {
			b.flush(&out)
			b.edge.Consume()
		}
	}
}

// gather takes one line. What the daemon would refuse is refused here: the id
// of a request must not be noted unless it is answered under that id.
func (b *bridge) gather(line []byte, out *batch) {
	m := &out.seen
	switch err := jsonrpc.PeekValid(line, m); {
	case errors.Is(err, jsonrpc.ErrEmpty):
		return
	case errors.Is(err, jsonrpc.ErrSyntax):
		out.refuse(nil, wire.ParseError, "parse error: "+err.Error())
		return
	case err != nil:
		out.refuse(m.ReplyID(line), wire.InvalidRequest, "invalid request: "+err.Error())
		return
	}
	switch m.Kind() {
	case jsonrpc.Request:
		b.request(line, m, out)
	case jsonrpc.Notification:
		b.notification(line, m, out)
	case jsonrpc.Response:
		out.add(line, nil)
	default:
		out.refuse(m.ReplyID(line), wire.InvalidRequest, "invalid request: neither a request with an id, nor a notification, nor a response")
	}
}

// request notes one request and adds it to what is sent.
func (b *bridge) request(line []byte, m *jsonrpc.Message, out *batch) {
	id, v := m.ID.In(line), verbOf(line, m)
	if v == discover {
		out.refuse(id, wire.MethodNotFound, `method "server/discover" is not served`)
		return
	}
	var r *request
	b.change(func(s *session) { r = s.add(id, v, line) })
	if r == nil {
		out.refuse(id, wire.InvalidRequest, "invalid request: the id is that of a request still in flight")
		return
	}
	out.add(line, r)
}

// notification adds what has no answer to what is sent.
func (b *bridge) notification(line []byte, m *jsonrpc.Message, out *batch) {
	method, _ := jsonrpc.Text(m.Method.In(line)) // one that is none is the daemon's to judge
	switch string(method) {
	case "notifications/initialized":
		out.initialized = true
	case "notifications/cancelled":
		b.change(func(s *session) { s.cancel(m.RequestID.In(line)) })
	}
	out.add(line, nil)
}

// refuseLong answers a request that is longer than anything the daemon takes.
func refuseLong(t *jsonrpc.TooLong, out *batch) {
	if t.Response || len(t.ID) == 0 {
		return
	}
	v := other
	if method, err := jsonrpc.Text(t.Method); err == nil && string(method) == "tools/call" {
		v = call
	}
	out.answers = append(out.answers, v.failure(t.ID, wire.New(wire.MessageTooLarge, "the request is longer than this endpoint takes")))
}

// flush sends the batch, or holds its requests where there is no daemon, and
// lets the agent have what was answered here. Where nothing was, it does not
// touch the agent's output: a write to an agent that sends before it reads may
// be under way there.
func (b *bridge) flush(out *batch) {
	answers := out.answers
	if len(out.lines) > 0 {
		b.sending.Lock()
		answers = append(answers, b.deliver(out)...)
		b.sending.Unlock()
	}
	out.reset()
	if len(answers) > 0 {
		b.toAgent(answers...)
	}
}

// deliver decides for a whole batch: it is sent, or its requests are held and
// its notifications dropped, since there is nobody to tell; initialized is a
// part of the handshake. The caller holds b.sending.
func (b *bridge) deliver(out *batch) (answers [][]byte) {
	var l *link
	b.change(func(s *session) {
		s.initialized = s.initialized || out.initialized
		if l = b.link; l == nil {
			answers = b.hold(s, out, 0)
			return
		}
		out.sent()
	})
	if l != nil {
		_ = b.send(l, out) // an error ends the link, which its reader sees
	}
	return answers
}

// send writes the batch to a link. What a dead one did not take a byte of
// waits for the next one, like what comes in the gap; what it may have read a
// part of is never sent again. The caller holds b.sending.
func (b *bridge) send(l *link, out *batch) error {
	n, err := out.WriteTo(l.conn)
	if err == nil {
		return nil
	}
	b.change(func(s *session) {
		b.link = nil
		b.hold(s, out, n) // has no answers: there was a daemon
	})
	// What the daemon said before it went is still to be read.
	_ = l.conn.SetReadDeadline(time.Now().Add(lastWords))
	return fmt.Errorf("write to the daemon: %w", err)
}

// hold holds the requests of a batch of which n bytes were sent, and returns
// the answers to those that need no daemon.
func (b *bridge) hold(s *session, out *batch, n int64) (answers [][]byte) {
	now := time.Now()
	for _, at := range out.lines {
		if int64(at.start) < n || !s.has(at.request) {
			continue
		}
		if answer := s.hold(at.request, out.line(at), now); answer != nil {
			answers = append(answers, answer)
		}
	}
	b.wake()
	return answers
}

// wake makes expire look.
func (b *bridge) wake() {
	select {
	case b.held <- struct{}{}:
	default: // it will look anyway
	}
}

// expire answers what has waited for a daemon long enough. While nothing waits
// it sleeps without a timer.
func (b *bridge) expire(ctx context.Context) {
	for {
		var timer <-chan time.Time
		if next := b.giveUp(); !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-b.held:
		case <-timer:
		}
	}
}

// giveUp answers what is overdue and returns when to look again.
func (b *bridge) giveUp() (next time.Time) {
	b.giving.Lock()
	defer b.giving.Unlock()
	var answers [][]byte
	say := ""
	b.change(func(s *session) {
		alone := s.alone
		answers, next = s.overdue(time.Now())
		if s.alone && !alone {
			say = "this session has no tools until there is a daemon: " + s.absent().Message
		}
	})
	if len(answers) > 0 {
		b.toAgent(answers...)
	}
	if say != "" {
		b.opt.Say(say)
	}
	return next
}
