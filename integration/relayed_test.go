package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/integration/fakeup"
)

// resourcesChanged tells of another list of resources, or of templates.
const (
	resourcesChanged = "notifications/resources/list_changed"
	resourceUpdated  = "notifications/resources/updated"
	logMessage       = "notifications/message"
)

// offering is an upstream that has something of each kind. Its files are named
// after its key and followed.
func (h *home) offering(key string, flags ...string) string {
	for _, kind := range []string{"prompts", "resources", "templates"} {
		if !exists(h.path(key + "-" + kind)) {
			h.offer(key, kind)
		}
		flags = append(flags, "-"+kind, h.path(key+"-"+kind))
	}
	return h.upstream(key, append(flags, "-name", key, "-completion", "-logging")...)
}

// offer changes one kind of what such an upstream has.
func (h *home) offer(key, kind string, items ...string) {
	h.t.Helper()
	h.write(key+"-"+kind, "["+strings.Join(items, ",")+"]")
}

// listed are the raw entries of a list, but for the endpoint's own resources.
// More than one page is a fault.
func (a *agent) listed(method, member string) []string {
	a.t.Helper()
	var list map[string]json.RawMessage
	var items []json.RawMessage
	m := a.ask(method, nil)
	if m.Error != nil || json.Unmarshal(m.Result, &list) != nil || len(list) != 1 || json.Unmarshal(list[member], &items) != nil {
		a.t.Fatalf("%s: %.500s", method, m.raw)
	}
	var all []string
	for _, item := range items {
		if !strings.Contains(string(item), `":"harness://`) || strings.Contains(string(item), "#harness.upstream=") {
			all = append(all, string(item))
		}
	}
	return all
}

func (a *agent) resources() []string { a.t.Helper(); return a.listed("resources/list", "resources") }

// relayed is what an offering upstream answers to what it is asked for: who it
// is, and the params as it received them.
func relayed(t testing.TB, m message) (from, params string) {
	t.Helper()
	var r struct {
		Meta struct {
			From   string
			Params json.RawMessage
		} `json:"_meta"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		t.Fatalf("not relayed: %.500s", m.raw)
	}
	return r.Meta.From, string(r.Meta.Params)
}

// from is which upstream a resource is read from, "" if from none.
func (a *agent) from(uri string) string {
	a.t.Helper()
	m := a.ask("resources/read", map[string]any{"uri": uri})
	if m.Error != nil {
		return ""
	}
	from, _ := relayed(a.t, m)
	return from
}

// refusedWith checks the error of a request.
func refusedWith(t testing.TB, m message, code int, part string) {
	t.Helper()
	if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, part) {
		t.Errorf("not refused with %d and %q: %.500s", code, part, m.raw)
	}
}

// Prompts of upstreams are listed under key and name, and otherwise as they
// are; getting and completing one reaches its upstream under its own name, with
// everything else of the params as it was sent (MCP-2, MCP-4).
func TestRelayed_PromptsAndCompletion(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.offer("up", "prompts",
		`{"title":"T", "name":"greet","arguments":[{"name":"who","required":true,"x":1.0}],"_meta":{"k":9007199254740993},"icons":[]}`,
		`{"name":"has space"}`, `{"description":"no name"}`)
	h.offer("ok", "prompts", `{"name":"greet"}`)
	h.write("prompts/file.md", "text\n")
	d := h.run(h.offering("up"), h.offering("ok"), h.upstream("mute", "-prompts", h.write("mute-prompts", `[{"name":"p"}]`)), h.prompting("prompts"))
	a := d.connected()
	odd := a.listed("prompts/list", "prompts")
	if len(odd) != 5 {
		t.Fatalf("prompts: %s", odd)
	}
	want := []string{
		`{"name":"file","description":""`, // one of the daemon's own
		`{"name":"mute__p"}`,
		`{"name":"ok__greet"}`,
		`{"title":"T", "name":"up__greet","arguments":[{"name":"who","required":true,"x":1.0}],"_meta":{"k":9007199254740993},"icons":[]}`,
		`{"name":"up__has_space_`,
	}
	for i := range want[1:4] {
		if odd[i+1] != want[i+1] {
			t.Errorf("listed: %s\nwant:   %s", odd[i+1], want[i+1])
		}
	}
	if !strings.HasPrefix(odd[4], want[4]) || !strings.Contains(odd[0], `"file"`) {
		t.Errorf("listed: %s and %s", odd[0], odd[4])
	}
	_, params := relayed(t, a.ask("prompts/get", rawf(`{ "arguments":{"who":"\u00fc","n":"1"},"name":"up__gr\u0065et","x":[1.0,1e400],"_meta":{"progressToken":7}}`)))
	if want := `{ "arguments":{"who":"\u00fc","n":"1"},"name":"greet","x":[1.0,1e400],"_meta":{"progressToken":`; !strings.HasPrefix(params, want) {
		t.Errorf("prompts/get arrived as %s", params)
	}
	_, params = relayed(t, a.ask("completion/complete", rawf(`{"ref":{"type":"ref/prompt","name":"up__greet","x":1.0},"argument":{"name":"who","value":"a"},"context":{}}`)))
	if want := `{"ref":{"type":"ref/prompt","name":"greet","x":1.0},"argument":{"name":"who","value":"a"},"context":{}}`; params != want {
		t.Errorf("completion/complete arrived as %s", params)
	}
	for _, name := range []string{"file", "mute__p"} { // they complete nothing
		m := a.ask("completion/complete", map[string]any{"ref": map[string]any{"type": "ref/prompt", "name": name}, "argument": map[string]any{"name": "a", "value": ""}})
		if m.Error != nil || !strings.Contains(string(m.Result), `"values":[]`) {
			t.Errorf("completion of %s: %s", name, m.raw)
		}
	}
	for _, name := range []string{"up__nothing", "nobody__greet", "greet", "up__../greet"} {
		refusedWith(t, a.ask("prompts/get", map[string]any{"name": name}), -32602, "unknown prompt")
	}
	refusedWith(t, a.ask("completion/complete", rawf(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"a","value":""}}`)), -32602, "unknown prompt")
	a.well("ok")
}

// Resources and templates keep their URIs and everything else; a read reaches
// whose it is, also of a URI that only a template fits (MCP-4).
func TestRelayed_ResourcesAndTemplates(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	full := `{"name":"n", "uri":"file:///a\u0062","mimeType":"text/plain","size":1.0,"annotations":{"priority":0.10},"x":1e400}`
	h.offer("up", "resources", full, `{"name":"no uri"}`, `{"uri":"up://two","name":"two"}`)
	h.offer("up", "templates", `{"uriTemplate":"item://{kind}/{id}","name":"t", "x":[1.0]}`)
	h.offer("ok", "resources", `{"uri":"ok://one","name":"one"}`)
	d := h.run(h.offering("up", "-page", "1"), h.offering("ok"), h.upstream("plain"))
	a := d.connected()
	if diff := cmp.Diff([]string{full, `{"uri":"ok://one","name":"one"}`, `{"uri":"up://two","name":"two"}`}, a.resources()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`{"uriTemplate":"item://{kind}/{id}","name":"t", "x":[1.0]}`}, a.listed("resources/templates/list", "resourceTemplates")); diff != "" {
		t.Error(diff)
	}
	from, params := relayed(t, a.ask("resources/read", rawf(`{"x":1.0, "uri":"file:///a\u0062"}`)))
	if from != "up" || params != `{"x":1.0, "uri":"file:///ab"}` {
		t.Errorf("read from %s with %s", from, params)
	}
	for uri, want := range map[string]string{
		"file:///ab": "up", "ok://one": "ok", "item://book/7": "up", "up://two/not-listed": "up",
		"item://a/b/c": "up", // by its scheme alone
		"nobody://x":   "",
	} {
		if got := a.from(uri); got != want {
			t.Errorf("%s is read from %q, not %q", uri, got, want)
		}
	}
	refusedWith(t, a.ask("resources/read", rawf(`{"uri":"nobody://x"}`)), -32002, "nobody://x")
	refusedWith(t, a.ask("resources/read", rawf(`{}`)), -32602, "uri")
	_, params = relayed(t, a.ask("completion/complete", rawf(`{"ref":{"type":"ref/resource","uri":"item://{kind}/{id}"},"argument":{"name":"id","value":"7"}}`)))
	if params != `{"ref":{"type":"ref/resource","uri":"item://{kind}/{id}"},"argument":{"name":"id","value":"7"}}` {
		t.Errorf("completion/complete arrived as %s", params)
	}
	a.well("ok")
}

// Each session hears of another list where its own differs, of that kind alone
// (HOT-6).
func TestRelayed_ListChangesReachThoseWhoseListDiffers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.offering("up"), h.offering("ok"), harnessTable("one", h.lender(), "enabled = true\nmcp = [\"ok\"]"))
	all, one := d.connected(), h.as("one")
	counts := func(a *agent) [3]int {
		return [3]int{a.count(toolsChanged), a.count(promptsChanged), a.count(resourcesChanged)}
	}
	h.offer("up", "prompts", `{"name":"new"}`)
	all.awaitCount(promptsChanged, 1)
	h.offer("up", "resources", `{"uri":"up://new","name":"new"}`)
	all.awaitCount(resourcesChanged, 1)
	h.offer("up", "templates", `{"uriTemplate":"up://{new}","name":"new"}`)
	all.awaitCount(resourcesChanged, 2)
	if got := counts(one); got != [3]int{} {
		t.Errorf("who sees nothing of it heard of %v", got)
	}
	h.offer("ok", "resources", `{"uri":"ok://new","name":"new"}`)
	one.awaitCount(resourcesChanged, 1)
	all.awaitCount(resourcesChanged, 3)
	// The same again, with other bytes in the file: listed anew, and no news.
	lists := func() int { return fakeup.Count(h.record("ok"), fakeup.Received, `"resources/list"`) }
	before := lists()
	h.write("ok-resources", ` [{"uri":"ok://new","name":"new"}] `)
	eventually(t, "it is listed again", func() bool { return lists() > before })
	h.offer("ok", "prompts", `{"name":"last"}`)
	one.awaitCount(promptsChanged, 1)
	all.awaitCount(promptsChanged, 2)
	if a, b := counts(all), counts(one); a != [3]int{0, 2, 3} || b != [3]int{0, 1, 1} {
		t.Errorf("notifications: %v and %v", a, b)
	}
	if got := one.listed("prompts/list", "prompts"); len(got) != 1 || len(one.resources()) != 1 {
		t.Errorf("it sees %s and %s", got, one.resources())
	}
	if one.from("up://new") == "up" || one.from("ok://new") != "ok" {
		t.Error("who sees nothing of an upstream reads its resources")
	}
}

// C33: no read returns the content of another upstream in silence, whoever
// starts first.
func TestC33_TheSameURIOfTwoUpstreamsStaysTwoResources(t *testing.T) {
	t.Parallel()
	const info = `{"uri":"demo://info","name":"info"}`
	var lists [][]string
	for _, slow := range []string{"a", "b"} {
		h := newHome(t)
		fast := map[string]string{"a": "b", "b": "a"}[slow]
		tables := []string{h.upstream("ok")}
		for _, key := range []string{"a", "b"} {
			h.offer(key, "resources", info, fmt.Sprintf(`{"uri":"demo://%s","name":"own"}`, key))
			h.offer(key, "templates", `{"uriTemplate":"demo://t/{x}","name":"t"}`)
			if key == slow {
				tables = append(tables, h.offering(key, "-start-gate", h.path("gate")))
			} else {
				tables = append(tables, h.offering(key))
			}
		}
		h.configure(append([]string{quick}, tables...)...)
		d := h.start()
		a := d.connected()
		eventually(t, "the quick one is there", func() bool { return len(a.resources()) == 2 })
		if got := a.from("demo://info"); got != fast {
			t.Errorf("the only one there is was read from %q", got)
		}
		before := a.count(resourcesChanged)
		h.write("gate", "")
		a.awaitCount(resourcesChanged, before+1)
		lists = append(lists, a.resources())
		for uri, from := range map[string]string{
			"demo://info#harness.upstream=a": "a", "demo://info#harness.upstream=b": "b",
			"demo://a": "a", "demo://b": "b",
			"demo://t/1#harness.upstream=a": "a", "demo://t/1#harness.upstream=b": "b",
			"demo://info": "", "demo://t/1": "", // an error, and not a guess
		} {
			if got := a.from(uri); got != from {
				t.Errorf("%s came from %q, not %q", uri, got, from)
			}
		}
		refusedWith(t, a.ask("resources/read", rawf(`{"uri":"demo://info"}`)), -32002, "#harness.upstream=a")
		_, params := relayed(t, a.ask("resources/read", rawf(`{"uri":"demo://info#harness.upstream=b"}`)))
		if params != `{"uri":"demo://info"}` {
			t.Errorf("it was asked for %s", params)
		}
		// Updates are told apart too, and come with the URI that was asked for.
		a.ask("resources/subscribe", rawf(`{"uri":"demo://info#harness.upstream=a"}`))
		a.must("b__update", map[string]any{"uri": "demo://info"})
		a.must("a__update", map[string]any{"uri": "demo://info"})
		a.awaitCount(resourceUpdated, 1)
		if got := string(a.notes(resourceUpdated)[0].Params); a.count(resourceUpdated) != 1 || got != `{"uri":"demo://info#harness.upstream=a","_meta":{"n":1.0}}` {
			t.Errorf("%d updates, %s", a.count(resourceUpdated), got)
		}
		// After a restart of the daemon, with the slow one slow again.
		d.stop()
		h.remove("gate")
		h.start()
		eventually(t, "the same list", func() bool { return slices.Equal(a.resources(), lists[0]) })
		if got := a.from("demo://info"); got != "" {
			t.Errorf("while one is down it was read from %q", got)
		}
		h.write("gate", "")
		a.eventuallyCalls(slow+"__echo", map[string]any{"text": "x"})
		a.well("ok")
	}
	if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
		t.Errorf("the start order matters:\n%s", diff)
	}
}

// subscribed are the URIs that the newest process of an upstream is subscribed
// to, as its record has it, as often as each was asked for.
func (h *home) subscribed(key string) (all []string) {
	h.t.Helper()
	entries := h.record(key)
	for _, e := range entries {
		var m struct {
			Method string
			Params struct{ URI string }
		}
		if e.What != fakeup.Received || e.PID != entries[len(entries)-1].PID || json.Unmarshal([]byte(e.Text), &m) != nil {
			continue
		}
		switch m.Method {
		case "resources/subscribe":
			all = append(all, m.Params.URI)
		case "resources/unsubscribe":
			all = slices.DeleteFunc(all, func(uri string) bool { return uri == m.Params.URI })
		}
	}
	slices.Sort(all)
	return all
}

// awaitSubscribed waits for subscriptions at the upstream "up". Those who subscribe at the same
// moment may each have been passed on, so it does not count them.
func (h *home) awaitSubscribed(want []string) {
	h.t.Helper()
	var got []string
	defer func() {
		if h.t.Failed() {
			h.t.Logf("up is subscribed to %v, want %v", got, want)
		}
	}()
	eventually(h.t, "the subscriptions of up", func() bool {
		got = h.subscribed("up")
		return slices.Equal(want, slices.Compact(slices.Clone(got)))
	})
}

// An upstream is asked once, however many subscribe, for as long as somebody
// is; those who did hear of updates, and nobody else (MCP-4).
func TestSubscriptions_AreCountedAndRestored(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.offer("up", "resources", `{"uri":"up://a","name":"a"}`, `{"uri":"up://b","name":"b"}`)
	d := h.run(h.offering("up"), h.upstream("ok"))
	one, two, other := d.connected(), d.connected(), d.connected()
	subscription := func(a *agent, method, uri string) {
		t.Helper()
		if m := a.ask("resources/"+method, rawf(`{"uri":%q}`, uri)); m.Error != nil || string(m.Result) != "{}" {
			t.Errorf("%s: %s", method, m.raw)
		}
	}
	expected := map[*agent]int{one: 0, two: 0, other: 0}
	// updates has the upstream tell, and checks who hears; other is the last
	// that would, since it is the one that calls.
	updates := func(uri string, hearers ...*agent) {
		t.Helper()
		other.eventuallyCalls("up__update", map[string]any{"uri": uri})
		for _, a := range hearers {
			expected[a]++
			a.awaitCount(resourceUpdated, expected[a])
		}
		for a, n := range expected {
			a.ask("ping", nil)
			if got := a.count(resourceUpdated); got != n {
				t.Errorf("%s: %d updates, not %d", uri, got, n)
			}
		}
	}
	updates("up://a")
	subscription(one, "subscribe", "up://a")
	subscription(two, "subscribe", "up://a")
	subscription(two, "subscribe", "up://b")
	subscription(two, "subscribe", "up://b") // again
	updates("up://a", one, two)
	updates("up://b", two)
	updates("up://c")
	if got := h.subscribed("up"); len(got) != 2 {
		t.Errorf("it was asked for %v", got)
	}
	h.awaitSubscribed([]string{"up://a", "up://b"})

	other.call("up__die", nil)
	other.eventuallyCalls("up__pid", nil)
	h.awaitSubscribed([]string{"up://a", "up://b"})
	updates("up://a", one, two)

	swaps := func(n int) {
		t.Helper()
		before := other.must("up__pid", nil)
		h.edit(set(h.offering("up"), "env", fmt.Sprintf("{ N = \"%d\" }", n)), h.upstream("ok"))
		eventually(t, "it is swapped", func() bool { return other.eventuallyCalls("up__pid", nil) != before })
	}
	swaps(1)
	h.awaitSubscribed([]string{"up://a", "up://b"})
	updates("up://a", one, two)

	// The bridges bring them to another daemon.
	d.kill()
	h.start()
	for a := range expected {
		a.eventuallyCalls("up__pid", nil)
	}
	updates("up://a", one, two)
	updates("up://b", two)

	subscription(one, "unsubscribe", "up://a")
	updates("up://a", two)
	h.awaitSubscribed([]string{"up://a", "up://b"})
	subscription(two, "unsubscribe", "up://b")
	h.awaitSubscribed([]string{"up://a"})
	delete(expected, two)
	two.vanish()
	h.awaitSubscribed(nil)
	updates("up://a")
	swaps(2)
	other.must("up__pid", nil)
	h.awaitSubscribed(nil)
	other.well("ok")
}

// levelOf is the level that the newest process of an upstream was given last.
func (h *home) levelOf(key string) (level string) {
	h.t.Helper()
	entries := h.record(key)
	for _, e := range entries {
		var m struct {
			Method string
			Params struct{ Level string }
		}
		if e.PID == entries[len(entries)-1].PID && json.Unmarshal([]byte(e.Text), &m) == nil && m.Method == "logging/setLevel" {
			level = m.Params.Level
		}
	}
	return level
}

// An upstream logs as much as the session that wants most; each session gets
// as much as it wants, of the upstreams that it sees (MCP-4).
func TestLogging_EachSessionGetsWhatItAskedFor(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.offering("up"), h.upstream("ok"), harnessTable("blind", h.lender(), "enabled = true\nmcp = [\"ok\"]"))
	grave, wordy, plain, blind := d.connected(), d.connected(), d.connected(), h.as("blind")
	levels := func(a *agent, level string) {
		t.Helper()
		if m := a.ask("logging/setLevel", rawf(`{"level":%q}`, level)); m.Error != nil || string(m.Result) != "{}" {
			t.Errorf("setLevel: %s", m.raw)
		}
	}
	awaitLevel := func(want string) {
		t.Helper()
		eventually(t, "the upstream logs from "+want, func() bool { return h.levelOf("up") == want })
	}
	levels(grave, "error")
	awaitLevel("error")
	levels(wordy, "debug")
	levels(blind, "debug")
	awaitLevel("debug")
	expected := map[*agent]int{grave: 0, wordy: 0, plain: 0, blind: 0}
	says := func(level string, hearers ...*agent) {
		t.Helper()
		plain.must("up__message", map[string]any{"level": level, "text": "it's \"" + level + "\""})
		for _, a := range hearers {
			expected[a]++
			a.awaitCount(logMessage, expected[a])
			want := fmt.Sprintf(`{"level":%q,"logger":"fake","data":{"text":"it's \"%s\"","n":1.0}}`, level, level)
			if got := string(a.notes(logMessage)[expected[a]-1].Params); got != want {
				t.Errorf("got %s", got)
			}
		}
		for a, n := range expected {
			a.ask("ping", nil)
			if got := a.count(logMessage); got != n {
				t.Errorf("%s: %d messages, not %d", level, got, n)
			}
		}
	}
	says("debug", wordy)
	says("info", wordy, plain)
	says("warning", wordy, plain)
	says("error", wordy, plain, grave)
	says("emergency", wordy, plain, grave)
	levels(wordy, "alert")
	says("error", plain, grave)
	refusedWith(t, plain.ask("logging/setLevel", rawf(`{"level":"loud"}`)), -32602, "level")

	// It is said again to the next process, and to the next daemon.
	plain.call("up__die", nil)
	plain.eventuallyCalls("up__pid", nil)
	awaitLevel("debug") // blind's
	delete(expected, blind)
	blind.vanish()
	awaitLevel("error")
	d.kill()
	h.start()
	for a := range expected {
		a.eventuallyCalls("up__pid", nil)
	}
	awaitLevel("error")
	says("error", plain, grave)
	says("alert", plain, grave, wordy)
	plain.well("ok")
}
