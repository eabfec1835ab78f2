package bridge

import (
	"context"
	"slices"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// outgoing is what the agent's side gathered for the daemon between two pauses
// of the input.
type outgoing struct {
	bytes []byte
	lines []sentLine
}

// sentLine is where one line of an outgoing batch ends, and what it was.
type sentLine struct {
	end    int
	id     string // "" for what has no answer
	method string
}

// keepBatch is the largest batch buffer kept between two pauses.
const keepBatch = 64 << 10

// fromAgent takes one line: the session's own business is noted, what can be
// answered here is answered, the rest goes to the daemon.
func (b *bridge) fromAgent(line []byte, batch *outgoing) error {
	if len(line) == 0 {
		return nil
	}
	var m jsonrpc.Message
	if err := jsonrpc.Peek(line, &m); err != nil {
		// The daemon checks lines; without one, the check is here, because a
		// broken line has no id to answer later.
		if b.ready() {
			batch.add(line, "", "")
			return nil
		}
		return b.write(append(wire.AppendPlainError(nil, nil, wire.ParseError, "parse error: "+err.Error()), '\n'))
	}
	method, err := jsonrpc.Unquote(orNull(m.Method.In(line)))
	if err != nil {
		method = ""
	}
	id := m.ID.In(line)
	if m.Kind() != jsonrpc.Request {
		return b.notification(line, method, batch)
	}
	switch method {
	case "server/discover":
		// Answered at once, daemon or not: whoever probes waits for nothing else.
		return b.write(append(wire.AppendPlainError(nil, id, wire.MethodNotFound, `method "server/discover" is not served`), '\n'))
	case "initialize":
		b.mu.Lock()
		b.session.line = slices.Clone(line)
		b.mu.Unlock()
	case "logging/setLevel":
		b.mu.Lock()
		b.session.level = slices.Clone(line)
		b.mu.Unlock()
	}
	if answer := b.local(id, method); answer != nil {
		return b.write(answer)
	}
	b.request(line, id, method, &m, batch)
	return nil
}

// orNull makes an absent value one that Unquote refuses.
func orNull(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return raw
}

// notification passes on what has no answer. Without a daemon there is nobody
// to tell but for the handshake, which is repeated anyway.
func (b *bridge) notification(line []byte, method string, batch *outgoing) error {
	if method == "notifications/initialized" {
		b.mu.Lock()
		b.session.initialized = true
		b.mu.Unlock()
	}
	if b.ready() {
		batch.add(line, "", method)
	}
	return nil
}

// local returns the answer to what needs no daemon while there never was one:
// the lists are empty until there is (MCP-1).
func (b *bridge) local(id []byte, method string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link != nil || b.linked || !b.session.greetedHere {
		return nil
	}
	switch method {
	case "ping":
		return append(wire.AppendResult(nil, id, []byte("{}")), '\n')
	case "resources/templates/list":
		return append(wire.AppendResult(nil, id, []byte(`{"resourceTemplates":[]}`)), '\n')
	}
	for k := range wire.Kinds {
		if method == k.ListMethod() {
			b.session.show(k, k.EmptyList())
			return append(wire.AppendResult(nil, id, k.EmptyList()), '\n')
		}
	}
	return nil
}

// request sends a request to the daemon, or lets it wait for one.
func (b *bridge) request(line, id []byte, method string, m *jsonrpc.Message, batch *outgoing) {
	w := wait{call: method == "tools/call", greets: method == "initialize"}
	for k := range wire.Kinds {
		if method == k.ListMethod() && !m.Cursor.Present() {
			w.kind, w.list = k, true
		}
	}
	b.mu.Lock()
	if b.link == nil {
		b.hold(line, id, method)
		b.mu.Unlock()
		return
	}
	b.pending[string(id)] = w
	b.mu.Unlock()
	batch.add(line, string(id), method)
}

// hold keeps a line until there is a daemon or its time is up.
func (b *bridge) hold(line, id []byte, method string) {
	limit := requestWait
	if method == "initialize" {
		limit = greetWait
	}
	b.queue = append(b.queue, held{
		line: slices.Clone(line), id: slices.Clone(id), method: method, until: time.Now().Add(limit),
	})
	select {
	case b.held <- struct{}{}:
	default: // the flag is up already
	}
}

func (o *outgoing) add(line []byte, id, method string) {
	o.bytes = append(append(o.bytes, line...), '\n')
	o.lines = append(o.lines, sentLine{end: len(o.bytes), id: id, method: method})
}

func (b *bridge) ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.link != nil
}

// send gives the batch to the daemon. Where the link turns out to be dead
// before a byte of a line was taken, the line waits like any other that came
// in the gap; where a part of it may have been read, it is never sent again.
func (b *bridge) send(batch *outgoing) error {
	if len(batch.bytes) == 0 {
		return nil
	}
	defer batch.reset()
	b.mu.Lock()
	l := b.link
	b.mu.Unlock()
	n := 0
	if l != nil {
		var err error
		if n, err = l.conn.Write(batch.bytes); err == nil {
			return nil
		}
		_ = l.conn.Close()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	start := 0
	for _, s := range batch.lines {
		if _, waits := b.pending[s.id]; waits && start >= n {
			delete(b.pending, s.id)
			b.hold(batch.bytes[start:s.end-1], []byte(s.id), s.method)
		}
		start = s.end
	}
	return nil
}

func (o *outgoing) reset() {
	if cap(o.bytes) > keepBatch {
		o.bytes = nil
	}
	o.bytes, o.lines = o.bytes[:0], o.lines[:0]
}

// expire fails what has waited for a daemon long enough. While nothing waits
// it sleeps without a timer.
func (b *bridge) expire(ctx context.Context) {
	for {
		answers, next := b.overdue(time.Now())
		if b.write(answers) != nil {
			return
		}
		var timer <-chan time.Time
		if !next.IsZero() {
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

// overdue takes what has waited until now off the queue. It returns the
// answers to it and when to look again, zero while nothing waits.
func (b *bridge) overdue(now time.Time) (answers []byte, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = slices.DeleteFunc(b.queue, func(h held) bool {
		if h.until.After(now) {
			if next.IsZero() || h.until.Before(next) {
				next = h.until
			}
			return false
		}
		answers = b.giveUpLocked(answers, h)
		return true
	})
	b.settledLocked()
	return answers, next
}

// giveUpLocked appends the answer to what no daemon came for.
func (b *bridge) giveUpLocked(dst []byte, h held) []byte {
	if h.method == "initialize" {
		b.session.greetedHere = true
		b.opt.Say("no daemon is running: this session has no tools until one is; start it with `harness daemon`")
		return append(wire.AppendInitialize(dst, h.id, b.session.asked(), b.opt.Version), '\n')
	}
	return failure(dst, h.id, h.method == "tools/call", unavailable(false))
}
