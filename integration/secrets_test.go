package integration

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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
