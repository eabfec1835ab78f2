package run

import (
	"io"
	"sync"
	"time"
)

// output writes what a run prints beside whoever reads its terminal, so that a
// disk that hangs holds up no harness. What waits is bounded by what is kept of a
// run in all.
type output struct {
	to io.Writer

	mu      sync.Mutex
	queue   []byte
	idle    chan struct{} // closed when the goroutine ends; nil while there is none
	written int64
	err     error // why nothing more is written: nothing follows a hole
}

// add takes a copy of p and returns at once.
func (o *output) add(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	o.queue = append(o.queue, p...)
	if o.idle == nil {
		o.idle = make(chan struct{})
		go o.drain(o.idle)
	}
}

// drain writes until nothing waits.
func (o *output) drain(idle chan struct{}) {
	defer close(idle)
	for {
		o.mu.Lock()
		chunk := o.queue
		o.queue = nil
		if len(chunk) == 0 {
			o.idle = nil
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		n, err := o.to.Write(chunk)
		o.mu.Lock()
		o.written += int64(n)
		if err != nil {
			o.queue, o.err = nil, err
		}
		o.mu.Unlock()
	}
}

// settle waits until all that was added is written, no longer than limit; for
// ever when that is 0.
func (o *output) settle(limit time.Duration) (written int64, err error) {
	var late <-chan time.Time
	if limit > 0 {
		late = time.After(limit)
	}
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-late:
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written, o.err
}
