package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// number waits for a process id that a harness has written into a file.
func (h *home) number(file string) (pid int) {
	h.t.Helper()
	eventually(h.t, file+" is written", func() bool {
		text, _ := os.ReadFile(h.path(file))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	})
	return pid
}

// A stop is SIGTERM and SIGHUP at once, SIGKILL at stop_grace, and over when
// nothing is left, also of what has left the group (LIF-3).
func TestHarness_AStopEndsAllOfIt(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	heard := h.write("heard", "")
	polite := "trap 'echo TERM >> " + heard + "' TERM; trap 'echo HUP >> " + heard + "' HUP; echo $$ > " + h.path("polite") +
		"; until [ \"$(wc -l < " + heard + ")\" = 2 ]; do sleep 0.05; done" // what it runs meanwhile is ended by the signals
	deaf := "trap '' TERM HUP; setsid sleep 1000 & echo $! > " + h.path("away") + "; sleep 1000 & echo $! > " + h.path("deaf") + "; while :; do sleep 1000; done"
	h.configure(quick, harnessTable("polite", polite, "enabled = true"), harnessTable("deaf", deaf, "enabled = true"))
	h.start()
	pids := []int{h.number("polite"), h.number("away"), h.number("deaf"), h.awaitHarness("deaf", "running").PID}
	h.must("stop", "polite")
	if text, err := os.ReadFile(heard); err != nil || strings.Count(string(text), "TERM") != 1 || strings.Count(string(text), "HUP") != 1 {
		t.Errorf("it heard %q, %v", text, err)
	}
	o := h.harness("stop", "deaf")
	if grace := 1500 * time.Millisecond; o.code != 0 || o.took < grace {
		t.Errorf("one that does not go is stopped after %v: %v", grace, o)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	for name, l := range h.list() {
		if l.State != "stopped" || l.PID != 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// An exit is seen although the terminal is held, and what is left is ended
// before the next start (LIF-2, LIF-3). An exit with 0 is one too.
func TestHarness_AnExitIsSeenThoughTheTerminalIsHeld(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := "trap '' TERM HUP; sleep 1000 & echo $! > " + h.path("child") + "; exit 0"
	h.configure(quick, harnessTable("a", script, "enabled = true\nrestart_delay = \"1h\""))
	h.start()
	child := h.number("child")
	a := h.awaitHarness("a", "restarting")
	if a.LastExit == nil || a.LastExit.Code == nil || *a.LastExit.Code != 0 || a.PID != 0 {
		t.Errorf("%+v", a)
	}
	eventually(t, "what it left is ended", func() bool { return !alive(child) })
}

// A harness has the daemon's environment without what is another harness's,
// then its file's, its table's, and its identity (LIF-8, WHO-1).
func TestEnvironment_OfAHarness(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env["HARNESS_SOCKET"], h.env["HARNESS_NAME"], h.env["HARNESS_MCP_TOKEN"], h.env["HARNESS_OTHER"] = h.socket(), "outer", "outer", "outer"
	h.env["KEPT"], h.env["BOTH"] = "daemon", "daemon"
	file := h.write("a.env", "BOTH=file\nALL=file\nHOME=/file\n")
	h.configure(quick, harnessTable("a", h.lender(), fmt.Sprintf("enabled = true\nenv_file = %q\nenv = { ALL = \"table\" }", file)))
	h.start()
	token := h.identityOf("a", "")
	text, err := os.ReadFile(h.path("env-a"))
	if err != nil {
		t.Fatal(err)
	}
	env := "\n" + string(text)
	for _, want := range []string{"KEPT=daemon", "BOTH=file", "ALL=table", "HOME=/file", "HARNESS_NAME=a", "HARNESS_SOCKET=" + h.socket(), "TERM=xterm-256color"} {
		if !strings.Contains(env, "\n"+want+"\n") {
			t.Errorf("no %s in %s", want, env)
		}
	}
	if strings.Contains(env, "outer") || strings.Count(env, "\nHARNESS_") != 4 || !strings.Contains(env, "\nHARNESS_RUN_ID=") {
		t.Errorf("its identity is not its own: %s", env)
	}
	if len(token) < 22 { // of 6 bits each
		t.Errorf("a token of %d characters", len(token))
	}
}

// A harness and what it started end with a killed daemon, at the latest when the
// next one starts, which starts it anew. What it knew of itself proves nothing
// any more, and agents from elsewhere go on (C67, LIF-4, WHO-2).
func TestC67_HarnessesOfAKilledDaemonAreStartedAnew(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	script := "(trap '' TERM HUP; exec sleep 1000) & echo $! > " + h.path("child") + "; " + h.lender()
	h.configure(quick, h.upstream("up"), harnessTable("a", script, "enabled = true\nmcp_allow = [\"write\"]"))
	d := h.start()
	first, child, token := h.awaitHarness("a", "running"), h.number("child"), h.identityOf("a", "")
	owner, stranger := h.bearing(token), h.connected()
	owner.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	if own := owner.ownTools(); len(own) != len(readTools)+len(writeTools) {
		t.Errorf("the owner has %v", own)
	}
	eventually(t, "the daemon has noted what it started", func() bool {
		record, _ := os.ReadFile(h.path("state/harness/groups.json"))
		return strings.Contains(string(record), fmt.Sprintf(":%d,", child))
	})
	d.kill()
	eventually(t, "it ended with its daemon", func() bool { return !alive(first.PID) })
	h.start()
	if now := h.awaitHarness("a", "running"); now.PID == first.PID || now.Restarts != 0 {
		t.Errorf("started anew: %+v", now)
	}
	if alive(child) {
		t.Error("it was started anew beside what the last one had started")
	}
	h.identityOf("a", token)
	for _, a := range []*agent{owner, stranger} {
		a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
		if r := a.call("harness_stop", map[string]any{"name": "a"}); r.code() != "permission_denied" {
			t.Errorf("with nothing to show: %s", r)
		}
	}
	owner.awaitCount(toolsChanged, 1)
	if own := owner.ownTools(); len(own) != len(readTools) {
		t.Errorf("with a token of the last daemon's: %v", own)
	}
}

// What a harness prints is taken from it whatever its speed, and kept within
// bounds; its end is there when it has ended (LIF-7).
func TestHarness_PrintsAsMuchAsItLikes(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	bytes := 100 << 20
	if raceEnabled {
		bytes = 11 << 20 // more than one file of the log
	}
	script := fmt.Sprintf("yes 'one line of many that somebody may want to see' | head -c %d; echo; echo the last line; read more", bytes)
	h.configure(quick, harnessTable("a", script, "enabled = true"), harnessTable("b", "echo calm; read more", "enabled = true"))
	d := h.start()
	h.awaitHarness("a", "running")
	eventually(t, "it has printed all", func() bool { return strings.Contains(d.must("logs", "a", "-n", "5"), "the last line") })
	if out := d.must("logs", "b"); !strings.Contains(out, "calm") {
		t.Errorf("another one's log: %q", out)
	}
	if size := sizeOf(t, h.path("state")); size > 70<<20 {
		t.Errorf("the state directory has %d MiB", size>>20)
	}
	for name, l := range h.list() {
		if l.State != "running" || l.Restarts != 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// A harness that waits for its next try is not made to wait for a definition that
// never was tried.
func TestHarness_AChangedDefinitionIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	table := func(script string) string {
		return harnessTable("a", script, "enabled = true\nrestart_delay = \"600s\"")
	}
	h.configure(table("exit 3"))
	h.start()
	state := func(want string) {
		t.Helper()
		eventually(t, "a is "+want, func() bool {
			return strings.Contains(h.must("describe", "a", "--json"), `"state": "`+want+`"`) || strings.Contains(h.must("describe", "a", "--json"), `"state":"`+want+`"`)
		})
	}
	state("restarting")
	h.configure(table("sleep 600"))
	state("running")
	if out := h.must("list", "--json"); !strings.Contains(strings.ReplaceAll(out, " ", ""), `"restarts":0`) {
		t.Errorf("it counts the tries of the one before: %s", out)
	}
}
