package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"harness/integration/fakeup"
)

func TestDaemon_ASecondOneFailsAtOnceNamingTheFirst(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	elsewhere := h.path("elsewhere.sock")
	for _, args := range [][]string{{"daemon"}, {"daemon", "--socket", elsewhere}} {
		o := d.harness(args...)
		if o.code != 1 || !strings.Contains(o.stderr, fmt.Sprint(d.pid())) || o.took > within(time.Second) {
			t.Error(o)
		}
	}
	h.env["XDG_STATE_HOME"] = h.path("state2")
	if o := d.harness("daemon"); o.code != 1 || !strings.Contains(o.stderr, fmt.Sprint(d.pid())) {
		t.Error(o)
	}
	h.env["XDG_STATE_HOME"] = h.path("state")
	d.connected().well("ok")
}

func TestDaemon_ReplacesAStaleSocketAndNeverAForeignFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, h.upstream("ok"))
	h.start().kill() // leaves its socket
	if !exists(h.socket()) {
		t.Fatal("a killed daemon took its socket along")
	}
	d := h.start()
	d.connected().well("ok")
	d.stop()

	h.write(h.socket(), "mine\n")
	if o := h.harness("daemon"); o.code != 1 {
		t.Error(o)
	}
	if text, err := os.ReadFile(h.socket()); string(text) != "mine\n" {
		t.Errorf("a file of the user's: %q, %v", text, err)
	}
	if err := os.Remove(h.socket()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", h.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if o := h.harness("daemon"); o.code != 1 {
		t.Error(o)
	}
}

func TestDaemon_EndsEverythingItStartedAndExitsZero(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		h := newHome(t)
		tables := []string{h.upstream("a", "-ignore-eof"), h.upstream("b", "-family")}
		for i := range 8 {
			tables = append(tables, h.upstream(fmt.Sprintf("c%d", i), "-ignore-eof", "-ignore-term"))
		}
		d := h.run(tables...)
		start := time.Now()
		signal(t, d.pid(), sig)
		<-d.exited
		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%v: exit %d", sig, code)
		}
		// In parallel: the slowest takes stop_grace, the sum would be 12 s.
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%v: it took %v", sig, took)
		}
		if left := mentioning(t, h.dir+"/record-"); len(left) != 0 {
			t.Errorf("%v: still there: %v", sig, left)
		}
		if exists(h.socket()) {
			t.Errorf("%v: the socket is still there", sig)
		}
	}
}

// The servers start beside the opening of the evidence: where that fails, they
// are ended, and the error says where.
func TestDaemon_EndsWhatItStartedWhenItsEvidenceIsNone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("state/harness/runs", "not a directory")
	if err := os.Chmod(h.path("state/harness"), 0o700); err != nil {
		t.Fatal(err)
	}
	h.configure(h.upstream("up"))
	if o := h.harness("daemon"); o.code != 1 || !strings.Contains(o.stderr, "open the evidence in \""+h.path("state/harness")+"\"") || !strings.Contains(o.stderr, "not a directory") {
		t.Error(o)
	}
	if left := mentioning(t, h.dir+"/record-"); len(left) != 0 || exists(h.socket()) {
		t.Errorf("still there: %v", left)
	}
}

func TestDaemon_ASecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure("[server]\nstop_grace = \"60s\"\n", h.upstream("up", "-ignore-eof", "-ignore-term"))
	d := h.start()
	d.mustReload()
	signal(t, d.pid(), syscall.SIGTERM)
	eventually(t, "it is stopping", func() bool { return fakeup.Count(h.record("up"), fakeup.EOF, "") == 1 })
	start := time.Now()
	d.killed = true // its exit code is not ours to say
	signal(t, d.pid(), syscall.SIGTERM)
	<-d.exited
	if took := time.Since(start); took > within(2*time.Second) {
		t.Errorf("it took %v", took)
	}
	eventuallyIn(t, within(5*time.Second), "its children end", func() bool { return len(mentioning(t, h.dir+"/record-")) == 0 })
}

func TestLastGood_IsKeptAcrossARestartAndForItsOwnPath(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := h.write("up.env", "A=1\n")
	good := set(h.upstream("up"), "env_file", fmt.Sprintf("%q", file))
	d := h.run(good, h.prompting("prompts"))
	before := d.status()
	d.stop()

	h.edit("[mcp.up]\ncmd = \n")
	d = h.start()
	a := d.connected()
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	s := d.status()
	if s.LastReload.OK || len(s.LastReload.Errors) == 0 || s.LastReload.Errors[0].Line != 6 || s.Generation != before.Generation {
		t.Errorf("status: %+v, before %+v", s, before)
	}
	if text := d.must("status"); !strings.Contains(text, "last good") {
		t.Errorf("status says\n%s", text)
	}

	// While the edit is refused, what the last good generation reads is
	// followed all the same.
	h.write("prompts/p.md", "p\n")
	a.awaitCount(promptsChanged, 1)
	h.write("up.env", "A=2\n")
	eventually(t, "the env_file is followed", func() bool { return a.must("up__env", map[string]any{"name": "A"}) == "2" })
	d.stop()

	h.remove("config/harness/harness.toml")
	d = h.start()
	d.connected().eventuallyCalls("up__echo", map[string]any{"text": "x"})
	d.stop()

	// What is kept may depend on what is not there any more.
	h.env["GONE"] = "x"
	h.edit(good, "[harness.a]\ncmd = \"cat\"\nenv = { A = \"${GONE}\" }\n")
	d = h.start()
	delete(h.env, "GONE")
	d.stop()
	d = h.start()
	if s := d.status(); s.LastReload.OK || len(s.LastReload.Errors) != 2 || !strings.Contains(s.LastReload.Errors[1].Message, "last good config cannot be used") {
		t.Errorf("status: %+v", s.LastReload)
	}
	if log := d.log.String(); !strings.Contains(log, "the last good config cannot be used") || strings.Contains(log, "ever good") {
		t.Errorf("log: %s", log)
	}
	d.stop()

	// Never for another file.
	h.write("other.toml", "[mcp.up]\ncmd = \n")
	d = h.start("--config", h.path("other.toml"))
	if s := d.status(); len(s.Upstreams) != 0 || s.LastReload.OK {
		t.Errorf("status of another file: %+v", s)
	}
	h.write("other.toml", quick+h.upstream("ok"))
	b := d.connected()
	b.eventuallyCalls("ok__echo", map[string]any{"text": "x"})
}

func TestConfig_ThatGoesAwayChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	refused := func(what string) {
		t.Helper()
		eventually(t, what+" is refused", func() bool { return !d.status().LastReload.OK })
		a.well("ok")
		h.edit(h.upstream("ok"))
		eventually(t, "good again", func() bool { return d.status().LastReload.OK })
	}
	h.remove("config/harness/harness.toml")
	refused("a file that is gone")
	h.write(h.config(), "")
	refused("an empty file")
	h.write(h.config(), " \n\t\r\n")
	refused("white space")
	if n := a.count(toolsChanged); n != 0 || h.starts("ok") != 1 {
		t.Errorf("%d notifications, %d starts", n, h.starts("ok"))
	}
	h.write(h.config(), "# no servers\n")
	a.awaitCount(toolsChanged, 1)
	if got := a.call("ok__echo", nil); got.code() != "unknown_namespace" {
		t.Errorf("with a comment alone: %s", got)
	}
}

func TestDaemon_WithoutAConfigWatchesForOne(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if err := os.RemoveAll(h.path("config")); err != nil {
		t.Fatal(err)
	}
	d := h.start()
	a := d.connected()
	if names := a.toolNames(); len(names) != 0 {
		t.Errorf("tools: %v", names)
	}
	h.configure(quick, h.upstream("ok"))
	a.awaitCount(toolsChanged, 1)
	a.well("ok")
}

func TestIntent_TheLaterOfFileAndHandWins(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	on, off := h.upstream("up"), set(h.upstream("up"), "enabled", "false")
	d := h.run(off, h.upstream("ok"))
	a := d.connected()
	state := func() string { return d.status().up(t, "up").State }
	if got := state(); got != "stopped" {
		t.Errorf("enabled = false: %s", got)
	}
	d.must("start", "mcp.up")
	if got := state(); got != "running" {
		t.Errorf("after start: %s", got)
	}
	a.awaitCount(toolsChanged, 1)
	d.must("start", "mcp.up") // idempotent
	a.well("up")

	d.stop()
	d = h.start() // intent survives
	d.mustReload()
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	d.must("stop", "mcp.up")
	d.must("stop", "mcp.up")
	if got := state(); got != "stopped" {
		t.Errorf("after stop: %s", got)
	}
	h.edit(set(off, "description", `"new"`), h.upstream("ok")) // enabled did not change
	d.mustReload()
	if got := state(); got != "stopped" {
		t.Errorf("after an edit of something else: %s", got)
	}
	h.edit(on, h.upstream("ok"))
	d.mustReload()
	d.awaitState("up", "running")
	d.must("stop", "mcp.up")
	h.edit(off, h.upstream("ok"))
	d.mustReload()
	h.edit(on, h.upstream("ok"))
	d.mustReload()
	d.awaitState("up", "running")
	a.well("ok")

	before := *d.status().up(t, "up").PID
	d.must("restart", "mcp.up")
	if u := d.status().up(t, "up"); u.State != "running" || *u.PID == before {
		t.Errorf("after restart: %v", u)
	}
	for _, args := range [][]string{{"start", "mcp.nobody"}, {"stop", "mcp.nobody"}, {"restart", "nobody"}} {
		if o := d.harness(args...); o.code != 1 || o.stderr == "" {
			t.Error(o)
		}
	}
}

func TestEvents_TellWhatHappensAsItHappens(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	var out buffer
	cmd := h.command(t.Context(), "harness", "events", "--json")
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	// Whoever listens is told from then on; edits go on until it listens.
	for i := 0; out.String() == ""; i++ {
		h.edit(set(h.upstream("ok"), "call_timeout", fmt.Sprintf(`"%ds"`, 60+i)))
		d.mustReload()
	}
	h.edit(h.upstream("ok"), h.upstream("up"))
	a.awaitCount(toolsChanged, 1)
	h.edit("[mcp.broken]\ncmd = 5\n")
	told := func(part string) {
		t.Helper()
		eventually(t, "an event with "+part, func() bool { return strings.Contains(out.String(), part) })
	}
	told("mcp.broken.cmd")
	told("harness.toml:6")
	told(`"name":"up"`)
	a.call("ok__die", nil)
	told("exit")
	kinds := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		var e struct {
			At         time.Time
			Kind       string
			Name       *string
			Generation *int
			Message    string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.At.IsZero() || e.Kind == "" || e.Message == "" {
			t.Errorf("an event: %s", line)
		}
		kinds[e.Kind] = true
	}
	if len(kinds) < 4 {
		t.Errorf("kinds: %v", kinds)
	}
}

func TestState_ThatIsTornIsSetAside(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	d.connected().well("ok")
	d.stop()
	var torn []string
	err := filepath.WalkDir(h.path("state"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		torn = append(torn, path)
		return os.WriteFile(path, text[:len(text)/2], 0o600)
	})
	if err != nil || len(torn) < 2 {
		t.Fatal(torn, err)
	}
	d = h.start()
	d.mustReload()
	d.connected().well("ok")
	for _, path := range torn {
		if !strings.Contains(d.log.String(), filepath.Base(path)) {
			t.Errorf("no word of %s in the log", path)
		}
	}
}

// A pipe has nobody at its other end: whoever opens one to read it waits for good.
func TestState_ThatIsAPipeIsSetAside(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	d.connected().well("ok")
	d.stop()
	pipes := []string{"projects.json", "groups.json", "daemon.lock", "socket"}
	err := filepath.WalkDir(h.path("state/harness"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".json" || strings.HasPrefix(path, h.path("state/harness/runs")) {
			return err
		}
		name, err := filepath.Rel(h.path("state/harness"), path)
		pipes = append(pipes, name)
		return err
	})
	if err != nil || len(pipes) < 7 {
		t.Fatal(pipes, err)
	}
	for _, name := range pipes {
		path := h.path("state/harness/" + name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d = h.start()
	d.mustReload()
	d.connected().well("ok")
	for _, name := range pipes {
		if name != "socket" && !strings.Contains(d.log.String(), filepath.Base(name)) {
			t.Errorf("no word of %s in the log", name)
		}
		if info, err := os.Lstat(h.path("state/harness/" + name)); err == nil && !info.Mode().IsRegular() {
			t.Errorf("%s is still a pipe", name)
		}
	}
	if strings.Contains(d.log.String(), "<nil>") {
		t.Error(d.log.String())
	}
}

func TestLog_IsOneRecordALine(t *testing.T) {
	t.Parallel()
	for format, line := range map[string]*regexp.Regexp{
		"text": regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=.+$`),
		"json": regexp.MustCompile(`^\{"time":"[^"]+","level":"(DEBUG|INFO|WARN|ERROR)","msg":".*\}$`),
	} {
		h := newHome(t)
		h.configure(quick, h.upstream("ok"))
		d := h.start("--log-format", format)
		h.edit(h.upstream("ok"), "[mcp.bad]\ncmd = \"no-such\\u001b[31mprogram\\u202e\"\n")
		d.mustReload(time.Second)
		d.awaitError("bad", "no-such")
		if text := d.must("status"); strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("status: %q", text)
		}
		d.stop()
		if format == "text" && strings.ContainsAny(d.log.String(), "\x1b\u202e") {
			t.Error("a control character in the log")
		}
		for record := range strings.Lines(d.log.String()) {
			if !line.MatchString(strings.TrimSuffix(record, "\n")) {
				t.Errorf("%s: %q", format, record)
			}
		}
	}
}

func TestPublish_OneNotificationForAllOfAnEdit(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("prompts/p.md", "p\n")
	d := h.run(h.upstream("ok"), h.upstream("gone1"), h.upstream("gone2"), h.prompting("prompts"))
	a := d.connected()
	// The late one keeps the publish waiting for as long as it may.
	h.edit(h.upstream("ok"), h.prompting("prompts"), h.upstream("late", "-start-gate", h.path("gate")), h.table("bad", "no-such-program", nil))
	a.awaitCount(toolsChanged, 1)
	if names := strings.Join(a.toolNames(), " "); strings.Contains(names, "gone") || strings.Contains(names, "late") {
		t.Errorf("after the notification: %s", names)
	}
	h.write("gate", "")
	a.awaitCount(toolsChanged, 2)
	if !a.sees("late__echo") {
		t.Error("the second notification was not of the late one")
	}
	a.well("late")
	a.well("ok")
	if n, m := a.count(toolsChanged), a.count(promptsChanged); n != 2 || m != 0 {
		t.Errorf("%d notifications of tools, %d of prompts", n, m)
	}
}
