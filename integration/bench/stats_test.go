package bench

import (
	"math"
	"slices"
	"testing"
	"time"
)

// quantile is the smallest sample that a share q of all samples does not
// exceed; NaN of no samples.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(0, min(rank, len(sorted)-1))]
}

// median is the middle sample, or the mean of the middle two.
func median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// ratios divides round by round, so that what slowed one round down is in
// both numbers of it.
func ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func TestStats_AreTheMiddleAndTheRank(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"median of odd", median([]float64{9, 1, 5}), 5},
		{"median of even", median([]float64{4, 1, 3, 2}), 2.5},
		{"p50", quantile([]float64{4, 1, 3, 2}, 0.5), 2},
		{"p99 of few is the largest", quantile([]float64{1, 2, 3}, 0.99), 3},
		{"p0", quantile([]float64{2, 1}, 0), 1},
		{"ratio of rounds", median(ratios([]float64{2, 30, 8}, []float64{1, 10, 4})), 2},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, not %v", c.name, c.got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) || !math.IsNaN(quantile(nil, 0.5)) {
		t.Error("no samples have a median")
	}
}
