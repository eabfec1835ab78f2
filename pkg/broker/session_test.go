package broker_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"harness/pkg/broker"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeUpstream keeps the calls it is given until the test answers them.
type fakeUpstream struct {
	mu        sync.Mutex
	calls     chan *relayed
	cancelled chan string
	refuse    *wire.Error
	open      map[*jsonrpc.Call]bool
}

// relayed is one call as the upstream got it.
type relayed struct {
	call *jsonrpc.Call
	line string
}

func newFakeUpstream() *fakeUpstream {
	return &fakeUpstream{calls: make(chan *relayed, 100), cancelled: make(chan string, 100), open: map[*jsonrpc.Call]bool{}}
}

func (f *fakeUpstream) Relay(c *jsonrpc.Call, line []byte, m *jsonrpc.Message, _ *jsonrpc.Batch) *wire.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.open[c] = true
	f.calls <- &relayed{c, string(jsonrpc.Splice(nil, line, jsonrpc.Edit{At: m.ID, With: []byte("77")}, c.Name))}
	return nil
}

func (f *fakeUpstream) Cancel(c *jsonrpc.Call, notice []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open[c] {
		return false
	}
	delete(f.open, c)
	f.cancelled <- string(c.ID) + " " + string(notice)
	return true
}

// answer gives the call to its owner as the upstream's reader would.
func (f *fakeUpstream) answer(r *relayed, line string) {
	var m jsonrpc.Message
	if err := jsonrpc.Peek([]byte(line), &m); err != nil {
		panic(err)
	}
	f.mu.Lock()
	delete(f.open, r.call)
	f.mu.Unlock()
	r.call.Owner.Answer(r.call, []byte(line), &m)
	r.call.Owner.Flush()
}

// agent is the other end of one session.
type agent struct {
	t    *testing.T
	conn *net.UnixConn
	in   *bufio.Reader
}

type fixture struct {
	t *testing.T
	b *broker.Broker
	l *net.UnixListener

	sessions sync.WaitGroup
}

func newFixture(t *testing.T, offers []broker.Offer, prompts []broker.Prompt) *fixture {
	t.Helper()
	b := broker.New(merge(t, offers, prompts), broker.Options{
		Version: "test", Logger: slog.New(slog.DiscardHandler), StopGrace: func() time.Duration { return 5 * time.Second },
	})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, b: b, l: l}
	t.Cleanup(func() { l.Close(); f.sessions.Wait() })
	return f
}

func merge(t *testing.T, offers []broker.Offer, prompts []broker.Prompt) *broker.Fleet {
	t.Helper()
	c, err := broker.Merge(broker.Content{Offers: offers, Prompts: prompts})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// connect opens a session with limits and does not greet.
func (f *fixture) connect(limits broker.Limits) *agent {
	f.t.Helper()
	return f.connectAs(limits, broker.Unattributed())
}

func (f *fixture) connectAs(limits broker.Limits, who broker.Caller) *agent {
	f.t.Helper()
	conn, err := net.DialUnix("unix", nil, f.l.Addr().(*net.UnixAddr))
	if err != nil {
		f.t.Fatal(err)
	}
	server, err := f.l.AcceptUnix()
	if err != nil {
		f.t.Fatal(err)
	}
	f.sessions.Go(func() { f.b.Serve(f.t.Context(), broker.NewSocketEdge(server, nil, limits), who) })
	f.t.Cleanup(func() { conn.Close() })
	return &agent{f.t, conn, bufio.NewReader(conn)}
}

// greeted opens a session that has shaken hands.
func (f *fixture) greeted() *agent {
	f.t.Helper()
	return f.greetedAs(broker.Unattributed())
}

func (f *fixture) greetedAs(who broker.Caller) *agent {
	f.t.Helper()
	a := f.connectAs(broker.Limits{MaxMessage: 1 << 20, Stall: time.Second}, who)
	a.send(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"tester","version":"1"}}}`)
	a.read()
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":"sync","method":"ping"}`)
	a.want(`{"jsonrpc":"2.0","id":"sync","result":{}}`)
	return a
}

func (a *agent) send(lines ...string) {
	a.t.Helper()
	if _, err := io.WriteString(a.conn, strings.Join(lines, "\n")+"\n"); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) read() string {
	a.t.Helper()
	_ = a.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := a.in.ReadString('\n')
	if err != nil {
		a.t.Fatalf("read: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (a *agent) want(line string) {
	a.t.Helper()
	if diff := cmp.Diff(line, a.read()); diff != "" {
		a.t.Fatalf("agent reads (-want +got):\n%s", diff)
	}
}

// ended waits for the end of the session's output.
func (a *agent) ended() {
	a.t.Helper()
	_ = a.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if rest, err := io.ReadAll(a.in); err != nil || len(rest) > 0 {
		a.t.Fatalf("session went on: %q, %v", rest, err)
	}
}

func tool(name string) broker.Item {
	return broker.Item{Name: name, Raw: fmt.Appendf(nil, `{"x-first":1.0,"name":%q,"inputSchema":{"type":"object","$schema":"s"}}`, name)}
}

func TestSession_AnnouncesWhatTheOfflineEndpointAnnouncesToo(t *testing.T) {
	a := newFixture(t, nil, nil).connect(broker.Limits{MaxMessage: 1 << 20})
	a.send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{"roots":{}},"clientInfo":{"name":"x","version":"1"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	a.want(string(wire.AppendInitialize(nil, []byte("9007199254740993"), "2099-01-01", "test", wire.Capabilities, "")))
}

func TestSession_SaysWhatInitializeTakes(t *testing.T) {
	a := newFixture(t, nil, nil).connect(broker.Limits{MaxMessage: 1 << 20})
	for _, params := range []string{``, `,"params":[]`, `,"params":7`, `,"params":{"protocolVersion":5}`, `,"params":{"capabilities":[]}`} {
		a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize"` + params + `}`)
		if got := a.read(); !strings.Contains(got, `"code":-32602`) || !strings.Contains(got, "initialize takes an object") || strings.Contains(got, "Go ") {
			t.Errorf("%s: %s", params, got)
		}
	}
}

// A name is shown wherever the session is, so it is not as long as its client likes.
func TestSession_KeepsOnlySoMuchOfAClientsName(t *testing.T) {
	f := newFixture(t, nil, nil)
	a := f.connect(broker.Limits{MaxMessage: 1 << 20})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` + strings.Repeat("ä", 100_000) + `"}}}`)
	a.read()
	if got := f.b.Sessions()[0].Client; !strings.HasPrefix(got, "äää") || len([]rune(got)) > 129 {
		t.Errorf("%d characters", len([]rune(got)))
	}
}

func TestSession_AnswersADiscoverProbeBeforeInitializeAtOnce(t *testing.T) {
	a := newFixture(t, nil, nil).connect(broker.Limits{MaxMessage: 1 << 20})
	a.send(`{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	a.want(`{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"method \"server/discover\" is not served"}}`)
}

func TestSession_RelaysACallUnderTheUpstreamsNameAndAnswersUnderTheAgentsID(t *testing.T) {
	up := newFakeUpstream()
	a := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, Tools: []broker.Item{tool("a.b")}}}, nil).greeted()
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(a.read()), &list); err != nil {
		t.Fatal(err)
	}
	name := list.Result.Tools[0].Name
	a.send(`{ "params" : {"arguments":{"n":1e400,"n":-0.0}, "name":"` + name + `"},"id": "x\u0041","jsonrpc":"2.0","method":"tools\/call"}`)
	r := <-up.calls
	if want := `{ "params" : {"arguments":{"n":1e400,"n":-0.0}, "name":"a.b"},"id": 77,"jsonrpc":"2.0","method":"tools\/call"}`; r.line != want {
		t.Errorf("the upstream got %s", r.line)
	}
	up.answer(r, `{"jsonrpc":"2.0","result":{"content":[],"z":1.0},"id":77}`)
	a.want(`{"jsonrpc":"2.0","result":{"content":[],"z":1.0},"id":"x\u0041"}`)
}

func TestSession_MarksFailuresOfAnUpstreamAndLeavesTheRestAlone(t *testing.T) {
	up := newFakeUpstream()
	a := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, Tools: []broker.Item{tool("t")}}}, nil).greeted()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__t"}}`
	a.send(call)
	up.answer(<-up.calls, `{"jsonrpc":"2.0","id":77,"error":{"code":-32042,"message":"no <way>","data":{"n":1.0}}}`)
	a.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"upstream up: no <way>","data":{"n":1.0}}}`)
	a.send(call)
	up.answer(<-up.calls, `{"jsonrpc":"2.0","id":77,"result":{"content":[{"type":"text","text":"bad"}],"isError":true}}`)
	var got struct {
		Result struct {
			Content []struct{ Text string }
			Meta    map[string]string `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(a.read()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Result.Content[1].Text != "upstream up" || got.Result.Meta["harness/upstream"] != "up" {
		t.Errorf("marks: %+v", got)
	}
}

func TestSession_NamesWhatIsMissingInACall(t *testing.T) {
	up := newFakeUpstream()
	down := newFakeUpstream()
	retry := int64(5)
	down.refuse = &wire.Error{Code: wire.UpstreamUnavailable, Message: "is down", Upstream: "down", State: "restarting", RetryIn: &retry}
	a := newFixture(t, []broker.Offer{
		{Key: "up", Upstream: up, Known: true, Tools: []broker.Item{tool("t")}},
		{Key: "down", Upstream: down, Known: true, Tools: []broker.Item{tool("t")}},
	}, nil).greeted()
	for name, code := range map[string]string{"up__x": "unknown_tool", "nope__x": "unknown_namespace", "x": "unknown_tool", "down__t": "upstream_unavailable"} {
		a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`)
		var got struct {
			Result struct {
				IsError bool
				Content []struct{ Text string }
				Meta    map[string]struct{ Code string } `json:"_meta"`
			}
		}
		if err := json.Unmarshal([]byte(a.read()), &got); err != nil {
			t.Fatal(err)
		}
		if !got.Result.IsError || got.Result.Meta["harness/error"].Code != code || !strings.HasPrefix(got.Result.Content[0].Text, "["+code+"] ") {
			t.Errorf("%s: %+v", name, got.Result)
		}
	}
}

func TestSession_RelaysUnderTheNameAsSpelledWhileNothingWasEverListed(t *testing.T) {
	up := newFakeUpstream()
	a := newFixture(t, []broker.Offer{{Key: "up", Upstream: up}}, nil).greeted()
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__known__before"}}`)
	if r := <-up.calls; !strings.Contains(r.line, `"name":"known__before"`) {
		t.Errorf("the upstream got %s", r.line)
	}
}

func TestSession_CancelsUpstreamOnRequestAndWhenTheAgentVanishes(t *testing.T) {
	up := newFakeUpstream()
	a := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, Tools: []broker.Item{tool("t")}}}, nil).greeted()
	a.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"up__t"}}`,
		`{"jsonrpc":"2.0","id":"5","method":"tools/call","params":{"name":"up__t"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"up__t"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"no \u0041"}}`)
	a.want(`{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"invalid request: the id is that of a request still in flight"}}`)
	if got := <-up.cancelled; got != `5 {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"no \u0041"}}` {
		t.Errorf("cancelled %s", got)
	}
	a.conn.Close()
	if got := <-up.cancelled; got != `"5" ` {
		t.Errorf("cancelled %s", got)
	}
}

func TestSession_DeliversWhatIsDueAfterTheInputHasEnded(t *testing.T) {
	up := newFakeUpstream()
	a := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, Tools: []broker.Item{tool("t")}}}, nil).greeted()
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__t"}}`)
	r := <-up.calls
	if err := a.conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	up.answer(r, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	a.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	a.ended()
}

func TestSession_RefusesBrokenLinesAndGoesOn(t *testing.T) {
	a := newFixture(t, nil, nil).connect(broker.Limits{MaxMessage: 200})
	a.send(``, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\xff\"}",
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"`+strings.Repeat("x", 300)+`"},"id":3}`, `{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	for _, want := range []string{`"id":null,"error":{"code":-32700`, `"id":null,"error":{"code":-32600`, `"id":null,"error":{"code":-32600`, `"id":null,"error":{"code":-32700`, `"id":3,"result":{"content":[{"type":"text","text":"[message_too_large]`, `"id":4,"result":{}`} {
		if got := a.read(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSession_RefusesCursorsAndUnknownResources(t *testing.T) {
	a := newFixture(t, nil, nil).greeted()
	for request, want := range map[string]string{
		`"method":"tools/list","params":{"cursor":"made up"}`:   `"code":-32602,`,
		`"method":"prompts/list","params":{"cursor":""}`:        `"code":-32602,`,
		`"method":"resources/templates/list","params":{}`:       `"result":{"resourceTemplates":[]}`,
		`"method":"resources/list","params":{"cursor":null}`:    `"result":{"resources":[]}`,
		`"method":"resources/read","params":{"uri":"x://y"}`:    `"code":-32002,`,
		`"method":"logging/setLevel","params":{"level":"info"}`: `"result":{}`,
		`"method":"logging/setLevel","params":{"level":"loud"}`: `"code":-32602,`,
		`"method":"made/up"`:    `"code":-32601,`,
		`"method":"tools/call"`: `"text":"[invalid_argument] `,
	} {
		a.send(`{"jsonrpc":"2.0","id":1,` + request + `}`)
		if got := a.read(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
}

func greeting() broker.Prompt {
	return broker.Prompt{
		Name: "greet", Title: "Greet", Description: "greets", Body: sha256.Sum256([]byte("1")),
		Arguments: []broker.Argument{{Name: "who", Required: true}, {Name: "tone"}},
		Render: func(a map[string]string) (string, error) {
			return fmt.Sprintf("<hi> & %s%s", a["who"], a["tone"]), nil
		},
	}
}

func TestC55_PromptArgumentsAreCheckedByNameAndKind(t *testing.T) {
	a := newFixture(t, nil, []broker.Prompt{greeting(), {Name: "plain", Render: func(map[string]string) (string, error) { return "x", nil }}}).greeted()
	for params, want := range map[string]string{
		`{"name":"greet","arguments":{}}`:                                          `"code":-32602,"message":"prompt \"greet\" needs the argument \"who\""`,
		`{"name":"greet"}`:                                                         `needs the argument \"who\""`,
		`{"name":"greet","arguments":{"who":5}}`:                                   `argument \"who\" of prompt \"greet\" must be a string`,
		`{"name":"greet","arguments":{"who":""}}`:                                  `"text":"<hi> & "`,
		`{"name":"greet","arguments":{"who":"\u0041","extra":5}}`:                  `"text":"<hi> & A"`,
		`{"name":"greet","arguments":{"who":"x","tone":null}}`:                     `argument \"tone\"`,
		`{"name":"plain"}`:                                                         `"text":"x"`,
		`{"name":"plain","arguments":{}}`:                                          `"text":"x"`,
		`{"name":"plain","arguments":[]}`:                                          `"code":-32602`,
		`{"name":"plain","_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}`: `"text":"x"`,
		`{"name":"../secret"}`:                                                     `"code":-32602,"message":"unknown prompt \"../secret\""`,
		`{"name":"a\u0000b"}`:                                                      `unknown prompt`,
		`{"name":"Plain"}`:                                                         `unknown prompt`,
		`{"name":"` + strings.Repeat("x", 5000) + `"}`:                             `x…\"`,
		`{"arguments":{}}`:                                                         `"code":-32602`,
	} {
		a.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":` + params + `}`)
		if got := a.read(); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", params, got, want)
		}
	}
}

func TestC17_NothingIsToldBeforeInitializedAndTheCurrentStateAfter(t *testing.T) {
	f := newFixture(t, nil, nil)
	a := f.connect(broker.Limits{MaxMessage: 1 << 20})
	a.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	a.read()
	f.b.Publish(merge(t, []broker.Offer{{Key: "up", Known: true, Tools: []broker.Item{tool("t")}}}, nil))
	a.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	a.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	a.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	a.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
}

func TestPublish_TellsEachKindOnceAndOnlyWhereItDiffers(t *testing.T) {
	f := newFixture(t, nil, []broker.Prompt{greeting()})
	a, b := f.greeted(), f.greeted()
	edited := greeting()
	edited.Body = sha256.Sum256([]byte("2"))
	p := f.b.Publish(merge(t, nil, []broker.Prompt{edited}))
	if want := (broker.Published{Changed: [wire.Kinds]bool{wire.Prompts: true}, Notified: 2}); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	p = f.b.Publish(merge(t, nil, []broker.Prompt{edited}))
	if p != (broker.Published{}) {
		t.Errorf("an equal catalog was announced: %+v", p)
	}
	for _, x := range []*agent{a, b} {
		x.want(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		x.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		x.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
}

func TestMCP6_AnAgentThatDoesNotReadIsDisconnectedAndNobodyWaitsForIt(t *testing.T) {
	up := newFakeUpstream()
	f := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, Tools: []broker.Item{tool("t")}}}, nil)
	slow := f.connect(broker.Limits{MaxMessage: 4 << 20, Stall: 300 * time.Millisecond})
	slow.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__t"}}`)
	r := <-up.calls
	start := time.Now()
	// It returns although nobody reads: otherwise the test would end here.
	up.answer(r, `{"jsonrpc":"2.0","id":77,"result":"`+strings.Repeat("x", 3<<20)+`"}`)
	_ = slow.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for len(f.b.Sessions()) > 0 {
		if time.Since(start) > 10*time.Second {
			t.Fatal("the session stays")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestSessions_ShowTheClientAndAreGoneWhenItIs(t *testing.T) {
	f := newFixture(t, nil, nil)
	a := f.greeted()
	infos := f.b.Sessions()
	if len(infos) != 1 || infos[0].ID != "s1" || infos[0].Client != "tester" {
		t.Errorf("sessions: %+v", infos)
	}
	a.conn.Close()
	for deadline := time.Now().Add(10 * time.Second); len(f.b.Sessions()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the session stays")
		}
	}
}

func TestC27_EqualIDsOfManyAgentsNeverMeet(t *testing.T) {
	up := newFakeUpstream()
	up.calls = make(chan *relayed, 1000)
	f := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, Tools: []broker.Item{tool("t")}}}, nil)
	agents := []*agent{f.greeted(), f.greeted()}
	const n = 200
	for who, a := range agents {
		var lines bytes.Buffer
		for id := range n {
			fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"up__t","arguments":{"who":%d}}}`+"\n", id, who)
		}
		a.send(strings.TrimSpace(lines.String()))
	}
	for range 2 * n {
		r := <-up.calls
		var line struct {
			Params struct{ Arguments struct{ Who int } }
		}
		if err := json.Unmarshal([]byte(r.line), &line); err != nil {
			t.Fatal(err)
		}
		up.answer(r, fmt.Sprintf(`{"jsonrpc":"2.0","id":77,"result":%d}`, line.Params.Arguments.Who))
	}
	for who, a := range agents {
		seen := map[int]bool{}
		for range n {
			var got struct{ ID, Result int }
			if err := json.Unmarshal([]byte(a.read()), &got); err != nil {
				t.Fatal(err)
			}
			if got.Result != who || seen[got.ID] {
				t.Fatalf("agent %d got %+v", who, got)
			}
			seen[got.ID] = true
		}
	}
}

func TestSession_AnswersUnderTheIDOfAMessageThatIsNone(t *testing.T) {
	a := newFixture(t, nil, nil).greeted()
	a.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","name":"b"}}`,
		`{"jsonrpc":"2.0","id":"x","method":7}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`)
	for _, want := range []string{`"id":5,"error":{"code":-32600`, `"id":"x","error":{"code":-32600`, `"id":null,"error":{"code":-32600`} {
		if got := a.read(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// panicking is an upstream with a bug.
type panicking struct{ *fakeUpstream }

func (panicking) Relay(*jsonrpc.Call, []byte, *jsonrpc.Message, *jsonrpc.Batch) *wire.Error {
	panic("a bug")
}

func TestServe_APanicEndsItsOwnSessionAndNoOther(t *testing.T) {
	f := newFixture(t, []broker.Offer{{Key: "up", Upstream: panicking{newFakeUpstream()}, Known: true, Tools: []broker.Item{tool("t")}}}, nil)
	a, b := f.greeted(), f.greeted()
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__t"}}`)
	a.ended()
	b.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	b.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
}

func TestCatalog_NeverSaysAnEndlessNameBack(t *testing.T) {
	a := newFixture(t, nil, nil).greeted()
	for _, name := range []string{strings.Repeat("x", 10_000), strings.Repeat("k", 10_000) + "__t"} {
		a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`)
		if got := a.read(); len(got) > 2000 {
			t.Errorf("%d bytes", len(got))
		}
	}
}
