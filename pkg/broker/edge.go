package broker

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"harness/pkg/handover"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// Edge is one session's two ends: the lines an agent sends and the lines it
// reads. Input methods (Next, More, Initialized, Consume, Gone, Drain) belong to
// one goroutine; the others are called under the session's lock, but for Close.
// What is behind it may be a socket or the agent's own descriptors.
type Edge interface {
	// Next returns the next line without its newline, valid until the call
	// after. A line over the limit is *jsonrpc.TooLong, and reading goes on; a
	// [*Turn] is that the session goes on over another edge.
	Next() ([]byte, error)
	// More reports whether Next would return without waiting.
	More() bool
	// Ask notes the request that Next returned, under its raw id, before it is
	// consumed. The error is why it must not be acted on.
	Ask(id []byte, v handover.Verb, line []byte) error
	// Initialized notes that the agent said so, before that line is consumed.
	Initialized()
	// Consume says that nothing returned by Next so far may be seen again. It
	// comes before anything is done about the last of it, and on an error nothing
	// is: it is not this session's any more.
	Consume() error
	// Buffer returns the slice to append the next line to; Commit takes it
	// back and ends the line, which answers the request with the raw id, nil for
	// none. SetUp and Listed tell what the answer that is committed next does:
	// it sets up the session, or it is the list of a kind.
	Buffer() []byte
	Commit(b, id []byte)
	SetUp()
	Listed(k wire.Kind, sum uint64)
	// Forget drops a request that will have no answer.
	Forget(id []byte)
	// Flush sends what was committed, without blocking.
	Flush() error
	// Gone reports that the agent's side is closed for good in both directions.
	Gone() bool
	// Drain waits until what was flushed is accepted or ctx ends.
	Drain(ctx context.Context)
	io.Closer
	// Wait returns when nothing of a closed edge runs any more. The session's
	// reader calls it, without a lock.
	Wait()
}

// SocketEdge is the edge of a session that a bridge copies for.
type SocketEdge struct {
	conn  *net.UnixConn
	src   *socketReader
	in    *jsonrpc.Reader
	out   *jsonrpc.Writer
	batch jsonrpc.Batch // what was committed and not flushed
	err   error         // why the last flush was refused
	held  bool          // what is committed is not flushed, since the session is handed over

	limits Limits
	mu     sync.Mutex
	closed bool
	next   *HandedEdge // the session goes on there
}

var _ Edge = (*SocketEdge)(nil)

// Limits bounds one session (MCP-6).
type Limits struct {
	MaxMessage int64         // bytes of one line
	Stall      time.Duration // how long an agent may not read while data waits
}

// idleBuffer is what a session's reader holds when nothing large passes; a
// fleet keeps a hundred of them.
const idleBuffer = 8 << 10

// NewSocketEdge returns the edge over conn, which it owns. early holds bytes
// that were read from conn before.
func NewSocketEdge(conn *net.UnixConn, early []byte, limits Limits) *SocketEdge {
	e := &SocketEdge{conn: conn, src: &socketReader{conn: conn, early: early}, limits: limits}
	e.in = jsonrpc.NewReader(e.src, idleBuffer, limits.MaxMessage)
	e.out = jsonrpc.NewWriter(conn, jsonrpc.WriterOptions{
		Limit: 2 * limits.MaxMessage,
		Stall: limits.Stall,
		// The session's reader sees the closed connection and ends the session.
		OnFail:   func(error) { _ = conn.Close() },
		OnRefuse: func(_ []byte, err error) { e.err = err },
	})
	return e
}

// socketReader returns early first, then what the connection has.
type socketReader struct {
	conn   *net.UnixConn
	early  []byte
	rights bool   // descriptors may come with the bytes
	oob    []byte // with them
}

func (r *socketReader) Read(p []byte) (int, error) {
	if len(r.early) > 0 {
		n := copy(p, r.early)
		r.early = r.early[n:]
		return n, nil
	}
	if !r.rights {
		return r.conn.Read(p)
	}
	oob := make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := r.conn.ReadMsgUnix(p, oob)
	r.oob = append(r.oob, oob[:oobn]...)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Next implements [Edge].
func (e *SocketEdge) Next() ([]byte, error) {
	line, err := e.in.Next()
	if err == nil && bytes.HasPrefix(line, []byte(handover.Prefix)) {
		return nil, e.turn(line)
	}
	return line, err
}

// More implements [Edge].
func (e *SocketEdge) More() bool { return e.in.More() }

// What only has to be known after a kill the bridge knows, on a socket.

// Ask implements [Edge].
func (e *SocketEdge) Ask([]byte, handover.Verb, []byte) error { return nil }

// Initialized implements [Edge].
func (e *SocketEdge) Initialized() {}

// Consume implements [Edge].
func (e *SocketEdge) Consume() error { return nil }

// SetUp implements [Edge].
func (e *SocketEdge) SetUp() {}

// Listed implements [Edge].
func (e *SocketEdge) Listed(wire.Kind, uint64) {}

// Forget implements [Edge].
func (e *SocketEdge) Forget([]byte) {}

// Buffer implements [Edge].
func (e *SocketEdge) Buffer() []byte { return *e.batch.Append(e.out) }

// Commit implements [Edge].
func (e *SocketEdge) Commit(b, id []byte) {
	if e.held && id != nil {
		return // to a request of the bridge's own, which does not wait for it
	}
	*e.batch.Append(e.out) = append(b, '\n')
}

// Flush implements [Edge].
func (e *SocketEdge) Flush() error {
	if !e.held {
		e.batch.Flush()
	}
	return e.err
}

// Gone implements [Edge]: a bridge that has only closed its sending side still
// reads its answers, one that vanished does not.
func (e *SocketEdge) Gone() bool {
	raw, err := e.conn.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		gone = err == nil && n > 0 && fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	})
	return gone || err != nil
}

// Drain implements [Edge].
func (e *SocketEdge) Drain(ctx context.Context) {
	// What could not be delivered has nobody left to be told.
	_ = e.out.Drain(ctx)
}

// Wait implements [Edge]: that of the session may be another one by now.
func (e *SocketEdge) Wait() {
	e.mu.Lock()
	next := e.next
	e.mu.Unlock()
	if next != nil {
		next.Wait()
	}
}

// Close implements [Edge]. It closes what the session goes on over as well.
func (e *SocketEdge) Close() error {
	e.mu.Lock()
	e.closed = true
	next := e.next
	e.mu.Unlock()
	if next != nil {
		return next.Close()
	}
	_ = e.out.Close()
	return e.conn.Close()
}
