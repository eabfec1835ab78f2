package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"harness/integration/bench/baseline"
)

// BenchmarkLists measures what grows with the fleet: its config, its list of
// tools, and how many sessions have to be told.
func BenchmarkLists(b *testing.B) { benchmark(b, listParts()) }

func listParts() []part {
	return []part{
		{"lists", "config", loadConfig},
		{"lists", "tools", listTools},
		{"lists", "fan-out", fanOut},
	}
}

// wideTables is a config of n upstreams as people write them.
func wideTables(n int) string {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "[mcp.up-%d]\ncmd = \"server-%d\"\nargs = [\"--transport\", \"stdio\"]\nenv = { MODE = \"quiet\", N = \"%d\" }\n"+
			"restart_delay = \"2s\"\ndescription = \"number %d\"\n\n", i, i, i, i)
	}
	return b.String()
}

// loadConfig loads a large config in this process, and a tenth of it ten
// times: the ratio is 1 where the cost of a table does not grow.
func loadConfig(tb testing.TB, s scale) []figure {
	tb.Helper()
	whole, tenth := wideTables(s.tables), wideTables(s.tables/10)
	var large, small []float64
	for range 2 * s.rounds {
		large = append(large, loading(tb, whole))
		sum := 0.0
		for range 10 {
			sum += loading(tb, tenth)
		}
		small = append(small, sum)
	}
	return []figure{
		{
			what: fmt.Sprintf("config of %d tables", s.tables), unit: "ms", value: median(large),
			than: "ten-tenths", base: median(small), ratio: median(ratios(large, small)),
		},
		{what: "allocated by it", unit: "MiB", value: allocated(func() { loading(tb, whole) })},
	}
}

// allocated is how much f allocates, in MiB, with whatever else runs then.
func allocated(f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / (1 << 20)
}

// listTools asks for a large list through a bridge, and in turns for as many
// bytes over the floor.
func listTools(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	h.start(h.fleet(s.servers, "-tools", strconv.Itoa(s.tools-echoTools))...)
	a := h.agent()
	f := startFloor(tb)
	b := agent(tb, os.Environ(), f.bridge...)

	if names, err := a.tools(); err != nil || len(names) != s.servers*s.tools {
		tb.Fatalf("%d tools: %v", len(names), err)
	}
	list, err := a.request("tools/list", "{}")
	if err != nil {
		tb.Fatal(err)
	}
	size := len(list)
	blob := fmt.Appendf(nil, `{"name":"blob","arguments":{"bytes":%d}}`, size)
	var ours, theirs []float64
	for range s.rounds * s.reps {
		ours = append(ours, asking(tb, a, "tools/list", []byte("{}"), list))
		theirs = append(theirs, asking(tb, b, "tools/call", blob, []byte(baseline.BlobText(size))))
	}
	return []figure{
		{
			what: fmt.Sprintf("tools/list of %d x %d, %d KiB", s.servers, s.tools, size>>10), unit: "ms-p50", value: quantile(ours, 0.5),
			than: "floor", base: quantile(theirs, 0.5), ratio: median(ratios(ours, theirs)),
		},
		{what: "the same", unit: "ms-p99", value: quantile(ours, 0.99), than: "floor", base: quantile(theirs, 0.99)},
	}
}

// asking makes one request, checks that the answer contains what it must, and
// returns how long it took to come, in ms.
func asking(tb testing.TB, c *client, method string, params, want []byte) float64 {
	tb.Helper()
	began := time.Now()
	line, err := c.ask(0, method, params)
	took := millis(time.Since(began))
	if err != nil {
		tb.Fatal(err)
	}
	if !bytes.Contains(line, want) {
		tb.Fatalf("%s: another answer: %.200s", method, line)
	}
	return took
}

// fanOut tells many sessions of one edit, and in turns of one notification of
// the floor's upstream, which the floor copies to all.
func fanOut(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	h.save("prompts/greet.md", prompt(0))
	h.start(h.upstream("e"), h.withPrompts())
	ours := agents(tb, s.sessions, h.env, h.bridge()...)
	f := startFloor(tb)
	theirs := agents(tb, s.sessions, os.Environ(), f.bridge...)
	use(tb, ours, "e__echo")
	use(tb, theirs, "echo")

	var spreads, floorSpreads, lasts []float64
	for n := range s.reps {
		saved := h.save("prompts/greet.md", prompt(n+1))
		first, last := told(tb, ours, promptsChanged)
		spreads, lasts = append(spreads, millis(last.Sub(first))), append(lasts, millis(last.Sub(saved)))
		if _, err := theirs[0].call("announce", "{}"); err != nil {
			tb.Fatal(err)
		}
		first, last = told(tb, theirs, toolsChanged)
		floorSpreads = append(floorSpreads, millis(last.Sub(first)))
	}
	what := fmt.Sprintf("first to last of %d sessions", s.sessions)
	return []figure{
		{
			what: what, unit: "ms-p50", value: quantile(spreads, 0.5), than: "floor", base: quantile(floorSpreads, 0.5),
			ratio: median(ratios(spreads, floorSpreads)),
		},
		{what: "save to the last of them", unit: "ms-p50-last", value: quantile(lasts, 0.5)},
	}
}

// told waits until every session was told, once, and returns when the first
// and the last was.
func told(tb testing.TB, sessions []*client, method string) (first, last time.Time) {
	tb.Helper()
	var at []time.Time
	for _, c := range sessions {
		n, err := c.await(method)
		if err != nil {
			tb.Fatal(err)
		}
		at = append(at, n.at)
	}
	for i, c := range sessions {
		if len(c.notes) > 0 {
			tb.Fatalf("session %d was told twice", i)
		}
	}
	return slices.MinFunc(at, time.Time.Compare), slices.MaxFunc(at, time.Time.Compare)
}
