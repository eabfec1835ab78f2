package broker

import (
	"context"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"harness/pkg/jsonrpc"
)

// Edge is one session's two ends: the lines an agent sends and the lines it
// reads. Input methods belong to one goroutine; output methods are called
// under the session's lock. What is behind it may be a socket or the agent's
// own descriptors.
type Edge interface {
	// Next returns the next line without its newline, valid until the call
	// after. A line over the limit is *jsonrpc.TooLong, and reading goes on.
	Next() ([]byte, error)
	// More reports whether Next would return without waiting.
	More() bool
	// Consume says that everything returned by Next so far was acted on.
	Consume()
	// Buffer returns the slice to append the next line to; Commit takes it
	// back and ends the line.
	Buffer() []byte
	Commit([]byte)
	// Flush sends what was committed, without blocking.
	Flush() error
	// Gone reports that the agent's side is closed for good in both directions.
	Gone() bool
	// Drain waits until what was flushed is accepted or limit has passed.
	Drain(limit time.Duration)
	io.Closer
}

// SocketEdge is the edge of a session that a bridge copies for.
type SocketEdge struct {
	conn  *net.UnixConn
	in    *jsonrpc.Reader
	out   *jsonrpc.Writer
	batch jsonrpc.Batch // what was committed and not flushed
	err   error         // why the last flush was refused
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
	e := &SocketEdge{conn: conn}
	var in io.Reader = conn
	if len(early) > 0 {
		in = &earlyReader{early: early, rest: conn}
	}
	e.in = jsonrpc.NewReader(in, idleBuffer, limits.MaxMessage)
	e.out = jsonrpc.NewWriter(conn, jsonrpc.WriterOptions{
		Limit: 2 * limits.MaxMessage,
		Stall: limits.Stall,
		// The session's reader sees the closed connection and ends the session.
		OnFail:   func(error) { _ = conn.Close() },
		OnRefuse: func(_ []byte, err error) { e.err = err },
	})
	return e
}

// earlyReader returns early first, then what rest has.
type earlyReader struct {
	early []byte
	rest  io.Reader
}

func (r *earlyReader) Read(p []byte) (int, error) {
	if len(r.early) > 0 {
		n := copy(p, r.early)
		r.early = r.early[n:]
		return n, nil
	}
	return r.rest.Read(p)
}

// Next implements [Edge].
func (e *SocketEdge) Next() ([]byte, error) { return e.in.Next() }

// More implements [Edge].
func (e *SocketEdge) More() bool { return e.in.More() }

// Consume implements [Edge]; a socket has nothing to acknowledge.
func (e *SocketEdge) Consume() {}

// Buffer implements [Edge].
func (e *SocketEdge) Buffer() []byte { return *e.batch.Append(e.out) }

// Commit implements [Edge].
func (e *SocketEdge) Commit(b []byte) { *e.batch.Append(e.out) = append(b, '\n') }

// Flush implements [Edge].
func (e *SocketEdge) Flush() error {
	e.batch.Flush()
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
func (e *SocketEdge) Drain(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// What could not be delivered has nobody left to be told.
	_ = e.out.Drain(ctx)
}

// Close implements [Edge].
func (e *SocketEdge) Close() error {
	_ = e.out.Close()
	return e.conn.Close()
}
