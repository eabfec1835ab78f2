package upstream

import "time"

// relistEvery is how often an upstream's own list_changed makes it list again,
// at most.
const relistEvery = time.Second

// pacer says when to list again: at once after a quiet time, else once an
// interval, however often it is asked. It is a value for one goroutine.
type pacer struct {
	asked bool
	last  time.Time // when it last said yes
	again time.Time // when to list without being asked, zero for never
}

// ask notes that the list may have changed.
func (p *pacer) ask() { p.asked = true }

// wait returns how long until the list is due, and whether it ever is.
func (p *pacer) wait(now time.Time) (time.Duration, bool) {
	at := p.again
	if p.asked {
		at = p.last.Add(relistEvery)
	}
	return max(0, at.Sub(now)), !at.IsZero()
}

// retry makes the list due at a time, asked for or not.
func (p *pacer) retry(at time.Time) { p.again = at }

// begin notes that a listing starts at now.
func (p *pacer) begin(now time.Time) { *p = pacer{last: now} }

// Noise on stdout: at most noiseBurst lines at once and one each noiseEvery
// after that reach the log.
const (
	noiseBurst = 20
	noiseEvery = time.Second
)

// throttle is a bucket that lets a burst through and then a trickle, and
// counts what it held back. It is a value for one goroutine.
type throttle struct {
	filled time.Time // how far the bucket is used up, moved on by each line
	held   int
}

// allow reports whether a line at now may pass, whether it is the first after
// a quiet time, and how many were held back before it.
func (t *throttle) allow(now time.Time) (ok, first bool, held int) {
	if start := now.Add(-noiseBurst * noiseEvery); !t.filled.After(start) {
		t.filled, first = start, true
	}
	next := t.filled.Add(noiseEvery)
	if next.After(now) {
		t.held++
		return false, false, 0
	}
	held, t.held, t.filled = t.held, 0, next
	return true, first, held
}
