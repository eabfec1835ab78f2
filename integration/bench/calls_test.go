package bench

import (
	"os"
	"strings"
	"testing"
	"time"
)

// BenchmarkCalls compares what a call costs direct, over the floor, over one that
// is handed descriptors, and through harness.
func BenchmarkCalls(b *testing.B) { benchmark(b, callParts()) }

// pattern is one way of calling.
type pattern struct {
	name           string
	clients, lanes int
	large          bool
	most           float64 // × floor
	wants          float64 // × giver
}

func callParts() []part {
	var parts []part
	for _, p := range []pattern{
		{"1x1", 1, 1, false, 1.3, 1.15},
		{"8x1", 8, 1, false, 1.3, 1.15},
		{"8x8", 8, 8, false, 1.4, 1.25},
		{"large", 1, 1, true, 1.3, 1.15},
	} {
		parts = append(parts, part{"calls", p.name, p.measure})
	}
	return parts
}

// measure lets direct, floor, giver and harness take turns.
func (p pattern) measure(tb testing.TB, s scale) []figure {
	tb.Helper()
	d := newHome(tb).start((&home{tb: tb}).upstream("e"))
	f, g := startFloor(tb), startFloor(tb)
	j := job{
		Clients: min(p.clients, s.clients), Lanes: p.lanes, Tool: "echo", Size: 100, Rounds: s.rounds, Span: s.span, Turn: turnOf(s),
		Contestants: []contestant{
			{Name: "direct", Argv: direct(tb), Env: os.Environ()},
			{Name: "floor", Argv: f.bridge, Env: os.Environ(), Daemon: f.pid},
			{Name: "giver", Argv: g.giver, Env: os.Environ(), Daemon: g.pid},
			{Name: "harness", Argv: d.bridge(), Env: d.env, Prefix: "e__", Daemon: d.cmd.Process.Pid},
		},
	}
	if p.large {
		j.Tool, j.Size = "blob", s.blob
	}
	rounds := load(tb, j)
	return p.figures(rounds[0], rounds[1], rounds[2], rounds[3])
}

// turnOf is how long one contestant is under load before the next is: short,
// so that whatever else the machine does meets them all alike.
func turnOf(s scale) time.Duration { return min(s.span, 100*time.Millisecond) }

// figures are throughput and latency of harness against the others.
func (p pattern) figures(direct, floor, giver, harness []outcome) []figure {
	what := "echo of 100 B"
	if p.large {
		what = "result of 1 MiB"
	}
	rate := func(o outcome) float64 { return o.PerSecond }
	p50 := func(o outcome) float64 { return o.P50 }
	p99 := func(o outcome) float64 { return o.P99 }
	cpu := func(o outcome) float64 { return o.CPU }
	fd := compare(what, "calls/s", "floor", rate, harness, floor)
	fd.bound = bound{p.most, true, "must"}
	fg := compare(what, "calls/s-giver", "giver", rate, harness, giver)
	fg.bound = bound{p.wants, true, "wants"}
	return []figure{
		fd,
		fg,
		compare(what, "calls/s", "direct", rate, harness, direct),
		compare("floor itself", "calls/s-floor", "direct", rate, floor, direct),
		compare(what, "us-p50", "floor", p50, harness, floor),
		compare(what, "us-p50", "direct", p50, harness, direct),
		compare(what, "us-p99", "floor", p99, harness, floor),
		compare("bridge and daemon, a call", "us-cpu", "floor", cpu, harness, floor),
		compare("bridge and daemon, a call", "us-cpu-giver", "giver", cpu, harness, giver),
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
	if f.ratio = median(ratios(ours, theirs)); strings.HasPrefix(unit, "calls/s") {
		f.ratio = median(ratios(theirs, ours))
	}
	return f
}
