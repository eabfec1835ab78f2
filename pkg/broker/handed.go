package broker

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"harness/pkg/handover"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// Turn is what [Edge].Next returns where a session goes on over another edge.
// To makes the turn, and is called under the session's lock.
type Turn struct{ To func() Edge }

// Error implements error.
func (*Turn) Error() string { return "the session goes on over another edge" }

// turn acts on a line that is the bridge's, and not the agent's.
func (e *SocketEdge) turn(line []byte) error {
	if bytes.Equal(line, []byte(handover.Hold)) {
		e.src.rights = true
		return &Turn{e.hold}
	}
	// What came with the line is gone through at once, so that nothing stays
	// open.
	rights := e.src.oob
	e.src.oob, e.src.rights = nil, false
	take, ok := handover.ParseTake(line)
	return &Turn{func() Edge {
		var why error
		if !ok {
			why = errors.New("the line is not understood")
		}
		next, err := e.take(rights, take, why)
		e.held = false
		if err != nil {
			e.say(handover.Refused)
			return e
		}
		return next
	}}
}

// hold stops what is sent over the socket: what the bridge has read by the
// answer is all there is.
func (e *SocketEdge) hold() Edge {
	e.batch.Flush()
	e.say(handover.Held)
	e.held = true
	return e
}

// say sends the bridge a line of its own.
func (e *SocketEdge) say(line string) {
	e.Commit(append(e.Buffer(), line...), nil)
	e.batch.Flush()
}

// take makes the edge of what was received, and ends the use of this one.
func (e *SocketEdge) take(rights []byte, t handover.Take, why error) (*HandedEdge, error) {
	received, err := handover.Receive(rights)
	if err != nil {
		return nil, errors.Join(err, why)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if why == nil && e.closed {
		why = net.ErrClosed
	}
	if why != nil {
		received.Close()
		return nil, why
	}
	h := &HandedEdge{conn: e.conn}
	bounds := handover.Bounds{Line: e.limits.MaxMessage, Waiting: 2 * e.limits.MaxMessage, Stall: e.limits.Stall}
	if h.s, err = received.Begin(t.Input, t.Output, bounds, func(error) { _ = h.Close() }); err != nil {
		received.Close()
		return nil, err
	}
	h.in = jsonrpc.NewReader(h.s, idleBuffer, e.limits.MaxMessage)
	h.batch = bytes.Clone(*e.batch.Append(e.out))
	*e.batch.Append(e.out) = nil
	e.say(handover.Taken)
	e.next = h
	// The bridge says nothing more; when it goes, or wants the session back, that
	// is the end here.
	h.watching.Go(h.watch)
	return h, nil
}

// HandedEdge is the edge of a session whose bridge has handed the agent's own
// descriptors over.
type HandedEdge struct {
	conn  *net.UnixConn // to the bridge, which waits for its end
	s     *handover.Session
	in    *jsonrpc.Reader
	batch []byte // what was committed and not published
	setUp bool   // what is committed next sets up the session
	spare jsonrpc.Spare
	over  atomic.Bool // the agent waits for nothing more

	watching sync.WaitGroup
}

var _ Edge = (*HandedEdge)(nil)

// watch ends the session when the bridge does.
func (e *HandedEdge) watch() {
	var b [1]byte
	for {
		if _, err := e.conn.Read(b[:]); err != nil {
			_ = e.Close()
			return
		}
	}
}

// Next implements [Edge].
func (e *HandedEdge) Next() ([]byte, error) { return e.in.Next() }

// More implements [Edge].
func (e *HandedEdge) More() bool { return e.in.More() }

// Ask implements [Edge].
func (e *HandedEdge) Ask(id []byte, v handover.Verb, line []byte) error {
	return e.s.Ask(id, v, line, len(e.in.Rest()))
}

// Initialized implements [Edge].
func (e *HandedEdge) Initialized() { e.s.Initialized() }

// Consume implements [Edge].
func (e *HandedEdge) Consume() error { return e.s.Consume(len(e.in.Rest())) }

// keptBuffer is the largest buffer kept while nothing is sent, in bytes.
const keptBuffer = 16 << 10

// Buffer implements [Edge].
func (e *HandedEdge) Buffer() []byte {
	if e.batch == nil {
		e.batch = e.spare.Take(0)[:0]
	}
	return e.batch
}

// Commit implements [Edge].
func (e *HandedEdge) Commit(b, id []byte) {
	// One to what the bridge asked before it handed the session over is nobody's.
	if id == nil || e.s.Answered(id, len(b)+1, e.setUp) {
		e.batch = append(b, '\n')
	}
	e.setUp = false
}

// SetUp implements [Edge].
func (e *HandedEdge) SetUp() { e.setUp = true }

// Listed implements [Edge].
func (e *HandedEdge) Listed(k wire.Kind, sum uint64) { e.s.Listed(int(k), sum) }

// Forget implements [Edge].
func (e *HandedEdge) Forget(id []byte) { e.s.Forget(id) }

// Flush implements [Edge].
func (e *HandedEdge) Flush() error {
	err := e.s.Publish(e.batch)
	if cap(e.batch) > keptBuffer {
		e.spare.Put(e.batch)
		e.batch = nil
	}
	e.batch = e.batch[:0]
	return err
}

// Gone implements [Edge].
func (e *HandedEdge) Gone() bool { return e.s.Gone() }

// Drain implements [Edge].
func (e *HandedEdge) Drain(ctx context.Context) {
	e.s.Drain(ctx)
	e.over.Store(true)
}

// Wait implements [Edge].
func (e *HandedEdge) Wait() { e.watching.Wait() }

// Close implements [Edge]. The bridge sees the end of its connection, and has
// the session again: the order matters.
func (e *HandedEdge) Close() error {
	e.s.Close(e.over.Load())
	return e.conn.Close()
}
