package bridge

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"strconv"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// link is one connection to a daemon.
type link struct {
	conn *net.UnixConn
	in   *jsonrpc.Reader
}

// endInput tells the daemon that the agent sends no more.
func (l *link) endInput() { _ = l.conn.CloseWrite() }

// handshake is what a session was made of, to be made again on the next link.
type handshake struct {
	line        []byte // the agent's initialize, as it made it
	answered    bool   // the agent has an answer to it
	greetedHere bool   // that answer was given without a daemon
	initialized bool
	level       []byte // the agent's last logging/setLevel
	shown       [wire.Kinds]uint64
	hasShown    [wire.Kinds]bool
	seed        maphash.Seed
	seeded      bool
}

// show remembers what list of kind k the agent was given.
func (h *handshake) show(k wire.Kind, result []byte) {
	h.shown[k], h.hasShown[k] = h.sum(result), true
}

func (h *handshake) sum(result []byte) uint64 {
	if !h.seeded {
		h.seed, h.seeded = maphash.MakeSeed(), true
	}
	return maphash.Bytes(h.seed, result)
}

// asked returns the revision that the agent's initialize asked for, "" if none.
func (h *handshake) asked() string {
	var m jsonrpc.Message
	if jsonrpc.Peek(h.line, &m) != nil {
		return ""
	}
	params := m.Params.In(h.line)
	at, found, err := jsonrpc.Member(params, "protocolVersion")
	if err != nil || !found {
		return ""
	}
	version, err := jsonrpc.Unquote(at.In(params))
	if err != nil {
		return ""
	}
	return version
}

// keepLinked connects to the daemon, relays what it says until it goes, and
// begins anew.
func (b *bridge) keepLinked(ctx context.Context) {
	for tries := 0; ctx.Err() == nil; {
		conn, err := b.opt.Dial(ctx)
		if err == nil {
			err = b.relay(ctx, conn)
			_ = conn.Close()
			tries = 0
		}
		if errors.Is(err, errAgentGone) {
			return
		}
		b.unlink()
		tries++
		if !pause(ctx, retryAfter(tries)) {
			return
		}
	}
}

// retryAfter spaces the attempts: a daemon that restarts is back soon, and one
// that was never started costs little.
func retryAfter(tries int) time.Duration {
	if tries <= 40 {
		return 25 * time.Millisecond
	}
	return 250 * time.Millisecond
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// relay makes conn the link and passes on what comes from it.
func (b *bridge) relay(ctx context.Context, conn *net.UnixConn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	l := &link{conn: conn, in: jsonrpc.NewReader(conn, bufferSize, b.opt.MaxMessage)}
	if err := b.greetAgain(l); err != nil {
		return err
	}
	var out []byte
	for {
		line, err := l.in.Next()
		var tooLong *jsonrpc.TooLong
		switch {
		case errors.As(err, &tooLong):
			out = b.answerTooLong(out, tooLong)
		case err != nil:
			// What came before the end is whole and belongs to the agent.
			if writeErr := b.write(out); writeErr != nil {
				return writeErr
			}
			return fmt.Errorf("read from the daemon: %w", err)
		default:
			out = b.fromDaemon(out, line)
		}
		if !l.in.More() {
			if err := b.write(out); err != nil {
				return err
			}
			if cap(out) > keepBatch {
				out = nil
			}
			out = out[:0]
		}
	}
}

// fromDaemon appends a line of the daemon to what the agent is given, unless
// it answers what was answered before.
func (b *bridge) fromDaemon(out, line []byte) []byte {
	var m jsonrpc.Message
	if jsonrpc.Peek(line, &m) != nil {
		return out
	}
	if m.Kind() == jsonrpc.Response && !b.take(line, &m) {
		return out
	}
	return append(append(out, line...), '\n')
}

// take notes that the request a response answers is answered, and reports
// whether it was waiting.
func (b *bridge) take(line []byte, m *jsonrpc.Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := m.ID.In(line)
	w, ok := b.pending[string(id)]
	if !ok {
		return string(id) == "null" // what could not be read has no other id
	}
	delete(b.pending, string(id))
	switch {
	case w.list && m.Result.Present():
		b.session.show(w.kind, m.Result.In(line))
	case w.greets:
		b.session.answered = true
	}
	b.settledLocked()
	return true
}

func (b *bridge) answerTooLong(out []byte, t *jsonrpc.TooLong) []byte {
	b.mu.Lock()
	w, ok := b.pending[string(t.ID)]
	delete(b.pending, string(t.ID))
	b.settledLocked()
	b.mu.Unlock()
	if !ok {
		return out
	}
	return failure(out, t.ID, w.call, wire.New(wire.MessageTooLarge, "the answer is longer than the bridge takes"))
}

// unlink fails everything the lost link had taken, once and for good (MCP-1).
// Only initialize is kept: it has no effect and is repeated anyway.
func (b *bridge) unlink() {
	b.mu.Lock()
	b.link = nil
	var answers []byte
	for id, w := range b.pending {
		if w.greets {
			b.hold(b.session.line, []byte(id), "initialize")
			continue
		}
		answers = failure(answers, []byte(id), w.call, unavailable(true))
	}
	clear(b.pending)
	b.settledLocked()
	b.mu.Unlock()
	// The input's side notices by itself when the agent is gone.
	_ = b.write(answers)
}

// closeLink ends the link so that its reader returns.
func (b *bridge) closeLink() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.link != nil {
		_ = b.link.conn.Close()
	}
}

// greetAgain repeats the handshake on a new link, tells the agent which lists
// differ from those it was shown, and lets go what waited.
func (b *bridge) greetAgain(l *link) error {
	var repeated handshake
	for {
		b.mu.Lock()
		s := b.session
		// What the agent has said since is to be repeated as well.
		if s.greeted() == repeated.greeted() && s.initialized == repeated.initialized {
			break
		}
		b.mu.Unlock()
		if err := b.repeat(l, &s, &repeated); err != nil {
			return err
		}
	}
	defer b.mu.Unlock()
	b.link, b.linked = l, true
	if batch := b.releaseLocked(); len(batch) > 0 {
		if _, err := l.conn.Write(batch); err != nil {
			return fmt.Errorf("send what waited: %w", err)
		}
	}
	if b.drained != nil {
		l.endInput()
	}
	return nil
}

// greeted reports whether the agent's initialize has an answer.
func (h *handshake) greeted() bool { return h.answered || h.greetedHere }

// releaseLocked empties the queue and returns its lines.
func (b *bridge) releaseLocked() []byte {
	var batch []byte
	for _, h := range b.queue {
		batch = append(append(batch, h.line...), '\n')
		b.pending[string(h.id)] = waitFor(h.method, h.line)
	}
	b.queue = nil
	return batch
}

// waitFor returns what a request of that method waits for.
func waitFor(method string, line []byte) wait {
	w := wait{call: method == "tools/call", greets: method == "initialize"}
	for k := range wire.Kinds {
		if method == k.ListMethod() {
			var m jsonrpc.Message
			w.kind, w.list = k, jsonrpc.Peek(line, &m) == nil && !m.Cursor.Present()
		}
	}
	return w
}

// repeat makes the session again as the agent made it, with ids of the
// bridge's own, as far as done does not say that it was made already.
func (b *bridge) repeat(l *link, s, done *handshake) error {
	if !done.greeted() {
		if _, err := b.ask(l, s.line, "initialize"); err != nil {
			return err
		}
	}
	if s.initialized && !done.initialized {
		if _, err := l.conn.Write(append(wire.AppendNotification(nil, "notifications/initialized"), '\n')); err != nil {
			return fmt.Errorf("repeat the handshake: %w", err)
		}
		if s.level != nil {
			if _, err := b.ask(l, s.level, "level"); err != nil {
				return err
			}
		}
		if err := b.compare(l, s); err != nil {
			return err
		}
	}
	*done = *s
	return nil
}

// compare tells the agent of each kind whose list is not the one it was shown.
func (b *bridge) compare(l *link, s *handshake) error {
	var changed []byte
	for k := range wire.Kinds {
		if !s.hasShown[k] {
			continue
		}
		answer, err := b.ask(l, []byte(`{"jsonrpc":"2.0","id":0,"method":"`+k.ListMethod()+`"}`), k.String())
		if err != nil {
			return err
		}
		var m jsonrpc.Message
		if jsonrpc.Peek(answer, &m) == nil && m.Result.Present() && s.sum(m.Result.In(answer)) != s.shown[k] {
			changed = append(wire.AppendNotification(changed, k.ChangedMethod()), '\n')
		}
	}
	return b.write(changed)
}

// ask sends line under an id of the bridge's own and returns the answer, valid
// until the next line is read. Notifications in between are about lists, which
// are compared anyway.
func (b *bridge) ask(l *link, line []byte, what string) ([]byte, error) {
	var m jsonrpc.Message
	if err := jsonrpc.Peek(line, &m); err != nil {
		return nil, fmt.Errorf("repeat the handshake: %w", err)
	}
	id := strconv.Quote(b.ownIDs + what)
	request := append(jsonrpc.Splice(nil, line, jsonrpc.Edit{At: m.ID, With: []byte(id)}), '\n')
	if _, err := l.conn.Write(request); err != nil {
		return nil, fmt.Errorf("repeat the handshake: %w", err)
	}
	for {
		answer, err := l.in.Next()
		if err != nil {
			return nil, fmt.Errorf("repeat the handshake: %w", err)
		}
		var a jsonrpc.Message
		if jsonrpc.Peek(answer, &a) == nil && a.Kind() == jsonrpc.Response && string(a.ID.In(answer)) == id {
			return answer, nil
		}
	}
}
