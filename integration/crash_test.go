package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"harness/integration/fakeup"
)

func TestC09_ACrashFailsItsCallsAtOnceAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(set(h.upstream("up"), "restart_delay", `"700ms"`), h.upstream("ok"))
	a, b := d.connected(), d.connected()
	beside := b.beginCall("up__hang", nil)
	steady := b.beginCall("ok__sleep", map[string]any{"ms": 800})
	eventually(t, "the call beside it arrives", func() bool { return fakeup.Count(h.record("up"), fakeup.Received, `"hang"`) == 1 })

	for _, c := range []*call{a.beginCall("up__die", map[string]any{"code": 3}), beside} {
		r := resultOf(t, c.wait())
		if r.code() != "upstream_unavailable" || !strings.Contains(r.text(), "3") {
			t.Errorf("a call in flight: %s", r)
		}
	}
	down := a.call("up__echo", map[string]any{"text": "x"})
	if retry, _ := down.Meta.Harness["retry_in_ms"].(float64); down.code() != "upstream_unavailable" ||
		down.Meta.Harness["upstream"] != "up" || down.Meta.Harness["state"] != "restarting" || retry <= 0 || retry > 700 {
		t.Errorf("a call while it is down: %s", down)
	}
	if !a.sees("up__echo") {
		t.Error("the tools of a crashed upstream are gone")
	}
	if got := a.eventuallyCalls("up__echo", map[string]any{"text": "again"}); got != "again" {
		t.Errorf("after the restart: %q", got)
	}
	if r := steady.result(); !r.ok() {
		t.Errorf("a call of the other upstream: %s", r)
	}
	if u := d.status().up(t, "up"); u.Restarts != 1 || u.State != "running" {
		t.Errorf("status: %v", u)
	}
	if n := h.starts("up"); n != 2 {
		t.Errorf("%d starts", n)
	}
	a.well("ok")
	if n := a.count(toolsChanged) + b.count(toolsChanged); n != 0 {
		t.Errorf("%d notifications although the list is the same", n)
	}
}

func TestC09_TheCallerHearsWithinASecond(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	// The heir keeps the pipes open, so the end of the process is all there
	// is to notice.
	d := h.run(h.upstream("up", "-heir"), h.upstream("ok"))
	a := d.connected()
	m := a.beginCall("up__die", nil).waitIn(within(time.Second))
	if r := resultOf(t, m); r.code() != "upstream_unavailable" {
		t.Errorf("got %s", r)
	}
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	eventually(t, "the first heir is ended", func() bool {
		return len(mentioning(t, h.recordFile("up"))) == 2
	})
	a.well("ok")
}

func TestCrash_ASignalIsNamed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(set(h.upstream("up"), "restart_delay", `"5s"`), h.upstream("ok"))
	a := d.connected()
	signal(t, *d.status().up(t, "up").PID, syscall.SIGKILL)
	u := d.awaitState("up", "restarting")
	if u.Error == nil || !strings.Contains(*u.Error, "SIGKILL") {
		t.Errorf("status: %v", u)
	}
	d.must("restart", "mcp.up")
	if u := d.status().up(t, "up"); u.State != "running" {
		t.Errorf("after a manual restart: %v", u)
	}
	a.well("up")
	a.well("ok")
}

func TestC49_NothingOutlivesAKilledDaemonAndItsSuccessor(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tree := []string{"-c", fmt.Sprintf("sh -c '%s -ignore-eof -ignore-term -record %s; true'; true", filepath.Join(bin(t), "fake-upstream"), h.recordFile("up"))}
	h.configure(quick, h.table("up", "sh", tree), h.upstream("ok", "-ignore-eof", "-ignore-term", "-heir"))

	// What is not the daemon's may not be touched, however alike it looks.
	stranger := h.command(t.Context(), "fake-upstream", "-linger")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stranger.Process.Kill(); stranger.Wait() })

	own := func() []process {
		return slices.DeleteFunc(mentioning(t, h.dir+"/record-"), func(p process) bool { return p.pid == stranger.Process.Pid })
	}
	for range 3 {
		d := h.start()
		a := d.connected()
		a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
		a.well("ok")
		// sh, sh, server; and server, heir.
		eventuallyIn(t, within(5*time.Second), "one tree for each upstream", func() bool { return len(own()) == 5 })
		if z := zombiesOf(t, d.pid()); len(z) != 0 {
			t.Errorf("zombies: %v", z)
		}
		a.end()
		d.kill()
	}
	d := h.start()
	a := d.connected()
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	a.well("ok")
	d.stop()
	if left := own(); len(left) != 0 {
		t.Errorf("after a clean stop: %v", left)
	}
	if !alive(stranger.Process.Pid) {
		t.Error("a process that was not the daemon's was killed")
	}
}

func TestStop_FindsDescendantsThatLeftTheGroup(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up", "-family"), h.upstream("ok"))
	a := d.connected()
	eventually(t, "the family is there", func() bool { return len(mentioning(t, h.recordFile("up"))) == 3 })
	d.must("stop", "mcp.up")
	if left := mentioning(t, h.recordFile("up")); len(left) != 0 {
		t.Errorf("stopped, and still there: %v", left)
	}
	if z := zombiesOf(t, d.pid()); len(z) != 0 {
		t.Errorf("zombies: %v", z)
	}
	a.well("ok")
}

func TestStop_TheLadderIsStdinThenTermThenKill(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("polite"), h.upstream("deaf", "-ignore-eof"), h.upstream("stubborn", "-ignore-eof", "-ignore-term"), h.upstream("ok"))
	for key, want := range map[string][]string{
		"polite":   {fakeup.EOF},
		"deaf":     {fakeup.EOF, fakeup.Signaled},
		"stubborn": {fakeup.EOF, fakeup.Signaled},
	} {
		o := d.harness("stop", "mcp."+key)
		if o.code != 0 {
			t.Error(o)
		}
		var signs []string
		var at []time.Time
		for _, e := range h.record(key) {
			if e.What == fakeup.EOF || e.What == fakeup.Signaled {
				signs = append(signs, e.What)
				at = append(at, e.At)
			}
		}
		if !slices.Equal(signs, want) {
			t.Errorf("%s: %v, not %v", key, signs, want)
		}
		if len(at) == 2 && at[1].Sub(at[0]) < 400*time.Millisecond {
			t.Errorf("%s: SIGTERM came %v after the end of stdin, not after a third of stop_grace", key, at[1].Sub(at[0]))
		}
		if len(mentioning(t, h.recordFile(key))) != 0 {
			t.Errorf("%s: still there", key)
		}
	}
	d.connected().well("ok")
}

func TestC51_AFloodOnStderrStopsAndFillsNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up", "-stderr-first", fmt.Sprint(1<<20)), h.upstream("ok"))
	a := d.connected()
	a.well("up")
	a.must("up__flood", map[string]any{"bytes": 100 << 20})
	a.must("up__log", map[string]any{"text": "\nafter the flood"})
	a.well("up")
	eventually(t, "the log goes on", func() bool { return strings.Contains(d.must("logs", "mcp.up"), "after the flood") })
	limit := int64(100 << 20)
	if raceEnabled {
		limit *= 4
	}
	if rss := memoryOf(t, d.pid()); rss > limit {
		t.Errorf("the daemon has %d MiB", rss>>20)
	}
	if size := sizeOf(t, h.path("state")); size > 40<<20 {
		t.Errorf("the state directory has %d MiB", size>>20)
	}
	a.well("ok")
}

// sizeOf is the bytes of all files under a directory.
func sizeOf(t *testing.T, dir string) int64 {
	t.Helper()
	var size int64
	err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func TestCrash_AFailedUpstreamComesBackByHand(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	broken := h.path("broken")
	h.write("broken", "")
	// The delay never exceeds 50 times restart_delay, so sixteen exits fit in
	// a test.
	table := set(h.table("up", "sh", []string{"-c", "test -e " + broken + " && exit 7; exec fake-upstream"}), "restart_delay", `"10ms"`)
	d := h.run(table, h.upstream("ok"))
	a := d.connected()
	u := d.awaitState("up", "failed")
	if u.Error == nil || !strings.Contains(*u.Error, "7") || u.Restarts < 14 {
		t.Errorf("status: %v", u)
	}
	if r := a.call("up__echo", nil); r.code() != "upstream_unavailable" || r.Meta.Harness["state"] != "failed" {
		t.Errorf("a call of a failed upstream: %s", r)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	d.must("start", "mcp.up")
	if u := d.status().up(t, "up"); u.State != "running" || u.Restarts != 0 {
		t.Errorf("after start: %v", u)
	}
	a.well("up")
	a.well("ok")
}
