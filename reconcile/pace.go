package reconcile

import "time"

// pacer decides when to publish (HOT-6). It is pure but for the timer that it
// hands out, and belongs to the loop's goroutine.
type pacer struct {
	owed     bool      // a plan was begun and not published
	deadline time.Time // when it is published at the latest
	waiting  []string  // what the plan started and has not answered
	late     time.Time // of the last publish that no plan asked for
	wake     time.Time // when to look again; zero for never
}

// open notes that a plan was begun now, which started the upstreams named.
func (p *pacer) open(now time.Time, started []string) {
	if !p.owed {
		p.waiting = nil
	}
	p.owed, p.deadline = true, now.Add(publishWithin)
	p.waiting = append(p.waiting, started...)
}

// due reports whether to publish now. A plan publishes once, when everything
// it started has answered or its time is up; what changes by itself is
// published at most once in publishEvery.
func (p *pacer) due(now time.Time, answered func(string) bool, stale func() bool) bool {
	p.wake = time.Time{}
	if p.owed {
		var left []string
		for _, name := range p.waiting {
			if !answered(name) {
				left = append(left, name)
			}
		}
		p.waiting = left
		if len(left) == 0 || !now.Before(p.deadline) {
			return true
		}
		p.wake = p.deadline
		return false
	}
	if !stale() {
		return false
	}
	if next := p.late.Add(publishEvery); now.Before(next) {
		p.wake = next
		return false
	}
	p.late = now
	return true
}

// done notes that everything was published.
func (p *pacer) done(time.Time) { p.owed, p.waiting, p.wake = false, nil, time.Time{} }

// timer returns a channel that delivers when due is worth asking again, or nil.
func (p *pacer) timer() <-chan time.Time {
	if p.wake.IsZero() {
		return nil
	}
	return time.After(time.Until(p.wake))
}
