package upstream

import (
	"time"

	"harness/pkg/config"
	"harness/pkg/restart"
)

// retryFailed is how often a failed upstream is tried again (LIF-2).
const retryFailed = 5 * time.Minute

// lifeID numbers the processes of one unit from 1, in the order they start. A
// result carries the number of the life it came from, so that one of a life
// that is no longer wanted changes nothing.
type lifeID uint64

// phase is how far the process of a seat has come.
type phase uint8

const (
	vacant   phase = iota // no process
	starting              // spawned, initialize not answered
	up                    // initialize answered: calls may go to it
	listed                // its tools are known
)

// seat is a place for one process at a time: the one in service, or the one
// that is to take over. It holds the definition the process is started from,
// what became of the starts so far, and when the next one is.
type seat struct {
	launch config.Launch
	life   lifeID // 0 while vacant
	phase  phase
	pid    int
	// since is when the process came up, zero before: a start that merely took
	// long is no run that clears the count.
	since   time.Time
	history restart.History
	// down is the policy's verdict while vacant after an exit, "" before any.
	down    State
	retryAt time.Time
	// ahead are the lives that have to be gone before this seat spawns: the
	// rest of a crashed group, or a predecessor that must not overlap.
	ahead map[lifeID]bool
	// idle is set while an upstream with prestart = false waits for its first
	// use.
	idle bool
	// fresh is set until the first start came up or failed; calls wait for it
	// (LIF-6).
	fresh    bool
	answered bool
	spawns   int
	err      string
	offer    *Offer
	// learnt is set where the offer is that of this definition, and not what a
	// predecessor's left to show.
	learnt bool
	// proven is set once a process of this definition has come up.
	proven bool
	// unsaved is set where the offer is not the one that is kept on the disk.
	unsaved bool
}

func newSeat(l config.Launch, offer *Offer, learnt bool, ahead map[lifeID]bool) seat {
	return seat{launch: l, fresh: true, offer: offer, learnt: learnt, ahead: ahead}
}

// ready reports whether calls may go to the seat and its tools are known.
func (s *seat) ready() bool { return s.phase == listed }

// serves reports whether calls may go to the seat.
func (s *seat) serves() bool { return s.phase >= up }

// due reports whether the seat is to be spawned at now.
func (s *seat) due(now time.Time) bool { return s.waits() && !now.Before(s.retryAt) }

// waits reports whether nothing but time keeps the seat from being spawned.
func (s *seat) waits() bool { return s.life == 0 && !s.idle && len(s.ahead) == 0 }

// hopeless reports whether the seat has nothing to stay in service with: no
// process, and a definition that has never come up, or crashed again and again.
func (s *seat) hopeless() bool {
	return s.life == 0 && !s.idle && (!s.proven || s.down == Degraded || s.down == Failed)
}

// spawn seats the life id.
func (s *seat) spawn(id lifeID) {
	s.life, s.phase, s.since, s.pid = id, starting, time.Time{}, 0
	s.spawns++
}

// cameUp notes that the process answered initialize at now.
func (s *seat) cameUp(now time.Time) {
	s.phase, s.since, s.down, s.err, s.fresh, s.proven = up, now, "", "", false, true
}

// rest takes the life out of the seat until its next use.
func (s *seat) rest() {
	s.ahead = map[lifeID]bool{s.life: true}
	s.life, s.phase, s.pid, s.since = 0, vacant, 0, time.Time{}
	s.idle, s.fresh = true, false
}

// exit takes the life out of the seat and lets the policy say when the next
// one starts (LIF-2).
func (s *seat) exit(now time.Time, chance float64, reason string) {
	policy := restart.Policy{Delay: s.launch.RestartDelay, RetryFailed: retryFailed}
	h, d := policy.Exit(s.history, s.since, now, chance)
	s.history, s.down, s.retryAt = h, State(d.State), now.Add(d.Delay)
	s.ahead = map[lifeID]bool{s.life: true}
	s.life, s.phase, s.pid = 0, vacant, 0
	s.fresh, s.answered, s.err = false, true, reason
}

// state is the seat's state as LIF-1 names it.
func (s *seat) state() State {
	switch {
	case s.serves():
		return Running
	case s.life != 0:
		return Starting
	case s.idle:
		return Stopped
	case s.down != "":
		return s.down
	case len(s.ahead) > 0:
		return Stopping
	default:
		return Starting
	}
}

// nextRetry is when the seat is spawned again after an exit, zero when no
// exit is behind it.
func (s *seat) nextRetry() time.Time {
	if s.life != 0 || s.down == "" {
		return time.Time{}
	}
	return s.retryAt
}
