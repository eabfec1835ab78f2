package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"harness/pkg/handover"
	"harness/pkg/jsonrpc"
)

// errNotTaken says that the daemon goes on over the socket.
var errNotTaken = errors.New("the daemon does not take the session")

// handOver gives the session to the daemon whole: the agent's descriptors, what
// was read and is not acted on, and what the agent is to be told. The handshake
// has been repeated. A nil memory without an error means that the link is to be
// used as it is, unless it can be tried again.
func (b *bridge) handOver(l *link, r *replay) (mem *handover.Memory, again bool, err error) {
	conn, ok := l.conn.(*net.UnixConn)
	if !ok || b.gate == nil {
		return nil, false, nil
	}
	if _, err := conn.Write([]byte(handover.Hold + "\n")); err != nil {
		return nil, false, err
	}
	if err := b.hears(l, r, handover.Held); err != nil {
		return nil, false, unlessNotTaken(err)
	}
	// A daemon that says nothing has cost nobody anything by now.
	if !b.gate.shut() {
		return nil, true, b.goOn(conn, l, r)
	}
	if mem, again, err = b.offer(conn, l, r); mem == nil {
		b.gate.open()
	}
	return mem, again, unlessNotTaken(err)
}

// unlessNotTaken returns an error that ends the link.
func unlessNotTaken(err error) error {
	if errors.Is(err, errNotTaken) {
		return nil
	}
	return err
}

// goOn has the daemon go on over the socket.
func (b *bridge) goOn(conn *net.UnixConn, l *link, r *replay) error {
	// A line that no descriptors came with is refused.
	if _, err := conn.Write(handover.Take{}.Append(nil)); err != nil {
		return err
	}
	return b.hears(l, r, handover.Refused)
}

// offer offers the session. The reader stands still, and the daemon sends
// nothing more.
func (b *bridge) offer(conn *net.UnixConn, l *link, r *replay) (_ *handover.Memory, again bool, _ error) {
	due := false
	b.change(func(s *session) { due = r.due(s.handshake, s.shown) })
	if due || !b.holdAll() {
		return nil, true, b.goOn(conn, l, r)
	}
	mem, set, err := b.pack(r)
	b.giving.Unlock()
	if err == nil {
		err = b.pass(conn, l, r, mem, set)
	}
	if err == nil || mem != nil && !mem.Revoke() {
		return mem, false, nil // the daemon has it, or had it when it went
	}
	b.unpack(r, set)
	_ = b.edge.LetGo(strings.NewReader(""))
	if mem == nil {
		return nil, false, b.goOn(conn, l, r)
	}
	mem.Close()
	return nil, false, err
}

// hears reads the link up to a word of the daemon's. What comes before it is for
// the agent.
func (b *bridge) hears(l *link, r *replay, word string) error {
	for {
		line, err := l.in.Next()
		if err != nil {
			return err
		}
		var m jsonrpc.Message
		switch {
		case string(line) == word:
			return nil
		case string(line) == handover.Refused,
			// One that does not know the word calls it an invalid request.
			jsonrpc.Peek(line, &m) == nil && m.Error.Present() && string(m.ID.In(line)) == "null":
			return errNotTaken
		}
		r.hear(line)
	}
}

// holdAll keeps everybody from writing to the agent, and from giving up what is
// then to be somebody else's, or reports false where one of them is at it:
// whoever gives up writes to the agent with giving held, so waiting for it here
// could be for good.
func (b *bridge) holdAll() bool {
	if !b.giving.TryLock() {
		return false
	}
	if b.edge.Hold() {
		return true
	}
	b.giving.Unlock()
	return false
}

// pack makes the memory that the session goes on in. Nothing is held any more
// from then on, so nothing is given up. The caller holds b.giving.
func (b *bridge) pack(r *replay) (*handover.Memory, handover.Setup, error) {
	var set handover.Setup
	b.change(func(s *session) {
		set.Input = slices.Concat(s.handOver(), b.gate.rest)
		set.Initialized, set.Shown = s.initialized, s.shown
	})
	for _, line := range r.news() {
		set.Output = append(append(set.Output, line...), '\n')
	}
	mem, err := handover.NewMemory(set)
	return mem, set, err
}

// unpack undoes pack.
func (b *bridge) unpack(r *replay, set handover.Setup) {
	b.gate.keep(set.Input)
	for line := range bytes.Lines(set.Output) {
		r.heard = append(r.heard, bytes.TrimSuffix(line, []byte("\n")))
	}
}

// keep sets what the reader goes on with.
func (g *gate) keep(rest []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest = rest
}

// pass passes the descriptors and hears whether the daemon takes them.
func (b *bridge) pass(conn *net.UnixConn, l *link, r *replay, mem *handover.Memory, set handover.Setup) error {
	rights, err := handover.Rights(b.gate.ends, mem)
	if err != nil {
		return err
	}
	line := handover.Take{Input: int64(len(set.Input)), Output: int64(len(set.Output))}.Append(nil)
	if _, _, err := conn.WriteMsgUnix(line, rights, nil); err != nil {
		return err
	}
	return b.hears(l, r, handover.Taken)
}

// await waits until the daemon lets go of the session, for whatever reason, and
// takes it back: what was answered reaches the agent, what was not acted on is
// acted on here. While it waits it has nothing to do.
func (b *bridge) await(ctx context.Context, l *link, mem *handover.Memory) {
	defer mem.Close()
	b.gate.give(true)
	_ = l.conn.SetDeadline(time.Time{}) // of a connection that broke, the end comes at once
	var discarded [64]byte
	for {
		if _, err := l.conn.Read(discarded[:]); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return // the daemon lets go when it sees the end of this process
	}
	b.gate.give(false)
	st, err := handover.Recover(mem)
	if err != nil {
		b.leave(fmt.Errorf("take a session back: %w", err))
		return
	}
	b.change(func(s *session) { s.takeBack(st) })
	b.gate.keep(st.Input)
	b.gate.open()
	if b.edge.LetGo(st.Output) != nil {
		b.leave(errAgentGone)
	}
}

// give notes whether somebody else has the descriptors.
func (g *gate) give(handed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handed = handed
}
