package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"harness/pkg/control"
	"harness/pkg/handover"
	"harness/pkg/jsonrpc"
)

const (
	// greetLimit bounds the repetition of the handshake on a new link: a daemon
	// that accepts and says nothing is left, and looked for again.
	greetLimit = 5 * time.Second
	// offers is how often a session is offered on one link: the agent may say
	// something meanwhile that the daemon has to hear first.
	offers = 3
	// lastWords is how long a daemon that takes nothing more is listened to.
	lastWords = time.Second
)

// link is one connection to a daemon.
type link struct {
	conn net.Conn
	in   *jsonrpc.Reader
	seen jsonrpc.Message // the line being looked at; here, it is not allocated for each
}

// keepLinked connects to the daemon, relays what it says until it goes, and
// begins anew.
func (b *bridge) keepLinked(ctx context.Context) {
	for tries := 0; ctx.Err() == nil; tries++ {
		conn, err := b.opt.Dial(ctx)
		b.noteRefusal(err)
		if err == nil && b.serve(ctx, conn) {
			tries = 0
		}
		pause(ctx, retryAfter(tries))
	}
}

// noteRefusal keeps what a daemon says that is there and takes no session, for
// those who wait for one.
func (b *bridge) noteRefusal(err error) {
	problem, ok := errors.AsType[*control.Problem](err)
	b.change(func(s *session) {
		s.refusal = ""
		if ok {
			s.refusal = problem.Message
		}
		if ok && problem.Hint != "" {
			s.refusal += "; " + problem.Hint
		}
	})
}

// retryAfter spaces the attempts: a daemon that restarts is back soon, and one
// that was never started costs little. After half a minute it is a second.
func retryAfter(tries int) time.Duration {
	return min(25*time.Millisecond<<min(tries/20, 10), time.Second)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// serve makes conn the link, passes on what comes from it, and settles what it
// leaves behind when it is over. It reports whether conn was the link at all;
// what ended it does not matter, since the next one is looked for. It owns conn.
func (b *bridge) serve(ctx context.Context, conn net.Conn) bool {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	l := &link{conn: conn, in: jsonrpc.NewReader(conn, bufferSize, b.opt.MaxMessage)}
	defer b.detach(ctx, l)
	handed, err := b.establish(l)
	switch {
	case err != nil:
		return false
	case handed != nil:
		b.await(ctx, l, handed)
	default:
		b.relay(l)
	}
	return true
}

// establish repeats the handshake on a new link, lets go what waited, and tells
// the agent which lists differ from those it was shown. Where it can be, the
// session is handed over instead, which is returned.
func (b *bridge) establish(l *link) (*handover.Memory, error) {
	if err := l.conn.SetDeadline(time.Now().Add(greetLimit)); err != nil {
		return nil, fmt.Errorf("bound the handshake: %w", err)
	}
	r := newReplay(b.ownIDs)
	for range offers {
		if err := b.catchUp(l, r); err != nil {
			return nil, err
		}
		handed, again, err := b.handOver(l, r)
		if handed != nil || err != nil {
			return handed, err
		}
		if !again {
			break
		}
	}
	for {
		attached, err := b.attach(l, r)
		if err != nil {
			return nil, err
		}
		if attached {
			b.toAgent(r.news()...)
			return nil, nil
		}
		if err := r.run(l); err != nil {
			return nil, fmt.Errorf("repeat the handshake: %w", err)
		}
	}
}

// catchUp has the daemon hear of the handshake what it has not heard.
func (b *bridge) catchUp(l *link, r *replay) error {
	for {
		due := false
		b.change(func(s *session) { due = r.prepare(s.handshake, s.shown) })
		if !due {
			return nil
		}
		if err := r.run(l); err != nil {
			return fmt.Errorf("repeat the handshake: %w", err)
		}
	}
}

// attach makes l the link and sends what waited, unless the daemon has yet to
// hear something of the handshake, which is then prepared in r.
func (b *bridge) attach(l *link, r *replay) (attached bool, err error) {
	b.sending.Lock()
	defer b.sending.Unlock()
	var out *batch
	b.change(func(s *session) {
		if r.prepare(s.handshake, s.shown) {
			return
		}
		b.link, attached = l, true
		out = released(s.release(), s.initialized)
		out.sent()
	})
	if !attached {
		return false, nil
	}
	if len(out.lines) > 0 {
		if err := b.send(l, out); err != nil {
			return false, err
		}
	}
	return true, l.conn.SetDeadline(time.Time{})
}

// run sends what was prepared and hears all answers to it.
func (r *replay) run(l *link) error {
	if _, err := l.conn.Write(r.lines); err != nil {
		return err
	}
	for len(r.waits) > 0 {
		line, err := l.in.Next()
		if err != nil {
			return err
		}
		r.hear(line)
	}
	return nil
}

// relay passes on what the daemon says until it says no more, or the agent does
// not read.
func (b *bridge) relay(l *link) {
	for {
		line, err := l.in.Next()
		switch tooLong, ok := errors.AsType[*jsonrpc.TooLong](err); {
		case ok:
			b.tooLong(tooLong)
		case err != nil:
			return
		case b.passes(line, &l.seen):
			if b.noteSize(line) {
				b.tellLarge(true)
			}
			b.edge.Append(line)
		}
		if !l.in.More() && !b.toAgent() {
			return
		}
	}
}

// passes reports whether the agent is to have a line of the daemon. The half of
// one that a killed daemon left is no message.
func (b *bridge) passes(line []byte, m *jsonrpc.Message) (pass bool) {
	if jsonrpc.Peek(line, m) != nil {
		return false
	}
	if m.Kind() != jsonrpc.Response {
		return m.Kind() != jsonrpc.Invalid
	}
	b.change(func(s *session) { pass = s.answered(line, m) })
	return pass
}

// tooLong answers in the place of an answer that could not be read.
func (b *bridge) tooLong(t *jsonrpc.TooLong) {
	var answer []byte
	b.change(func(s *session) { answer = s.refused(t.ID) })
	if answer != nil {
		b.edge.Append(answer)
	}
}

// detach ends a link. A writer that is at work on it returns when it is closed,
// and notes what was not sent, before the rest counts as sent. When it is the
// bridge that ends, nothing is said of a daemon that went away.
func (b *bridge) detach(ctx context.Context, l *link) {
	_ = l.conn.Close()
	if ctx.Err() != nil {
		return
	}
	var answers [][]byte
	b.sending.Lock()
	b.change(func(s *session) {
		b.link = nil
		answers = s.lost(time.Now())
	})
	b.sending.Unlock()
	b.wake()
	b.toAgent(answers...)
}
