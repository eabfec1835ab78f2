package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	tools int // how many it offers to a client without capabilities; 0: some
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
		name: "server-everything", cmd: filepath.Join(npm, "mcp-server-everything"), tools: 16,
		calls: []toolCall{{"echo", `{"message":"9007199254740993 \u2028"}`}, {"get-sum", `{"a":2,"b":3}`}, {"get-tiny-image", `{}`}},
	}, server{
		name: "server-filesystem", cmd: filepath.Join(npm, "mcp-server-filesystem"), args: []string{files}, tools: 14,
		calls: []toolCall{{"read_text_file", fmt.Sprintf(`{"path":%q}`, files+"/note.txt")}, {"list_directory", fmt.Sprintf(`{"path":%q}`, files)}},
	}, server{
		name: "server-memory", cmd: filepath.Join(npm, "mcp-server-memory"), tools: 9,
		calls: []toolCall{{"read_graph", `{}`}, {"search_nodes", `{"query":"x"}`}},
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
	direct.ask("initialize", rawf(`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{}},"clientInfo":{"name":"harness","version":"1"}}`)) // as a shared one is told
	direct.initialized()

	want := toolsByName(direct, "")
	if s.tools != 0 && len(want) != s.tools || len(want) == 0 {
		t.Errorf("the server itself has %d tools, not %d", len(want), s.tools)
	}
	eventually(t, "all tools", func() bool { return len(toolsByName(a, "up__")) == len(want) })
	if d := cmp.Diff(want, toolsByName(a, "up__")); d != "" {
		t.Errorf("tools:\n%s", d)
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
