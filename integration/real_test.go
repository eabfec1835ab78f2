//go:build real

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The heavy servers of `just real`: minutes to build, and one needs Chromium.

func TestReal_Grafana(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["GRAFANA_URL"] = "http://127.0.0.1:3000"
	// One line of 102,021 bytes.
	sameAsDirect(t, h, server{name: "mcp-grafana", cmd: goProgram(t, "github.com/grafana/mcp-grafana", "cmd/mcp-grafana", "v1.6.3"), tools: 81})
}

func TestReal_Gopls(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["GOCACHE"], h.env["GOMODCACHE"] = goEnv(t, "GOCACHE"), goEnv(t, "GOMODCACHE")
	sameAsDirect(t, h, server{name: "gopls", cmd: goProgram(t, "golang.org/x/tools/gopls", ".", "v0.23.0"), args: []string{"mcp"}, tools: 8})
}

func TestReal_GitHub(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["GITHUB_PERSONAL_ACCESS_TOKEN"] = "x"
	sameAsDirect(t, h, server{
		name: "github-mcp-server", cmd: goProgram(t, "github.com/github/github-mcp-server", "cmd/github-mcp-server", "v0.20.0"),
		args: []string{"stdio"}, tools: 40,
	})
}

func TestReal_Playwright(t *testing.T) {
	t.Parallel()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("install chromium: %v", err)
	}
	h := newHome(t)
	sameAsDirect(t, h, server{
		name: "playwright-mcp", cmd: npmProgram(t, "@playwright/mcp@0.0.83", "playwright-mcp"),
		args: []string{"--headless", "--executable-path", chromium, "--no-sandbox", "--isolated"}, tools: 25,
		calls: []toolCall{{"browser_close", `{}`}},
	})
}

// TestReal_WatchesExhausted gives the daemon a user namespace in which inotify
// has run out, and demands that edits are followed all the same.
func TestReal_WatchesExhausted(t *testing.T) {
	t.Parallel()
	for limit, value := range map[string]string{"max_inotify_instances": "0", "max_inotify_watches": "1"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.wrap = []string{"unshare", "--user", "--map-root-user", "sh", "-c", "echo " + value + " >/proc/sys/user/" + limit + `; exec "$@"`, "sh"}
			d := h.run(h.upstream("ok"), h.prompting("prompts"))
			if mode := d.status().Watch; mode != "polling" {
				t.Errorf("status says %q", mode)
			}
			a := d.connected()
			h.edit(h.upstream("ok"), h.upstream("up"), h.prompting("prompts"))
			a.awaitCount(toolsChanged, 1)
			h.write("prompts/p.md", "p\n")
			a.awaitCount(promptsChanged, 1)
			a.well("up")
		})
	}
}

// TestReal_EventsOverflow stops the daemon while more happens than the kernel
// keeps for it.
func TestReal_EventsOverflow(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	a.well("ok")
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	queue, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	signal(t, d.pid(), syscall.SIGSTOP)
	for i := range queue {
		name := filepath.Join(filepath.Dir(h.config()), fmt.Sprint(i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.edit(h.upstream("ok"), h.upstream("up"))
	signal(t, d.pid(), syscall.SIGCONT)
	a.awaitCount(toolsChanged, 1)
	a.well("up")
}

// goProgram builds a command of a module that `go install` may refuse: in a
// module of its own that requires it.
func goProgram(t *testing.T, module, command, version string) string {
	t.Helper()
	dir := t.TempDir()
	mod := fmt.Sprintf("module real\n\ngo 1.26\n\nrequire %s %s\n", module, version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "server")
	cmd := exec.Command("go", "build", "-mod=mod", "-o", path, filepath.ToSlash(filepath.Join(module, command)))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", module, err, out)
	}
	return path
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out[:len(out)-1])
}

// npmProgram installs a package and returns one of its programs.
func npmProgram(t *testing.T, pkg, program string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", pkg).CombinedOutput(); err != nil {
		t.Fatalf("npm install %s: %v\n%s", pkg, err, out)
	}
	return filepath.Join(dir, "node_modules/.bin", program)
}
