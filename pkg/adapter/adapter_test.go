package adapter

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// launch is the spawn of the tests, in a world of those files.
func launch(env map[string]string, files map[string]string) Launch {
	return Launch{
		Name: "shop/rev", Env: env, Workdir: "/repo", Dir: "/state/agents",
		Bridge: []string{"/opt/harness", "mcp", "--socket", "/run/h.sock"},
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
		RootOnly: func(path string) bool { return strings.HasPrefix(path, "/etc/") || strings.HasPrefix(path, "/state/") },
	}
}

func TestFind_KnowsACommandByItsBaseName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		setting, argv, want string
		at                  int
	}{
		{Auto, "claude", "claude-code", 0},
		{Auto, "/usr/local/bin/claude -p hi", "claude-code", 0},
		{Auto, "claude.exe", "claude-code", 0},
		{Auto, "codex exec", "codex", 0},
		{Auto, "opencode", "opencode", 0},
		{Auto, "gemini", "gemini", 0},
		{Auto, "claude-wrapper", Generic, 0},
		{Auto, "bash -c claude", Generic, 0},
		{Auto, "vim claude", Generic, 0},
		{Auto, "node /n/node_modules/.bin/gemini -p hi", "gemini", 1},
		{Auto, "node --max-old-space-size=99 -r ./x.js /n/codex.js exec", "codex", 4},
		{Auto, "node /n/node_modules/@anthropic-ai/claude-code/cli.js", "claude-code", 1},
		{Auto, "node server.js claude", Generic, 0},
		{Auto, "node", Generic, 0},
		{Auto, "npx -y @openai/codex@0.171.0 exec", "codex", 2},
		{Auto, "npx -p opencode-ai -- opencode run", "opencode", 4},
		{Auto, "bunx opencode-ai", "opencode", 1},
		{Auto, "bun x @google/gemini-cli", "gemini", 2},
		{Generic, "claude", Generic, 0},
		{"claude-code", "cc -p", "claude-code", 0},
		{"codex", "env A=1 codex exec", "codex", 2},
		{"codex", "node wrap.js exec", "codex", 1},
		{"codex", "bash run.sh", "codex", 1},
		{"claude-code", "sh -c exec$IFS$0\"$@\" claude -p", "claude-code", 3},
		{"claude-code", "sh -c x\"$@\" y -p", "claude-code", 4},
		{"claude-code", "sh -c cc", "claude-code", nowhere},
		{"codex", "claude", "codex", 0},
	} {
		argv := strings.Fields(tc.argv)
		a := Find(tc.setting, argv[0], argv[1:])
		if a.Name() != tc.want || a.at != tc.at {
			t.Errorf("%s, %s: %s at %d, want %s at %d", tc.setting, tc.argv, a.Name(), a.at, tc.want, tc.at)
		}
	}
}

// wireCase is a user's command, variables and files.
type wireCase struct {
	name  string
	args  []string
	env   map[string]string
	files map[string]string
}

func TestWire_AddsAndLeavesTheUsersAlone(t *testing.T) {
	t.Parallel()
	for cmd, cases := range map[string][]wireCase{
		"claude": {
			{name: "nothing else"},
			{name: "a prompt", args: []string{"fix it", "-p"}},
			{name: "a subcommand", args: []string{"mcp", "list"}},
			{name: "words behind --", args: []string{"-p", "--", "--mcp-config"}},
			{
				name: "servers and tools of its own", args: []string{"--mcp-config", "a.json", `{"mcpServers":{"b":{}}}`, "--allowedTools", "Bash,Edit", "--strict-mcp-config"},
				files: map[string]string{"/repo/a.json": `{"mcpServers":{"a":{"command":"a"}}}`},
			},
			{name: "a server of our name", args: []string{"--mcp-config", "a.json", ` {"mcpServers":{"harness":{}}}`}},
			{
				name: "a server of our name in a file", args: []string{"--mcp-config=sub/a.json"},
				files: map[string]string{"/repo/sub/a.json": `{"mcpServers":{"harness":{}}}`},
			},
			{name: "a broken config", args: []string{"--mcp-config", "{", "--mcp-config"}},
		},
		"codex": {
			{name: "nothing else"},
			{name: "a subcommand", args: []string{"exec", "-m", "x", "-", "--", "-c", "mcp_servers={}"}},
			{name: "a server of its own", args: []string{"-c", "mcp_servers.mine.command=x", "exec"}},
			{name: "all servers replaced", args: []string{"exec", `--config=mcp_servers={mine={command="harness",args=["harness=1"]}}`, "hi"}},
			{name: "all servers replaced, twice", args: []string{"-cmcp_servers={a={}}", "exec", "-c", "mcp_servers = {b={}}", "hi"}},
			{name: "ours tuned", args: []string{"-c=mcp_servers.harness.startup_timeout_sec=60"}},
			{name: "a server of our name", args: []string{"-c", "mcp_servers.harness={url=\"x\"}"}},
			{name: "a server of our name by its command", args: []string{"--config", "mcp_servers.harness.command=x"}},
			{name: "a server of our name among all", args: []string{"-c", `mcp_servers={mine={command="a=b"}, "harness" = {}}`}},
			{name: "a flag without its value", args: []string{"exec", "-c"}},
		},
		"opencode": {
			{name: "nothing else"},
			{name: "an empty variable", args: []string{"run", "hi"}, env: map[string]string{"OPENCODE_CONFIG_CONTENT": ""}},
			{name: "settings of its own", env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"model":"<a&b>","n":1.0}`}},
			{name: "servers of its own", env: map[string]string{"OPENCODE_CONFIG_CONTENT": "{ // mine\n\"mcp\" : /* {} */ {\"a\":{\"x\":\"//\",},},}"}},
			{name: "no servers", env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"mcp":{ }}`}},
			{name: "servers given twice", env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"mcp":{"harness":{}},"mcp":{"b":{}}}`}},
			{name: "a server of our name", env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"mcp":{"harness":{"enabled":false}}}`}},
			{name: "servers that are none", env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"mcp":null}`}},
			{name: "broken settings", env: map[string]string{"OPENCODE_CONFIG_CONTENT": `{"secret":`}},
		},
		"gemini": {
			{name: "nothing else"},
			{name: "settings of the system", files: map[string]string{geminiSettings: "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}} // end\n"}},
			{
				name: "settings of its own", env: map[string]string{geminiVariable: "sub/s.json", geminiDefaults: "/d.json"},
				files: map[string]string{"/repo/sub/s.json": `{"general":{"x":1e2}}`, geminiSettings: "not read"},
			},
			{name: "settings that are missing", env: map[string]string{geminiVariable: "/s.json"}},
			{name: "settings that are broken", env: map[string]string{geminiVariable: "/s.json"}, files: map[string]string{"/s.json": "{"}},
			{name: "a server of our name", files: map[string]string{geminiSettings: `{"mcpServers":{"harness":{}}}`}},
			{name: "allowed servers", files: map[string]string{geminiSettings: `{"mcp":{"allowed":["a"]}}`}},
			{name: "no allowed servers", files: map[string]string{geminiSettings: `{"mcp":{"allowed":[]}}`}},
			{name: "allowed with the others", files: map[string]string{geminiSettings: `{"mcp":{"allowed":["harness"]}}`}},
			{name: "a server of our name in the user's settings", env: map[string]string{"HOME": "/home/u"}, files: map[string]string{"/home/u/.gemini/settings.json": `{"mcpServers":{"harness":{}}}`}},
			{name: "allowed by flag", args: []string{"--allowed-mcp-server-names", "a", "--allowed-mcp-server-names=b,c", "hi"}},
			{name: "allowed by flag with the others", args: []string{"-p", "hi", "--allowedMcpServerNames=a,harness"}},
		},
		"other": {
			{name: "nothing else"},
			{name: "anything", args: []string{"--mcp-config", "x"}},
		},
	} {
		var b strings.Builder
		for _, tc := range cases {
			a := Find(Auto, cmd, tc.args)
			before := slices.Clone(tc.args)
			w := a.Wire(launch(tc.env, tc.files))
			if !slices.Equal(before, tc.args) {
				t.Errorf("%s, %s: the definition was changed", cmd, tc.name)
			}
			checkAdditive(t, cmd+", "+tc.name, tc.args, w)
			fmt.Fprintf(&b, "== %s\n%s", tc.name, show(tc, w))
		}
		golden(t, filepath.Join("testdata", cmd+".golden"), b.String())
	}
}

// checkAdditive demands that the user's arguments are all there, in order, and
// that what is not wired is not touched.
func checkAdditive(t *testing.T, name string, args []string, w Wiring) {
	t.Helper()
	rest := w.Args
	for _, arg := range args {
		i := slices.Index(rest, arg)
		if i < 0 {
			t.Errorf("%s: the argument %q is lost or moved", name, arg)
			return
		}
		rest = rest[i+1:]
	}
	if !w.Wired && (len(w.Args) != len(args) || w.Env != nil || w.Files != nil || w.Paste == "" || w.Into == "") || w.Wired && w.Paste != "" || w.How == "" {
		t.Errorf("%s: %+v", name, w)
	}
}

func show(tc wireCase, w Wiring) string {
	var b strings.Builder
	for _, arg := range tc.args {
		fmt.Fprintf(&b, "given   %s\n", arg)
	}
	for _, name := range []string{"OPENCODE_CONFIG_CONTENT", geminiVariable, geminiDefaults} {
		if value, ok := tc.env[name]; ok {
			fmt.Fprintf(&b, "given   %s=%s\n", name, value)
		}
	}
	for _, arg := range w.Args {
		fmt.Fprintf(&b, "arg     %s\n", arg)
	}
	for _, v := range w.Env {
		fmt.Fprintf(&b, "env     %s\n", v)
	}
	for _, f := range w.Files {
		fmt.Fprintf(&b, "file    %s: %s\n", f.Name, strings.TrimSuffix(string(f.Data), "\n"))
	}
	fmt.Fprintf(&b, "how     %s\n", w.How)
	if w.Paste != "" {
		fmt.Fprintf(&b, "paste   %s\ninto    %s\n", strings.TrimSuffix(w.Paste, "\n"), w.Into)
	}
	return b.String() + "\n"
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestWire_SaysWhyNot(t *testing.T) {
	t.Parallel()
	odd := launch(nil, nil)
	for _, tc := range []struct {
		cmd, word, want string
	}{
		{"claude", "/a ${HOME}/h", "${"},
		{"gemini", "/a $HOME/h", "$"},
		{"opencode", "/a {env:HOME}", "{env:"},
		{"opencode", "/a {file:x}", "{file:"},
		{"codex", "/a \xff", "UTF-8"},
	} {
		odd.Bridge = []string{tc.word, "mcp"}
		w := Find(Auto, tc.cmd, nil).Wire(odd)
		if w.Wired || !strings.Contains(w.How, tc.want) {
			t.Errorf("%s at %q: %+v", tc.cmd, tc.word, w)
		}
	}
	// A directory of a user's is not good enough for the latest version.
	system := map[string]string{geminiSettings: "{}", "/home/u/s.json": "{}"}
	for path, wired := range map[string]bool{"": false, "/home/u/s.json": true, "/none": true} {
		users := launch(map[string]string{geminiVariable: path}, system)
		users.Dir = "/home/u/state"
		if w := Find(Auto, "gemini", nil).Wire(users); w.Wired != wired || !strings.Contains(w.How, "root alone") || w.Paste == "" || w.Into == "" {
			t.Errorf("with settings in %q: %+v", path, w)
		}
	}
	unreadable := launch(nil, nil)
	unreadable.ReadFile = func(string) ([]byte, error) { return nil, errors.New("permission denied") }
	if w := Find(Auto, "gemini", nil).Wire(unreadable); w.Wired || !strings.Contains(w.How, "permission denied") {
		t.Errorf("unreadable settings: %+v", w)
	}
	for _, setting := range []string{"claude-code", "codex"} {
		if w := Find(setting, "sh", []string{"-c", "exec cc"}).Wire(launch(nil, nil)); w.Wired || !strings.Contains(w.How, "$@") {
			t.Errorf("a script without arguments: %+v", w)
		}
	}
	if w := Find("opencode", "sh", []string{"-c", "exec oc"}).Wire(launch(nil, nil)); !w.Wired {
		t.Errorf("a script needs no arguments where there is a variable: %+v", w)
	}
}

// Whatever the bridge's path, each CLI reads the words that were meant.
func TestWire_EscapesAnyPath(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := launch(nil, nil)
		word := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune(" '\"\\=,[]{}#\t\n\x7f\x01é\u2028<&")), rapid.Rune()))
		l.Bridge = rapid.SliceOfN(word, 1, 4).Draw(t, "bridge")
		for _, c := range clis() {
			w := Find(Auto, c.program, nil).Wire(l)
			if !w.Wired {
				if !strings.Contains(w.How, "expand") {
					t.Fatalf("%s: %s", c.name, w.How)
				}
				continue
			}
			if diff := cmp.Diff(l.Bridge, meant(t, c.name, w)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

// meant reads the command of the bridge out of a wiring, as the CLI does.
func meant(t *rapid.T, name string, w Wiring) []string {
	type entry struct {
		Command any
		Args    []string
	}
	var doc struct {
		MCPServers map[string]entry `json:"mcpServers" toml:"mcp_servers"`
		MCP        map[string]entry
	}
	var err error
	switch name {
	case "codex":
		err = toml.Unmarshal([]byte(w.Args[1]), &doc)
	case "opencode":
		_, text, _ := strings.Cut(w.Env[0], "=")
		err = json.Unmarshal([]byte(text), &doc)
	default:
		err = json.Unmarshal(w.Files[0].Data, &doc)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var words []string
	e, ok := doc.MCPServers[server]
	if !ok {
		e = doc.MCP[server]
	}
	switch command := e.Command.(type) {
	case string:
		words = append([]string{command}, e.Args...)
	case []any:
		for _, word := range command {
			words = append(words, word.(string))
		}
	}
	return words
}

// What a merge accepts it changes in nothing but the one member.
func FuzzPut(f *testing.F) {
	for _, seed := range []string{
		"{}", `{"mcp":{}}`, `{"mcp":{"a":1,},}`, "{//\n}", `{"a":"/*","mcp":{"b":{"c":[1,]}}/**/}`, `{"mcp":[]}`, `{"\u006dcp":{}}`, `{"/*`, `[,]`, `{"a":"\`, `/*/`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parse(text)
		if len(d.plain) != len(text) {
			t.Fatalf("%q became %q", text, d.plain)
		}
		if err != nil {
			return
		}
		got, err := d.put(`{"x":1}`, "mcp", server)
		if err != nil {
			return
		}
		after, err := parse(got)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		m, ok := after.find("mcp", server)
		if !ok || string(after.plain[m.start:m.end]) != `{"x":1}` {
			t.Fatalf("%q became %q", text, got)
		}
		var was, is map[string]any
		if json.Unmarshal(d.plain, &was) != nil || json.Unmarshal(after.plain, &is) != nil {
			return // numbers that Go cannot hold: nothing to compare
		}
		servers := is["mcp"].(map[string]any)
		delete(servers, server)
		if _, had := was["mcp"]; !had && len(servers) == 0 {
			delete(is, "mcp")
		}
		if diff := cmp.Diff(was, is); diff != "" {
			t.Fatalf("%q became %q:\n%s", text, got, diff)
		}
	})
}

func FuzzTableKeys(f *testing.F) {
	f.Add(`{a={b=1},"harness"={},c.d=[{e=1}]}`)
	f.Add(`{'`)
	f.Add(`{"\`)
	f.Fuzz(func(t *testing.T, text string) {
		keys := tableKeys(text)
		var doc struct{ T map[string]any }
		if toml.Unmarshal([]byte("T="+text), &doc) != nil || strings.ContainsAny(text, `\#`) || strings.Contains(text, `"""`) || strings.Contains(text, "'''") {
			return
		}
		for key := range doc.T {
			if !slices.Contains(keys, key) {
				t.Errorf("%q has %q, not only %q", text, key, keys)
			}
		}
	})
}
