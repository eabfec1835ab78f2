package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"harness/integration/fakeup"
)

func TestC01_ALargeLineArrivesByteForByte(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a, b := d.connected(), d.connected()
	if got, want := a.must("up__bigline", nil), fakeup.BigText(); got != want {
		t.Errorf("got %d bytes, want %d", len(got), len(want))
	}
	a.well("ok")
	b.well("up")
}

func TestC03_ABannerOnStdoutIsSkippedAndLogged(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up", "-banner", "Server v1 starting…"), h.upstream("ok"))
	a := d.connected()
	a.well("up")
	if log := d.must("logs", "mcp.up"); strings.Count(log, "Server v1 starting…") != 1 {
		t.Errorf("the log has the banner not once:\n%s", log)
	}
	a.well("ok")
}

func TestFraming_JunkAmongMessagesHurtsNobody(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up", "-noise", "-result-first"), h.upstream("ok"))
	a := d.connected()
	for range 20 {
		a.well("up")
	}
	a.must("up__noise", nil)
	a.well("up")
	if log := d.must("logs", "mcp.up"); strings.Contains(log, "\x1b") {
		t.Errorf("a control character of the upstream reached the terminal:\n%q", log)
	}
	a.well("ok")
}

func TestFraming_TheLastLineNeedsNoNewline(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a := d.connected()
	if got := a.must("up__last", nil); got != "last words" {
		t.Errorf("got %q", got)
	}
	if got := a.eventuallyCalls("up__echo", map[string]any{"text": "back"}); got != "back" {
		t.Errorf("got %q", got)
	}
	a.well("ok")
}

func TestFraming_ALineOverTheLimitFailsItsRequestAlone(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{nil, {"-result-first"}} {
		h := newHome(t)
		h.configure(quick+"max_message = \"1MiB\"\n", h.upstream("up", order...), h.upstream("ok"))
		d := h.start()
		d.mustReload()
		a := d.connected()
		slow := a.beginCall("up__sleep", map[string]any{"ms": 500})
		if r := a.call("up__blob", map[string]any{"bytes": 2 << 20}); r.code() != "message_too_large" {
			t.Errorf("a result of 2 MiB: %s", r)
		}
		if r := a.call("up__echo", map[string]any{"text": strings.Repeat("x", 2<<20)}); r.code() != "message_too_large" {
			t.Errorf("arguments of 2 MiB: %s", r)
		}
		if r := slow.result(); !r.ok() {
			t.Errorf("a call beside it: %s", r)
		}
		if got := a.must("up__blob", map[string]any{"bytes": 1000 << 10}); len(got) != 1000<<10 {
			t.Errorf("%d bytes of a result under the limit", len(got))
		}
		if h.starts("up") != 1 {
			t.Error("the upstream was restarted")
		}
		a.well("ok")
	}
}

func TestFraming_ABrokenLineOfAnAgentIsAnsweredAndNotRelayed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a := d.connected()
	broken := []string{
		`{"jsonrpc":"2.0","id":901,"method":"tools/call","params":{"name":"up__echo","arguments":{"text":"x"}`,
		`{"jsonrpc":"2.0","id":902,"method":"tools/call","params":{"name":"up__echo","arguments":{"text":tru}}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":903,\"method\":\"tools/call\",\"params\":{\"name\":\"up__echo\",\"arguments\":{\"text\":\"\xff\"}}}",
	}
	for i, line := range broken {
		a.send(line)
		eventually(t, "an answer to a broken line", func() bool { return parseErrors(a) == i+1 })
	}
	a.well("up")
	if n := fakeup.Count(h.record("up"), fakeup.Received, `"id":90`); n != 0 {
		t.Errorf("%d broken lines were relayed", n)
	}
	a.well("ok")
}

// parseErrors counts the -32700 with id null that an agent got.
func parseErrors(a *agent) int {
	n := 0
	for _, m := range a.received() {
		if m.Error != nil && m.Error.Code == -32700 && string(m.ID) == "null" {
			n++
		}
	}
	return n
}

func TestC25_NumbersKeepTheirSpelling(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a := d.connected()
	args := `{"n": [9007199254740993, -9223372036854775808, 1e400, 1.0, 0.1, 123456789012345678901234567890, -0], "deep":{"n":1E+2}}`
	for _, id := range []string{`0`, `"1"`, `9007199254740993`, `"\u0061 b"`, `-7`} {
		m := a.beginAs(id, "tools/call", `{"name":"up__raw","arguments":`+args+`}`).wait()
		if string(m.ID) != id {
			t.Errorf("id %s came back as %s", id, m.ID)
		}
		if !strings.Contains(string(m.raw), args) {
			t.Errorf("the arguments came back as %s", m.raw)
		}
	}
	if n := fakeup.Count(h.record("up"), fakeup.Received, args); n != 5 {
		t.Errorf("the upstream received the arguments as sent %d times, not 5", n)
	}
	a.well("ok")
}

func TestC27_TwoAgentsMayUseTheSameIDs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	agents := map[string]*agent{"A": d.connected(), "B": d.connected()}
	calls := map[string][]*call{}
	type sent struct {
		who   string
		calls []*call
	}
	done := make(chan sent)
	for who, a := range agents {
		go func() {
			s := sent{who: who}
			for i := range 500 {
				s.calls = append(s.calls, a.beginAs(fmt.Sprint(1000+i), "tools/call",
					fmt.Sprintf(`{"name":"up__tag","arguments":{"tag":"%s-%d"}}`, who, i)))
			}
			done <- s
		}()
	}
	for range agents {
		s := <-done
		calls[s.who] = s.calls
	}
	for who, all := range calls {
		for i, c := range all {
			if got, want := c.result().text(), fmt.Sprintf("%s-%d", who, i); got != want {
				t.Fatalf("%s asked for %s and got %s", who, want, got)
			}
		}
	}
	agents["A"].well("ok")
	agents["B"].well("ok")
}

func TestC29_ProgressGoesToTheCallerUnderItsOwnToken(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	tokens := map[string]*agent{`4`: d.connected(), `4 `: d.connected(), `"0192a4f0-7c2e"`: d.connected(), ``: d.connected()}
	var calls []*call
	for token, a := range tokens {
		meta := `,"_meta":{"progressToken":` + token + `}`
		if token == "" {
			meta = ""
		}
		calls = append(calls, a.begin("tools/call", rawf(`{"name":"up__progress","arguments":{"n":5,"ms":10}%s}`, meta)))
	}
	for _, c := range calls {
		if r := c.result(); !r.ok() {
			t.Errorf("progress: %s", r)
		}
	}
	for _, a := range tokens {
		a.well("ok") // a round trip, so that whatever was still coming has come
	}
	for token, a := range tokens {
		checkProgress(t, a, strings.TrimSpace(token))
	}
}

// checkProgress demands five notifications under one token before the answer,
// or none where there was no token.
func checkProgress(t *testing.T, a *agent, token string) {
	t.Helper()
	notes, want := a.notes("notifications/progress"), 5
	if token == "" {
		want = 0
	}
	if len(notes) != want {
		t.Errorf("token %s: %d notifications, not %d", token, len(notes), want)
	}
	for _, m := range notes {
		if !strings.Contains(string(m.Params), `"progressToken":`+token+`,`) {
			t.Errorf("token %s: got %s", token, m.raw)
		}
	}
	answered := time.Time{}
	for _, m := range a.received() {
		if m.Method == "" && strings.Contains(string(m.raw), `"done"`) {
			answered = m.at
		}
		if m.Method == "notifications/progress" && !answered.IsZero() {
			t.Errorf("token %s: progress after the answer", token)
		}
	}
}

func TestCancel_ReachesTheUpstreamUnderItsOwnID(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a, b := d.connected(), d.connected()
	a.beginAs(`"mine"`, "tools/call", `{"name":"up__hang","arguments":{}}`)
	eventually(t, "the call arrives", func() bool { return fakeup.Count(h.record("up"), fakeup.Received, `"hang"`) == 1 })
	a.notify("notifications/cancelled", map[string]any{"requestId": "mine", "reason": "changed my mind"})
	cancelled := func() int { return fakeup.Count(h.record("up"), fakeup.Received, "notifications/cancelled") }
	eventually(t, "the cancellation arrives", func() bool { return cancelled() == 1 })

	// A late one, for an answered call, is the habit of one agent.
	b.beginAs(`77`, "tools/call", `{"name":"up__echo","arguments":{"text":"x"}}`).wait()
	b.notify("notifications/cancelled", map[string]any{"requestId": 77})
	b.well("up")

	// A session that goes away cancels what it has in flight.
	b.beginAs(`78`, "tools/call", `{"name":"up__hang","arguments":{}}`)
	eventually(t, "the call arrives", func() bool { return fakeup.Count(h.record("up"), fakeup.Received, `"hang"`) == 2 })
	b.end()
	eventually(t, "the cancellation arrives", func() bool { return cancelled() >= 2 })
	a.well("ok")
}
