package reconcile

import (
	"fmt"
	"testing"
)

// BenchmarkDigest_TwoHundredUpstreams is of what is made with every generation
// (PRF-5).
func BenchmarkDigest_TwoHundredUpstreams(b *testing.B) {
	d := &Desired{Upstreams: map[string]Upstream{}}
	for key, u := range full().Upstreams {
		for n := len(d.Upstreams); n < 200; n++ {
			d.Upstreams[fmt.Sprintf("%s-%d", key, n)] = u
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		d.Digest()
	}
}
