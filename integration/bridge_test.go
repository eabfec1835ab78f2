package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"harness/integration/fakeup"
)

func TestC53_TheProbeBeforeInitializeIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	for asked, answered := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26",
		"2024-11-05": "2024-11-05", "2099-01-01": "2025-11-25",
	} {
		a := d.agent()
		m := a.begin("server/discover", rawf(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}`)).
			waitIn(within(time.Second)) // 200 ms on a quiet machine; the start of the process is in it
		if m.Error == nil || m.Error.Code != -32601 {
			t.Errorf("server/discover: %s", m.raw)
		}
		m = a.initialize(asked)
		var init struct {
			ProtocolVersion string
			Capabilities    map[string]json.RawMessage
			ServerInfo      struct{ Name, Version string }
		}
		if err := json.Unmarshal(m.Result, &init); err != nil || init.ProtocolVersion != answered || init.ServerInfo.Name != "harness" {
			t.Errorf("%s: %s", asked, m.raw)
		}
		for _, kind := range []string{"tools", "prompts", "resources"} {
			if !strings.Contains(string(init.Capabilities[kind]), `"listChanged":true`) {
				t.Errorf("%s: %s is %s", asked, kind, init.Capabilities[kind])
			}
		}
		if _, ok := init.Capabilities["sampling"]; ok {
			t.Errorf("%s: a capability that is not served: %s", asked, m.raw)
		}
		a.initialized()
		a.well("ok")
	}
}

func TestC67_AgentsOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a, b := d.connected(), d.connected()
	a.toolNames()
	b.toolNames()
	a.well("up")
	inFlight := a.beginCall("up__hang", nil)
	eventually(t, "the call arrives", func() bool { return fakeup.Count(h.record("up"), fakeup.Received, `"hang"`) == 1 })

	d.kill()
	if r := inFlight.result(); r.code() != "daemon_unavailable" {
		t.Errorf("the call in flight: %s", r)
	}
	for _, method := range []string{"tools/list", "prompts/get"} {
		m := a.begin(method, rawf(`{"name":"x"}`)).waitIn(within(2500 * time.Millisecond))
		if m.Error == nil || !strings.Contains(string(m.Error.Data), "daemon_unavailable") {
			t.Errorf("%s during the gap: %s", method, m.raw)
		}
	}
	m := a.beginCall("up__echo", nil).waitIn(within(2500 * time.Millisecond))
	if r := resultOf(t, m); r.code() != "daemon_unavailable" {
		t.Errorf("a call during the gap: %s", r)
	}

	waits := b.beginCall("up__echo", map[string]any{"text": "waited"})
	d = h.start()
	if r := waits.result(); r.text() != "waited" && r.code() != "daemon_unavailable" {
		t.Errorf("a call just before its return: %s", r)
	}
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	b.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	a.well("ok")
	b.well("ok")
	d.mustReload()
	if n, m := a.count(toolsChanged), b.count(toolsChanged); n != 0 || m != 0 {
		t.Errorf("%d and %d notifications although the list is the same", n, m)
	}
	if n := fakeup.Count(h.record("up"), fakeup.Received, `"hang"`); n != 1 {
		t.Errorf("the call in flight was sent %d times", n)
	}
	if !a.alive() || !b.alive() {
		t.Error("a bridge is gone")
	}

	// With another list, and the daemon stopped with manners this time.
	d.stop()
	h.edit(h.upstream("ok"), h.upstream("new"))
	h.start()
	a.awaitCount(toolsChanged, 1)
	b.awaitCount(toolsChanged, 1)
	eventually(t, "the new list", func() bool { return a.sees("new__echo") && !a.sees("up__echo") })
	a.well("new")
	a.well("ok")
}

func TestBridge_ACallThatWaitsThroughTheGapWorks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	d.kill()
	c := a.beginCall("ok__echo", map[string]any{"text": "patient"})
	h.start()
	// The gap was under 2 s unless the machine is very busy; then the answer
	// is the error of a longer one.
	if r := c.result(); r.text() != "patient" && r.code() != "daemon_unavailable" {
		t.Errorf("got %s", r)
	}
	a.eventuallyCalls("ok__echo", map[string]any{"text": "x"})
}

func TestBridge_WithoutADaemonAnswersAndKeepsLooking(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, h.upstream("ok"))
	a := h.agent()
	m := a.begin("initialize", rawf(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)).
		waitIn(within(time.Second))
	if m.Error != nil || !strings.Contains(string(m.Result), `"2025-06-18"`) {
		t.Errorf("initialize: %s", m.raw)
	}
	a.initialized()
	for _, method := range []string{"tools/list", "prompts/list"} {
		if m := a.ask(method, nil); m.Error != nil || !strings.Contains(string(m.Result), "[]") {
			t.Errorf("%s: %s", method, m.raw)
		}
	}
	// What it says to people and what it says to the agent have no order.
	eventually(t, "stderr says it", func() bool { return strings.HasSuffix(a.stderr.String(), "\n") })
	h.start()
	a.awaitCount(toolsChanged, 1)
	eventually(t, "the tools", func() bool { return a.sees("ok__echo") })
	a.well("ok")
	if n := a.count(promptsChanged); n != 0 {
		t.Errorf("%d notifications of prompts although there are none", n)
	}
	if n := strings.Count(a.stderr.String(), "\n"); n != 1 {
		t.Errorf("stderr does not say it once: %q", a.stderr)
	}
}

func TestBridge_DeliversTheAnswersToWhatItRead(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	// stop_grace bounds how long they are waited for, and is no part of this.
	h.configure("[server]\nsettle = \"20ms\"\n", h.upstream("ok"))
	d := h.start()
	d.mustReload()
	a := d.connected()
	c := a.beginCall("ok__sleep", map[string]any{"ms": 400})
	big := a.beginCall("ok__blob", map[string]any{"bytes": 3 << 20})
	a.in.Close()
	<-a.exited
	for _, c := range []*call{c, big} {
		select {
		case m := <-c.answer:
			if r := resultOf(t, m); !r.ok() {
				t.Errorf("got %s", r)
			}
		default:
			t.Error("a call that was read had no answer")
		}
	}
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
	eventually(t, "the session is over", func() bool { return len(d.status().Sessions) == 0 })
}

func TestBridge_EndsOnASignal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		a := d.connected()
		a.well("ok")
		a.bySignal = true
		a.signal(sig)
		eventually(t, "the bridge ends", func() bool { return !a.alive() })
	}
	eventually(t, "the sessions are over", func() bool { return len(d.status().Sessions) == 0 })
	d.connected().well("ok")
}

func TestBridge_FindsTheSocketWithoutItsEnvironment(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	// The default state directory, and a runtime directory that only the
	// daemon knows.
	delete(h.env, "XDG_STATE_HOME")
	d := h.run(h.upstream("ok"))
	delete(h.env, "XDG_RUNTIME_DIR")
	delete(h.env, "XDG_CONFIG_HOME")
	d.connected().well("ok")
	h.env["HOME"] = "/nonexistent"
	d.connected("--socket", d.socket()).well("ok")
}

func TestSessions_ASlowCallDelaysNobody(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("big"), h.upstream("ok"))
	a, b := d.connected(), d.connected()
	for range 50 {
		a.beginCall("up__hang", nil)
	}
	big := a.beginCall("big__blob", map[string]any{"bytes": 8 << 20})
	for range 10 {
		b.well("up")
		b.well("ok")
		a.well("up")
	}
	if r := big.result(); len(r.text()) != 8<<20 {
		t.Errorf("%d bytes of the large one", len(r.text()))
	}
}

func TestSessions_OneThatDoesNotReadHurtsNobody(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick+"max_message = \"1MiB\"\n", h.upstream("up"), h.upstream("ok"))
	d := h.start()
	d.mustReload()
	b := d.connected()

	// A bridge whose stdout nobody reads.
	deaf := h.command(t.Context(), "harness", "mcp")
	in, err := deaf.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deaf.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := deaf.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Process.Kill(); deaf.Wait() })
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"deaf","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := range 40 {
		fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"up__blob","arguments":{"bytes":1000000}}}`+"\n", i+1)
	}
	eventually(t, "the calls arrive", func() bool { return fakeup.Count(h.record("up"), fakeup.Received, `"blob"`) == 40 })
	for range 10 {
		b.well("up")
		b.well("ok")
	}
	limit := int64(60 << 20)
	if raceEnabled {
		limit *= 4
	}
	if rss := memoryOf(t, d.pid()); rss > limit {
		t.Errorf("the daemon has %d MiB", rss>>20)
	}
}

func TestSessions_StatusCountsThem(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	d.connected()
	eventually(t, "two sessions", func() bool { return len(d.status().Sessions) == 2 })
	for _, s := range d.status().Sessions {
		if deref(s.Client) == "" || !strings.Contains(*s.Client, "integration") || deref(s.ID) == "" {
			t.Errorf("a session without its client: %+v", s)
		}
	}
	if a.end(); len(mentioning(t, h.dir+"/record-ok")) != 1 {
		t.Error("not one process for two sessions")
	}
	eventually(t, "one session", func() bool { return len(d.status().Sessions) == 1 })
}

func TestUpstream_ThatDoesNotReadFailsItsCallersAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick+"max_message = \"1MiB\"\n", h.upstream("up"), h.upstream("ok"))
	d := h.start()
	d.mustReload()
	a, b := d.connected(), d.connected()
	a.must("up__deaf", nil)
	var calls []*call
	for i := range 8 {
		calls = append(calls, a.beginCall("up__echo", map[string]any{"text": strings.Repeat(fmt.Sprint(i), 900<<10)}))
	}
	b.well("ok")
	a.well("ok")
	eventually(t, "a call over what may wait for an upstream that does not read fails", func() bool {
		for _, c := range calls {
			select {
			case m := <-c.answer:
				if r := resultOf(t, m); r.ok() || r.code() == "" {
					t.Errorf("got %.300s", r)
				}
				return true
			default:
			}
		}
		return false
	})
	b.well("ok")
}

func TestUpstream_RequestsToItsClientEnd(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a, b := d.connected(), d.connected()
	for _, method := range []string{"sampling/createMessage", "elicitation/create", "roots/list"} {
		r := a.call("up__ask", map[string]any{"method": method})
		if !r.ok() || !strings.Contains(r.text(), `"code"`) {
			t.Errorf("%s: %s", method, r)
		}
	}
	for _, m := range slices.Concat(a.received(), b.received()) {
		if m.Method != "" && m.ID != nil {
			t.Errorf("an agent was asked: %s", m.raw)
		}
	}
	if n := fakeup.Count(h.record("up"), fakeup.Received, `"roots":`); n != 0 {
		t.Error("a shared upstream was told that it may ask for roots")
	}
	a.well("ok")
}
