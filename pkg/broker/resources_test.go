package broker_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/broker"
	"harness/pkg/jsonrpc"
)

func resource(uri string) broker.Item {
	return broker.Item{Name: uri, Raw: fmt.Appendf(nil, `{"x-n":1.0,"uri":%q,"name":"n"}`, uri)}
}

func template(uri string) broker.Item {
	return broker.Item{Name: uri, Raw: fmt.Appendf(nil, `{"uriTemplate":%q}`, uri)}
}

// keepingUpstream is a fake that keeps subscriptions and has a log.
type keepingUpstream struct {
	*fakeUpstream
	mu   sync.Mutex
	told []string
}

func newKeeping() *keepingUpstream { return &keepingUpstream{fakeUpstream: newFakeUpstream()} }

func (k *keepingUpstream) tell(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.told) == 0 || k.told[len(k.told)-1] != what {
		k.told = append(k.told, what)
	}
}

func (k *keepingUpstream) Unsubscribe(uri string) { k.tell("unsubscribe " + uri) }
func (k *keepingUpstream) SetLevel(level string)  { k.tell("level " + level) }

func (k *keepingUpstream) heard() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.told...)
}

// hear has an upstream say something.
func (f *fixture) hear(key, line string) {
	f.t.Helper()
	var m jsonrpc.Message
	if err := jsonrpc.Peek([]byte(line), &m); err != nil {
		f.t.Fatal(err)
	}
	f.b.Hear("", key, []byte(line), &m)
}

// ask sends a request and returns its answer.
func (a *agent) ask(id int, method, params string) string {
	a.t.Helper()
	a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	return a.read()
}

func TestSession_ReadsTheResourceOfWhoeverHasIt(t *testing.T) {
	a, b := newFakeUpstream(), newFakeUpstream()
	f := newFixture(t, []broker.Offer{
		{Key: "a", Upstream: a, Known: true, HasResources: true, Resources: []broker.Item{resource("demo://info"), resource("a:1")}, Templates: []broker.Item{template("demo://{n}/x{?q}")}},
		{Key: "b", Upstream: b, Known: true, HasResources: true, Resources: []broker.Item{resource("demo://info"), resource("b:1")}},
	}, nil)
	s := f.greeted()
	// Two of one URI stay apart, whoever was first.
	want := `{"jsonrpc":"2.0","id":1,"result":{"resources":[` +
		`{"x-n":1.0,"uri":"a:1","name":"n"},{"x-n":1.0,"uri":"b:1","name":"n"},` +
		`{"x-n":1.0,"uri":"demo://info#harness.upstream=a","name":"n"},{"x-n":1.0,"uri":"demo://info#harness.upstream=b","name":"n"}]}}`
	if diff := cmp.Diff(want, s.ask(1, "resources/list", `{}`)); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if got := s.ask(2, "resources/read", `{"uri":"demo://info"}`); !strings.Contains(got, "-32002") || !strings.Contains(got, "demo://info#harness.upstream=a") {
		t.Errorf("an ambiguous one: %s", got)
	}
	if got := s.ask(3, "resources/read", `{"uri":"none:1"}`); !strings.Contains(got, `"code":-32002`) || !strings.Contains(got, `"code":"invalid_argument"`) {
		t.Errorf("an unknown one: %s", got)
	}
	if got := s.ask(3, "resources/read", `{"uri":"demo://zz"}`); !strings.Contains(got, "-32002") ||
		!strings.Contains(got, `no upstream lists \"demo://zz\"; several have resources of demo:, so say which: \"demo://zz#harness.upstream=a\" or the like for a, b`) {
		t.Errorf("one that two could have: %s", got)
	}
	for uri, to := range map[string]struct {
		up  *fakeUpstream
		own string
	}{
		"demo://info#harness.upstream=b":     {b, "demo://info"},
		"demo://info#harness.upstream=a":     {a, "demo://info"},
		"demo://unlisted#harness.upstream=b": {b, "demo://unlisted"},
		"b:1":                                {b, "b:1"},
		"demo://7/x?q=1":                     {a, "demo://7/x?q=1"}, // of the template
		"b:unlisted":                         {b, "b:unlisted"},     // the only one of that scheme
	} {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"z":1.0,"uri":%q}}`, uri))
		r := <-to.up.calls
		if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":77,"method":"resources/read","params":{"z":1.0,"uri":%q}}`, to.own); r.line != want {
			t.Errorf("%s was relayed as %s", uri, r.line)
		}
		to.up.answer(r, `{"jsonrpc":"2.0","id":77,"error":{"code":-7,"message":"no","data":1.0}}`)
		s.want(`{"jsonrpc":"2.0","id":4,"error":{"code":-7,"message":"upstream ` + r.call.Key + `: no","data":1.0}}`)
	}
}

func TestSession_UpstreamPromptsStandBesideFiles(t *testing.T) {
	up := newFakeUpstream()
	prompt := broker.Item{Name: "ask me", Raw: []byte(`{"name":"ask me","x":1.0}`)}
	f := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, Completes: true, Prompts: []broker.Item{prompt}}}, []broker.Prompt{greeting()})
	s := f.greeted()
	var list struct {
		Result struct{ Prompts []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(s.ask(1, "prompts/list", `{}`)), &list); err != nil || len(list.Result.Prompts) != 2 || list.Result.Prompts[0].Name != "greet" {
		t.Fatalf("listed: %+v, %v", list, err)
	}
	name := list.Result.Prompts[1].Name
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":%q,"arguments":{"n":7}}}`, name))
	r := <-up.calls
	if r.line != `{"jsonrpc":"2.0","id":77,"method":"prompts/get","params":{"name":"ask me","arguments":{"n":7}}}` {
		t.Errorf("relayed as %s", r.line)
	}
	up.answer(r, `{"jsonrpc":"2.0","id":77,"result":{"isError":true,"y":1.0}}`)
	s.want(`{"jsonrpc":"2.0","id":2,"result":{"isError":true,"y":1.0}}`) // only a tool's result is marked
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"n","value":"x"}}}`, name))
	r = <-up.calls
	if r.line != `{"jsonrpc":"2.0","id":77,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"ask me"},"argument":{"name":"n","value":"x"}}}` {
		t.Errorf("relayed as %s", r.line)
	}
	up.answer(r, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	s.want(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	for params, want := range map[string]string{
		`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"x"}}`: `"result":{"completion":{"values":[],"total":0,"hasMore":false}}`,
		`{"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"who","value":"x"}}`:  `-32602`,
		`{"argument":{"name":"who","value":"x"}}`:                                            `-32602`,
		`{"ref":{"type":"ref/resource","uri":"x:1"}}`:                                        `-32002`,
	} {
		if got := s.ask(4, "completion/complete", params); !strings.Contains(got, want) {
			t.Errorf("%s: %s", params, got)
		}
	}
}

func TestSession_SubscriptionsAreCountedAndUpdatesGoToWhoAsked(t *testing.T) {
	up := newKeeping()
	f := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true, HasResources: true, Resources: []broker.Item{resource("x:1")}}}, nil)
	one, two, other := f.greeted(), f.greeted(), f.greeted()
	one.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:1#harness.upstream=up"}}`)
	r := <-up.calls
	if r.line != `{"jsonrpc":"2.0","id":77,"method":"resources/subscribe","params":{"uri":"x:1"}}` {
		t.Errorf("relayed as %s", r.line)
	}
	up.answer(r, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	one.want(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	if got := two.ask(1, "resources/subscribe", `{"uri":"x:1"}`); got != `{"jsonrpc":"2.0","id":1,"result":{}}` || len(up.calls) != 0 {
		t.Errorf("the second subscription: %s", got)
	}
	f.hear("up", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1","n":1.0}}`)
	one.want(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1#harness.upstream=up","n":1.0}}`)
	two.want(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1","n":1.0}}`)
	// What is below a resource that was subscribed to counts too, and nothing else.
	for _, uri := range []string{"x:12", "x:", "x:1/a"} {
		f.hear("up", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"`+uri+`"}}`)
	}
	for _, a := range []*agent{one, two} {
		a.want(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1/a"}}`)
	}
	if got := other.ask(1, "ping", `{}`); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("one that did not subscribe reads %s", got)
	}
	if got := one.ask(2, "resources/unsubscribe", `{"uri":"x:1"}`); got != `{"jsonrpc":"2.0","id":2,"result":{}}` || len(up.calls) != 0 {
		t.Errorf("with another subscribed: %s", got)
	}
	two.conn.Close() // without goodbye
	for len(up.heard()) == 0 {
		one.ask(3, "ping", `{}`)
	}
	if diff := cmp.Diff([]string{"unsubscribe x:1"}, up.heard()); diff != "" {
		t.Errorf("the upstream was told (-want +got):\n%s", diff)
	}
	f.hear("up", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`)
	if got := one.ask(4, "ping", `{}`); got != `{"jsonrpc":"2.0","id":4,"result":{}}` {
		t.Errorf("after the last subscription reads %s", got)
	}
	// The last one that leaves with a word: the upstream is told before it is
	// answered, so that a subscription after that comes after it there too.
	one.send(`{"jsonrpc":"2.0","id":5,"method":"resources/subscribe","params":{"uri":"x:2"}}`)
	up.answer(<-up.calls, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	one.want(`{"jsonrpc":"2.0","id":5,"result":{}}`)
	if got := one.ask(6, "resources/unsubscribe", `{"uri":"x:2"}`); got != `{"jsonrpc":"2.0","id":6,"result":{}}` || len(up.calls) != 0 {
		t.Errorf("the last unsubscribe: %s", got)
	}
	if diff := cmp.Diff([]string{"unsubscribe x:1", "unsubscribe x:2"}, up.heard()); diff != "" {
		t.Errorf("the upstream was told (-want +got):\n%s", diff)
	}
	other.send(`{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"x:2"}}`)
	up.answer(<-up.calls, `{"jsonrpc":"2.0","id":77,"result":{}}`)
	other.want(`{"jsonrpc":"2.0","id":7,"result":{}}`)
}

func TestSession_LogMessagesAreFilteredForEach(t *testing.T) {
	up := newKeeping()
	f := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true}}, nil)
	silent, grave, chatty := f.greeted(), f.greeted(), f.greeted()
	hidden := f.greetedAs(broker.NewScope("h", "", []string{"none"}, false))
	grave.ask(1, "logging/setLevel", `{"level":"error"}`)
	chatty.ask(1, "logging/setLevel", `{"level":"debug"}`)
	if got := grave.ask(2, "logging/setLevel", `{"level":"loud"}`); !strings.Contains(got, "-32602") {
		t.Errorf("a level that is none: %s", got)
	}
	if diff := cmp.Diff([]string{"level error", "level debug"}, up.heard()); diff != "" {
		t.Errorf("the upstream was told (-want +got):\n%s", diff)
	}
	line := func(level string) string {
		return `{"method":"notifications/message","params":{"level":"` + level + `","data":1.0},"jsonrpc":"2.0"}`
	}
	for _, level := range []string{"debug", "info", "error"} {
		f.hear("up", line(level))
	}
	for name, tt := range map[string]struct {
		a    *agent
		want []string
	}{
		"silent": {silent, []string{"info", "error"}}, "grave": {grave, []string{"error"}},
		"chatty": {chatty, []string{"debug", "info", "error"}}, "hidden": {hidden, nil},
	} {
		for _, level := range tt.want {
			tt.a.want(line(level))
		}
		if got := tt.a.ask(9, "ping", `{}`); got != `{"jsonrpc":"2.0","id":9,"result":{}}` {
			t.Errorf("%s also reads %s", name, got)
		}
	}
}

// Sessions that ask at the same time, as all do that come back to a daemon, leave
// the upstream with what the one that wants most wants.
func TestSession_LevelsThatMeetEndAtTheWidest(t *testing.T) {
	up := newKeeping()
	f := newFixture(t, []broker.Offer{{Key: "up", Upstream: up, Known: true}}, nil)
	levels := []string{"alert", "error", "notice", "warning"}
	var agents []*agent
	for range levels {
		agents = append(agents, f.greeted())
	}
	for round := range 200 {
		var asking sync.WaitGroup
		for i, a := range agents {
			level := levels[(i+round)%len(levels)]
			asking.Go(func() {
				a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"logging/setLevel","params":{"level":%q}}`, round, level))
				a.read()
			})
		}
		asking.Wait()
		if heard := up.heard(); heard[len(heard)-1] != "level notice" {
			t.Fatalf("round %d: the last word was %q", round, heard[len(heard)-1])
		}
	}
}
