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
	tables     []string
	edits      int    // so far
	generation uint64 // of the last one
}

func startFleet(tb testing.TB, n int) *fleet {
	tb.Helper()
	h := newHome(tb)
	tables := h.fleet(n)
	d := h.start(tables...)
	return &fleet{daemon: d, tables: tables, generation: d.status().Generation}
}

// text is the config with lines added to the last table, as an edit adds them.
func (f *fleet) text(more string) string {
	last := len(f.tables) - 1
	return configText(append(slices.Clone(f.tables[:last]), f.tables[last]+more)...)
}

// unwatched is how long after an edit the daemon has certainly read it by
// itself too, and is idle again.
const unwatched = 100 * time.Millisecond

// timed saves text unless it is "", asks for a reload, and returns how long it
// took until that said what is in force, in ms. It does not matter whether the
// daemon was told or saw the edit by itself first, but it has to have made so
// many generations of it.
func (f *fleet) timed(text string, generations uint64) float64 {
	f.tb.Helper()
	began := time.Now()
	if text != "" {
		began = f.configure(text)
	}
	f.reload()
	took := millis(time.Since(began))
	pause(unwatched)
	made := f.status().Generation - f.generation
	if made != generations {
		f.tb.Fatalf("%d generations were made, not %d", made, generations)
	}
	f.generation += made
	return took
}

// turns are the samples of one kind of reload, large and small fleet in turns.
type turns struct{ large, small []float64 }

// take measures both fleets. text gets a number that no earlier text had.
func (t *turns) take(large, small *fleet, generations uint64, text func(f *fleet, n int) string) {
	large.edits++
	t.large = append(t.large, large.timed(text(large, large.edits), generations))
	t.small = append(t.small, small.timed(text(small, large.edits), generations))
}

func (t *turns) figure(what, unit string) figure {
	return figure{
		what: what, unit: unit, value: median(t.large), than: "2-upstreams", base: median(t.small),
		ratio: median(ratios(t.large, t.small)),
	}
}

// reloadLive changes what needs no process: the reloads are the daemon's own
// work, and the wait for a file that was just saved to be quiet. What a reload
// of the larger file may cost more is reading it.
func reloadLive(tb testing.TB, s scale) []figure {
	tb.Helper()
	large, small := startFleet(tb, s.fleet), startFleet(tb, smallFleet)
	described := func(f *fleet, n int) string { return f.text(fmt.Sprintf("description = \"edit %d\"\n", n)) }
	said := func(f *fleet, n int) string { return f.text(fmt.Sprintf("# %d\n", n)) }
	same := func(*fleet, int) string { return "" }
	var live, comment, nothing, reading, aside turns
	for n := range s.reps {
		reading.large = append(reading.large, loading(tb, described(large, n)))
		reading.small = append(reading.small, loading(tb, described(small, n)))
		live.take(large, small, 1, described)
		nothing.take(large, small, 0, same)
	}
	// The description goes first, so that comments alone are left to change.
	aside.take(large, small, 1, said)
	for range s.reps {
		comment.take(large, small, 0, said)
	}
	return []figure{
		live.figure(fmt.Sprintf("1 changed of %d", s.fleet), "ms-p50-live"),
		comment.figure("a comment changed", "ms-p50-comment"),
		nothing.figure("nothing changed", "ms-p50-noop"),
		reading.figure("config.Load in process", "ms-p50-load"),
		live.excess(reading.large),
	}
}

// noise is what two medians of this package may differ by and still count as
// equal, in ms.
const noise = 1

// excess is what reloads of the large fleet cost beyond reloads of the small
// one and reading the larger file.
func (t *turns) excess(reading []float64) figure {
	var over []float64
	for i := range min(len(t.large), len(reading)) {
		over = append(over, t.large[i]-t.small[i]-reading[i])
	}
	return figure{what: "beyond 2-upstreams and reading", unit: "ms-excess", value: median(over), bound: bound{noise, false, "PRF-5"}}
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
	tb.Helper()
	large, small := startFleet(tb, s.fleet), startFleet(tb, smallFleet)
	marked := func(f *fleet, n int) string { return f.text(fmt.Sprintf("env = { MARK = \"%d\" }\n", n)) }
	var swap turns
	var byHand []float64
	for range s.reps {
		swap.take(large, small, 1, marked)
		byHand = append(byHand, spawning(tb, 1))
		large.allRun()
		small.allRun()
	}
	against := swap.figure(fmt.Sprintf("1 swapped of %d", s.fleet), "ms-p50-swap")
	against.than, against.base, against.ratio = "direct", median(byHand), median(ratios(swap.large, byHand))
	return []figure{swap.figure(fmt.Sprintf("1 swapped of %d", s.fleet), "ms-p50-swap"), against}
}
