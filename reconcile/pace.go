package reconcile

import (
	"slices"
	"time"
)

const (
	// publishWithin is how long a plan's publish waits for the upstreams that
	// the plan started (HOT-6).
	publishWithin = 500 * time.Millisecond
	// publishAnyway is how long plans that overtake each other can put their
	// common publish off.
	publishAnyway = 2 * time.Second
	// publishEvery spaces the publishes of what comes up later or changes its
	// own lists (HOT-6), and the tries of one that failed.
	publishEvery = time.Second
)

// pacer decides when to publish (HOT-6). It knows no clock and no upstream:
// the time and who has not answered come in. A plan that is begun while
// another is owed makes one with it, since publishing between the two could
// show half of either.
type pacer struct {
	owed     bool      // a plan was begun and is not published
	since    time.Time // when the oldest plan that is owed was begun
	deadline time.Time // when they are published at the latest
	begun    []string  // what they started and has not answered
	late     []string  // what plans before were published without
	last     time.Time // of the last publish that no plan asked for
	wake     time.Time // when to ask again though nothing happened; zero for never
}

// open notes that a plan was begun at now, which started the upstreams named.
func (p *pacer) open(now time.Time, started []string) {
	if !p.owed {
		p.owed, p.since, p.deadline = true, now, now.Add(publishWithin)
	}
	if len(started) > 0 {
		p.deadline = earlier(now.Add(publishWithin), p.since.Add(publishAnyway))
	}
	p.begun = append(p.begun, started...)
}

// forget notes that nobody waits any more for what is to be stopped.
func (p *pacer) forget(stops []Step) {
	for _, s := range stops {
		if s.Kind != KindUpstream {
			continue
		}
		is := func(name string) bool { return name == s.Name }
		p.begun, p.late = slices.DeleteFunc(p.begun, is), slices.DeleteFunc(p.late, is)
	}
}

// due reports whether to publish now. A plan publishes once, when everything it
// started has answered or its time is up; what changes by itself is published
// at most once in publishEvery.
func (p *pacer) due(now time.Time, is Progress) bool {
	p.wake = time.Time{}
	if p.owed {
		p.begun = only(p.begun, is.Unanswered)
		return len(p.begun) == 0 || p.reached(p.deadline, now)
	}
	if !is.Stale {
		p.late = only(p.late, is.Unanswered)
		return false
	}
	return p.reached(p.last.Add(publishEvery), now)
}

// reached reports whether it is time, and else asks to be asked again then.
func (p *pacer) reached(at, now time.Time) bool {
	if now.Before(at) {
		p.wake = at
		return false
	}
	return true
}

// settleFor notes that the plan that is owed needs to wait for nobody but
// these.
func (p *pacer) settleFor(names map[string]bool) {
	p.late = p.waiting()
	p.begun = only(p.begun, names)
}

// done notes that everything there is was published at now.
func (p *pacer) done(now time.Time, is Progress) {
	if !p.owed {
		p.last = now
	}
	p.late = only(p.waiting(), is.Unanswered)
	p.owed, p.begun, p.wake = false, nil, time.Time{}
}

// failed notes that what was due could not be published at now.
func (p *pacer) failed(now time.Time) {
	p.owed, p.since, p.deadline = true, now, now.Add(publishEvery)
	p.wake = p.deadline
}

// waiting returns, sorted, the upstreams that were started and have neither
// failed nor come up in a publish.
func (p *pacer) waiting() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.begun, p.late))))
}

// only returns those of names that are in set.
func only(names []string, set map[string]bool) []string {
	var left []string
	for _, name := range names {
		if set[name] {
			left = append(left, name)
		}
	}
	return left
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
