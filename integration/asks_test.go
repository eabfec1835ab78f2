package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// connectedWith is a session whose agent can be asked these things.
func (h *home) connectedWith(capabilities string) *agent {
	h.t.Helper()
	a := h.agent()
	a.greetWith(capabilities)
	return a
}

// greetWith shakes hands as a client with capabilities.
func (a *agent) greetWith(capabilities string) {
	a.t.Helper()
	a.ask("initialize", json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"integration","version":"1"}}`))
	a.initialized()
}

// askedFor waits for a request of that method and returns its raw id.
func (a *agent) askedFor(method string) string {
	a.t.Helper()
	a.awaitCount(method, 1)
	return string(a.notes(method)[0].ID)
}

// cancel takes a call back; it gets no answer.
func (c *call) cancel() {
	c.a.t.Helper()
	c.a.notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(c.id)})
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.done = true // a later answer is a fault
}

// vanish ends the bridge without a goodbye.
func (a *agent) vanish() {
	a.t.Helper()
	a.bySignal = true
	a.signal(syscall.SIGKILL)
	<-a.exited
}

// C31: what an upstream asks its client reaches the session that it works for,
// and nobody else; where that cannot be told it is refused at once (MCP-5).
func TestAsk_ReachesTheOneWhoseCallItIsOrNobody(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, h.upstream("up"))
	h.start()
	one, two, mute := h.connectedWith(`{"elicitation":{},"sampling":{}}`), h.connectedWith(`{"elicitation":{}}`), h.connectedWith(`{}`)
	c := one.beginCall("up__ask", map[string]any{"method": "elicitation/create"})
	id := one.askedFor("elicitation/create")
	one.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","n":1.0}}`)
	if r := c.result(); !strings.Contains(r.text(), `{"action":"accept","n":1.0}`) {
		t.Errorf("the answer became %s", r.text())
	}
	// It cannot do that, and nobody else is asked.
	for _, tt := range []struct {
		a      *agent
		method string
	}{{two, "sampling/createMessage"}, {mute, "elicitation/create"}} {
		if r := tt.a.call("up__ask", map[string]any{"method": tt.method}); !strings.Contains(r.text(), "isolation") {
			t.Errorf("%s was answered with %s", tt.method, r.text())
		}
	}
	// Two have a call under way: it cannot be told whose.
	hang := two.beginCall("up__hang", nil)
	one.well("up")
	if r := one.call("up__ask", map[string]any{"method": "elicitation/create"}); !strings.Contains(r.text(), "more than one session") {
		t.Errorf("with two callers: %s", r.text())
	}
	hang.cancel()
	if o := h.harness("doctor"); o.code != 1 || !strings.Contains(o.stdout, "isolation") {
		t.Errorf("doctor: %v", o)
	}
	// The agent that is asked goes away: the upstream is told.
	one.beginCall("up__ask", map[string]any{"method": "sampling/createMessage"})
	one.askedFor("sampling/createMessage")
	one.vanish()
	eventually(t, "the upstream is told", func() bool {
		for _, e := range h.record("up") {
			if strings.Contains(e.Text, "has ended") {
				return true
			}
		}
		return false
	})
	if n := two.count("elicitation/create") + mute.count("elicitation/create") + two.count("sampling/createMessage"); n != 0 {
		t.Errorf("%d questions went to somebody else", n)
	}
}

// An upstream of a session's own starts at its first use, is asked and told
// what concerns that session, and ends with it (MCP-5).
func TestIsolation_GivesEachSessionAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	private := func(flags ...string) string {
		return set(h.upstream("own", flags...), "isolation", `"session"`)
	}
	h.configure(quick, private(), h.upstream("all"))
	d := h.start()
	eventually(t, "its tools are known and its process is gone", func() bool {
		u := h.status().up(t, "own")
		return u.Tools > 0 && u.Instances == 0 && u.State == "stopped"
	})
	learnt := h.starts("own")
	one, two := h.connectedWith(`{"roots":{"listChanged":true}}`), h.connectedWith(`{"elicitation":{"form":{}}}`)
	if !one.sees("own__pid") || h.starts("own") != learnt {
		t.Errorf("%d processes were started to list the tools", h.starts("own")-learnt)
	}
	a, b := one.must("own__pid", nil), two.must("own__pid", nil)
	if a == b || one.must("own__pid", nil) != a {
		t.Errorf("the sessions have processes %s and %s", a, b)
	}
	if u := h.status().up(t, "own"); u.Instances != 2 || u.State != "running" {
		t.Errorf("status: %v", u)
	}
	// It may ask what its session can do, whoever else calls.
	hang := two.beginCall("own__hang", nil)
	c := one.beginCall("own__ask", map[string]any{"method": "roots/list"})
	id := one.askedFor("roots/list")
	one.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"roots":[]}}`)
	if r := c.result(); r.text() != `{"roots":[]}` {
		t.Errorf("the answer became %s", r.text())
	}
	if r := one.call("own__ask", map[string]any{"method": "elicitation/create"}); !strings.Contains(r.text(), "cannot do elicitation") {
		t.Errorf("what it cannot do: %s", r.text())
	}
	var told []string
	for _, e := range h.record("own") {
		if strings.Contains(e.Text, `"method":"initialize"`) {
			_, capabilities, _ := strings.Cut(e.Text, `"capabilities":`)
			capabilities, _, _ = strings.Cut(capabilities, `,"clientInfo"`)
			told = append(told, capabilities)
		}
	}
	if got := fmt.Sprint(told[learnt:]); got != `[{"roots":{"listChanged":true}} {"elicitation":{"form":{}}}]` {
		t.Errorf("capabilities: %s", got)
	}
	// An edit reaches each once its session is idle, and never fails a call.
	h.configure(quick, private("-instructions", "new"), h.upstream("all"))
	h.mustReload()
	eventually(t, "the idle one is swapped", func() bool { return one.must("own__pid", nil) != a })
	select {
	case m := <-hang.answer:
		t.Errorf("the call under way was answered: %s", m.raw)
	default:
	}
	hang.cancel()
	eventually(t, "the other is swapped", func() bool { return two.must("own__pid", nil) != b })
	// A crash is one session's.
	pid := one.must("own__pid", nil)
	two.call("own__die", nil)
	if now := one.must("own__pid", nil); now != pid {
		t.Errorf("process %s became %s when another's died", pid, now)
	}
	two.eventuallyCalls("own__pid", nil)
	two.vanish()
	eventually(t, "a vanished session's process is gone", func() bool { return h.status().up(t, "own").Instances == 1 })
	h.configure(quick, h.upstream("all"))
	h.mustReload()
	eventually(t, "what was removed is gone", func() bool { _, there := h.status().find("own"); return !there })
	if r := one.call("own__pid", nil); r.code() != "unknown_namespace" {
		t.Errorf("a removed one: %s", r.code())
	}
	d.stop()
}

// tools = {allow, deny} and mcp = […] apply to listing and to calling alike, at
// the next call, and cost no process.
func TestShaping_AppliesToListingAndCallingAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	filtered := func(filter string) string { return set(h.upstream("up"), "tools", filter) }
	h.configure(quick, filtered(`{ deny = ["e*"] }`))
	d := h.start()
	a := d.connected()
	pid := a.must("up__pid", nil)
	if a.sees("up__echo") || a.sees("up__env") || !a.sees("up__pid") {
		t.Errorf("tools: %v", a.toolNames())
	}
	if r := a.call("up__echo", nil); r.code() != "unknown_tool" {
		t.Errorf("a denied tool: %s", r.code())
	}
	h.configure(quick, filtered(`{ allow = ["echo", "pid"] }`))
	a.awaitCount(toolsChanged, 1)
	if got := a.toolNames(); len(got) != 2 {
		t.Errorf("tools: %v", got)
	}
	if a.must("up__pid", nil) != pid || a.must("up__echo", map[string]any{"text": "x"}) != "x" {
		t.Error("the edit cost the process")
	}
	if r := a.call("up__sleep", nil); r.code() != "unknown_tool" {
		t.Errorf("one that is not allowed: %s", r.code())
	}
}

// What was stopped, removed or shared for a while serves the sessions that used
// it before, and leaves no process behind (MCP-5, LIF-5).
func TestIsolation_ComesBackToASessionThatUsedItBefore(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	own := set(h.upstream("own"), "isolation", `"session"`)
	h.configure(quick, own)
	h.start()
	a := h.connectedWith(`{}`)
	a.eventuallyCalls("own__pid", nil)
	h.must("stop", "mcp.own")
	h.must("start", "mcp.own")
	h.must("restart", "mcp.own")
	a.eventuallyCalls("own__pid", nil)
	h.configure(quick)
	h.mustReload()
	h.configure(quick, own)
	h.mustReload()
	a.eventuallyCalls("own__pid", nil)
	h.configure(quick, h.upstream("own"))
	h.mustReload()
	a.eventuallyCalls("own__pid", nil)
	eventually(t, "all share one process", func() bool {
		u := h.status().up(t, "own")
		return u.State == "running" && u.Instances == 1
	})
}
