package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestC05_ASlowFirstStartIsWaitedForAndDelaysNobody(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, h.upstream("up", "-start-gate", h.path("gate")), h.upstream("ok"))
	d := h.start()
	d.awaitState("ok", "running")
	d.mustReload(10 * time.Millisecond)

	a := d.agent()
	start := time.Now()
	a.initialize("2025-11-25")
	a.initialized()
	a.begin("tools/list", nil).waitIn(within(time.Second))
	if took := time.Since(start); took > within(time.Second) {
		t.Errorf("initialize and tools/list took %v", took)
	}
	if names := strings.Join(a.toolNames(), " "); !strings.Contains(names, "ok__echo") || strings.Contains(names, "up__") {
		t.Errorf("tools before the upstream is up: %s", names)
	}
	early := a.beginCall("up__echo", map[string]any{"text": "early"})
	a.well("ok")
	h.write("gate", "")
	a.awaitCount(toolsChanged, 1)
	if !a.sees("up__echo") {
		t.Error("the notification came before the tools")
	}
	if r := early.result(); r.text() != "early" {
		t.Errorf("a call during the first start: %s", r)
	}
	if n := h.starts("up"); n != 1 {
		t.Errorf("%d starts", n)
	}
	a.well("ok")
	if n := a.count(toolsChanged); n != 1 {
		t.Errorf("%d notifications", n)
	}
}

func TestC05_AColdStartIsGivenItsTime(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	// Killed before it got through, it would begin again, and never converge.
	d := h.run(h.upstream("up", "-start-delay", "2s", "-start-marker", h.path("marker")), h.upstream("ok"))
	a := d.connected()
	a.well("up")
	a.well("ok")
	if n := h.starts("up"); n != 1 {
		t.Errorf("%d starts", n)
	}
}

func TestC07_OneBadUpstreamSpoilsNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.table("bad", "no-such-program", nil), h.upstream("mute", "-mute", "initialize"),
		h.upstream("rude", "-exit-on", "initialize"), h.upstream("ok"))
	a := d.connected()
	a.well("ok")
	u := d.awaitError("bad", "no-such-program")
	for _, want := range []string{"not found", h.env["PATH"]} {
		if !strings.Contains(*u.Error, want) {
			t.Errorf("the error does not say %q: %s", want, *u.Error)
		}
	}
	if r := a.call("bad__x", nil); r.code() != "upstream_unavailable" {
		t.Errorf("a call of it: %s", r)
	}
	if took := d.harness("reload", "--wait", "10ms").took; took > within(2*time.Second) {
		t.Errorf("a reload beside it took %v", took)
	}
}

// awaitError waits until the status of an upstream has an error that contains
// text.
func (h *home) awaitError(name, text string) upstreamStatus {
	h.t.Helper()
	var u upstreamStatus
	eventually(h.t, name+" has the error "+text, func() bool {
		u = h.status().up(h.t, name)
		return u.Error != nil && strings.Contains(*u.Error, text)
	})
	return u
}

func TestStart_NoAnswerInTimeCountsAsAnExit(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(set(h.upstream("up", "-mute", "initialize", "-ignore-eof", "-ignore-term"), "start_timeout", `"300ms"`), h.upstream("ok"))
	a := d.connected()
	eventually(t, "a second start", func() bool { return h.starts("up") >= 2 })
	a.well("ok")
	if u := d.status().up(t, "up"); u.Restarts == 0 || u.Error == nil || !strings.Contains(*u.Error, "initialize") {
		t.Errorf("status: %v", u)
	}
	d.must("stop", "mcp.up")
	eventually(t, "nothing of it is left", func() bool { return len(mentioning(t, h.recordFile("up"))) == 0 })
}

func TestC11_ExitingAtOnceIsAFailureAndNoBusyLoop(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	starts := h.path("starts")
	d := h.run(set(h.table("up", "sh", []string{"-c", "date +%s%N >> " + starts}), "restart_delay", `"200ms"`), h.upstream("ok"))
	a := d.connected()
	eventually(t, "seven starts", func() bool { return len(lines(t, starts)) >= 7 })

	var before int64
	for i, line := range lines(t, starts) {
		at, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if gap := time.Duration(at - before); i > 0 && gap < 200*time.Millisecond {
			t.Errorf("start %d came %v after the one before", i, gap)
		}
		before = at
	}
	u := d.awaitState("up", "degraded")
	if u.Restarts < 5 || u.Error == nil || !regexp.MustCompile(`exit.*\b0\b|code 0`).MatchString(*u.Error) || u.NextRetryMS == nil {
		t.Errorf("status: %v", u)
	}
	if n := strings.Count(d.log.String(), "mcp.up") + strings.Count(d.log.String(), "upstream=up"); n > 60 {
		t.Errorf("%d lines of log", n)
	}
	a.well("ok")
}

// lines are the lines of a file that may not be there yet.
func lines(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

func TestC47_TheProgramIsFoundWhereTheConfigSays(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	fake := filepath.Join(bin(t), "fake-upstream")
	h.env = map[string]string{"HOME": h.env["HOME"], "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": h.env["XDG_RUNTIME_DIR"], "GORACE": h.env["GORACE"]}
	config := ".config/harness/harness.toml"
	for _, name := range []string{"home/bin/mytool", "home/.config/harness/tools/mytool"} {
		script := h.write(name, "#!/bin/sh\nexec "+fake+" \"$@\"\n")
		if err := os.Chmod(script, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(cmd string) string {
		return quick + h.table("up", cmd, nil) + h.table("ok", fake, nil)
	}
	h.write("home/"+config, entry("mytool"))
	d := h.start()
	a := d.connected()
	u := d.awaitError("up", "mytool")
	if !strings.Contains(*u.Error, "/usr/bin:/bin") {
		t.Errorf("the error does not say which PATH: %s", *u.Error)
	}
	for _, cmd := range []string{"~/bin/mytool", "tools/mytool", "${HOME}/bin/mytool"} {
		h.write("home/"+config, entry(cmd))
		d.mustReload()
		d.awaitState("up", "running")
		a.well("up")
		h.write("home/"+config, entry("mytool-is-not-here"))
		d.mustReload()
	}
	a.well("ok")
}

func TestStart_AnUpstreamThatRefusesInitializeIsProbed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up", "-refuse", "initialize", "-exit-on", "server/discover"), h.upstream("ok"))
	a := d.connected()
	eventually(t, "the probe", func() bool {
		for _, e := range h.record("up") {
			if strings.Contains(e.Text, "server/discover") {
				return true
			}
		}
		return false
	})
	for _, e := range h.record("ok") {
		if strings.Contains(e.Text, "server/discover") {
			t.Error("an upstream that takes initialize was probed")
		}
	}
	a.well("ok")
}
