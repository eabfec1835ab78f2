package daemon

import (
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
	"harness/pkg/identity"
)

func newWiring(t *testing.T) wiring {
	return wiring{&identity.Store{}, "/opt/harness", "/run/h.sock", filepath.Join(t.TempDir(), "wired"), slog.New(slog.NewTextHandler(t.Output(), nil))}
}

func launchOf(cmd string, args ...string) config.AgentLaunch {
	return config.AgentLaunch{Agent: config.Agent{Name: "shop/rev", Cmd: cmd, Args: args, Workdir: "/", MCPBridge: true, Adapter: "auto"}}
}

// All of a wiring reaches the spawn: flags, files, variables; and the token is
// in the environment alone.
func TestWiring_IsOfTheSpawnAndEndsWithIt(t *testing.T) {
	t.Parallel()
	w := newWiring(t)
	for _, tc := range []struct {
		cmd, file string
		args      []string
	}{
		{"/usr/bin/claude", "shop.rev.claude.json", []string{"--mcp-config=FILE", "--allowedTools=mcp__harness", "-p", "hi"}},
		{"gemini", "shop.rev.gemini.json", []string{"-p", "hi"}},
		{"opencode", "", []string{"-p", "hi"}},
	} {
		spawn, err := w.prepare(launchOf(tc.cmd, "-p", "hi"), "run1", []string{"HOME=/none", "OPENCODE_CONFIG_CONTENT={\"theme\":\"x\"}"})
		if err != nil {
			t.Fatal(err)
		}
		token := spawn.Env["HARNESS_MCP_TOKEN"]
		if spawn.Env["HARNESS_NAME"] != "shop/rev" || spawn.Env["HARNESS_SOCKET"] != "/run/h.sock" || spawn.Env["HARNESS_RUN_ID"] != "run1" || len(token) < 32 {
			t.Errorf("%s has no identity: %v", tc.cmd, slices.Sorted(maps.Keys(spawn.Env)))
		}
		file := filepath.Join(w.dir, "shop%2Frev", tc.file)
		var want []string
		for _, arg := range tc.args {
			want = append(want, strings.ReplaceAll(arg, "FILE", file))
		}
		if diff := cmp.Diff(want, spawn.Args); diff != "" {
			t.Errorf("%s, arguments (-want +got):\n%s", tc.cmd, diff)
		}
		found := spawn.Env["OPENCODE_CONFIG_CONTENT"]
		if tc.file != "" {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = string(data)
			for path, mode := range map[string]fs.FileMode{file: 0o600, filepath.Dir(file): 0o700, w.dir: 0o700} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
					t.Errorf("%s: %v, %v", path, info, err)
				}
			}
		} else if !strings.Contains(found, `"theme":"x"`) {
			t.Errorf("the user's own is gone: %s", found)
		}
		if !strings.Contains(found, `"/opt/harness"`) || !strings.Contains(found, `"mcp","--socket","/run/h.sock"`) {
			t.Errorf("%s is told of no bridge: %s", tc.cmd, found)
		}
		delete(spawn.Env, "HARNESS_MCP_TOKEN")
		if all := strings.Join(spawn.Args, " ") + found + strings.Join(slices.Collect(maps.Values(spawn.Env)), " "); strings.Contains(all, token) {
			t.Errorf("%s: the token is in arguments, files or other variables", tc.cmd)
		}
		spawn.Ended()
		if _, err := os.Stat(w.private("shop/rev")); !os.IsNotExist(err) {
			t.Errorf("%s left its files: %v", tc.cmd, err)
		}
	}
}

func TestWiring_LeavesAloneWhatItDoesNotWire(t *testing.T) {
	t.Parallel()
	w := newWiring(t)
	off := launchOf("claude", "-p", "hi")
	off.MCPBridge = false
	generic := launchOf("claude", "-p", "hi")
	generic.Adapter = "generic"
	own := launchOf("codex", "-c", "mcp_servers.harness.command=\"mine\"")
	for want, l := range map[string]config.AgentLaunch{"mcp_bridge": off, "no adapter": generic, "a server named harness": own} {
		spawn, err := w.prepare(l, "run1", nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l.Args, spawn.Args); diff != "" || len(spawn.Env) != 4 {
			t.Errorf("%s: arguments (-want +got):\n%s; %d variables", want, diff, len(spawn.Env))
		}
		if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
			t.Errorf("%s: files: %v", want, err)
		}
		if how := w.plan(l); how.Wired || !strings.Contains(how.How, want) {
			t.Errorf("%s: %+v", want, how)
		}
	}
}

// A plan sees what a spawn would: the variables of an env_file too, of which it
// tells nothing.
func TestWiring_PlansWithoutASpawn(t *testing.T) {
	t.Parallel()
	w := newWiring(t)
	l := launchOf("opencode")
	l.EnvFile = filepath.Join(t.TempDir(), "env")
	write(t, l.EnvFile, "OPENCODE_CONFIG_CONTENT='{\"mcp\":{\"harness\":{\"command\":[\"xyzzy\"]}}}'\n")
	if how := w.plan(l); how.Wired || !strings.Contains(how.How, "OPENCODE_CONFIG_CONTENT") || strings.Contains(how.How, "xyzzy") {
		t.Errorf("over its own: %+v", how)
	}
	gemini := launchOf("gemini")
	gemini.EnvFile = filepath.Join(t.TempDir(), "env")
	write(t, gemini.EnvFile, "GEMINI_CLI_SYSTEM_SETTINGS_PATH=/etc/passwd/xyzzy\n")
	if how := w.plan(gemini); how.Wired || !strings.Contains(how.How, "not a directory") || strings.Contains(how.How, "xyzzy") {
		t.Errorf("with settings nowhere: %+v", how)
	}
	l.EnvFile = "/none/such"
	if how := w.plan(l); !how.Wired || len(how.Env) != 1 {
		t.Errorf("without an env_file: %+v", how)
	}
	if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
		t.Errorf("a plan wrote something: %v", err)
	}
}

func TestWiring_FailsTheSpawnWhoseFilesCannotBe(t *testing.T) {
	t.Parallel()
	w := newWiring(t)
	write(t, w.dir, "in the way")
	if spawn, err := w.prepare(launchOf("claude"), "run1", nil); err == nil {
		t.Errorf("spawned with %v", spawn.Args)
	}
	w.clearAll()
	if _, err := w.prepare(launchOf("claude"), "run1", nil); err != nil {
		t.Error(err)
	}
}
