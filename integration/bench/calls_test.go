package bench

import (
	"os"
	"testing"
)

// BenchmarkCalls compares what a call costs direct, over the floor, and
// through harness.
func BenchmarkCalls(b *testing.B) { benchmark(b, callParts()) }

// pattern is one way of calling.
type pattern struct {
	name           string
	clients, lanes int
	large          bool
	most           float64 // × floor
}

func callParts() []part {
	var parts []part
	for _, p := range []pattern{
		{"1x1", 1, 1, false, 1.3},
		{"8x1", 8, 1, false, 1.3},
		{"8x8", 8, 8, false, 1.4},
		{"large", 1, 1, true, 1.3},
	} {
		parts = append(parts, part{"calls", p.name, p.measure})
	}
	return parts
}

// contestant is one way to the echo server.
type contestant struct {
	name   string
	env    []string
	argv   []string
	prefix string // of tool names
}

// measure lets direct, floor and harness take turns.
func (p pattern) measure(tb testing.TB, s scale) []figure {
	d := newHome(tb).start((&home{tb: tb}).upstream("e"))
	f := startFloor(tb)
	contestants := []contestant{
		{"direct", os.Environ(), direct(tb), ""},
		{"floor", os.Environ(), f.bridge, ""},
		{"harness", d.env, d.bridge(), "e__"},
	}
	rounds := make([][]outcome, len(contestants))
	for range s.rounds {
		for i, c := range contestants {
			rounds[i] = append(rounds[i], load(tb, c.env, p.job(c, s)))
		}
	}
	return p.figures(rounds[0], rounds[1], rounds[2])
}

func (p pattern) job(c contestant, s scale) job {
	j := job{Argv: c.argv, Clients: min(p.clients, s.clients), Lanes: p.lanes, Tool: c.prefix + "echo", Size: 100, Warm: s.warm, Span: s.span}
	if p.large {
		j.Tool, j.Blob, j.Size = c.prefix+"blob", true, s.blob
	}
	return j
}

// figures are throughput and latency of harness against the other two.
func (p pattern) figures(direct, floor, harness []outcome) []figure {
	what := "echo of 100 B"
	if p.large {
		what = "result of 1 MiB"
	}
	rate := func(o outcome) float64 { return o.PerSecond }
	p50 := func(o outcome) float64 { return o.P50 }
	p99 := func(o outcome) float64 { return o.P99 }
	fd := compare(what, "calls/s", "floor", rate, harness, floor)
	fd.bound = bound{p.most, true, "must"}
	return []figure{
		fd,
		compare(what, "calls/s", "direct", rate, harness, direct),
		compare("floor itself", "calls/s-floor", "direct", rate, floor, direct),
		compare(what, "us-p50", "floor", p50, harness, floor),
		compare(what, "us-p50", "direct", p50, harness, direct),
		compare(what, "us-p99", "floor", p99, harness, floor),
	}
}

// compare makes the figure of one quantity of the rounds. The ratio says how
// much worse harness is: rates are divided the other way round.
func compare(what, unit, than string, of func(outcome) float64, harness, base []outcome) figure {
	var ours, theirs []float64
	for i := range harness {
		ours, theirs = append(ours, of(harness[i])), append(theirs, of(base[i]))
	}
	f := figure{what: what, unit: unit, value: median(ours), than: than, base: median(theirs)}
	if f.ratio = median(ratios(ours, theirs)); unit == "calls/s" || unit == "calls/s-floor" {
		f.ratio = median(ratios(theirs, ours))
	}
	return f
}
