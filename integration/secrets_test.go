package integration

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const canary = "s3cr3t-canary"

func TestC63_ASecretReachesItsUpstreamAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := h.write("secrets.env", "TOKEN="+canary+"\n")
	debug := quick + "log_level = \"debug\"\n"
	table := func(flags ...string) string {
		return set(set(h.upstream("up", flags...), "env_file", fmt.Sprintf("%q", file)), "env", `{ INLINE = "`+canary+`-2" }`)
	}
	h.configure(debug, table(), h.upstream("other"))
	d := h.start()
	d.mustReload()
	a := d.connected()
	var said strings.Builder // all that harness says to anybody

	if got := a.must("up__env", map[string]any{"name": "TOKEN"}); got != canary {
		t.Fatalf("TOKEN=%q", got)
	}
	if got := a.must("up__env", map[string]any{"name": "INLINE"}); got != canary+"-2" {
		t.Fatalf("INLINE=%q", got)
	}
	marked := len(a.received()) // what the upstream itself said ends here
	if env := a.must("other__env", nil); strings.Contains(env, canary) {
		t.Error("another upstream has it")
	}
	if env := environOf(t, d.pid()) + environOf(t, a.cmd.Process.Pid); strings.Contains(env, canary) {
		t.Error("the daemon or a bridge has it in its environment")
	}
	a.call("up__die", nil)
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})

	for _, text := range []string{
		"TOKEN='" + canary + "\n",          // malformed: never closed
		"TOKEN=" + canary + "-changed\n",   // another value
		"TOKEN=" + canary + "\n" + canary,  // malformed on its second line
		"TOKEN=" + canary + "-once-more\n", // and good again
	} {
		h.write("secrets.env", text)
		fmt.Fprint(&said, d.harness("reload", "--json"), d.harness("reload"))
		fmt.Fprint(&said, d.harness("status"), d.harness("status", "--json"))
	}
	h.configure(debug, table()+"nonsense = \""+canary+"\"\n", h.upstream("other")) // a bad reload
	fmt.Fprint(&said, d.harness("reload", "--json"), d.harness("status"), d.harness("validate"), d.harness("validate", "--json"))
	h.configure(debug, table("-exit-on", "initialize"), h.upstream("other"))
	fmt.Fprint(&said, d.harness("reload", "--dry-run", "--json"), d.harness("reload", "--json"), d.harness("logs", "mcp.up"), d.harness("tools", "--json"))
	for _, p := range mentioning(t, h.dir) {
		fmt.Fprintln(&said, p.cmdline)
	}
	for _, m := range a.received()[marked:] {
		said.Write(m.raw)
	}
	said.WriteString(d.log.String())
	said.WriteString(a.stderr.String())
	for line := range strings.Lines(said.String()) {
		// A line of the config that is wrong may be cited by its key alone.
		if strings.Contains(line, canary) {
			t.Errorf("it was said: %s", line)
		}
	}
	noFileHas(t, h.path("state"), canary)
	noFileHas(t, h.path("run"), canary)
}

// noFileHas fails for each file under a directory that contains text, except
// the kept text of the config: that is the user's own file.
func noFileHas(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil && bytes.Contains(content, []byte(text)) && !bytes.Contains(content, []byte("[mcp.up]")) {
			t.Errorf("%s contains it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The same of a harness's secrets, and of the token that says who it is.
func TestC63_ASecretOfAHarnessReachesItAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := h.write("secrets.env", "TOKEN="+canary+"\n")
	debug := quick + "log_level = \"debug\"\n"
	// It writes down that it has them, and not what they are.
	script := `[ "$TOKEN$INLINE" = "` + canary[:4] + `""` + canary[4:] + `" ] && echo $HARNESS_NAME > ` + h.path("has") + "; " + stays
	table := func(more string) string {
		return harnessTable("a", script, fmt.Sprintf("enabled = true\nenv_file = %q\n", file)+more)
	}
	h.configure(debug, h.upstream("up"), table(""), harnessTable("other", stays, "enabled = true"))
	d := h.start()
	events := &buffer{}
	follow := h.command(t.Context(), "harness", "events", "--json")
	follow.Stdout, follow.Stderr = events, events
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	a := d.connected()
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	eventually(t, "it has its secrets", func() bool { return exists(h.path("has")) })
	pid := h.awaitHarness("a", "running").PID
	env := environOf(t, pid)
	_, token, _ := strings.Cut(env, "HARNESS_MCP_TOKEN=")
	token, _, _ = strings.Cut(token, "\x00")
	if !strings.Contains(env, "TOKEN="+canary) || len(token) < 22 {
		t.Fatal("it does not have its secrets")
	}
	secret := func(text string) bool { return strings.Contains(text, canary) || strings.Contains(text, token) }
	others := environOf(t, d.pid()) + environOf(t, h.awaitHarness("other", "running").PID) + environOf(t, a.cmd.Process.Pid) + a.must("up__env", nil)
	if secret(others) {
		t.Error("somebody else has it in the environment")
	}
	var said strings.Builder // all that harness says to anybody
	ask := func(lines ...string) {
		for _, line := range lines {
			fmt.Fprint(&said, d.harness(strings.Fields(line)...))
		}
	}
	look := func() {
		ask("list --json", "describe a", "describe a --json", "status --json", "logs a", "doctor --json", "restart a")
		for _, tool := range []string{"harness_list", "list_trajectories"} {
			a.call(tool, nil)
		}
		for _, tool := range []string{"harness_describe", "harness_logs"} {
			a.call(tool, map[string]any{"name": "a"})
		}
		for _, p := range mentioning(t, h.dir) {
			fmt.Fprintln(&said, p.cmdline)
		}
	}
	look()
	for _, text := range []string{"TOKEN='" + canary + "\n", "TOKEN=" + canary + "\n" + canary, "TOKEN=" + canary + "-changed\n"} {
		h.write("secrets.env", text)
		ask("reload --json", "restart a", "list")
	}
	h.configure(debug, h.upstream("up"), table("nonsense = \""+canary+"\"\n"), harnessTable("other", stays, "enabled = true"))
	ask("reload", "reload --json")
	look()
	for _, m := range a.received() {
		said.Write(m.raw)
	}
	follow.Process.Signal(syscall.SIGTERM)
	follow.Wait()
	said.WriteString(events.String() + d.log.String() + a.stderr.String())
	for line := range strings.Lines(said.String()) {
		if secret(line) {
			t.Errorf("it was said: %s", line)
		}
	}
	if !strings.Contains(events.String(), `"a"`) {
		t.Errorf("no event told of it: %s", events)
	}
	for _, text := range []string{canary, token} {
		noFileHas(t, h.path("state"), text)
		noFileHas(t, h.path("run"), text)
	}
}

func TestState_IsPrivate(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	d.connected().well("ok")
	for _, root := range []string{h.path("state/harness"), h.path("run/harness")} {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if e.IsDir() {
				want = 0o700
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s is %o, not %o", path, got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEnvironment_OfAnUpstreamHasNothingOfTheDaemons(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["HARNESS_SOCKET"], h.env["HARNESS_NAME"], h.env["KEPT"] = h.socket(), "outer", "yes"
	file := h.write("up.env", "KEPT=from the file\nBOTH=file\n")
	d := h.run(set(set(h.upstream("up"), "env_file", fmt.Sprintf("%q", file)), "env", `{ BOTH = "table" }`), h.upstream("ok"))
	env := d.connected().must("up__env", nil)
	if strings.Contains(env, "HARNESS_") {
		t.Errorf("HARNESS_* is passed on:\n%s", env)
	}
	for _, want := range []string{"KEPT=from the file", "BOTH=table", "HOME=" + h.env["HOME"]} {
		if !strings.Contains("\n"+env+"\n", "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, env)
		}
	}
	if env := d.connected().must("ok__env", map[string]any{"name": "KEPT"}); env != "yes" {
		t.Errorf("KEPT=%q", env)
	}
}
