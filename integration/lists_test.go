package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/integration/fakeup"
)

func TestC13_AnEmptyCursorIsNotTheEnd(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up", "-count", "101", "-page", "50"), h.upstream("ok"))
	a := d.connected()
	n := 0
	for _, name := range a.toolNames() {
		if strings.HasPrefix(name, "up__t0") {
			n++
		}
	}
	if n != 101 {
		t.Errorf("%d of 101 tools", n)
	}
	a.must("up__t0100", nil)
	if m := a.ask("tools/list", map[string]any{"cursor": "page 2"}); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("a made-up cursor: %s", m.raw)
	}
	a.well("ok")
}

func TestC15_AStormOfChangesIsNoStormForAnybodyElse(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("storm", "-storm"), h.upstream("burst"), h.upstream("ok"))
	a := d.connected()
	a.toolNames()
	lists := func(key string) int { return fakeup.Count(h.record(key), fakeup.Received, `"tools/list"`) }

	before := lists("burst")
	a.must("burst__burst", map[string]any{"n": 200})
	stormBefore := lists("storm")
	never(t, 3*time.Second, "more than three lists after a burst", func() bool { return lists("burst") > before+3 })
	if n := lists("burst"); n == before {
		t.Error("a burst of changes was not looked at")
	}
	if n := lists("storm") - stormBefore; n > 4 {
		t.Errorf("%d lists in three seconds of a storm", n)
	}
	if n := a.count(toolsChanged); n != 0 {
		t.Errorf("%d notifications although no list changed", n)
	}
	if o := d.harness("reload"); o.code != 0 || o.took > within(time.Second) {
		t.Error(o)
	}
	if o := d.harness("stop", "mcp.storm"); o.code != 0 || o.took > within(2*time.Second) {
		t.Error(o)
	}
	a.well("ok")
}

func TestLists_AnUpstreamThatChangesItsOwnToolsIsFollowed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := h.write("tools.json", toolsNamed("one"))
	d := h.run(h.upstream("up", "-tools", file), h.upstream("ok"))
	a := d.connected()
	before := a.tools()
	h.write("tools.json", toolsNamed("one", "two"))
	a.awaitCount(toolsChanged, 1)
	if got := a.must("up__two", nil); got != "two" {
		t.Errorf("the new tool says %q", got)
	}
	if !a.sees("up__two") || !a.sees("up__one") {
		t.Error("the list is not the new one")
	}
	h.write("tools.json", toolsNamed("one"))
	a.awaitCount(toolsChanged, 2)
	if d := cmp.Diff(rawOf(before), rawOf(a.tools())); d != "" {
		t.Errorf("the same catalog, other bytes:\n%s", d)
	}
	a.well("ok")
}

// toolsNamed is a tools file.
func toolsNamed(names ...string) string {
	var all []string
	for _, name := range names {
		quoted, _ := json.Marshal(name)
		all = append(all, fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, quoted))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func rawOf(tools []tool) []string {
	var all []string
	for _, t := range tools {
		all = append(all, string(t.raw))
	}
	return all
}

func TestC17_NothingIsSaidBeforeTheAgentSpeaks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a, watcher := d.agent(), d.connected()
	h.edit(h.upstream("ok"), h.upstream("up"))
	watcher.awaitCount(toolsChanged, 1)
	h.edit(h.upstream("ok"))
	watcher.awaitCount(toolsChanged, 2)
	if got := a.received(); len(got) != 0 {
		t.Fatalf("before its first message the agent got %s", got[0].raw)
	}
	a.initialize("2025-11-25")
	h.edit(h.upstream("ok"), h.upstream("up"))
	watcher.awaitCount(toolsChanged, 3)
	a.ask("ping", nil)
	if got := a.received(); len(got) != 2 {
		t.Errorf("between initialize and initialized the agent got %d lines, not its two answers", len(got))
	}
	a.initialized()
	if !a.sees("up__echo") {
		t.Error("the current list is not what the agent sees")
	}
	h.edit(h.upstream("ok"))
	eventually(t, "a notification after initialized", func() bool { return a.count(toolsChanged) > 0 })
	a.well("ok")
}

// shown is what every name that harness shows has to match.
var shown = regexp.MustCompile(`^[A-Za-z0-9_-]{1,50}$`)

func TestC19_OddNamesAreRewrittenAndStillCallable(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	names := []string{"a.b", "a/b", "has space", "ünï", "Upper-Case_9"}
	d := h.run(h.upstream("up", "-tools", h.write("tools.json", toolsNamed(names...))), h.upstream("ok"))
	a := d.connected()
	if d := cmp.Diff(sorted(names), sorted(callAll(t, a, "up__"))); d != "" {
		t.Errorf("names as the upstream received them:\n%s", d)
	}
	a.well("ok")
}

// callAll calls each tool under a prefix and returns what they said, which is
// the name each was called by at its upstream.
func callAll(t *testing.T, a *agent, prefix string) []string {
	t.Helper()
	var said []string
	for _, name := range a.toolNames() {
		if !shown.MatchString(name) {
			t.Errorf("%q is shown", name)
		}
		if strings.HasPrefix(name, prefix) {
			said = append(said, a.must(name, nil))
		}
	}
	return said
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

func TestC21_LongNamesAreCutUniquelyAndForEver(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	long := strings.Repeat("long_name_", 20)
	names := []string{long[:50], long[:64], long[:100], long[:90] + "x" + long[:9], long}
	d := h.run(h.upstream("up", "-tools", h.write("tools.json", toolsNamed(names...))), h.upstream("ok"))
	a := d.connected()
	if d := cmp.Diff(sorted(names), sorted(callAll(t, a, "up__"))); d != "" {
		t.Errorf("names as the upstream received them:\n%s", d)
	}
	before := a.toolNames()
	d.stop()
	d = h.start()
	d.mustReload()
	if d := cmp.Diff(before, d.connected().toolNames()); d != "" {
		t.Errorf("after a restart:\n%s", d)
	}
	a.well("ok")
}

func TestNames_AreUniqueWhereDashAndUnderscoreAreOne(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	names := []string{"get-it", "get_it", "get.it", "Get_it"}
	d := h.run(h.upstream("up", "-tools", h.write("tools.json", toolsNamed(names...))), h.upstream("ok"))
	a := d.connected()
	if d := cmp.Diff(sorted(names), sorted(callAll(t, a, "up__"))); d != "" {
		t.Errorf("names as the upstream received them:\n%s", d)
	}
	folded := map[string]string{}
	for _, name := range a.toolNames() {
		f := strings.ReplaceAll(name, "-", "_")
		if other, ok := folded[f]; ok {
			t.Errorf("%s and %s are one where - is _", name, other)
		}
		folded[f] = name
	}
	if !a.sees("up__get-it") {
		t.Error("the bytewise smallest did not keep its name")
	}
}

func TestC23_SchemasAndEverythingElseOfAToolStayAsTheyAre(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	silent := listener(t)
	tools := []string{
		`{"title":"T", "name":"full","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"a":{"type":"string"}},"definitions":{"b":{"const":1.0}},"type":"object","properties":{"z":{"$ref":"#/$defs/a"},"a":true,"m":false},"oneOf":[{"required":["z"]},{}],"additionalProperties":false,"x-order":["z","a"],"maximum":1e400},"annotations":{"readOnlyHint":true},"outputSchema":{"type":"object"},"_meta":{"k":[1,2]},"icons":[],"x-new":{"n":9007199254740993}}`,
		`{"name":"broken","inputSchema":{"$ref":"#/nowhere"}}`,
		`{"name":"network","inputSchema":{"$ref":"http://` + silent + `/schema.json"}}`,
		`{"inputSchema":true,"description":"no object at all","name":"odd"}`,
		`{"description":"no name"}`,
		`"not an object"`,
		`{"name":"plain","inputSchema":{"type":"object"},"description":"\u00fc stays \\u00fc, < stays <"}`,
	}
	d := h.run(h.upstream("up", "-tools", h.write("tools.json", "["+strings.Join(tools, ",")+"]")), h.upstream("ok"))
	a := d.connected()
	var got []string
	for _, tool := range a.tools() {
		if name, ok := strings.CutPrefix(tool.Name, "up__"); ok {
			got = append(got, string(bytes.Replace(tool.raw, []byte(`"`+tool.Name+`"`), []byte(`"`+name+`"`), 1)))
		}
	}
	want := []string{tools[1], tools[0], tools[2], tools[3], tools[6]} // by name
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("tools:\n%s", d)
	}
	a.must("up__plain", nil)
	a.must("up__broken", nil)
	a.well("ok")
}

// listener is the address of a server that must never be spoken to.
func listener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan bool)
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		accepted <- err == nil
	}()
	t.Cleanup(func() {
		l.Close()
		if <-accepted {
			t.Error("the URL of a schema was fetched")
		}
	})
	return l.Addr().String()
}

func TestLists_AreTheSameBytesForEverySessionAndStartOrder(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tables := []string{h.upstream("b", "-start-delay", "200ms"), h.upstream("a-x"), h.upstream("a"), h.upstream("c")}
	d := h.run(tables...)
	first := d.connected()
	want := string(first.ask("tools/list", nil).Result)
	if names := first.toolNames(); !slices.IsSorted(names) {
		t.Errorf("not sorted: %v", names)
	}
	slices.Reverse(tables)
	h.edit(tables...)
	d.mustReload()
	if got := string(d.connected().ask("tools/list", nil).Result); got != want {
		t.Error("another session, other bytes")
	}
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list"} {
		if m := first.ask(method, nil); m.Error != nil {
			t.Errorf("%s: %s", method, m.raw)
		}
	}
}

func TestLists_OfTheLastRunAreServedBeforeASlowUpstreamIsUp(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	table := h.upstream("up", "-count", "3", "-start-gate", h.path("gate"))
	h.write("gate", "")
	d := h.run(table, h.upstream("ok"))
	want := d.connected().toolNames()
	d.stop()
	h.remove("gate")
	d = h.start()
	d.mustReload(10 * time.Millisecond)
	a := d.connected()
	if d := cmp.Diff(want, a.toolNames()); d != "" {
		t.Errorf("tools before it is up:\n%s", d)
	}
	if u := d.status().up(t, "up"); u.State != "starting" {
		t.Errorf("it is %s, and the test proves nothing", u.State)
	}
	h.write("gate", "")
	a.well("up") // waits for the first start
	if n := a.count(toolsChanged); n != 0 {
		t.Errorf("%d notifications although the list is the same", n)
	}
	d.must("stop", "mcp.up")
	if a.sees("up__echo") {
		t.Error("the tools of an upstream that was switched off are listed")
	}
	d.must("start", "mcp.up")
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
}

func TestCalls_OfWhatIsNotThereSayWhat(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a := d.connected()
	for name, code := range map[string]string{
		"up__no_such_tool": "unknown_tool", "nobody__echo": "unknown_namespace", "plain": "unknown_tool",
	} {
		if r := a.call(name, nil); r.code() != code && (name != "plain" || r.ok()) {
			t.Errorf("%s: %s", name, r)
		}
	}
	if m := a.ask("tools/call", map[string]any{"arguments": map[string]any{}}); m.Error == nil && resultOf(t, m).ok() {
		t.Errorf("a call of nothing: %s", m.raw)
	}
	if m := a.ask("no/such/method", nil); m.Error == nil || m.Error.Code != -32601 {
		t.Errorf("an unknown method: %s", m.raw)
	}
	a.well("up")
	a.well("ok")
}

func TestErrors_OfAnUpstreamKeepTheirForm(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a := d.connected()

	m := a.beginCall("up__rpcerror", nil).wait()
	if m.Error == nil || m.Error.Code != -32077 || m.Error.Message != "upstream up: out of cheese" || string(m.Error.Data) != `{"n":9007199254740993}` {
		t.Errorf("a JSON-RPC error: %s", m.raw)
	}

	r := a.call("up__fail", nil)
	if !r.IsError || r.code() != "" || r.Meta.Upstream == nil {
		t.Errorf("a result with isError: %s", r)
	}
	if last := r.Content[len(r.Content)-1]; len(r.Content) != 2 || last.Text != "upstream up" {
		t.Errorf("its content: %s", r)
	}
	for _, kept := range []string{`{"type":"text","text":"the disk is full"}`, `"isError" : true`, `"structuredContent":{"free":1e400}`, `"x-kept":[1.0,{}]`} {
		if !bytes.Contains(r.raw, []byte(kept)) {
			t.Errorf("%s is lost: %s", kept, r)
		}
	}
	a.well("ok")
}

func TestLists_InstructionsAreJoinedByKey(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("b", "-instructions", "second part"), h.upstream("a", "-instructions", "first part"), h.upstream("c", "-instructions", strings.Repeat("long ", 1000)))
	var init struct{ Instructions string }
	if err := json.Unmarshal(d.agent().initialize("2025-11-25").Result, &init); err != nil {
		t.Fatal(err)
	}
	i, j := strings.Index(init.Instructions, "first part"), strings.Index(init.Instructions, "second part")
	if i < 0 || j < i || len([]rune(init.Instructions)) > 2048 {
		t.Errorf("%d characters: %q", len([]rune(init.Instructions)), init.Instructions)
	}
}
