package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

// mustLoad loads text that has no faults.
func mustLoad(t testing.TB, text string, kind config.Kind) *config.Config {
	t.Helper()
	cfg, _, faults := load(text, kind)
	if len(faults) > 0 {
		t.Fatalf("Load: %v", faults)
	}
	return cfg
}

func goodFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "good", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLoad_ReadsEveryKey(t *testing.T) {
	got := mustLoad(t, goodFile(t, "everything.toml"), config.Global)
	all := config.ToolFilter{Allow: []string{"*"}, Deny: []string{}}
	want := &config.Config{
		Path: "/cfg/harness.toml",
		Server: config.Server{
			LogLevel: "debug", Settle: 100 * time.Millisecond, StopGrace: 7 * time.Second, Drain: time.Minute,
			MaxMessage: 1_000_000, KeepRuns: 5, Roots: []string{"/cfg/rel", "/home/u/src", "/srv/b"},
		},
		Upstreams: map[string]config.Upstream{
			"gitea": {
				Key: "gitea", Cmd: "/cfg/bin/gitea-mcp", Line: 11,
				Args:         []string{"--home=/home/u", "/home/u/x", "/home/u", "a~b", "${HOME} $HOME $", "~u/x"},
				EnvFile:      "/home/u/.config/vault/secrets.env",
				Env:          map[string]string{"TOKEN": canary, "DIR": "/home/u/d", "EMPTY": ""},
				Workdir:      "/cfg/gitea",
				RestartDelay: 10 * time.Millisecond, StartTimeout: 90 * time.Second, CallTimeout: 5 * time.Second,
				Description: "issues and pulls", Update: config.Replace, Isolation: config.IsolationShared, Tools: all,
			},
			"dotted": {
				Key: "dotted", Cmd: "gitea-mcp", Line: 28, Args: []string{}, Env: map[string]string{}, Workdir: "/cfg",
				RestartDelay: time.Second, StartTimeout: time.Minute, Enabled: true,
				Update: config.Swap, Isolation: config.IsolationShared, Prestart: true, Tools: all,
			},
			"inline": {
				Key: "inline", Cmd: "/home/u/bin/up", Line: 29, Args: []string{}, Env: map[string]string{}, Workdir: "/cfg",
				RestartDelay: time.Second, StartTimeout: time.Minute, Enabled: true,
				Update: config.Swap, Isolation: config.IsolationShared, Prestart: true, Tools: all,
			},
		},
		PromptPaths: []string{"/home/u/.config/harness/prompts", "/cfg/prompts", "/srv/prompts"},
		Agents: map[string]config.Agent{
			"reviewer": {
				Name: "reviewer", Cmd: "/home/u/bin/claude", Args: []string{"-p"}, EnvFile: "/cfg/reviewer.env",
				Env: map[string]string{"A": "1"}, Workdir: "/home/u", RestartDelay: 2 * time.Second,
				Enabled: true, EnabledWritten: true, Description: "reads pulls", MCPAllow: []string{"read", "write"},
				Adapter: "claude-code", MCP: []string{"do*", "gitea"}, EnvPass: []string{"EDITOR", "SSH_AUTH_SOCK"}, Line: 34,
			},
			"plain": {
				Name: "plain", Cmd: "agent", Args: []string{}, Env: map[string]string{}, Workdir: "/cfg",
				RestartDelay: time.Second, EnabledWritten: true, MCPAllow: []string{"read"}, MCPBridge: true,
				Adapter: "auto", MCP: []string{"*"}, EnvPass: []string{}, Line: 49,
			},
		},
		Profiles: map[string]config.Profile{
			"day":   {Name: "day", Description: "at work", Members: []string{"plain", "reviewer"}, Autostart: true, Line: 53},
			"night": {Name: "night", Members: []string{}, Line: 58},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

func TestLoad_DefaultsWrittenOutAreTheDefaults(t *testing.T) {
	written := mustLoad(t, goodFile(t, "defaults.toml"), config.Global)
	short := mustLoad(t, "[mcp.gitea]\ncmd = 'gitea-mcp'\n[harness.reviewer]\ncmd = 'claude'\n[profile.day]\n", config.Global)
	// What is written is remembered for enabled alone, which up has to know.
	a := written.Agents["reviewer"]
	if !a.EnabledWritten || short.Agents["reviewer"].EnabledWritten {
		t.Error("EnabledWritten does not say whether the file says enabled")
	}
	a.EnabledWritten = false
	written.Agents["reviewer"] = a
	if diff := cmp.Diff(short, written, meaning()); diff != "" {
		t.Errorf("defaults differ (-left out +written):\n%s", diff)
	}
	if diff := cmp.Diff(config.DefaultServer(), short.Server); diff != "" {
		t.Errorf("server of a file without one (-want +got):\n%s", diff)
	}
}

func TestLoad_ReadsAProjectFile(t *testing.T) {
	cfg := mustLoad(t, goodFile(t, "project.toml"), config.Project)
	if cfg.Kind != config.Project || cfg.Project.Name != "reduit" {
		t.Errorf("kind %v, project %+v", cfg.Kind, cfg.Project)
	}
	if got := cfg.Upstreams["local"].Cmd; got != "/cfg/serve" {
		t.Errorf("cmd = %q, want it relative to the file", got)
	}
	if diff := cmp.Diff([]string{"read"}, cfg.Agents["coder"].MCPAllow); diff != "" {
		t.Errorf("mcp_allow of a project's harness (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(config.Server{}, cfg.Server); diff != "" {
		t.Errorf("server of a project (-want +got):\n%s", diff)
	}
}

func TestLoad_NamesAProjectAfterItsDirectory(t *testing.T) {
	for path, want := range map[string]string{
		"/home/u/reduit/harness.toml":                "reduit",
		"/home/u/my project.v2/harness.toml":         "my-project-v2",
		"/home/u/größe/harness.toml":                 "gr--e",
		"/harness.toml":                              "-",
		"/" + strings.Repeat("x", 80) + "/file.toml": strings.Repeat("x", 64),
	} {
		cfg, _, faults := config.Load(config.Source{Path: path, Data: []byte("# none"), Kind: config.Project}, testEnv())
		if len(faults) > 0 || cfg.Project.Name != want {
			t.Errorf("%s: name %q, want %q (faults %v)", path, cfg.Project.Name, want, faults)
		}
	}
}

func TestLoad_TellsAnEmptyFileFromOneWithoutServers(t *testing.T) {
	for text, empty := range map[string]bool{
		"":                     true,
		" \n\t\r\n":            true,
		"\xEF\xBB\xBF \n":      true,
		"# no servers today\n": false,
		"[mcp]\n":              false,
		"[server]\n":           false,
	} {
		cfg := mustLoad(t, text, config.Global)
		if cfg.Empty != empty {
			t.Errorf("%q: Empty = %v, want %v", text, cfg.Empty, empty)
		}
		if len(cfg.Upstreams) != 0 {
			t.Errorf("%q: upstreams %v", text, cfg.Upstreams)
		}
	}
}

func TestLoad_LeavesTheSourceAlone(t *testing.T) {
	text := goodFile(t, "everything.toml") + "\r\n= broken\n[mcp.gitea]\n"
	data := []byte(text)
	if _, _, faults := config.Load(config.Source{Path: "/cfg/harness.toml", Data: data}, testEnv()); len(faults) == 0 {
		t.Fatal("want faults, so that parts are blanked out")
	}
	if string(data) != text {
		t.Error("Load changed the source")
	}
}

func TestLoad_KnowsNoVariableAndNoHomeByDefault(t *testing.T) {
	_, _, faults := config.Load(config.Source{
		Path: "/cfg/harness.toml",
		Data: []byte("[mcp.a]\ncmd = '~/a'\nargs = ['${PATH}', '~', 'a~']\n"),
	}, config.Env{})
	want := config.Faults{
		{File: "/cfg/harness.toml", Line: 2, Key: "mcp.a.cmd", Message: "~ cannot be expanded: the home directory is not known"},
		{File: "/cfg/harness.toml", Line: 3, Key: "mcp.a.args[0]", Message: "${PATH} is not set"},
		{File: "/cfg/harness.toml", Line: 3, Key: "mcp.a.args[1]", Message: "~ cannot be expanded: the home directory is not known"},
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestLoad_WarnsOfWhatIsHardlyMeant(t *testing.T) {
	_, warnings, faults := load(`
[mcp.prompts]
paths = ["~/p", "/x", "/home/u/p/"]
[mcp.gitea]
cmd = "g"
[harness.a]
cmd = "a"
mcp = ["gitae", "git*", "*"]
`, config.Global)
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	want := []string{
		"/cfg/harness.toml:3: mcp.prompts.paths[2]: the same directory is named before",
		`/cfg/harness.toml:8: harness.a.mcp: "gitae" matches no [mcp.*] of this file, did you mean "gitea"?`,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(faults) > 0 {
		t.Errorf("warnings (-want +got):\n%s\nfaults: %v", diff, faults)
	}
}

// Half a file, wherever it is cut, is refused with one fault for the cut
// itself; and what comes before the cut is not blamed.
func TestLoad_C37_CutInsideAStringIsOneFault(t *testing.T) {
	text := goodFile(t, "everything.toml")
	for i := range len(text) {
		if before := text[:i]; inString(before) {
			_, _, faults := load(before, config.Global)
			if len(faults) != 1 || faults[0].Line != 1+strings.Count(before, "\n") {
				t.Fatalf("cut at %d, in line %d: %v", i, 1+strings.Count(before, "\n"), faults)
			}
		}
	}
}

// inString tells whether text, all of whose strings are in double quotes on
// one line, ends inside one.
func inString(text string) bool {
	line := text[strings.LastIndexByte(text, '\n')+1:]
	return !strings.Contains(line, "#") && strings.Count(line, `"`)%2 == 1
}

func TestLoad_C45_MarkAndLineEndsChangeNothing(t *testing.T) {
	for _, name := range []string{"everything.toml", "defaults.toml"} {
		text := goodFile(t, name)
		want := mustLoad(t, text, config.Global)
		for _, other := range []string{
			"\xEF\xBB\xBF" + text,
			strings.ReplaceAll(text, "\n", "\r\n"),
			"\xEF\xBB\xBF" + strings.ReplaceAll(text, "\n", "\r\n"),
		} {
			if diff := cmp.Diff(want, mustLoad(t, other, config.Global)); diff != "" {
				t.Errorf("%s (-plain +other):\n%s", name, diff)
			}
		}
	}
}

func TestFault_StringIsFileLineKeyMessage(t *testing.T) {
	_, _, faults := config.Load(config.Source{
		Path: "harness.toml",
		Data: []byte(strings.Repeat("\n", 10) + "[mcp.broken]\ncmd = ''\n"),
	}, testEnv())
	if got, want := faults.Error(), "harness.toml:12: mcp.broken: cmd is empty"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (config.Fault{File: "f", Line: 3, Message: "m"}).String(), "f:3: m"; got != want {
		t.Errorf("without a key: got %q, want %q", got, want)
	}
}

func TestFaults_ErrIsNilWithoutFaults(t *testing.T) {
	if err := (config.Faults{}).Err(); err != nil {
		t.Errorf("Err of no faults = %v", err)
	}
	err := config.Faults{{File: "f", Line: 1, Message: "a"}, {File: "f", Line: 2, Message: "b"}}.Err()
	if err == nil || err.Error() != "f:1: a\nf:2: b" {
		t.Errorf("Err = %v", err)
	}
}

// A file that was made to cost much is refused for what it is, and the rest of
// it is still judged.
func TestLoad_RefusesWhatNoSchemaHas(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a long dotted key": {
			strings.Repeat("a.", 50_000) + "a = 1\n[mcp.u]\ncmd = 1\n",
			"/cfg/harness.toml:1: a.a.a.a.a.a.a.a: nested too deeply\n" +
				"/cfg/harness.toml:3: mcp.u.cmd: expected a string, got an integer",
		},
		"a long table name": {
			"[" + strings.Repeat("a.", 50_000) + "a]\nb = 1\n[mcp.u]\ncmd = 1\n",
			"/cfg/harness.toml:1: a.a.a.a.a.a.a.a: nested too deeply\n" +
				"/cfg/harness.toml:4: mcp.u.cmd: expected a string, got an integer",
		},
		"lists in lists": {
			"a = " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
			"/cfg/harness.toml:1: a[0][0][0][0][0]: nested too deeply",
		},
		"tables in tables": {
			"a = " + strings.Repeat("{a = ", 5000) + "1" + strings.Repeat("}", 5000),
			"/cfg/harness.toml:1: a.a.a.a.a.a: nested too deeply",
		},
		"too many keys": {
			manyKeys(20_001),
			"/cfg/harness.toml:20001: file has more than 20000 tables and keys",
		},
	} {
		if _, _, faults := load(c.text, config.Global); faults.Error() != c.want {
			t.Errorf("%s:\n got %.300s\nwant %s", name, faults.Error(), c.want)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d = 1\n", i)
	}
	return b.String()
}

// A table is not blamed for a line that a syntax error took, and is for one it
// never had.
func TestLoad_TellsALostCmdFromAMissingOne(t *testing.T) {
	for text, want := range map[string]string{
		"[mcp.a]\ncmd = broken\n":                     "/cfg/harness.toml:2: mcp.a.cmd: invalid TOML: unexpected character U+0062 'b' at start of value (a string needs quotes)",
		"[mcp.a]\nargs = []\n[mcp.b\ncmd = 'b'\n":     "/cfg/harness.toml:1: mcp.a: cmd is missing\n/cfg/harness.toml:3: invalid TOML: expected ']' to close table name",
		"[mcp.a]\nargs = []\n[mcp.b]\ncmd = broken\n": "/cfg/harness.toml:1: mcp.a: cmd is missing\n/cfg/harness.toml:4: mcp.b.cmd: invalid TOML: unexpected character U+0062 'b' at start of value (a string needs quotes)",
	} {
		if _, _, faults := load(text, config.Global); faults.Error() != want {
			t.Errorf("%q:\n got %s\nwant %s", text, faults.Error(), want)
		}
	}
}

func TestKind_NamesItself(t *testing.T) {
	if config.Global.String() != "global" || config.Project.String() != "project" {
		t.Errorf("kinds are %s and %s", config.Global, config.Project)
	}
}
