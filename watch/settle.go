package watch

import (
	"crypto/sha256"
	"time"
)

// settler decides from events and readings when to look again and when to
// signal (HOT-2). It knows no clock and no file: times and readings come in.
//
// Activity is an event, or a reading that changed although no event announced
// it. A burst lasts from the first activity to the first quiet moment.
type settler struct {
	settle  time.Duration // quiet time a change needs; half of it lies between its two reads
	longest time.Duration // of a burst, before what two reads agree on is signalled regardless
	grace   time.Duration // how long a path must be gone to count as gone

	first, last time.Time // activity of the burst under way; zero while quiet
	looked      time.Time // the last look
	wake        time.Time // one more look that is wanted; zero for none
	told        bool      // an event came since the last look

	round   uint64 // counts looks, to find what one did not see
	edition uint64 // counts changes of what is settled
	items   map[id]*track
}

// track is what is known of one item.
type track struct {
	round uint64 // the last look whose set had the item
	files map[string]*state
}

// state is what is known of one path.
type state struct {
	settled reading   // last signalled, or known from the start
	latest  reading   // of the last look
	since   time.Time // the look that saw latest first
	round   uint64    // the last look that saw the path
}

// event notes activity at something an item depends on.
func (s *settler) event(now time.Time) {
	if s.first.IsZero() {
		s.first = now
	}
	s.last = now
	s.told = true
}

// noise notes an event beside the items: worth a look, but not one for each
// event, and no reason to wait longer for a change.
func (s *settler) noise(now time.Time) {
	if s.last.IsZero() {
		s.wake = earliest(s.wake, latest(now.Add(s.settle), s.looked.Add(s.longest)))
	}
}

// due returns when to look next; zero for not at all.
func (s *settler) due() time.Time {
	if s.last.IsZero() {
		return s.wake
	}
	return earliest(s.wake, earliest(s.step(s.last, s.settle), s.step(s.first, s.longest)))
}

// step returns the next of the two looks that end span after from. They are
// half the quiet time apart: so a change is signalled at the end of the quiet
// time, not one more read later.
func (s *settler) step(from time.Time, span time.Duration) time.Time {
	end := from.Add(span)
	if half := end.Add(-s.gap()); s.looked.Before(half) {
		return half
	}
	return latest(end, s.looked.Add(s.gap()))
}

// gap is the least time between two reads that agree.
func (s *settler) gap() time.Duration { return s.settle / 2 }

// observe takes in one look, with a view of every item of the set, and reports
// whether to signal. Items without a view leave the set.
func (s *settler) observe(now time.Time, views []view) bool {
	if s.record(now, views) && !s.told {
		s.event(now)
	}
	s.told, s.looked, s.wake = false, now, time.Time{}

	switch quiet := s.last.IsZero() || !now.Before(s.last.Add(s.settle)); {
	case quiet:
		s.first, s.last = time.Time{}, time.Time{}
	case !now.Before(s.first.Add(s.longest)):
		s.first = now
	default:
		return false
	}
	return s.accept(now)
}

// record notes what a look saw, and reports whether any reading moved.
func (s *settler) record(now time.Time, views []view) bool {
	s.round++
	moved := false
	for _, v := range views {
		t := s.items[v.item]
		if t == nil {
			t = newTrack(v, now)
			s.items[v.item] = t
			s.edition++
			moved = moved || t.differs()
		}
		t.round = s.round
		moved = t.note(s.round, now, v.files) || moved
	}
	for k, t := range s.items {
		if t.round != s.round {
			delete(s.items, k)
			s.edition++
		}
	}
	return moved
}

// newTrack starts an item from its first view and what its owner knows of it.
func newTrack(v view, now time.Time) *track {
	t := &track{files: map[string]*state{}}
	for _, f := range v.files {
		t.files[f.path] = &state{settled: baseline(v.known, f), latest: f.reading, since: now}
	}
	for path, digest := range v.known {
		if t.files[path] == nil {
			t.files[path] = &state{settled: reading{regular, digest}, since: now}
		}
	}
	return t
}

// baseline returns what is taken as signalled for a path seen for the first
// time. What the owner cannot have a digest of is never a difference: it would
// be signalled to no avail.
func baseline(known map[string][sha256.Size]byte, f sighting) reading {
	digest, read := known[f.path]
	switch {
	case known == nil || f.reading.kind == large:
		return f.reading
	case read:
		return reading{regular, digest}
	case f.reading.kind == regular:
		return reading{}
	}
	return f.reading
}

func (t *track) differs() bool {
	for _, st := range t.files {
		if st.latest != st.settled {
			return true
		}
	}
	return false
}

// note takes in the files of one look and reports whether any moved, those that
// are no longer there included.
func (t *track) note(round uint64, now time.Time, files []sighting) bool {
	moved := false
	for _, f := range files {
		st := t.files[f.path]
		if st == nil {
			st = &state{since: now}
			t.files[f.path] = st
		}
		st.round = round
		moved = st.see(f.reading, now) || moved
	}
	for path, st := range t.files {
		if st.round == round {
			continue
		}
		moved = st.see(reading{}, now) || moved
		if st.settled == st.latest {
			delete(t.files, path)
		}
	}
	return moved
}

// see takes in one reading and reports whether it moved.
func (st *state) see(r reading, now time.Time) bool {
	if st.latest == r {
		return false
	}
	st.latest, st.since = r, now
	return true
}

// accept settles what two reads agree on, and reports whether there was any.
// What is gone waits for its grace, unless something else is signalled: whoever
// reads then finds it gone, and telling him later would be a second signal for
// one change. For what must wait it asks for another look.
func (s *settler) accept(now time.Time) bool {
	var patient []*state
	changed := false
	for st := range s.open {
		switch age := now.Sub(st.since); {
		case age < s.gap():
			s.wake = earliest(s.wake, st.since.Add(s.gap()))
		case st.latest.gone() && age < s.grace:
			patient = append(patient, st)
		default:
			st.settled, changed = st.latest, true
		}
	}
	for _, st := range patient {
		if changed {
			st.settled = st.latest
		} else {
			s.wake = earliest(s.wake, st.since.Add(s.grace))
		}
	}
	if changed {
		s.edition++
	}
	return changed
}

// open yields every state whose latest reading is not settled.
func (s *settler) open(yield func(*state) bool) {
	for _, t := range s.items {
		for _, st := range t.files {
			if st.latest != st.settled && !yield(st) {
				return
			}
		}
	}
}

// contents returns the digests of the regular files that are settled, by path.
func (s *settler) contents() map[string][sha256.Size]byte {
	all := map[string][sha256.Size]byte{}
	for _, t := range s.items {
		for path, st := range t.files {
			if st.settled.kind == regular {
				all[path] = st.settled.digest
			}
		}
	}
	return all
}

// earliest returns the earlier of two times; zero is no time.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
