package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// lookBench is a server over items, without its loop.
func lookBench(b *testing.B, items ...Item) *server {
	b.Helper()
	w := New(Options{})
	s := &server{Watcher: w, guard: guard{open: w.opt.NewNotifier, remote: w.remote}, targets: targets(items)}
	s.guard.start()
	b.Cleanup(func() { s.guard.stop(nil) })
	if s.guard.why != nil {
		b.Fatal(s.guard.why)
	}
	return s
}

// BenchmarkLook is what an event costs that changed nothing, with 200 files of
// 1 KiB: shallow for files whose identity has long been the same, deep for all
// others.
func BenchmarkLook(b *testing.B) {
	d := disk{b, b.TempDir()}
	d.mkdir("prompts")
	var files []Item
	for i := range 200 {
		name := fmt.Sprintf("prompts/p%03d.md", i)
		d.create(name, fmt.Sprintf("%01024d", i))
		files = append(files, Item{Path: d.path(name)})
	}
	sets := map[string][]Item{
		"files":     files,
		"directory": {{Path: d.path("prompts"), Dir: true, Match: isMarkdown}},
	}
	for _, set := range []string{"files", "directory"} {
		for _, deep := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/deep=%v", set, deep), func(b *testing.B) {
				s := lookBench(b, sets[set]...)
				now := time.Now()
				s.look(now, true)
				s.look(now.Add(firmAge), true)
				b.ReportAllocs()
				for b.Loop() {
					s.look(now.Add(2*firmAge), deep)
				}
			})
		}
	}
}

// BenchmarkEditToSignal is the time from a write to the signal, with the
// default quiet time of 50 ms in it.
func BenchmarkEditToSignal(b *testing.B) {
	d := disk{b, b.TempDir()}
	d.create("file", "")
	d.create("sentinel", "")
	w := start(b, d, Options{}, Item{Path: d.path("file")})
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		d.write("file", fmt.Sprint("edit ", i))
		begin := time.Now()
		<-w.Dirty()
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
