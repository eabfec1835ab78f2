package ledger

import (
	"runtime"
	"sync"
)

// parallel calls do for each number below n, on every processor: signatures
// take nearly all of the time of a check, and know nothing of each other.
func parallel(n int, do func(i int)) {
	const few = 64 // not worth a goroutine
	workers := min(runtime.GOMAXPROCS(0), n/few)
	if workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				do(i)
			}
		})
	}
	all.Wait()
}
