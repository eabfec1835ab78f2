package restart

import "time"

// History is what a Policy has to remember about one name. The zero value is
// a name that never exited, which is also what a manual start, a manual
// restart or a changed definition makes of it.
type History struct {
	recent   [Burst]time.Time // the last exits, oldest first; zero: none
	level    int              // 0: not degraded; else how often the delay doubled
	restarts int              // exits since the zero value
}

// Exits is how many exits were counted since the zero value, runs that
// outlived Window included: the restart count of a status line.
func (h History) Exits() int { return h.restarts }

// Degraded says whether the name had too many exits and no long run since.
func (h History) Degraded() bool { return h.level > 0 }

// Failed says whether the tries of a degraded name are used up.
func (h History) Failed() bool { return h.level > Tries }

// settle forgets what came before a run that outlived Window.
func (h History) settle() History { return History{restarts: h.restarts} }

// add counts an exit at now and raises the level when it was one too many.
func (h History) add(now time.Time) History {
	copy(h.recent[:], h.recent[1:])
	h.recent[Burst-1] = now
	h.restarts++
	oldest := h.recent[0]
	switch {
	case h.level > Tries: // stays failed
	case h.level > 0:
		h.level++
	case !oldest.IsZero() && now.Sub(oldest) <= Window:
		h.level = 1
	}
	return h
}
