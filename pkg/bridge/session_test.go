package bridge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/jsonrpc"
)

// given adds a request that the daemon has.
func given(s *session, id string, v verb) { s.add([]byte(id), v, []byte(id+" line")).sent() }

// kept adds a request that is held.
func kept(s *session, id string, v verb, now time.Time) {
	s.hold(s.add([]byte(id), v, []byte(id+" line")), []byte(id+" line"), now)
}

func ids(queue []*request) (ids []string) {
	for _, r := range queue {
		ids = append(ids, r.id)
	}
	return ids
}

func TestSession_PutsALostInitializeInFrontOfWhatIsHeld(t *testing.T) {
	s, now := newSession(one), time.Now()
	given(&s, "0", greet)
	given(&s, "1", call)
	kept(&s, "2", call, now)
	kept(&s, "3", other, now)
	answers := s.lost(now)
	if len(answers) != 1 || string(answers[0]) != toolFailure("1", lostText) {
		t.Errorf("got %s", answers)
	}
	if diff := cmp.Diff([]string{"0", "2", "3"}, ids(s.release())); diff != "" {
		t.Error(diff)
	}
}

func TestSession_LeavesWhatIsGatheredToItsBatch(t *testing.T) {
	s, now := newSession(one), time.Now()
	r := s.add([]byte("1"), call, nil)
	if answers := s.lost(now); len(answers) > 0 || !s.has(r) {
		t.Errorf("got %s", answers)
	}
}

func TestSession_FailsWhatWasLostInTheOrderItWasAsked(t *testing.T) {
	s := newSession(one)
	var want []string
	for _, id := range []string{"9", "8", `"x"`, "1", "5"} {
		given(&s, id, call)
		want = append(want, toolFailure(id, lostText))
	}
	var got []string
	for _, answer := range s.lost(time.Now()) {
		got = append(got, string(answer))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSession_TakesTheHandshakeAsItWasAnswered(t *testing.T) {
	s := newSession(one)
	answer := func(line string) {
		t.Helper()
		var m jsonrpc.Message
		if err := jsonrpc.Peek([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if !s.answered([]byte(line), &m) {
			t.Errorf("not passed on: %s", line)
		}
	}
	given(&s, "0", greet)
	answer(`{"id":0,"error":{"code":1,"message":"no"}}`)
	if s.greeting != nil {
		t.Error("a handshake that was refused is repeated")
	}
	given(&s, "1", greet)
	answer(`{"id":1,"result":{}}`)
	s.initialized = true
	given(&s, "2", level)
	answer(`{"id":2,"result":{}}`)
	given(&s, "3", level)
	answer(`{"id":3,"error":{"code":1,"message":"no"}}`)
	want := handshake{greeting: []byte("1 line"), initialized: true, level: []byte("2 line")}
	if diff := cmp.Diff(want, s.handshake, cmp.AllowUnexported(handshake{})); diff != "" {
		t.Error(diff)
	}
	// A second initialize begins anew.
	given(&s, "4", greet)
	if s.initialized {
		t.Error("initialized would be sent before the agent says so")
	}
}

func TestSession_HoldsForAsLongAsFromTheFirstTime(t *testing.T) {
	s, start := newSession(one), time.Now()
	kept(&s, "1", call, start)
	r := s.release()[0]
	r.sent()
	s.hold(r, []byte("1 line"), start.Add(time.Second))
	if _, next := s.overdue(start); !next.Equal(start.Add(requestWait)) {
		t.Errorf("until %v", next.Sub(start))
	}
	if answers, next := s.overdue(start.Add(requestWait)); len(answers) != 1 || !next.IsZero() || len(s.requests) != 0 {
		t.Errorf("got %s, next %v", answers, next)
	}
}

func TestSession_AsksForTheRevisionTheAgentAskedFor(t *testing.T) {
	for line, want := range map[string]string{
		hello:                                   "2025-06-18",
		`{"params":{"protocolVersion":"2099"}}`: "2099",
		`{"params":{"protocolVersion":7}}`:      "",
		`{"params":{}}`:                         "",
		`{"params":[]}`:                         "",
		`{}`:                                    "",
		`x`:                                     "",
	} {
		if got := asked([]byte(line)); got != want {
			t.Errorf("%s asked for %q, want %q", line, got, want)
		}
	}
}
