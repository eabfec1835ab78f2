package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"harness/pkg/config"
)

// BenchmarkReload compares reloads of a large fleet with those of a small one.
func BenchmarkReload(b *testing.B) { benchmark(b, reloadParts()) }

func reloadParts() []part {
	return []part{
		{"reload", "live", reloadLive},
		{"reload", "swap", reloadSwap},
	}
}

// smallFleet is how many upstreams the fleet has that a large one is compared
// with.
const smallFleet = 2

// fleet is a daemon and what its config is made of.
type fleet struct {
	*daemon
	tables []string
}

func startFleet(tb testing.TB, n int) *fleet {
	tb.Helper()
	h := newHome(tb)
	tables := h.fleet(n)
	return &fleet{h.start(tables...), tables}
}

// text is the config with lines added to the last table, as an edit adds them.
func (f *fleet) text(more string) string {
	last := len(f.tables) - 1
	return configText(append(slices.Clone(f.tables[:last]), f.tables[last]+more)...)
}

// unwatched is how long after an edit the daemon has certainly read it by
// itself too, and is idle again.
const unwatched = 100 * time.Millisecond

// timed saves text unless it is "", asks for a reload, which has to take one
// action or, of "", none, and returns how long that took, in ms. Where the
// daemon was quicker to follow the file than this process to ask, which only
// happens on a machine that has other things to do, it returns false.
func (f *fleet) timed(text, action string) (float64, bool) {
	f.tb.Helper()
	if text != "" {
		f.configure(text)
	}
	began := time.Now()
	changed := f.reload()
	took := millis(time.Since(began))
	pause(unwatched)
	switch {
	case len(changed) == 0:
		return took, action == ""
	case len(changed) == 1 && changed[0].Action == "pending":
		return took, false
	case len(changed) != 1 || changed[0].Action != action:
		f.tb.Fatalf("the reload did %+v, not %q", changed, action)
	}
	return took, true
}

// turns are the samples of one kind of reload, large and small fleet in turns.
type turns struct{ large, small []float64 }

// take measures both fleets until both measured the same thing. text gets a
// number that no earlier text had.
func (t *turns) take(large, small *fleet, action string, text func(f *fleet, n int) string) {
	for {
		n := len(t.large) + int(time.Now().UnixNano()%1e9)
		l, ok := large.timed(text(large, n), action)
		s, same := small.timed(text(small, n), action)
		if ok && same {
			t.large, t.small = append(t.large, l), append(t.small, s)
			return
		}
	}
}

func (t *turns) figure(what, unit string) figure {
	return figure{
		what: what, unit: unit, value: median(t.large), than: "2-upstreams", base: median(t.small),
		ratio: median(ratios(t.large, t.small)),
	}
}

// reloadLive changes what needs no process: the reloads are the daemon's own
// work. What a reload of the larger file may cost more is reading it.
func reloadLive(tb testing.TB, s scale) []figure {
	large, small := startFleet(tb, s.fleet), startFleet(tb, smallFleet)
	described := func(f *fleet, n int) string { return f.text(fmt.Sprintf("description = \"edit %d\"\n", n)) }
	said := func(f *fleet, n int) string { return f.text(fmt.Sprintf("# %d\n", n)) }
	same := func(*fleet, int) string { return "" }
	var live, comment, nothing, reading turns
	for n := range s.reps {
		reading.large = append(reading.large, loading(tb, described(large, n)))
		reading.small = append(reading.small, loading(tb, described(small, n)))
		live.take(large, small, "update", described)
		nothing.take(large, small, "", same)
	}
	// Without the description again, so that comments alone are left to change.
	live.take(large, small, "update", said)
	for range s.reps {
		comment.take(large, small, "", said)
	}
	beyond := turns{less(live.large, reading.large), less(live.small, reading.small)}
	held := beyond.figure("the same, less config.Load", "ms-p50-beyond")
	held.bound = bound{1, true, "PRF-5"}
	return []figure{
		live.figure(fmt.Sprintf("1 changed of %d", s.fleet), "ms-p50-live"),
		reading.figure("config.Load in process", "ms-p50-load"),
		held,
		comment.figure("a comment changed", "ms-p50-comment"),
		nothing.figure("nothing changed", "ms-p50-noop"),
	}
}

func less(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] - b[i]
	}
	return out
}

// loading loads a text in this process and returns how long it took, in ms.
func loading(tb testing.TB, text string) float64 {
	tb.Helper()
	began := time.Now()
	_, _, faults := config.Load(config.Source{Path: "/harness.toml", Data: []byte(text), Kind: config.Global}, config.Env{Home: "/"})
	took := millis(time.Since(began))
	if len(faults) > 0 {
		tb.Fatal(faults)
	}
	return took
}

// reloadSwap changes what another process is needed for, and compares that
// with starting the process by hand.
func reloadSwap(tb testing.TB, s scale) []figure {
	large, small := startFleet(tb, s.fleet), startFleet(tb, smallFleet)
	marked := func(f *fleet, n int) string { return f.text(fmt.Sprintf("env = { MARK = \"%d\" }\n", n)) }
	var swap turns
	var byHand []float64
	for range s.reps {
		swap.take(large, small, "swap", marked)
		byHand = append(byHand, spawning(tb, 1))
		large.allRun()
		small.allRun()
	}
	against := swap.figure(fmt.Sprintf("1 swapped of %d", s.fleet), "ms-p50-swap")
	against.than, against.base, against.ratio = "direct", median(byHand), median(ratios(swap.large, byHand))
	return []figure{swap.figure(fmt.Sprintf("1 swapped of %d", s.fleet), "ms-p50-swap"), against}
}
