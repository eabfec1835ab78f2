package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// server is a real MCP server and what is asked of it.
type server struct {
	name  string
	cmd   string
	args  []string
	tools int // how many it offers to a client that can be asked what harness can; 0: some
	calls []toolCall
}

type toolCall struct{ tool, args string }

// servers are the real servers this machine has: the Go one always, those of
// npm when HARNESS_NPM_SERVERS says where they are, which .ci/run does.
func servers(t *testing.T, h *home) []server {
	t.Helper()
	path, err := goEverything()
	if err != nil {
		t.Fatal(err)
	}
	all := []server{{
		name: "go-everything-server", cmd: path,
		calls: []toolCall{
			{"test_simple_text", `{}`},
			{"test_image_content", `{}`},
			{"test_audio_content", `{}`},
			{"test_embedded_resource", `{}`},
			{"test_multiple_content_types", `{}`},
		},
	}}
	npm := os.Getenv("HARNESS_NPM_SERVERS")
	if npm == "" {
		return all
	}
	files := h.path("files")
	h.write("files/note.txt", "noted\n")
	return append(all, server{
		name: "server-everything", cmd: filepath.Join(npm, "mcp-server-everything"), tools: 15,
		calls: []toolCall{{"echo", `{"message":"9007199254740993 \u2028"}`}, {"get-sum", `{"a":2,"b":3}`}, {"get-tiny-image", `{}`}},
	}, server{
		name: "server-filesystem", cmd: filepath.Join(npm, "mcp-server-filesystem"), args: []string{files}, tools: 14,
		calls: []toolCall{{"read_text_file", fmt.Sprintf(`{"path":%q}`, files+"/note.txt")}, {"list_directory", fmt.Sprintf(`{"path":%q}`, files)}},
	}, server{
		name: "server-memory", cmd: filepath.Join(npm, "mcp-server-memory"), tools: 9,
		calls: []toolCall{{"read_graph", `{}`}, {"search_nodes", `{"query":"x"}`}},
	}, server{
		name: "server-sequential-thinking", cmd: filepath.Join(npm, "mcp-server-sequential-thinking"), tools: 1,
		calls: []toolCall{{"sequentialthinking", `{"thought":"\u2028 ü","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`}},
	})
}

// goEverything builds the conformance server of the Go SDK, once. The module
// proxy is all it needs.
var goEverything = sync.OnceValues(func() (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "install", "github.com/modelcontextprotocol/go-sdk/conformance/everything-server@v1.8.0")
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install everything-server: %w\n%s", err, out)
	}
	return filepath.Join(dir, "everything-server"), nil
})

func TestServers_AnswerThroughHarnessAsTheyDoDirectly(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, s := range servers(t, h) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			sameAsDirect(t, h, s)
		})
	}
}

// sameAsDirect compares what an agent gets through harness with what it gets
// from the server itself, byte for byte.
func sameAsDirect(t *testing.T, h *home, s server) {
	t.Helper()
	d := h.run(h.table("up", s.cmd, s.args), h.upstream("ok"))
	d.awaitState("up", "running")
	a := d.connected()
	a.well("ok")

	direct := h.client(s.cmd, s.args...)
	direct.bySignal = true
	direct.greetWith(sharedCapabilities)

	want := toolsByName(direct, "")
	if s.tools != 0 && len(want) != s.tools || len(want) == 0 {
		t.Errorf("the server itself has %d tools, not %d", len(want), s.tools)
	}
	eventually(t, "all tools", func() bool { return len(toolsByName(a, "up__")) == len(want) })
	if d := cmp.Diff(want, toolsByName(a, "up__")); d != "" {
		t.Errorf("tools:\n%s", d)
	}
	for _, l := range otherLists() {
		sameList(t, a, direct, l)
	}
	for _, c := range s.calls {
		call := func(a *agent, prefix string) message {
			return a.begin("tools/call", rawf(`{"name":%q,"arguments":%s}`, prefix+c.tool, c.args)).wait()
		}
		want, got := call(direct, ""), call(a, "up__")
		if !bytes.Equal(want.Result, got.Result) || got.Error != nil {
			t.Errorf("%s:\n%s\nnot\n%s", c.tool, got.raw, want.raw)
		}
	}
	a.well("ok")
}

// sharedCapabilities are what a shared upstream is told that it may ask.
const sharedCapabilities = `{"elicitation":{"form":{}},"sampling":{}}`

// itemList is a list that a server may have beside its tools, and how what is
// in it is asked for.
type itemList struct {
	method, member string
	key            string // names an item
	prefixed       bool   // harness puts the upstream's key before the name
	get, arg       string // "" for what cannot be asked for as it is
}

func otherLists() []itemList {
	return []itemList{
		{"prompts/list", "prompts", "name", true, "prompts/get", "name"},
		{"resources/list", "resources", "uri", false, "resources/read", "uri"},
		{"resources/templates/list", "resourceTemplates", "uriTemplate", false, "", ""},
	}
}

// sameList compares a list, and what its first items are when they are asked
// for without arguments. A server that has no such list is one with an empty one.
func sameList(t *testing.T, a, direct *agent, l itemList) {
	t.Helper()
	prefix := ""
	if l.prefixed {
		prefix = "up__"
	}
	want := itemsByName(direct, l, "")
	if d := cmp.Diff(want, itemsByName(a, l, prefix)); d != "" {
		t.Errorf("%s:\n%s", l.method, d)
	}
	if l.get == "" {
		return
	}
	for i, name := range slices.Sorted(maps.Keys(want)) {
		if i == 5 {
			break
		}
		if strings.Contains(name, "input_required") {
			continue // asks its client something first
		}
		get := func(a *agent, prefix string) message {
			return a.ask(l.get, map[string]any{l.arg: prefix + name})
		}
		want, got := get(direct, ""), get(a, prefix)
		if want.Error != nil { // it needs an argument, and says so in its own words
			if got.Error == nil || got.Error.Code != want.Error.Code || got.Error.Message != "upstream up: "+want.Error.Message || !bytes.Equal(got.Error.Data, want.Error.Data) {
				t.Errorf("%s %s:\n%s\nnot\n%s", l.get, name, got.raw, want.raw)
			}
		} else if !bytes.Equal(want.Result, got.Result) {
			t.Errorf("%s %s:\n%s\nnot\n%s", l.get, name, got.raw, want.raw)
		}
	}
}

// itemsByName are the entries of a list under a prefix, each as the server
// spelled it, over all pages.
func itemsByName(a *agent, l itemList, prefix string) map[string]string {
	a.t.Helper()
	all := map[string]string{}
	for cursor := any(nil); ; {
		params := map[string]any{}
		if cursor != nil {
			params["cursor"] = cursor
		}
		m := a.ask(l.method, params)
		if m.Error != nil {
			return all
		}
		var page map[string]json.RawMessage
		var items []json.RawMessage
		if json.Unmarshal(m.Result, &page) != nil || json.Unmarshal(page[l.member], &items) != nil {
			a.t.Fatalf("%s: %.500s", l.method, m.raw)
		}
		for _, raw := range items {
			var fields map[string]json.RawMessage
			var name string
			if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(fields[l.key], &name) != nil {
				a.t.Fatalf("%s has %s", l.method, raw)
			}
			if strings.HasPrefix(name, "harness://") {
				continue // the endpoint's own
			}
			if own, ok := strings.CutPrefix(name, prefix); ok {
				all[own] = string(bytes.Replace(raw, []byte(`"`+name+`"`), []byte(`"`+own+`"`), 1))
			}
		}
		next, more := page["nextCursor"]
		if !more {
			return all
		}
		cursor = next
	}
}

// toolsByName are the listed tools under a prefix, each as the server spelled
// it. The names that were rewritten are left as they are.
func toolsByName(a *agent, prefix string) map[string]string {
	a.t.Helper()
	all := map[string]string{}
	for _, tool := range a.tools() {
		if name, ok := strings.CutPrefix(tool.Name, prefix); ok {
			all[name] = string(bytes.Replace(tool.raw, []byte(`"`+tool.Name+`"`), []byte(`"`+name+`"`), 1))
		}
	}
	return all
}

func TestServers_ProgressAndErrorsOfARealOne(t *testing.T) {
	t.Parallel()
	path, err := goEverything()
	if err != nil {
		t.Fatal(err)
	}
	h := newHome(t)
	d := h.run(h.table("up", path, nil), h.upstream("ok"))
	a := d.connected()
	m := a.begin("tools/call", rawf(`{"name":"up__test_tool_with_progress","arguments":{},"_meta":{"progressToken":"mine"}}`)).wait()
	if r := resultOf(t, m); !r.ok() || a.count("notifications/progress") != 3 {
		t.Errorf("%d notifications, %s", a.count("notifications/progress"), r)
	}
	for _, n := range a.notes("notifications/progress") {
		if !strings.Contains(string(n.Params), `"progressToken":"mine"`) {
			t.Errorf("progress: %s", n.raw)
		}
	}
	if r := a.call("up__test_error_handling", nil); !r.IsError || r.code() != "" || r.Content[len(r.Content)-1].Text != "upstream up" {
		t.Errorf("an error of its own: %s", r)
	}
	// A request to the client ends, one way or the other.
	if m := a.beginCall("up__test_sampling", map[string]any{"prompt": "x"}).wait(); m.Error == nil && resultOf(t, m).ok() {
		t.Errorf("sampling without a sampler: %s", m.raw)
	}
	var prompts struct{ Prompts []json.RawMessage }
	if m := a.ask("prompts/list", nil); json.Unmarshal(m.Result, &prompts) != nil {
		t.Errorf("prompts/list: %s", m.raw)
	}
	a.well("ok")
}
