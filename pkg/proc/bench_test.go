package proc

import (
	"sync"
	"testing"
	"time"
)

func BenchmarkStartStop(b *testing.B) {
	h, err := NewHost(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	var starts, stops time.Duration
	for b.Loop() {
		began := time.Now()
		p, err := h.Start(Spec{Path: "/bin/cat", Name: "mcp.cat"})
		if err != nil {
			b.Fatal(err)
		}
		started := time.Now()
		p.Stop(time.Minute)
		starts += started.Sub(began)
		stops += time.Since(started)
		p.Stdout.Close()
		p.Stderr.Close()
	}
	b.ReportMetric(float64(starts.Microseconds())/float64(b.N), "µs/start")
	b.ReportMetric(float64(stops.Microseconds())/float64(b.N), "µs/stop")
}

// The start of a daemon with twenty upstreams.
func BenchmarkStartTwentyAtOnce(b *testing.B) {
	h, err := NewHost(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	for b.Loop() {
		var wg sync.WaitGroup
		procs := make([]*Proc, 20)
		for i := range procs {
			wg.Go(func() { procs[i], _ = h.Start(Spec{Path: "/bin/cat", Name: "mcp.cat"}) })
		}
		wg.Wait()
		b.StopTimer()
		for _, p := range procs {
			wg.Go(func() {
				p.Kill()
				p.Stdout.Close()
				p.Stderr.Close()
			})
		}
		wg.Wait()
		b.StartTimer()
	}
}

func BenchmarkLook(b *testing.B) {
	h, err := NewHost(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	b.ReportAllocs()
	for b.Loop() {
		h.look()
	}
}
