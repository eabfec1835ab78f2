package broker_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"harness/pkg/broker"
	"harness/pkg/jsonrpc"
)

// privateUpstream is a fake of one session.
type privateUpstream struct {
	*keepingUpstream
	ended  atomic.Bool
	closed chan struct{}
}

var _ broker.Private = (*privateUpstream)(nil)

func (p *privateUpstream) Notify([]byte) {}
func (p *privateUpstream) Ended() bool   { return p.ended.Load() }
func (p *privateUpstream) Close()        { close(p.closed) }

// isolated offers an upstream of each session's own; opened gets each. It says
// something while it is made, as one does that takes a while.
func isolated(t *testing.T, opened chan *privateUpstream) broker.Offer {
	line := []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"made"}}`)
	var m jsonrpc.Message
	if err := jsonrpc.Peek(line, &m); err != nil {
		t.Fatal(err)
	}
	return broker.Offer{Key: "own", Known: true, Tools: []broker.Item{tool("t")}, Open: func(peer broker.Peer) broker.Private {
		peer.Heard(line, &m)
		p := &privateUpstream{keepingUpstream: newKeeping(), closed: make(chan struct{})}
		opened <- p
		return p
	}}
}

// calls has the agent call the tool and returns the upstream that it reached.
func (a *agent) calls(id int, opened chan *privateUpstream, last *privateUpstream) *privateUpstream {
	a.t.Helper()
	a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"own__t"}}`, id))
	if last == nil {
		if line := a.read(); !strings.Contains(line, "made") {
			a.t.Fatalf("read %s", line)
		}
		last = <-opened
	}
	last.answer(<-last.calls, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	a.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id))
	return last
}

// A capability that is null is one that the agent has not.
func TestPrivate_IsToldWhatItsSessionCanBeAsked(t *testing.T) {
	peers := make(chan broker.Peer, 1)
	offer := isolated(t, make(chan *privateUpstream, 1))
	open := offer.Open
	offer.Open = func(p broker.Peer) broker.Private { peers <- p; return open(p) }
	a := newFixture(t, []broker.Offer{offer}, nil).connect(broker.Limits{MaxMessage: 1 << 20})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"sampling":null,"roots":{"listChanged":true},"tasks":{}},"clientInfo":{"name":"x","version":"1"}}}`)
	a.read()
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"own__t"}}`)
	p := <-peers
	if p.Capabilities != `{"roots":{"listChanged":true}}` {
		t.Errorf("capabilities: %s", p.Capabilities)
	}
	var m jsonrpc.Message
	for method, asked := range map[string]bool{"sampling/createMessage": false, "elicitation/create": false, "roots/list": true} {
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q}`, method)
		if err := jsonrpc.Peek(line, &m); err != nil {
			t.Fatal(err)
		}
		q := &jsonrpc.Question{ID: []byte("1"), Method: method}
		refusal := p.Answerer.Ask(q, line, &m)
		if asked != (refusal == "") {
			t.Errorf("%s: %q", method, refusal)
		}
		p.Answerer.Withdraw(q, nil)
	}
}

func TestPrivate_IsMadeAgainWhereItWasTakenOutOfService(t *testing.T) {
	opened := make(chan *privateUpstream, 2)
	a := newFixture(t, []broker.Offer{isolated(t, opened)}, nil).greeted()
	first := a.calls(1, opened, nil)
	a.calls(2, opened, first)
	first.ended.Store(true)
	second := a.calls(3, opened, nil)
	a.calls(4, opened, second)
	a.conn.Close()
	<-second.closed
}

func TestPrivate_IsClosedWhereAllShareOneByNow(t *testing.T) {
	opened := make(chan *privateUpstream, 2)
	offer := isolated(t, opened)
	f := newFixture(t, []broker.Offer{offer}, nil)
	a := f.greeted()
	p := a.calls(1, opened, nil)
	shared := newFakeUpstream()
	offer.Open, offer.Upstream = nil, shared
	f.b.Publish(merge(t, []broker.Offer{offer}, nil))
	<-p.closed
	a.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"own__t"}}`)
	shared.answer(<-shared.calls, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	a.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
}
