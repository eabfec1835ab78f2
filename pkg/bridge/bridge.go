package bridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// Options is what a bridge runs on.
type Options struct {
	In  io.Reader // what the agent sends
	Out io.Writer // what the agent reads
	// Say tells the person behind the agent something, once each.
	Say func(string)
	// Dial connects a session to the daemon. It is called again and again
	// while there is none.
	Dial    func(context.Context) (*net.UnixConn, error)
	Version string
	// MaxMessage bounds one line in bytes. The daemon has the limit that the
	// config sets; this one only keeps the bridge in bounds.
	MaxMessage int64
	// StopGrace is how long the answers to what was read are waited for once
	// the agent has ended its input.
	StopGrace time.Duration
}

const (
	// requestWait is how long a request waits for a daemon that is not there.
	requestWait = 2 * time.Second
	// greetWait is how long initialize waits before it is answered without a
	// daemon; an answer is due within a second.
	greetWait = 700 * time.Millisecond
	// bufferSize is what each direction reads at once when nothing large passes.
	bufferSize = 16 << 10
)

// bridge is the state between the two directions. Each direction has one
// goroutine; mu guards what both need, out orders what the agent reads. out is
// never taken while mu is held, so an agent that does not read holds up
// neither its own requests nor the link.
type bridge struct {
	opt    Options
	ownIDs string // prefix of the ids of the bridge's own requests

	mu      sync.Mutex
	pending map[string]wait // requests that were sent to the daemon, by raw id
	queue   []held          // what waits for a daemon, in order
	link    *link           // nil while there is none that is ready
	linked  bool            // there was a link before
	session handshake
	drained chan struct{} // closed when the input has ended and nothing waits
	held    chan struct{} // capacity 1: something was put on the queue

	out sync.Mutex
}

// wait is one request that the daemon has and has not answered.
type wait struct {
	call   bool // tools/call: its failure is a tool result
	greets bool // initialize: repeated on the next link, since it has no effect
	kind   wire.Kind
	list   bool // the answer is the list of kind
}

// held is one line that waits for a daemon.
type held struct {
	line   []byte
	id     []byte // nil for a notification
	method string
	until  time.Time
}

// Run relays between an agent and the daemon until the agent ends its input
// or stops reading. It returns nil in both cases.
func Run(ctx context.Context, opt Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var nonce [8]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(nonce[:])
	b := &bridge{opt: opt, ownIDs: "harness-bridge-" + hex.EncodeToString(nonce[:]) + "-", pending: map[string]wait{}, held: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	wg.Go(func() { b.keepLinked(ctx) })
	wg.Go(func() { b.expire(ctx) })
	err := b.readAgent()
	if err == nil {
		b.finish(ctx)
	}
	cancel()
	b.closeLink()
	wg.Wait()
	if errors.Is(err, errAgentGone) {
		return nil
	}
	return err
}

// errAgentGone means that nobody reads what the bridge writes.
var errAgentGone = errors.New("the agent does not read any more")

// readAgent takes the agent's lines until they end.
func (b *bridge) readAgent() error {
	r := jsonrpc.NewReader(b.opt.In, bufferSize, b.opt.MaxMessage)
	var batch outgoing
	for {
		line, err := r.Next()
		var tooLong *jsonrpc.TooLong
		switch {
		case errors.As(err, &tooLong):
			err = b.refuseLong(tooLong)
		case errors.Is(err, io.EOF):
			return b.send(&batch)
		case err != nil:
			return fmt.Errorf("read from the agent: %w", err)
		default:
			err = b.fromAgent(line, &batch)
		}
		if err == nil && !r.More() {
			err = b.send(&batch)
		}
		if err != nil {
			return err
		}
	}
}

// refuseLong answers a request that is longer than anything the daemon takes.
func (b *bridge) refuseLong(t *jsonrpc.TooLong) error {
	if t.Response || len(t.ID) == 0 {
		return nil
	}
	method, err := jsonrpc.Unquote(t.Method)
	return b.write(failure(nil, t.ID, err == nil && method == "tools/call",
		wire.New(wire.MessageTooLarge, "the request is longer than this endpoint takes")))
}

// failure appends the answer that e is to a request.
func failure(dst, id []byte, call bool, e *wire.Error) []byte {
	if call {
		return append(wire.AppendToolError(dst, id, e), '\n')
	}
	return append(wire.AppendError(dst, id, wire.InternalError, e), '\n')
}

// unavailable is the failure of whatever needed a daemon that is not there.
func unavailable(sent bool) *wire.Error {
	if sent {
		return wire.New(wire.DaemonUnavailable, "the harness daemon went away during this request; it was not sent again and may have had its effect")
	}
	return wire.New(wire.DaemonUnavailable, "the harness daemon is not running; start it with `harness daemon`, then try again")
}

// write gives the agent whole lines.
func (b *bridge) write(lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	b.out.Lock()
	defer b.out.Unlock()
	if _, err := b.opt.Out.Write(lines); err != nil {
		return errAgentGone
	}
	return nil
}

// finish waits for the answers to what was read, after the agent has ended
// its input.
func (b *bridge) finish(ctx context.Context) {
	b.mu.Lock()
	drained := make(chan struct{})
	if len(b.pending) == 0 && len(b.queue) == 0 {
		close(drained)
	} else {
		b.drained = drained
	}
	if b.link != nil && b.drained == nil {
		b.link.endInput()
	}
	b.mu.Unlock()
	limit := time.NewTimer(b.opt.StopGrace)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// settledLocked is called whenever something stopped waiting.
func (b *bridge) settledLocked() {
	if b.drained != nil && len(b.pending) == 0 && len(b.queue) == 0 {
		close(b.drained)
		b.drained = nil
	}
}
