package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// agentHome is a directory with settings of agents, in which import runs; it is
// the home directory too.
func agentHome(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	return dir
}

// invokeAt runs a command line with a home directory.
func invokeAt(t *testing.T, home string, args ...string) outcome {
	t.Helper()
	for _, name := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"} {
		t.Setenv(name, "")
	}
	return invokeIn(t, home, args...)
}

const claudeServers = `{"mcpServers": {
	"files": {"command": "sh", "args": ["-c", "true"], "env": {"TOKEN": "canary\n", "HOST": "${HOME}"}},
	"docs": {"type": "http", "url": "https://canary"},
	"odd name": {"command": "true", "disabled": true}}}`

func TestImport_WritesFilesThatAreValidAndOverwritesNothing(t *testing.T) {
	home := agentHome(t, map[string]string{".claude.json": claudeServers})
	file := filepath.Join(home, "new/harness.toml")
	got := invokeAt(t, home, "import", "-o", file)
	if got.code != exitDone || got.out != "" || !strings.Contains(got.err, "next: `harness validate "+file+"`; then take these servers out of") {
		t.Fatalf("%+v", got)
	}
	if v := invokeAt(t, home, "validate", file); v.code != exitDone || v.err != "" {
		t.Errorf("what import writes is not valid: %+v", v)
	}
	env, err := os.ReadFile(filepath.Join(home, "new/files.env"))
	if err != nil || string(env) != "TOKEN=\"canary\\n\"\n" {
		t.Errorf("%q, %v", env, err)
	}
	for _, name := range []string{"harness.toml", "files.env"} {
		if info, err := os.Stat(filepath.Join(home, "new", name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text)+got.err, "canary") {
		t.Errorf("%v: a value is shown:\n%s\n%s", err, text, got.err)
	}

	// One file of several that is there already: nothing is written.
	for _, there := range []string{"harness.toml", "files.env"} {
		dir := filepath.Join(home, "with "+there)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("nowhere", filepath.Join(dir, there)); err != nil {
			t.Fatal(err)
		}
		got := invokeAt(t, home, "import", "-o", filepath.Join(dir, "harness.toml"))
		if got.code != exitFailed || !strings.Contains(got.err, there+" exists and is left as it is; ") {
			t.Errorf("%+v", got)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
	}
	if got := invokeAt(t, home, "import", "-o", filepath.Join(home, "files.env")); got.code != exitFailed || !strings.Contains(got.err, "give it another name") {
		t.Errorf("%+v", got)
	}
}

// What was written before a file that cannot be is gone again.
func TestWriteImport_LeavesNothingHalfWay(t *testing.T) {
	home := agentHome(t, map[string]string{".claude.json": claudeServers, "dir/other": ""})
	if err := os.WriteFile(filepath.Join(home, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := invokeAt(t, home, "import", "-o", filepath.Join(home, "plain/harness.toml")); got.code != exitFailed {
		t.Errorf("%+v", got)
	}
	before, err := fs.Glob(os.DirFS(home), "*")
	if err != nil {
		t.Fatal(err)
	}
	if got := invokeAt(t, home, "import", "-o", strings.Repeat("x", 300)); got.code != exitFailed {
		t.Errorf("%+v", got)
	}
	after, err := fs.Glob(os.DirFS(home), "*")
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestImport_PrintsNoValueOfAVariable(t *testing.T) {
	home := agentHome(t, map[string]string{".claude.json": claudeServers})
	got := invokeAt(t, home, "import")
	if got.code != exitDone || strings.Contains(got.out+got.err, "canary") {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{
		"[mcp.files]\n", `env = { HOST = "${HOME}" }`, `env_file = "` + home + `/harness/files.env"`, "# sets TOKEN, as in " + home + "/.claude.json",
		": \"odd name\"\n[mcp.odd-name]\ncmd = \"true\"\nenabled = false\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %s in\n%s", want, got.out)
		}
	}
	for _, want := range []string{
		"claude: 3 servers in " + home + "/.claude.json\n", "codex: no servers; looked for them in " + home + "/.codex/config.toml\n",
		"warning: " + home + "/.claude.json: docs: left out: it is not on stdio but http, which harness does not run\n", "next: `harness import -o FILE` writes it",
	} {
		if !strings.Contains(got.err, want) {
			t.Errorf("no %s in\n%s", want, got.err)
		}
	}
	file := filepath.Join(home, "printed.toml")
	if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := invokeAt(t, home, "validate", "--json", file); v.code != exitDone {
		t.Errorf("%+v", v)
	}
}

func TestImport_JSONHasNamesAndNoValues(t *testing.T) {
	home := agentHome(t, map[string]string{".claude.json": claudeServers, ".codex/config.toml": "[mcp_servers.files]\ncommand = 'other'\n"})
	got := invokeAt(t, home, "import", "--json")
	var v any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(got.out, home, "~")), &v); err != nil || got.code != exitDone || strings.Contains(got.out, "canary") {
		t.Fatalf("%+v: %v", got, err)
	}
	source := func(agent, file, name string) map[string]any {
		return map[string]any{"agent": agent, "file": "~/" + file, "name": name}
	}
	server := func(key, cmd string, args, env []any, enabled bool, source any) map[string]any {
		return map[string]any{"key": key, "cmd": cmd, "args": args, "workdir": nil, "env": env, "enabled": enabled, "sources": []any{source}}
	}
	skipped := source("claude", ".claude.json", "docs")
	skipped["reason"] = "it is not on stdio but http, which harness does not run"
	want := map[string]any{
		"servers": []any{
			server("files", "sh", []any{"-c", "true"}, []any{"HOST", "TOKEN"}, true, source("claude", ".claude.json", "files")),
			server("files_codex", "other", []any{}, []any{}, true, source("codex", ".codex/config.toml", "files")),
			server("odd-name", "true", []any{}, []any{}, false, source("claude", ".claude.json", "odd name")),
		},
		"skipped": []any{skipped}, "errors": []any{},
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
}

func TestImport_TakesTheRestWhereOneFileIsBroken(t *testing.T) {
	home := agentHome(t, map[string]string{".claude.json": claudeServers, ".codex/config.toml": "\n[mcp_servers\n", ".gemini/settings.json": "{"})
	got := invokeAt(t, home, "import")
	if got.code != exitFailed || !strings.Contains(got.out, "[mcp.files]") || !strings.Contains(got.err, home+"/.codex/config.toml:2: not valid TOML\n") ||
		!strings.Contains(got.err, home+"/.gemini/settings.json:1: not valid JSON\n") {
		t.Errorf("%+v", got)
	}
	got = invokeAt(t, home, "import", "codex", "--json")
	var v imported
	if err := json.Unmarshal([]byte(got.out), &v); err != nil || got.code != exitFailed || len(v.Errors) != 1 || *v.Errors[0].Line != 2 {
		t.Errorf("%+v: %v", got, err)
	}
}

func TestImport_OfNothingSaysWhereItLooked(t *testing.T) {
	home := agentHome(t, nil)
	if got := invokeAt(t, home, "import"); got.code != exitDone || got.out != "" || strings.Count(got.err, "no servers; looked for them in ") != 4 {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"import", "claude"}, {"import", "-o", "x.toml"}} {
		if got := invokeAt(t, home, args...); got.code != exitFailed || !strings.HasSuffix(got.err, "harness: there is no server to import\n") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	if _, err := os.Stat("x.toml"); err == nil {
		t.Error("an empty file was written")
	}
	for _, args := range [][]string{{"import", "cursor"}, {"import", "-o", ""}} {
		if got := invokeAt(t, home, args...); got.code != exitUsage {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

func TestImport_TakesTheAgentsThatAreNamed(t *testing.T) {
	home := agentHome(t, map[string]string{".claude.json": claudeServers, ".codex/config.toml": "[mcp_servers.one]\ncommand = 'x'\n"})
	got := invokeAt(t, home, "import", "codex", "gemini")
	if got.code != exitDone || strings.Contains(got.out, "mcp.files") || !strings.Contains(got.out, "[mcp.one]") || strings.Contains(got.err, "claude") {
		t.Errorf("%+v", got)
	}
	if lines := strings.Split(got.err, "\n"); !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "gemini: no servers") }) {
		t.Errorf("%s", got.err)
	}
}
