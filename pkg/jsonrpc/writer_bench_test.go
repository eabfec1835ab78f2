package jsonrpc

import (
	"fmt"
	"io"
	"sync"
	"testing"
)

// benchWrites writes batches of several sizes with write and reads each back
// on the same goroutine.
func benchWrites(b *testing.B, sizes []int, open func(out io.WriteCloser) (write func([]byte))) {
	for _, size := range sizes {
		for _, kind := range []string{"pipe", "socket"} {
			b.Run(fmt.Sprintf("%s-%dB", kind, size), func(b *testing.B) {
				var in io.Reader
				var out io.WriteCloser
				if kind == "pipe" {
					in, out = pipe(b)
				} else {
					in, out = socketPair(b)
				}
				write := open(out)
				batch, got := make([]byte, size), make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					write(batch)
					if _, err := io.ReadFull(in, got); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkWriter(b *testing.B) {
	benchWrites(b, []int{100, 10_000, 1 << 20}, func(out io.WriteCloser) func([]byte) {
		w := NewWriter(out, WriterOptions{Limit: 1 << 30})
		return func(batch []byte) { _, _ = w.Write(batch) }
	})
}

// BenchmarkWriterGiven is a Writer that gets the buffers of a Batch.
func BenchmarkWriterGiven(b *testing.B) {
	benchWrites(b, []int{100, 10_000, 1 << 20}, func(out io.WriteCloser) func([]byte) {
		w := NewWriter(out, WriterOptions{Limit: 1 << 30})
		var batch Batch
		return func(lines []byte) {
			p := batch.Append(w)
			*p = append(*p, lines...)
			batch.Flush()
		}
	})
}

// BenchmarkWriterByBlocking is a write that may block, so only what fits into
// the kernel's buffers can be measured.
func BenchmarkWriterByBlocking(b *testing.B) {
	benchWrites(b, []int{100, 10_000}, func(out io.WriteCloser) func([]byte) {
		var mu sync.Mutex
		return func(batch []byte) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = out.Write(batch)
		}
	})
}

// BenchmarkWriterByGoroutine leaves every write to one goroutine a destination.
func BenchmarkWriterByGoroutine(b *testing.B) {
	benchWrites(b, []int{100, 10_000, 1 << 20}, func(out io.WriteCloser) func([]byte) {
		batches := make(chan []byte, 1)
		done := make(chan struct{})
		b.Cleanup(func() { close(batches); <-done })
		go func() {
			defer close(done)
			for batch := range batches {
				_, _ = out.Write(batch)
			}
		}()
		return func(batch []byte) { batches <- batch }
	})
}
