package bridge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Options is what a bridge runs on.
type Options struct {
	In  io.Reader // what the agent sends
	Out io.Writer // what the agent reads
	// Say tells the person behind the agent something, once, on one line.
	Say func(string)
	// Dial connects a session to the daemon. It is called again and again
	// while there is none; a [*control.Problem] is a daemon's refusal.
	Dial func(context.Context) (net.Conn, error)
	// Version returns what the bridge calls itself where no daemon says it.
	Version func() string
	// MaxMessage bounds one line in bytes. The daemon has the limit that the
	// config sets; this one only keeps the bridge in bounds.
	MaxMessage int64
	// StopGrace is how long the answers to what was read are waited for once
	// the agent has ended its input.
	StopGrace time.Duration
	// Asked, if not nil, is closed when the bridge is asked to end: what was
	// answered by then still reaches the agent.
	Asked <-chan struct{}
	// Handover has the daemon read In and write Out by itself where that can be:
	// both are files, and pipes or sockets.
	Handover bool
	// Large, if not nil, is told true before a large answer passes, and false
	// once things are quiet after that, and after the start: it is time then to
	// give back memory. There is one call of it at a time.
	Large func(bool)
}

// lastAnswers bounds how long answers that may be on their way are waited for
// once the bridge was asked to end.
const lastAnswers = 200 * time.Millisecond

// quiet is how long nothing large has passed when memory is given back.
const quiet = time.Second

// bridge is the state between the two directions. sending is taken before mu,
// and is held while lines are written to the daemon: what was sent and what
// was not is settled under it. mu guards the rest and is never held while
// anything is written, so neither an agent nor a daemon that does not read
// holds up the other direction.
type bridge struct {
	opt    Options
	ownIDs string // prefix of the ids of the bridge's own requests
	edge   edge
	held   chan struct{} // capacity 1: something was put on the queue
	leave  context.CancelCauseFunc
	calm   *time.Timer // runs only for a while after something large

	sizing sync.Mutex
	large  bool // what Options.Large was told last

	sending sync.Mutex
	giving  sync.Mutex // held from when something is given up until it is answered; taken before the edge's
	gate    *gate      // nil where the agent's ends cannot be handed over

	mu      sync.Mutex
	session session
	link    *link         // nil while there is none that takes lines
	drained chan struct{} // closed when nothing waits; nil until the input has ended
}

// errAgentGone means that nobody reads what the bridge writes.
var errAgentGone = errors.New("the agent does not read any more")

// Run relays between an agent and the daemon until the agent ends its input or
// stops reading, or the bridge is asked to end, and returns nil; or until ctx is
// done or the input breaks.
//
// A read of In or a write to Out that is under way cannot be interrupted. Run
// does not wait for it beyond StopGrace; its goroutine ends when it returns.
func Run(ctx context.Context, opt Options) error { return newBridge(opt).run(ctx) }

func newBridge(opt Options) *bridge {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails
	if opt.Large == nil {
		opt.Large = func(bool) {}
	}
	b := &bridge{
		opt:     opt,
		ownIDs:  "harness-bridge-" + hex.EncodeToString(nonce[:]) + "-",
		held:    make(chan struct{}, 1),
		session: newSession(opt.Version),
	}
	if opt.Handover {
		b.gate = newGate(opt.In, opt.Out)
	}
	if b.gate != nil {
		b.edge = newStdio(b.gate.ends.In, b.gate.ends.Out, opt.MaxMessage)
	} else {
		b.edge = newStdio(opt.In, opt.Out, opt.MaxMessage)
	}
	return b
}

func (b *bridge) run(ctx context.Context) error {
	ctx, b.leave = context.WithCancelCause(ctx)
	defer b.leave(nil)
	if b.gate != nil {
		b.gate.over = ctx.Done()
		defer b.gate.close()
	}
	b.calm = time.AfterFunc(quiet, func() { b.tellLarge(false) })
	defer b.calm.Stop()
	ended := make(chan error, 1)
	go func() { ended <- b.readAgent() }()
	var copying sync.WaitGroup
	copying.Go(func() { b.keepLinked(ctx) })
	copying.Go(func() { b.expire(ctx) })
	select {
	case err := <-ended:
		return b.finish(ctx, &copying, b.opt.StopGrace, err)
	case <-b.opt.Asked:
		return b.finish(ctx, &copying, lastAnswers, nil)
	case <-ctx.Done():
		return b.finish(ctx, &copying, b.opt.StopGrace, context.Cause(ctx))
	}
}

// finish waits for the answers to what was read, no longer than limit, ends both
// directions, and returns what Run does.
func (b *bridge) finish(ctx context.Context, copying *sync.WaitGroup, limit time.Duration, err error) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	drained := make(chan struct{})
	b.change(func(*session) { b.drained = drained })
	select {
	case <-drained:
	case <-grace.Done():
	case <-ctx.Done():
	}
	b.leave(nil)
	// What was answered last may still be on its way to the agent.
	over := make(chan struct{})
	go func() { defer close(over); copying.Wait() }()
	select {
	case <-over:
	case <-grace.Done():
	}
	if errors.Is(err, errAgentGone) {
		return nil
	}
	return err
}

// noteSize reports whether a line is large. While such lines pass, no memory is
// given back.
func (b *bridge) noteSize(line []byte) bool {
	if len(line) < large {
		return false
	}
	b.calm.Reset(quiet)
	return true
}

// tellLarge tells what passes, true only once until it is false again.
func (b *bridge) tellLarge(passes bool) {
	b.sizing.Lock()
	defer b.sizing.Unlock()
	if !b.large || !passes {
		b.opt.Large(passes)
	}
	b.large = passes
}

// change is how the session is changed. Whoever waits for nothing to wait is
// told here.
func (b *bridge) change(f func(*session)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.session)
	if b.drained != nil && len(b.session.requests) == 0 {
		close(b.drained)
		b.drained = nil
	}
}

// toAgent lets the agent have lines, and what was appended before, and reports
// whether it still reads.
func (b *bridge) toAgent(lines ...[]byte) bool {
	for _, line := range lines {
		b.edge.Append(line)
	}
	if b.edge.Flush() != nil {
		b.leave(errAgentGone)
		return false
	}
	return true
}
