package bench

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"text/tabwriter"
)

// figure is one line of the table: what was measured, what it is compared
// with, and the bound it is held to, if any.
type figure struct {
	part  string // filled in by whoever runs the part
	what  string
	unit  string  // also the name of the metric, so without blanks
	value float64 // of harness

	than  string  // the baseline
	base  float64 // its value
	ratio float64 // median of the ratios of the rounds; 0: not a figure to compare

	bound bound
}

// bound is the most that a figure may be.
type bound struct {
	most  float64
	ratio bool // it is the ratio that is bounded
	rule  string
}

// holds reports whether a figure has a bound, and is within it.
func (f figure) holds() (bounded, ok bool) {
	if f.bound.rule == "" {
		return false, true
	}
	if f.bound.ratio {
		return true, f.ratio <= f.bound.most
	}
	return true, f.value <= f.bound.most
}

// verdict is the bound and how the figure stands to it.
func (f figure) verdict() string {
	bounded, ok := f.holds()
	if !bounded {
		return ""
	}
	what := f.unit
	if f.bound.ratio {
		what = "x-" + f.than
	}
	word := "ok"
	if !ok {
		word = "MISSED"
	}
	return fmt.Sprintf("%s <= %s\t%s\t%s", what, short(f.bound.most), f.bound.rule, word)
}

// short is a number with three digits that count.
func short(v float64) string {
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return "none"
	case v == math.Trunc(v) && abs < 1e15:
		return fmt.Sprintf("%.0f", v)
	case abs >= 100:
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	case abs >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

// writeTable prints figures in the order they were measured, the name of a
// part once.
func writeTable(w io.Writer, figures []figure) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "part\tfigure\tunit\tharness\tbaseline\t\tratio\tbound\trule\t")
	last := ""
	for _, f := range figures {
		part := f.part
		if part == last {
			part = ""
		}
		last = f.part
		base, ratio := "", ""
		if f.than != "" {
			base = short(f.base)
		}
		if f.ratio != 0 {
			ratio = short(f.ratio)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", part, f.what, f.unit, short(f.value), f.than, base, ratio, f.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	bounded, missed := 0, 0
	for _, f := range figures {
		if has, ok := f.holds(); has {
			bounded++
			if !ok {
				missed++
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d bounds kept\n", bounded-missed, bounded)
	return err
}

func TestTable_StatesEveryBoundAndWhetherItIsKept(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := writeTable(&b, []figure{
		{part: "calls", what: "throughput", unit: "calls/s", value: 9000, than: "floor", base: 12600, ratio: 1.4, bound: bound{1.3, true, "must"}},
		{part: "calls", what: "one call", unit: "us-p50", value: 83.25, than: "floor", base: 70},
		{part: "edit", what: "removal", unit: "ms-p50", value: 70.5, bound: bound{120, false, "PRF-2"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"part figure unit harness baseline ratio bound rule",
		"calls throughput calls/s 9000 floor 12600 1.40 x-floor <= 1.30 must MISSED",
		"one call us-p50 83.2 floor 70",
		"edit removal ms-p50 70.5 ms-p50 <= 120 PRF-2 ok",
		"1 of 2 bounds kept", "",
	}
	for i, line := range strings.Split(b.String(), "\n") {
		if got := strings.Join(strings.Fields(line), " "); got != want[i] {
			t.Errorf("line %d is %q, not %q", i, got, want[i])
		}
	}
}
