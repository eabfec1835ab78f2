package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"harness/pkg/broker"
)

// Tasks pass through raw, to the upstream that has them.
func TestSession_TasksGoToTheUpstreamThatHasThem(t *testing.T) {
	one, two := newFakeUpstream(), newFakeUpstream()
	offers := []broker.Offer{
		{Key: "a", Upstream: one, Known: true, Tasks: `{"list":{},"requests":{"tools":{"call":{}}}}`, Tools: []broker.Item{tool("t")}},
		{Key: "b", Upstream: two, Known: true, Tools: []broker.Item{tool("t")}},
	}
	f := newFixture(t, offers, nil)
	s, other := f.greeted(), f.greeted()
	if got := s.ask(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`); !strings.Contains(got, `"tasks":{"list":{},"requests":{"tools":{"call":{}}}}`) {
		t.Errorf("announced: %s", got)
	}
	s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__t","task":{"ttl":1.0}}}`)
	r := <-one.calls
	one.answer(r, `{"jsonrpc":"2.0","id":77,"result":{"task":{"taskId":"x\u0031","status":"working"}}}`)
	s.want(`{"jsonrpc":"2.0","id":2,"result":{"task":{"taskId":"x\u0031","status":"working"}}}`)
	for i, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"} {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"taskId":"x\u0031","n":1.0}}`, i+3, method))
		r := <-one.calls
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":77,"method":%q,"params":{"taskId":"x\u0031","n":1.0}}`, method); r.line != want {
			t.Errorf("relayed as %s", r.line)
		}
		one.answer(r, `{"jsonrpc":"2.0","id":77,"result":{}}`)
		s.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i+3))
	}
	f.hear("a", `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"x\u0031"}}`)
	s.want(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"x\u0031"}}`)
	if got := other.ask(9, "ping", `{}`); got != `{"jsonrpc":"2.0","id":9,"result":{}}` {
		t.Errorf("another session reads %s", got)
	}
	if got := s.ask(10, "tasks/get", `{}`); !strings.Contains(got, "-32602") {
		t.Errorf("without an id: %s", got)
	}
	// With two that have tasks, it takes to have begun one.
	offers[1].Tasks = `{"cancel":{}}`
	f.b.Publish(merge(t, offers, nil))
	if got := s.ask(11, "tasks/get", `{"taskId":"unknown"}`); !strings.Contains(got, "-32602") {
		t.Errorf("an unknown one: %s", got)
	}
	if got := s.ask(12, "tasks/list", `{}`); !strings.Contains(got, "-32601") {
		t.Errorf("a list over two: %s", got)
	}
	if got := s.ask(13, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{}}`); !strings.Contains(got, `"tasks":{"requests":{"tools":{"call":{}}}}`) {
		t.Errorf("announced: %s", got)
	}
}
