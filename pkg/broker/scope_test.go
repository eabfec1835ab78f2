package broker_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"harness/pkg/broker"
	"harness/pkg/wire"
)

// shifting is a caller whose scope the test changes.
type shifting struct{ now atomic.Pointer[broker.Scope] }

func (s *shifting) Scope() *broker.Scope { return s.now.Load() }

func (s *shifting) become(scope *broker.Scope) *shifting {
	s.now.Store(scope)
	return s
}

// ownTools are a reading and a writing one, and some that misbehave.
func ownTools(after chan string) []broker.OwnTool {
	answer := func(text string) *mcp.CallToolResult { return mcp.NewToolResultText(text) }
	return []broker.OwnTool{
		{Tool: mcp.NewTool("own_read"), Handle: func(_ context.Context, c *broker.OwnCall, args json.RawMessage) (*mcp.CallToolResult, error) {
			c.Then(func() { after <- "read" })
			return answer("by " + c.Scope.Harness + " " + string(args)), nil
		}},
		{Tool: mcp.NewTool("own_write"), Write: true, Handle: func(context.Context, *broker.OwnCall, json.RawMessage) (*mcp.CallToolResult, error) {
			return answer("written"), nil
		}},
		{Tool: mcp.NewTool("own_slow"), Handle: func(ctx context.Context, _ *broker.OwnCall, _ json.RawMessage) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			after <- "cancelled"
			return nil, ctx.Err()
		}},
		{Tool: mcp.NewTool("own_broken"), Handle: func(context.Context, *broker.OwnCall, json.RawMessage) (*mcp.CallToolResult, error) {
			return nil, errors.New("the secret is xyzzy")
		}},
		{Tool: mcp.NewTool("own_refuses"), Handle: func(context.Context, *broker.OwnCall, json.RawMessage) (*mcp.CallToolResult, error) {
			return nil, wire.New(wire.UnknownHarness, "nobody is called that")
		}},
		{Tool: mcp.NewTool("own_panics"), Handle: func(_ context.Context, c *broker.OwnCall, _ json.RawMessage) (*mcp.CallToolResult, error) {
			c.Then(func() { panic("not again") })
			panic("oh no")
		}},
	}
}

func scoped(t *testing.T, c broker.Content) *fixture {
	t.Helper()
	f, err := broker.Merge(c)
	if err != nil {
		t.Fatal(err)
	}
	x := newFixture(t, nil, nil)
	x.b.Publish(f)
	return x
}

// names lists what the session sees of one kind.
func (a *agent) names(kind string) []string {
	a.t.Helper()
	a.send(`{"jsonrpc":"2.0","id":1,"method":"` + kind + `/list"}`)
	var got struct {
		Result map[string][]struct{ Name string }
	}
	if err := json.Unmarshal([]byte(a.read()), &got); err != nil {
		a.t.Fatal(err)
	}
	names := []string{}
	for _, one := range got.Result[kind] {
		names = append(names, one.Name)
	}
	return names
}

// code calls a tool and returns the code of its failure, or its text.
func (a *agent) code(name string) string {
	a.t.Helper()
	code, text := a.said(name)
	if code != "" {
		return code
	}
	return text
}

// said calls a tool and returns the code of its failure, "" for none, and its text.
func (a *agent) said(name string) (code, text string) {
	a.t.Helper()
	a.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","arguments":{"a":1.50}}}`)
	line := a.read()
	var got struct {
		ID     int
		Result struct {
			IsError bool
			Content []struct{ Text string }
			Meta    map[string]struct{ Code string } `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.ID != 7 || len(got.Result.Content) == 0 {
		a.t.Fatalf("%s: %s (%v)", name, line, err)
	}
	if strings.Contains(line, "xyzzy") {
		a.t.Errorf("%s tells a secret: %s", name, line)
	}
	if got.Result.IsError {
		code = got.Result.Meta["harness/error"].Code
	}
	return code, got.Result.Content[0].Text
}

func TestView_ShowsAScopeItsUpstreamsPromptsAndRights(t *testing.T) {
	up := newFakeUpstream()
	offer := func(key, project string) broker.Offer {
		return broker.Offer{Key: key, Project: project, Upstream: up, Known: true, Tools: []broker.Item{tool("t")}}
	}
	c := broker.Content{
		Own:     ownTools(nil)[:2],
		Offers:  []broker.Offer{offer("a", ""), offer("b-1", ""), offer("p", "shop"), offer("p", "mill"), offer("a", "mill"), {Key: "off", Stopped: true}},
		Prompts: []broker.Prompt{{Name: "g"}, {Name: "own", Project: "shop"}, {Name: "g", Project: "shop"}},
	}
	x := scoped(t, c)
	all := []string{"*"}
	for name, w := range map[string]struct {
		scope          *broker.Scope
		tools, prompts []string
		codes          map[string]string
	}{
		"nobody's": {
			broker.Unattributed(),
			[]string{"a__t", "b-1__t", "own_read"},
			[]string{"g"},
			map[string]string{"p__t": "unknown_namespace", "off__t": "upstream_unavailable", "own_write": "permission_denied", "own_read": `by  {"a":1.50}`},
		},
		"a harness that writes": {
			broker.NewScope("r", "", all, true),
			[]string{"a__t", "b-1__t", "own_read", "own_write"},
			[]string{"g"},
			map[string]string{"own_write": "written", "own_read": `by r {"a":1.50}`},
		},
		"one that sees little": {
			broker.NewScope("r", "", []string{"b*", "[", "off"}, false),
			[]string{"b-1__t", "own_read"},
			[]string{"g"},
			map[string]string{"a__t": "unknown_namespace", "own_write": "permission_denied", "off__t": "upstream_unavailable"},
		},
		"one that sees none": {
			broker.NewScope("r", "", []string{}, false),
			[]string{"own_read"},
			[]string{"g"},
			map[string]string{"a__t": "unknown_namespace", "off__t": "unknown_namespace"},
		},
		"a project's": {
			broker.NewScope("shop/r", "shop", all, false),
			[]string{"a__t", "b-1__t", "own_read", "p__t"},
			[]string{"g", "own"},
			nil,
		},
		"one of another project, with a key that is global": {
			broker.NewScope("mill/r", "mill", all, false),
			[]string{"a__t", "b-1__t", "own_read", "p__t"},
			[]string{"g"},
			nil,
		},
		"one of a project that is down": {
			broker.NewScope("gone/r", "gone", all, false),
			[]string{"a__t", "b-1__t", "own_read"},
			[]string{"g"},
			map[string]string{"p__t": "unknown_namespace"},
		},
	} {
		after := make(chan string, 10)
		c.Own = ownTools(after)[:2]
		f, err := broker.Merge(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Warnings) != 1 { // the prompt of shop that a global one hides
			t.Errorf("warnings: %q", f.Warnings)
		}
		x.b.Publish(f)
		a := x.greetedAs(w.scope)
		if diff := cmp.Diff(w.tools, a.names("tools")); diff != "" {
			t.Errorf("%s: tools:\n%s", name, diff)
		}
		if diff := cmp.Diff(w.prompts, a.names("prompts")); diff != "" {
			t.Errorf("%s: prompts:\n%s", name, diff)
		}
		for tool, want := range w.codes {
			if got := a.code(tool); got != want {
				t.Errorf("%s: %s gives %q, want %q", name, tool, got, want)
			}
		}
		if got := x.b.Sessions(); len(got) == 0 || !slices.ContainsFunc(got, func(s broker.SessionInfo) bool { return s.Harness == w.scope.Harness }) {
			t.Errorf("%s: sessions: %+v", name, got)
		}
	}
}

func TestView_OfEqualScopesIsOne(t *testing.T) {
	f := merge(t, nil, nil)
	a := f.View(broker.NewScope("x", "", []string{"b", "a"}, true))
	if f.View(broker.NewScope("y", "", []string{"a", "b"}, true)) != a {
		t.Error("the same is rendered twice")
	}
	for _, other := range []*broker.Scope{
		broker.NewScope("x", "", []string{"a"}, true), broker.NewScope("x", "", []string{"a", "b"}, false), broker.NewScope("x", "p", []string{"a", "b"}, true),
		broker.NewScope("x", "", []string{"a\x00b"}, true),
	} {
		if f.View(other) == a {
			t.Errorf("%+v sees what another scope does", other)
		}
	}
}

func TestScope_CountsAtTheNextCallAndIsTold(t *testing.T) {
	up := newFakeUpstream()
	x := scoped(t, broker.Content{Own: ownTools(nil)[:2], Offers: []broker.Offer{{Key: "a", Upstream: up, Known: true, Tools: []broker.Item{tool("t")}}}})
	who := new(shifting).become(broker.NewScope("r", "", []string{"*"}, false))
	a := x.greetedAs(who)
	if n := x.b.Refresh(); n != 0 {
		t.Errorf("%d notifications for nothing", n)
	}
	if got := a.code("own_write"); got != "permission_denied" {
		t.Errorf("without the right: %s", got)
	}
	for name, want := range map[string]string{"r": "mcp_allow", "pj/r": "only one of the global file"} {
		who.become(broker.NewScope(name, "", []string{"*"}, false))
		if _, got := a.said("own_write"); !strings.Contains(got, want) || strings.Contains(got, "pj/") {
			t.Errorf("%s is told %q, want %q", name, got, want)
		}
	}
	who.become(broker.NewScope("r", "", []string{}, true))
	if got := a.code("own_write"); got != "written" {
		t.Errorf("with it: %s", got)
	}
	if got := a.code("a__t"); got != "unknown_namespace" {
		t.Errorf("what is hidden now: %s", got)
	}
	if n := x.b.Refresh(); n != 1 {
		t.Errorf("%d notifications", n)
	}
	if got := a.read(); got != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("told: %s", got)
	}
	if diff := cmp.Diff([]string{"own_read", "own_write"}, a.names("tools")); diff != "" {
		t.Error(diff)
	}
}

func TestOwnTool_FailsInTheShapeOfEveryFailure(t *testing.T) {
	a := scoped(t, broker.Content{Own: ownTools(nil)}).greetedAs(broker.Unattributed())
	for name, want := range map[string]string{
		"own_broken": "internal", "own_refuses": "unknown_harness", "own_panics": "internal", "own_none": "unknown_tool",
	} {
		if got := a.code(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	a.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"own_refuses","arguments":"no object","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	if got := a.read(); !strings.Contains(got, "unknown_harness") {
		t.Errorf("odd parameters: %s", got)
	}
}

func TestOwnTool_RunsBesideTheSessionAndCanBeCancelled(t *testing.T) {
	after := make(chan string, 10)
	a := scoped(t, broker.Content{Own: ownTools(after)}).greetedAs(broker.NewScope("r", "", nil, false))
	slow := func(id string) {
		a.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"own_slow"}}`)
	}
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-after:
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no %s", want)
		}
	}
	slow("1")
	if got := a.code("own_read"); got != `by r {"a":1.50}` {
		t.Errorf("beside a slow call: %s", got)
	}
	expect("read")
	a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	expect("cancelled")
	a.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	if got := a.read(); got != `{"jsonrpc":"2.0","id":2,"result":{}}` {
		t.Errorf("a cancelled call was answered: %s", got)
	}
	slow("3")
	a.conn.Close()
	expect("cancelled")
}
