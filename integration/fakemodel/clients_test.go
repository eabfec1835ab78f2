//go:build agents

package fakemodel_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness/integration/fakemodel"
	"harness/pkg/adapter"
)

// TestClients_ReachAServerThatWasWired starts the real agent CLIs, as adapters
// wire them, with an MCP server in the place of the bridge. The directory of
// the CLIs is in HARNESS_AGENT_CLIS.
func TestClients_ReachAServerThatWasWired(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("HARNESS_AGENT_CLIS")
	if dir == "" {
		t.Fatal("HARNESS_AGENT_CLIS does not say where the agent CLIs are")
	}
	// Blanks and quotes are in every path that an adapter writes down.
	bridge := filepath.Join(t.TempDir(), `a "b" 'c' d`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, bridge); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"claude", "codex", "opencode", "gemini"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := fakemodel.New(fakemodel.Call{Tool: "echo", Args: `{"text":"first ü"}`}, fakemodel.Call{Tool: "echo", Args: `{"text":"second"}`})
			server := httptest.NewServer(m)
			defer server.Close()
			c := fakemodel.Clients(server.URL)[i]
			if c.Program != name {
				t.Fatalf("client %d is %s", i, c.Program)
			}
			out := runWired(t, c, filepath.Join(dir, name), []string{bridge, serve})
			if err := m.Err(); err != nil {
				t.Errorf("%v; strays %q; turns %+v; it printed:\n%s", err, m.Strays(), m.Turns(), out)
			}
			for n, want := range []string{"first ü", "second"} {
				if got := m.Results(); len(got) <= n || !strings.Contains(got[n].Text, "said "+want) || !strings.Contains(got[n].Tool, "harness") {
					t.Errorf("results %+v, want %q", got, want)
				}
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runWired runs a CLI to its end in a home of its own, and returns what it
// printed.
func runWired(t *testing.T, c fakemodel.Client, program string, bridge []string) []byte {
	t.Helper()
	// Gemini takes system settings only from where root alone can write, so not
	// from the temporary directory.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp(cache, `harness "a" b`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	home := t.TempDir()
	if c.Program == "gemini" && !adapter.RootOnly(state) {
		t.Fatal("only root can wire this CLI")
	}
	for name, text := range c.Home {
		write(t, filepath.Join(home, name), text)
	}
	w := adapter.Find(adapter.Auto, program, c.Args).Wire(adapter.Launch{
		Name: "shop/rev", Workdir: t.TempDir(), Bridge: bridge, Dir: state, ReadFile: os.ReadFile, RootOnly: adapter.RootOnly,
	})
	if !w.Wired {
		t.Fatal(w.How)
	}
	for _, f := range w.Files {
		write(t, filepath.Join(state, f.Name), string(f.Data))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, w.Args...)
	cmd.Dir = t.TempDir()
	// Codex wants a home outside the temporary directory.
	cmd.Env = append(append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, c.Env...), w.Env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v", c.Program, err)
	}
	return out.Bytes()
}
