package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkMemory weighs the daemon, what it runs, and the bridges.
func BenchmarkMemory(b *testing.B) { benchmark(b, memoryParts()) }

func memoryParts() []part { return []part{{"memory", "resident", weigh}} }

// weight is what the kernel says of one process, in MiB.
type weight struct {
	rss  float64 // resident, files that are mapped included
	anon float64 // resident and its own
}

func (w weight) plus(o weight) weight { return weight{w.rss + o.rss, w.anon + o.anon} }

// weighProcess reads /proc/PID/status.
func weighProcess(tb testing.TB, pid int) weight {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	return weight{statusMiB(tb, text, "VmRSS"), statusMiB(tb, text, "RssAnon")}
}

func statusMiB(tb testing.TB, text []byte, key string) float64 {
	tb.Helper()
	_, rest, _ := strings.Cut(string(text), "\n"+key+":")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 64)
	if err != nil {
		tb.Fatalf("%s: %v", key, err)
	}
	return kib / 1024
}

// weighTree adds up a process and all that descend from it.
func weighTree(tb testing.TB, pid int) weight {
	tb.Helper()
	total := weighProcess(tb, pid)
	for _, child := range children(tb, pid) {
		total = total.plus(weighTree(tb, child))
	}
	return total
}

// children are the processes that a process, by whichever thread, is the
// parent of.
func children(tb testing.TB, pid int) []int {
	tb.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		tb.Fatal(err)
	}
	var all []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that has ended has none
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// weigh reads memory before and while many sessions are open, each of which
// listed the tools and made a call.
func weigh(tb testing.TB, s scale) []figure {
	tb.Helper()
	d := newHome(tb).start((&home{tb: tb}).upstream("e"))
	f := startFloor(tb)
	pause(s.rest)
	idle, idleFloor := weighProcess(tb, d.cmd.Process.Pid), weighProcess(tb, f.pid)
	tree := weighTree(tb, d.cmd.Process.Pid)

	ours := agents(tb, s.sessions, d.env, d.bridge()...)
	use(tb, ours, "e__echo")
	theirs := agents(tb, s.sessions, os.Environ(), f.bridge...)
	use(tb, theirs, "echo")
	pause(s.rest)
	busy, busyFloor := weighProcess(tb, d.cmd.Process.Pid), weighProcess(tb, f.pid)
	bridge, bridgeFloor := typical(tb, ours), typical(tb, theirs)

	open := fmt.Sprintf("daemon, %d sessions", s.sessions)
	return []figure{
		{what: "daemon, no session", unit: "MiB-rss-idle", value: idle.rss, than: "floor", base: idleFloor.rss, bound: bound{30, false, "must"}},
		{what: "daemon, no session", unit: "MiB-anon-idle", value: idle.anon, than: "floor", base: idleFloor.anon},
		{what: open, unit: "MiB-rss-open", value: busy.rss, than: "floor", base: busyFloor.rss, bound: bound{45, false, "must"}},
		{what: open, unit: "MiB-anon-open", value: busy.anon, than: "floor", base: busyFloor.anon},
		{what: "a bridge", unit: "MiB-anon-bridge", value: bridge.anon, than: "floor", base: bridgeFloor.anon, bound: bound{6, false, "must"}},
		{what: "a bridge", unit: "MiB-rss-bridge", value: bridge.rss, than: "floor", base: bridgeFloor.rss},
		{what: "daemon and its upstream", unit: "MiB-rss-tree", value: tree.rss, than: "floor", base: weighTree(tb, f.pid).rss},
	}
}

// use lists the tools and makes a call in each session.
func use(tb testing.TB, sessions []*client, tool string) {
	tb.Helper()
	for i, c := range sessions {
		if _, err := c.tools(); err != nil {
			tb.Fatal(err)
		}
		want := fmt.Sprintf("session %d", i)
		got, err := c.call(tool, fmt.Sprintf(`{"text":%q}`, want))
		if err != nil || got != want {
			tb.Fatalf("%s answers %q, not %q: %v", tool, got, want, err)
		}
	}
}

// typical is the median weight of the processes behind sessions.
func typical(tb testing.TB, sessions []*client) weight {
	tb.Helper()
	var rss, anon []float64
	for _, c := range sessions {
		w := weighProcess(tb, c.cmd.Process.Pid)
		rss, anon = append(rss, w.rss), append(anon, w.anon)
	}
	return weight{median(rss), median(anon)}
}

// pause lets d pass where there is nothing to wait for but time.
func pause(d time.Duration) { <-time.After(d) }
