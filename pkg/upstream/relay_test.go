package upstream

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/jsonrpc"
)

func TestRelay_SplicesIdNameAndTokenAndNothingElse(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		args := `{"n":[9007199254740993, -0, 1e400, 1.0],"s":"\u00fc\/"}`
		got := a.call(u, "echo", args).wait(t)
		want := `{"jsonrpc":"2.0","id":"a1","result":{"echo":` + args + `,"name":"echo"}}`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		a.once(t)
	})
}

func TestRelay_GivesProgressToTheCallerWithItsOwnToken(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a, b := r.start(script{}), newAgent(), newAgent()
		x := a.send(u, "progress", `{"name":"up__progress","_meta":{"progressToken":4}}`, []byte("4"))
		y := b.send(u, "progress", `{"name":"up__progress","_meta":{"progressToken":"4"}}`, []byte(`"4"`))
		x.wait(t)
		y.wait(t)
		token := func(raw string) []string {
			return []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + raw + `,"progress":1}}`}
		}
		if diff := cmp.Diff([][]string{token("4"), token(`"4"`)}, [][]string{a.progress, b.progress}); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRelay_AnswersRequestsOfTheUpstreamItself(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		a.call(u, "ask", "{}").wait(t)
		time.Sleep(time.Second)
		got := r.log()
		for _, want := range []string{`answer "q1" {}`, `answer "q2" {"code":-32603`, "isolation"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in what the upstream was told:\n%s", want, got)
			}
		}
	})
}

func TestRelay_IgnoresNoiseAndAnswersToNobody(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{Banner: "Server v1 starting\x1b[2J…"}), newAgent()
		if got := a.call(u, "noise", "{}").wait(t); !strings.Contains(got, "noisy") {
			t.Errorf("answer: %s", got)
		}
		synctest.Wait() // the log is written beside
		got := r.log()
		for _, want := range []string{`Server v1 starting\x1b[2J…`, "not json", "answer to no request"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in the log:\n%s", want, got)
			}
		}
		a.once(t)
	})
}

func TestCancel_TellsTheUpstreamAndDropsTheLateAnswer(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		held := a.call(u, "hold", "{}")
		synctest.Wait()
		if !u.Cancel(held.call, jsonrpc.Cancelled("changed my mind")) {
			t.Error("a call in flight could not be cancelled")
		}
		if u.Cancel(held.call, nil) {
			t.Error("a call was cancelled twice")
		}
		a.call(u, "release", "{}").wait(t)
		time.Sleep(time.Second)
		if got := r.log(); !strings.Contains(got, "cancelled 1") || strings.Contains(got, "answer to no request") {
			t.Errorf("log:\n%s", got)
		}
		a.once(t, held)
	})
}

func TestRelay_FailsACallThatTakesTooLong(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		l := r.launch("up", script{})
		l.CallTimeout = 2 * time.Second
		r.pool.Start(l, 1)
		synctest.Wait()
		u, a := r.pool.Unit("up"), newAgent()
		begun := time.Now()
		held := a.call(u, "hold", "{}")
		time.Sleep(time.Second)
		second := a.call(u, "hold", "{}")
		held.wait(t)
		if got := time.Since(begun); got != 2*time.Second || held.err == nil || held.err.Code != "timeout" {
			t.Errorf("after %s: %s", got, held.text)
		}
		second.wait(t)
		if got := time.Since(begun); got != 3*time.Second {
			t.Errorf("the second call took %s", got-time.Second)
		}
		a.call(u, "release", "{}").wait(t)
		time.Sleep(time.Millisecond)
		if got := r.log(); !strings.Contains(got, "cancelled 1") {
			t.Errorf("log:\n%s", got)
		}
		a.once(t)
	})
}

func TestRelay_FailsOneAnswerOverTheLimitAlone(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		big, fits := a.call(u, "blob", "5000000"), a.call(u, "blob", "3000000")
		if big.wait(t); big.err == nil || big.err.Code != "message_too_large" {
			t.Errorf("over the limit: %.100s", big.text)
		}
		if got := fits.wait(t); len(got) < 3000000 {
			t.Errorf("within the limit: %.100s", got)
		}
		a.once(t)
	})
}

func TestRelay_FailsACallWhoseAnswerIsTorn(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		held := a.call(u, "hold", "{}")
		for name, want := range map[string]string{"broken": "not a valid message", "neither": "neither a result nor an error"} {
			torn := a.call(u, name, "{}")
			if torn.wait(t); torn.err == nil || torn.err.Code != "operation_failed" || !strings.Contains(torn.err.Message, want) {
				t.Errorf("%s: told: %s", name, torn.text)
			}
		}
		a.call(u, "release", "{}").wait(t)
		if got := held.wait(t); !strings.Contains(got, "held") {
			t.Errorf("its neighbour: %s", got)
		}
		a.once(t)
	})
}

func TestRelay_FailsCallsOfACrashWithItsCode(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		held, dead := a.call(u, "hold", "{}"), a.call(u, "die", "{}")
		for _, o := range []*outcome{held, dead} {
			if got := o.wait(t); got != "[upstream_unavailable] upstream up is restarting: exited (code 3)" {
				t.Errorf("told: %s", got)
			}
			if o.err.Upstream != "up" || o.err.State != "restarting" || o.err.RetryIn == nil || *o.err.RetryIn != 1000 {
				t.Errorf("told: %+v", o.err)
			}
		}
		synctest.Wait()
		time.Sleep(400 * time.Millisecond)
		down := a.call(u, "echo", "{}")
		if down.wait(t); down.err == nil || *down.err.RetryIn != 600 {
			t.Errorf("while down: %s", down.text)
		}
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		if got := a.call(u, "echo", "{}").wait(t); !strings.Contains(got, "result") {
			t.Errorf("after the restart: %s", got)
		}
		if s := r.status("up"); s.Restarts != 1 || s.Error != "" || s.PID != 2 {
			t.Errorf("status: %+v", s)
		}
		a.once(t)
	})
}

func TestRelay_DeliversTheLastWordsOfACrash(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		if got := a.call(u, "answer-die", "{}").wait(t); !strings.Contains(got, "last words") {
			t.Errorf("told: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := a.call(u, "half-die", "{}").wait(t); got != `{"jsonrpc":"2.0","id":"a2","result":{}}` {
			t.Errorf("told: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := a.call(u, "torn-die", "{}").wait(t); !strings.Contains(got, "upstream_unavailable") || !strings.Contains(got, "exited (code 3)") {
			t.Errorf("told: %s", got)
		}
		a.once(t)
	})
}

func TestRelay_WaitsForAFirstStartAndForNoOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.pool.Start(r.launch("up", script{InitDelay: 25 * time.Second}), 1)
		u, a := r.pool.Unit("up"), newAgent()
		begun := time.Now()
		first, second := a.call(u, "echo", "1"), a.call(u, "echo", "2")
		first.wait(t)
		second.wait(t)
		if got := time.Since(begun); got != 25*time.Second || first.err != nil || second.err != nil {
			t.Errorf("after %s: %s, %s", got, first.text, second.text)
		}
		a.call(u, "die", "{}").wait(t)
		time.Sleep(2 * time.Second)
		if got := a.call(u, "echo", "3").wait(t); !strings.Contains(got, "is starting: exited (code 3)") {
			t.Errorf("in a second start: %s", got)
		}
		a.once(t)
	})
}

func TestRelay_FailsWaitingCallsWhenTheFirstStartFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.pool.Start(r.launch("up", script{InitSilent: true}), 1)
		u, a := r.pool.Unit("up"), newAgent()
		waits, gone := a.call(u, "echo", "1"), a.call(u, "echo", "2")
		if !u.Cancel(gone.call, nil) {
			t.Error("a waiting call could not be cancelled")
		}
		begun := time.Now()
		got := waits.wait(t)
		if time.Since(begun) != time.Minute || !strings.Contains(got, "no answer to initialize within start_timeout (1m0s)") {
			t.Errorf("after %s: %s", time.Since(begun), got)
		}
		a.once(t, gone)
	})
}

func TestRelay_BoundsWhatWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.pool.Start(r.launch("up", script{InitDelay: time.Second}), 1)
		u, a := r.pool.Unit("up"), newAgent()
		for range maxParked {
			a.call(u, "echo", "1")
		}
		if got := a.call(u, "echo", "1"); got.open() || got.err.Code != "upstream_unavailable" {
			t.Errorf("one too many: %s", got.text)
		}
		time.Sleep(2 * time.Second)
		b := newAgent()
		if got := b.call(u, "echo", "1").wait(t); !strings.Contains(got, "result") {
			t.Errorf("afterwards: %s", got)
		}
		a.once(t)
	})
}
