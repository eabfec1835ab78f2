package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/control"
)

func used(kind, name string, pid, processes int, cpu, memory int64) control.UnitUsage {
	return control.UnitUsage{Kind: kind, Name: name, State: "running", PID: &pid, Processes: &processes, CPUMS: &cpu, Memory: &memory}
}

func TestTopRows_SayHowBusyEverybodyIs(t *testing.T) {
	at := time.Unix(1000, 0)
	before := &control.Usage{At: at, Units: []control.UnitUsage{used("daemon", "daemon", 1, 1, 100, 3<<20), used("harness", "a", 2, 5, 5000, 1<<20), used("upstream", "u", 3, 1, 10, 2<<20)}}
	now := &control.Usage{At: at.Add(2 * time.Second), Units: []control.UnitUsage{
		used("daemon", "daemon", 1, 1, 0, 3<<20),
		used("harness", "a", 2, 1, 4000, 1<<20), // a child has ended
		used("upstream", "u", 4, 1, 900, 2<<20), // another process than before
		{Kind: "harness", Name: "b", State: "stopped"},
		used("upstream", "v", 5, 2, 7, 9<<20),
	}}
	*now.Units[0].CPUMS = 3100 // one and a half processors
	for _, tc := range []struct {
		name   string
		before *control.Usage
		order  topOrder
		want   string
	}{
		{"by how busy", before, byCPU, "daemon 1.50, a 0.00, mcp.u 0.00, b 0.00, mcp.v 0.00"},
		{"by memory", before, byMemory, "mcp.v 0.00, daemon 1.50, mcp.u 0.00, a 0.00, b 0.00"},
		{"by name", before, byName, "a 0.00, b 0.00, daemon 1.50, mcp.u 0.00, mcp.v 0.00"},
		{"at first by what was used", nil, byCPU, "a 0.00, daemon 0.00, mcp.u 0.00, mcp.v 0.00, b 0.00"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, r := range topRows(tc.before, now, tc.order) {
				got = append(got, fmt.Sprintf("%s %.2f", r.word(), r.busy))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTopTable_ShowsWhatIsKnown(t *testing.T) {
	rows := []topRow{{used("upstream", "u\x1b[2J", 4, 2, 61230, 3<<20), 0.123}, {control.UnitUsage{Kind: "harness", Name: "b", State: "stopped", Restarts: 3}, 0}}
	want := []string{
		`UNIT          STATE    PID  PROCESSES  CPU    CPU TIME  MEMORY   RESTARTS`,
		`mcp.u\x1b[2J  running  4    2          12.3%  1m1.23s   3.0 MiB  0`,
		`b             stopped  -    -          -      -         -        3`,
	}
	if diff := cmp.Diff(want, topTable(rows, true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := topTable(rows, false)[0]; got != `UNIT          STATE    PID  PROCESSES  CPU TIME  MEMORY   RESTARTS` {
		t.Error(got)
	}
	if got := topTotal(rows); got != "units 2, processes 2, CPU 12.3% of one processor, memory 3.0 MiB" {
		t.Error(got)
	}
}

func TestTopScreen_FitsItsTerminal(t *testing.T) {
	lines := []string{"HEAD", "one", "two", "three", "four"}
	if diff := cmp.Diff([]string{"total", "", "HEAD", "one", "two", "three", "four", "q quits; so"}, topScreen("total", lines, 11, 8)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"total", "", "HEAD", "one", "... and 3 mo", "q quits; sor"}, topScreen("total", lines, 12, 6)); diff != "" {
		t.Error(diff)
	}
	for _, rows := range []int{0, 1, 2, 3, 4} {
		if got := topScreen("total", lines, 80, rows); len(got) != 4 {
			t.Errorf("%d rows: %q", rows, got)
		}
	}
}
