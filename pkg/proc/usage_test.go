package proc

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestUsage_CountsWhoDescends(t *testing.T) {
	w := table{}
	add := func(pid, parent, session int, dead bool) {
		w[pid] = entry{ident: ident{PID: pid}, parent: parent, session: session, dead: dead, ticks: uint64(pid), pages: 1}
	}
	add(10, 1, 10, false)  // the daemon
	add(20, 10, 20, false) // a root below it
	add(21, 20, 20, false)
	add(22, 21, 22, false) // left the session
	add(23, 1, 20, false)  // lost its parent
	add(24, 20, 20, true)
	add(30, 10, 30, false) // no root of its own
	add(40, 41, 40, false) // a circle of strangers
	add(41, 40, 40, false)
	want := map[int]Usage{
		10: {Processes: 2, CPU: 400 * time.Millisecond, Memory: 2 << 12},
		20: {Processes: 4, CPU: 860 * time.Millisecond, Memory: 4 << 12},
	}
	if diff := cmp.Diff(want, w.usage([]int{10, 20, 99}, 1<<12)); diff != "" {
		t.Error(diff)
	}
}

func TestUsage_CountsNobodyTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawTable(t)
		roots := rapid.SliceOfDistinct(rapid.IntRange(0, 12), rapid.ID[int]).Draw(t, "roots")
		total := 0
		for _, u := range w.usage(roots, 1) {
			total += u.Processes
		}
		if total > len(w) {
			t.Errorf("%d processes of %d", total, len(w))
		}
	})
}

func TestReadUsage_FindsThisProcess(t *testing.T) {
	all, err := ReadUsage([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if u := all[os.Getpid()]; u.Processes < 1 || u.Memory < 1<<20 {
		t.Errorf("%+v", u)
	}
}
