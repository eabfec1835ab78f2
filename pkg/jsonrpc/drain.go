package jsonrpc

import (
	"io"
	"time"
)

// drain writes what is queued until nothing is, then closes idle. There is one
// at a time: w.idle is its mark, set and cleared together with the check that
// the queue is empty, under one lock. Else a line could be queued with nobody
// left to write it.
func (w *Writer) drain(idle chan struct{}) {
	defer close(idle)
	a := attempt{wait: true}
	a.bind()
	stop := w.watch(idle)
	defer stop()
	for {
		whole, sent := w.next()
		if whole == nil {
			return
		}
		for rest := whole[sent:]; len(rest) > 0; {
			n, err := w.put(&a, rest)
			if !w.accepted(n, err) {
				break
			}
			rest = rest[n:]
		}
		w.mu.Lock()
		w.unused.Put(whole)
		w.mu.Unlock()
	}
}

// next gives the drainer all that is queued, and how much of it was sent
// before. When that is nothing, or the
// Writer has stopped, it returns nil and there is no drainer from then on.
func (w *Writer) next() (whole []byte, sent int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || len(w.queue) == 0 {
		w.idle, w.held = nil, 0
		return nil, 0
	}
	whole, sent = w.queue, w.sent
	w.queue, w.sent, w.held = nil, 0, int64(len(whole)-sent)
	return whole, sent
}

// put writes some of b, at least one byte unless it fails.
func (w *Writer) put(a *attempt, b []byte) (int, error) {
	if w.raw != nil {
		return a.write(w.raw, b)
	}
	n, err := w.out.Write(b)
	if n == 0 && err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}

// accepted notes the outcome of a write and reports whether to go on.
func (w *Writer) accepted(n int, err error) bool {
	w.mu.Lock()
	if n > 0 {
		w.moved = time.Now()
		w.held -= int64(n)
	}
	stopped := w.err != nil
	w.mu.Unlock()
	if err != nil {
		w.fail(err)
	}
	return err == nil && !stopped
}

// watch fails the Writer when the drainer that owns idle has made no headway
// for as long as Stall, and returns what ends the watch.
func (w *Writer) watch(idle chan struct{}) (stop func()) {
	if w.opt.Stall <= 0 {
		return func() {}
	}
	var timer *time.Timer
	check := func() {
		w.mu.Lock()
		left := w.opt.Stall - time.Since(w.moved)
		current := w.idle == idle
		w.mu.Unlock()
		switch {
		case !current:
		case left > 0:
			timer.Reset(left)
		default:
			w.fail(ErrStalled)
		}
	}
	w.mu.Lock() // check reads timer
	timer = time.AfterFunc(w.opt.Stall, check)
	w.mu.Unlock()
	return func() { timer.Stop() }
}
