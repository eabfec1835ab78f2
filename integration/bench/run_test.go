package bench

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"harness/pkg/control"
	"harness/pkg/evidence"
	evidenced "harness/pkg/run"
)

// BenchmarkRun takes what a run costs beyond its process, and how long it takes
// to verify and to list many.
func BenchmarkRun(b *testing.B) { benchmark(b, runParts()) }

func runParts() []part {
	return []part{
		{"run", "launch", launchRuns},
		{"run", "verify", verifyRuns},
		{"run", "page", pageOfRuns},
	}
}

// launchRuns compares a run, from the request to the final receipt, all of which
// is on the disk then, with the process alone.
func launchRuns(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	h.start("[harness.sh]\ncmd = \"sh\"\nargs = [\"-c\", \":\"]\n")
	c, err := control.Dial(tb.Context(), h.socket())
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	var launched, ended, theirs, excess []float64
	for i := range max(s.starts, 5) {
		theirs = append(theirs, h.timed("sh", "-c", ":"))
		var answer struct{ Run evidenced.Info }
		began := time.Now()
		if err := c.Operate(tb.Context(), "harness_run_launch", map[string]any{"name": "sh", "idempotency_key": fmt.Sprint("k", i)}, &answer); err != nil {
			tb.Fatal(err)
		}
		launched = append(launched, millis(time.Since(began)))
		if err := c.Operate(tb.Context(), "wait", map[string]any{"run": answer.Run.ID}, &answer); err != nil {
			tb.Fatal(err)
		}
		if answer.Run.FinalReceiptSHA256 == nil {
			tb.Fatalf("it is not sealed: %+v", answer.Run)
		}
		ended = append(ended, millis(time.Since(began)))
		excess = append(excess, ended[len(ended)-1]-theirs[len(theirs)-1])
	}
	return []figure{
		{what: "a run, until its process runs", unit: "ms-p50", value: median(launched), than: "sh", base: median(theirs), ratio: median(ratios(launched, theirs))},
		{what: "a run, until it is sealed", unit: "ms-p50-sealed", value: median(ended), than: "sh", base: median(theirs), ratio: median(ratios(ended, theirs))},
		{what: "beyond the process, from request to seal", unit: "ms-excess", value: median(excess), bound: bound{25, false, "EVI-1"}},
	}
}

// manyRuns makes the evidence of n runs of a small catalog. Those before the
// newest full are no more than a name and a final receipt: they are not read.
func manyRuns(tb testing.TB, n, full int) *evidenced.Store {
	tb.Helper()
	dir := newHome(tb).dir
	if fast, err := os.MkdirTemp("/dev/shm", "hb"); err == nil { //nolint:usetesting // in memory: each is synced ten times
		tb.Cleanup(func() { os.RemoveAll(fast) })
		dir = fast
	}
	if err := os.Mkdir(filepath.Join(dir, "runs"), 0o700); err != nil {
		tb.Fatal(err)
	}
	old := time.Now().Add(-1000 * time.Hour)
	for i := range n - full {
		at := old.Add(time.Duration(i) * time.Millisecond)
		one := filepath.Join(dir, "runs", at.UTC().Format("20060102T150405.000000")+fmt.Sprintf("-%08x", i))
		final := filepath.Join(one, "final-receipt.json")
		if err := os.Mkdir(one, 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(final, []byte("{}\n"), 0o400); err != nil {
			tb.Fatal(err)
		}
		if err := os.Chtimes(final, at, at); err != nil {
			tb.Fatal(err)
		}
	}
	store := openRuns(tb, dir)
	for range full {
		r, err := store.Begin(evidenced.Launch{Harness: "a", Argv: []string{"sh"}, Actor: evidenced.ByOperator(0), At: time.Now()})
		if err != nil {
			tb.Fatal(err)
		}
		if err := r.Started(time.Now()); err != nil {
			tb.Fatal(err)
		}
		r.End(evidenced.End{At: time.Now(), State: evidenced.Exited})
	}
	return openRuns(tb, dir)
}

func openRuns(tb testing.TB, path string) *evidenced.Store {
	tb.Helper()
	catalog := evidenced.Catalog{Version: "1"}
	for i := range 45 { // as many commands as harness has, of about their size
		catalog.Commands = append(catalog.Commands, evidenced.Command{
			Path: fmt.Sprintf("harness command%02d", i), Summary: "Do what a command of this length does", Args: "NAME", Aliases: []string{}, Roles: evidenced.Roles(), Effect: evidenced.Read,
			Flags: []evidenced.Flag{{Name: "config", Type: "string", Usage: "the global harness.toml, or in the config directory"}, {Name: "json", Type: "bool", Default: "false", Usage: "print JSON"}},
		})
	}
	k, err := evidenced.NewKnowledge(catalog)
	if err != nil {
		tb.Fatal(err)
	}
	state, err := evidence.OpenDir(path)
	if err != nil {
		tb.Fatal(err)
	}
	store, err := evidenced.OpenStore(state, time.Now(), evidenced.Options{
		Keep: func() int { return 1 << 30 }, Log: slog.New(slog.DiscardHandler), Knowledge: k, Self: evidenced.Named(evidenced.Instance, "bench"),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		store.Close()
		state.Close()
	})
	return store
}

// verifyRuns times the check of everything that runs have on the disk.
func verifyRuns(tb testing.TB, s scale) []figure {
	tb.Helper()
	n := s.tables
	store := manyRuns(tb, n, n)
	var ids []string
	for after := ""; ; {
		page, next, err := store.List("", after, 100)
		if err != nil {
			tb.Fatal(err)
		}
		for _, i := range page {
			ids = append(ids, i.ID)
		}
		if after = next; after == "" {
			break
		}
	}
	var took []float64
	for range s.rounds {
		began := time.Now()
		for _, id := range ids {
			if _, err := store.Verify(id); err != nil {
				tb.Fatal(err)
			}
		}
		took = append(took, millis(time.Since(began)))
	}
	return []figure{{what: fmt.Sprintf("verify %d runs", n), unit: "ms", value: median(took), bound: bound{3000, false, "EVI-3"}}}
}

// pageOfRuns times a page of 100 of very many runs, each of them verified.
func pageOfRuns(tb testing.TB, s scale) []figure {
	tb.Helper()
	n, full := 100*s.tables, 10*min(s.tables, 100)
	store := manyRuns(tb, n, full)
	var first, again []float64
	after := ""
	for range full / 100 {
		began := time.Now()
		page, next, err := store.List("", after, 100)
		if err != nil || len(page) != 100 {
			tb.Fatal(len(page), err)
		}
		first = append(first, millis(time.Since(began)))
		began = time.Now()
		if page, _, err := store.List("", after, 100); err != nil || len(page) != 100 {
			tb.Fatal(len(page), err)
		}
		again = append(again, millis(time.Since(began)))
		after = next
	}
	return []figure{
		{what: fmt.Sprintf("a page of 100 of %d runs, looked at first", n), unit: "ms-p50-first", value: median(first), bound: bound{50, false, "EVI-5"}},
		{what: "and again", unit: "ms-p50", value: median(again), bound: bound{50, false, "EVI-5"}},
	}
}
