package adapter

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// world is a home at /home/u and a working directory in a repository.
func world(files map[string]string) World {
	vars := map[string]string{"SET": "value", "EMPTY": ""}
	files["/repo/.git/HEAD"] = "ref"
	return World{
		Home: "/home/u", Dir: "/repo/sub",
		Lookup: func(name string) (string, bool) { value, ok := vars[name]; return value, ok },
		ReadFile: func(path string) ([]byte, error) {
			switch text, ok := files[path]; {
			case text == "secret":
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
			case ok:
				return []byte(text), nil
			}
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		},
	}
}

// only is the one server that a CLI finds.
func only(t *testing.T, agent string, files map[string]string) OwnServer {
	t.Helper()
	own := ReadOwn(agent, world(files))
	if len(own.Faults) > 0 || len(own.Servers) != 1 {
		t.Fatalf("%s: faults %v, servers %v", agent, own.Faults, own.Servers)
	}
	return own.Servers[0]
}

func lit(text string) Text      { return Text{{text, false}} }
func variable(name string) Text { return Text{{name, true}} }

func TestReadOwn_KnowsHowEachCLISpellsAServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent, file, text string
		want              OwnServer
	}{
		{
			"claude", "/home/u/.claude.json", `{"x": 1, "mcpServers": {"a": {"type": "stdio", "command": "${SET}/x", "args": ["a${SET}b", "$SET", "${a.b}", "${UNSET}"], "env": {"T": "v", "N": 3, "B": true}, "timeout": 1500}}}`,
			OwnServer{
				Cmd: Text{{"SET", true}, {"/x", false}}, Args: []Text{{{"a", false}, {"SET", true}, {"b", false}}, lit("$SET"), lit("${a.b}"), variable("UNSET")},
				Env: map[string]Text{"T": lit("v"), "N": lit("3"), "B": lit("true")}, CallTimeout: 1500 * time.Millisecond,
			},
		},
		{
			"claude", "/repo/sub/.mcp.json", `{"mcpServers": {"a": {"command": "x", "args": ["${SET:-a}", "${UNSET:-b}", "${EMPTY:-c}"], "disabled": true, "timeout": 999}}}`,
			OwnServer{
				Cmd: lit("x"), Args: []Text{variable("SET"), lit("b"), variable("EMPTY")}, Project: true, Env: map[string]Text{},
				Notes: []string{
					"the default of ${SET:-…} is left out, since harness has none and the variable is set",
					"the default of ${UNSET:-…} takes its place, since harness has none and the variable is not set",
					"the default of ${EMPTY:-…} is left out, since harness has none and the variable is set",
				},
			},
		},
		{
			"claude", "/home/u/.claude.json", `{"projects": {"/repo": {"mcpServers": {"a": {"command": "x"}}, "disabledMcpServers": ["a"]}, "/other": {"mcpServers": {"b": {}}}}}`,
			OwnServer{Cmd: lit("x"), Project: true, Dir: "/repo", Env: map[string]Text{}},
		},
		{
			"codex", "/home/u/.codex/config.toml", "[mcp_servers.a]\ncommand = 'x'\nargs = ['${SET}']\nstartup_timeout_sec = 2.5\ntool_timeout_sec = 60\nenabled_tools = ['t']\ncwd = 'w'\nenabled = false\n[mcp_servers.a.env]\nT = '$SET'\n",
			OwnServer{
				Cmd: lit("x"), Args: []Text{lit("${SET}")}, Env: map[string]Text{"T": lit("$SET")}, Workdir: lit("w"),
				StartTimeout: 2500 * time.Millisecond, CallTimeout: time.Minute, Allow: []string{"t"},
			},
		},
		{
			"codex", "/home/u/.codex/config.toml", "[mcp_servers.a]\ncommand = 'x'\nstartup_timeout_ms = 10\ntool_timeout_sec = -1\nenabled = true\ndisabled_tools = ['t']",
			OwnServer{
				Cmd: lit("x"), Env: map[string]Text{}, StartTimeout: 10 * time.Millisecond, Deny: []string{"t"}, Enabled: true,
				Notes: []string{"tool_timeout_sec is left out: it is no time between 1ms and a year"},
			},
		},
		{
			"opencode", "/repo/opencode.jsonc", "{ // one\n\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"x\", \"{env:SET}/$SET\", \"{env:}\"], \"environment\": {\"T\": \"{env:SET}\"}, \"timeout\": 9000,},},}",
			OwnServer{
				Cmd: lit("x"), Args: []Text{{{"SET", true}, {"/$SET", false}}, lit("{env:}")}, Env: map[string]Text{"T": variable("SET")},
				StartTimeout: 9 * time.Second, Enabled: true, Project: true, Dir: "/repo",
			},
		},
		{
			"gemini", "/repo/sub/.gemini/settings.json", `{"mcpServers": {"a": {"command": "x", "args": ["$SET-$UNSET-${UNSET}", "${SET:-x}", "$1"], "includeTools": ["t(x)"], "excludeTools": ["u"], "timeout": 600000}}}`,
			OwnServer{
				Cmd: lit("x"), Args: []Text{{{"SET", true}, {"-$UNSET-", false}, {"UNSET", true}}, variable("SET"), lit("$1")}, Env: map[string]Text{},
				CallTimeout: 10 * time.Minute, Allow: []string{"t"}, Deny: []string{"u"}, Enabled: true, Project: true,
				Notes: []string{"the default of ${SET:-…} is left out, since harness has none and the variable is set"},
			},
		},
	} {
		got := only(t, tc.agent, map[string]string{tc.file: tc.text})
		tc.want.Agent, tc.want.File, tc.want.Name = tc.agent, tc.file, "a"
		if tc.want.Dir == "" {
			tc.want.Dir = "/repo/sub"
		}
		if tc.agent == "claude" && tc.want.CallTimeout > 0 {
			tc.want.Enabled = true
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", tc.agent, tc.file, diff)
		}
	}
}

func TestReadOwn_SaysWhyNobodyElseCanRunAServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ agent, entry, want string }{
		{"claude", `{"type": "http", "url": "https://canary"}`, "it is not on stdio but http, which harness does not run"},
		{"claude", `{"url": "https://canary"}`, "it is not on stdio but has a url, which harness does not run"},
		{"claude", `{"type": "sse"}`, "it is not on stdio but sse, which harness does not run"},
		{"claude", `{"args": ["canary"]}`, "it has no command"},
		{"claude", `{"command": ""}`, "it has no command"},
		{"claude", `"canary"`, "it is no table"},
		{"claude", `{"command": ["canary"]}`, "command is not a string"},
		{"claude", `{"command": "x", "args": "canary"}`, "args is not a list of strings"},
		{"claude", `{"command": "x", "args": [1]}`, "args is not a list of strings"},
		{"claude", `{"command": "x", "env": "canary"}`, "env is no table"},
		{"claude", `{"command": "x", "env": {"T": ["canary"]}}`, "env.T is not a string"},
		{"claude", `{"command": "x", "disabled": "canary"}`, "disabled is neither true nor false"},
		{"claude", `{"command": "x", "url": "canary", "type": "stdio"}`, ""},
		{"gemini", `{"httpUrl": "https://canary"}`, "it is not on stdio but has a httpUrl, which harness does not run"},
		{"gemini", `{"tcp": "canary"}`, "it is not on stdio but has a tcp, which harness does not run"},
	} {
		file := map[string]string{"claude": "/home/u/.claude.json", "gemini": "/home/u/.gemini/settings.json"}[tc.agent]
		if got := only(t, tc.agent, map[string]string{file: `{"mcpServers": {"a": ` + tc.entry + `}}`}); got.Why != tc.want {
			t.Errorf("%s, %s: %q, want %q", tc.agent, tc.entry, got.Why, tc.want)
		}
	}
	for entry, want := range map[string]string{
		`{"type": "remote", "url": "canary"}`:                                "it is not on stdio but remote, which harness does not run",
		`{"type": "local", "command": "canary"}`:                             "command is not a list of strings",
		`{"type": "local", "command": []}`:                                   "it has no command",
		`{"command": ["x"], "environment": {"T": "{file:/home/u/.canary}"}}`: "environment.T takes a text from a file ({file:…}), which harness.toml cannot",
	} {
		if got := only(t, "opencode", map[string]string{"/repo/opencode.json": `{"mcp": {"a": ` + entry + `}}`}); got.Why != want {
			t.Errorf("%s: %q, want %q", entry, got.Why, want)
		}
	}
	if got := only(t, "codex", map[string]string{"/home/u/.codex/config.toml": "[mcp_servers.a]\nurl = 'canary'"}); !strings.Contains(got.Why, "has a url") {
		t.Errorf("%q", got.Why)
	}
}

func TestReadOwn_PutsWhatCountsBehindWhatDoesNot(t *testing.T) {
	t.Parallel()
	entry := func(cmd string) string { return `{"mcpServers": {"a": {"command": "` + cmd + `"}}}` }
	own := ReadOwn("claude", world(map[string]string{
		"/home/u/.claude.json": `{"mcpServers": {"a": {"command": "user"}}, "projects": {"/repo": {"mcpServers": {"a": {"command": "local"}}}}}`,
		"/repo/.mcp.json":      entry("root"), "/repo/sub/.mcp.json": entry("here"), "/.mcp.json": entry("beyond"),
	}))
	var got []string
	for _, s := range own.Servers {
		got = append(got, s.Cmd[0].Text+" in "+s.Dir)
	}
	if diff := cmp.Diff([]string{"user in /repo/sub", "root in /repo", "here in /repo/sub", "local in /repo"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/home/u/.claude.json", "/repo/.mcp.json", "/repo/sub/.mcp.json"}, own.Files); diff != "" {
		t.Error(diff)
	}
}

func TestReadOwn_LaysTheSettingsOfOpencodeOverEachOther(t *testing.T) {
	t.Parallel()
	global := `{"mcp": {"a": {"type": "local", "command": ["x"], "environment": {"A": "1", "B": "2"}}}}`
	got := only(t, "opencode", map[string]string{"/home/u/.config/opencode/opencode.json": global, "/repo/opencode.json": `{"mcp": {"a": {"enabled": false, "environment": {"B": "3"}}}}`})
	want := OwnServer{
		Agent: "opencode", File: "/home/u/.config/opencode/opencode.json", Name: "a", Dir: "/repo/sub",
		Cmd: lit("x"), Args: []Text{}, Env: map[string]Text{"A": lit("1"), "B": lit("3")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = only(t, "opencode", map[string]string{"/home/u/.config/opencode/opencode.json": global, "/repo/opencode.json": `{"mcp": {"a": {"command": ["y"]}}}`})
	if got.File != "/repo/opencode.json" || got.Cmd[0].Text != "y" || !got.Project || len(got.Env) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestReadOwn_KnowsWhatIsSwitchedOffElsewhere(t *testing.T) {
	t.Parallel()
	shared := `{"mcpServers": {"a": {"command": "x"}}}`
	for _, tc := range []struct {
		name, agent string
		files       map[string]string
	}{
		{"of the repository, by the user", "claude", map[string]string{"/repo/.mcp.json": shared, "/home/u/.claude.json": `{"projects": {"/repo": {"disabledMcpjsonServers": ["a"]}}}`}},
		{"of the repository, by its settings", "claude", map[string]string{"/repo/.mcp.json": shared, "/repo/.claude/settings.local.json": `{"disabledMcpjsonServers": ["a"]}`}},
		{"excluded", "gemini", map[string]string{"/home/u/.gemini/settings.json": shared, "/repo/sub/.gemini/settings.json": `{"mcp": {"excluded": ["a"]}}`}},
		{"not allowed", "gemini", map[string]string{"/home/u/.gemini/settings.json": `{"mcpServers": {"a": {"command": "x"}}, "mcp": {"allowed": [{}, "b"]}}`}},
		{"switched off", "gemini", map[string]string{"/home/u/.gemini/settings.json": `{"mcpServers": {"A": {"command": "x"}}}`, "/home/u/.gemini/mcp-server-enablement.json": `{"a": {"enabled": false}}`}},
	} {
		if got := only(t, tc.agent, tc.files); got.Enabled {
			t.Errorf("%s: it is enabled", tc.name)
		}
	}
	if got := only(t, "claude", map[string]string{"/home/u/.claude.json": `{"mcpServers": {"a": {"command": "x"}}, "projects": {"/repo": {"disabledMcpServers": ["a"]}}}`}); !got.Enabled {
		t.Error("what is switched off in one directory is off everywhere")
	}
}

func TestReadOwn_LooksWhereVariablesSay(t *testing.T) {
	t.Parallel()
	for agent, variable := range map[string]string{"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "opencode": "XDG_CONFIG_HOME", "gemini": "GEMINI_CLI_HOME"} {
		w := world(map[string]string{})
		w.Lookup = func(name string) (string, bool) { return "../elsewhere", name == variable }
		if own := ReadOwn(agent, w); !strings.HasPrefix(own.Looked[0], "/repo/elsewhere/") {
			t.Errorf("%s: %v", agent, own.Looked)
		}
	}
}

func TestReadOwn_SaysWhereAFileIsBroken(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		agent, file, text string
		want              OwnFault
	}{
		{"claude", "/home/u/.claude.json", "{\n\"mcpServers\": {\n\"a\": canary}}", OwnFault{"", 3, "not valid JSON"}},
		{"claude", "/home/u/.claude.json", "[]", OwnFault{"", 0, "no JSON object"}},
		{"claude", "/home/u/.claude.json", `{"mcpServers": "canary"}`, OwnFault{"", 0, "mcpServers is no table"}},
		{"claude", "/home/u/.claude.json", `{"projects": {"/repo": "canary"}}`, OwnFault{"", 0, "projects./repo is no table"}},
		{"claude", "/repo/.claude/settings.json", "canary", OwnFault{"", 1, "not valid JSON"}},
		{"codex", "/home/u/.codex/config.toml", "a = 1\nb = canary\n", OwnFault{"", 2, "not valid TOML"}},
		{"gemini", "/home/u/.gemini/settings.json", "secret", OwnFault{"", 0, "cannot be read: permission denied"}},
		{"opencode", "/repo/opencode.json", "{", OwnFault{"", 1, "not valid JSON"}},
	} {
		tc.want.File = tc.file
		if got := ReadOwn(tc.agent, world(map[string]string{tc.file: tc.text})).Faults; len(got) == 0 || got[0] != tc.want {
			t.Errorf("%s: %v, want %v", tc.text, got, tc.want)
		}
	}
	for _, text := range []string{"", " \n", "\xEF\xBB\xBF{}", "{\"mcpServers\": null}"} {
		if own := ReadOwn("claude", world(map[string]string{"/home/u/.claude.json": text})); len(own.Faults)+len(own.Servers) > 0 {
			t.Errorf("%q: %+v", text, own)
		}
	}
}

func TestReadOwn_KnowsNoOtherAgent(t *testing.T) {
	t.Parallel()
	if own := ReadOwn("cursor", world(map[string]string{})); own.Looked != nil {
		t.Errorf("%+v", own)
	}
	if diff := cmp.Diff([]string{"claude", "codex", "opencode", "gemini"}, Agents()); diff != "" {
		t.Error(diff)
	}
}

// What a file says never ends up in a message, and every word of a definition
// is well formed.
func FuzzReadOwn_ReadsAnyFile(f *testing.F) {
	for _, text := range []string{
		`{"mcpServers": {"a": {"command": "${X:-canary}$SET", "args": ["$SET"], "env": {"A": 1}, "timeout": 1e99}}}`,
		"{\"mcp\": {\"a\": {\"command\": [\"{env:SET}\"],},},} // x",
		"[mcp_servers.a]\ncommand = 'x'\nstartup_timeout_sec = nan\nat = 1979-05-27\n",
		`{"projects": {"/repo": {"mcpServers": [[]]}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, agent := range Agents() {
			files := map[string]string{}
			for _, file := range ReadOwn(agent, world(map[string]string{})).Looked {
				files[file] = text
			}
			own := ReadOwn(agent, world(files))
			for _, s := range own.Servers {
				if s.Why == "" && len(s.Cmd) == 0 {
					t.Errorf("%s: %q runs nothing", agent, s.Name)
				}
				if s.StartTimeout < 0 || s.CallTimeout < 0 {
					t.Errorf("%s: %q has a negative timeout", agent, s.Name)
				}
				for _, word := range slices.Concat([]Text{s.Cmd, s.Workdir}, s.Args) {
					checkText(t, word)
				}
			}
		}
	})
}

func checkText(t *testing.T, word Text) {
	t.Helper()
	for i, part := range word {
		if part.Text == "" || i > 0 && !part.Variable && !word[i-1].Variable {
			t.Errorf("the parts of a word are %v", word)
		}
	}
}

func FuzzTrees_AreRefusedWithoutAWordOfThem(f *testing.F) {
	f.Add("{\"a\": canary")
	f.Add("a = \"canary")
	f.Fuzz(func(t *testing.T, text string) {
		for _, decode := range []func([]byte) (map[string]any, int, error){jsonTree, tomlTree} {
			_, line, err := decode([]byte(text))
			if line < 0 || line > 1+strings.Count(text, "\n") {
				t.Errorf("line %d of %q", line, text)
			}
			if err != nil && !slices.Contains([]string{"not valid JSON", "not valid TOML", errNoObject.Error()}, err.Error()) {
				t.Errorf("%q: %v", text, errors.Unwrap(err))
			}
		}
	})
}
