package upstream

import (
	"maps"
	"slices"
	"time"

	"harness/pkg/config"
)

// replaceHint ends the message of a candidate that did not come up (HOT-4).
const replaceHint = `; the running process stays in service, and a server that cannot run twice needs update = "replace"`

// role is what a process is there for.
type role uint8

const (
	serving   role = iota // in the main seat, or on its way out of it
	candidate             // beside the one in service, or dropped before it took over
)

// machine is what one unit knows and decides: which process runs, which is to
// take over, when the next is started. It is pure: words and results come in
// with the time, effects come out. It is not safe for concurrent use.
type machine struct {
	limits limits
	nonce  uint64
	main   seat
	next   *seat // the candidate of a swap
	// lives are all processes that are not gone yet, the drained and the
	// stopped included.
	lives   map[lifeID]role
	last    lifeID
	enabled bool
	// solo is set for the process of one session.
	solo bool
	// refused is why the last question of a process was put to nobody.
	refused string
	closing bool // the daemon ends: nothing is spawned any more
	effects []effect
}

// limits are the parts of [server] that bound a unit.
type limits struct {
	stopGrace, drain time.Duration
	maxMessage       int64
}

// effect is something the shell has to do: a sealed set of types.
type effect interface{ effect() }

type (
	// spawn starts a process.
	spawn struct {
		id     lifeID
		launch config.Launch
	}
	// retire lets the calls of a life end, for at most within, then stops it.
	retire struct {
		id     lifeID
		within time.Duration
	}
	// save keeps the offer in force for the next start of the daemon.
	save struct {
		launch config.Launch
		offer  *Offer
	}
	// tell reports an event.
	tell struct{ message string }
)

func (spawn) effect()  {}
func (retire) effect() {}
func (save) effect()   {}
func (tell) effect()   {}

func (m *machine) emit(e effect) { m.effects = append(m.effects, e) }

// take returns the effects decided on so far, in order.
func (m *machine) take() []effect {
	e := m.effects
	m.effects = nil
	return e
}

// start puts l in force. Of a unit that is on its way out, the new process
// waits for the old ones to be gone. known is the kept offer of l, or nil.
func (m *machine) start(l config.Launch, nonce uint64, known *Offer) {
	switch {
	case !m.enabled:
		m.enabled, m.nonce = true, nonce
		m.reseat(l, known)
	case !sameSpawn(l, m.main.launch):
		m.nonce = nonce
		m.replace(l, known)
	default:
		m.update(l)
		if nonce != m.nonce {
			m.kick(nonce)
		}
	}
}

// reseat begins anew with l once every process is gone. Where nothing is
// known of l, what the seat offered so far stays listed (MCP-3a).
func (m *machine) reseat(l config.Launch, known *Offer) {
	m.drop()
	for _, id := range slices.Sorted(maps.Keys(m.lives)) {
		m.emit(retire{id, m.limits.stopGrace})
	}
	ahead := map[lifeID]bool{}
	for id := range m.lives {
		ahead[id] = true
	}
	offer := known
	if offer == nil {
		offer = m.main.offer.kept()
	}
	m.main = newSeat(l, offer, known != nil, ahead)
	m.main.idle = (!l.Prestart || m.isolated()) && known != nil
	m.refused = ""
}

// isolated reports whether the sessions have processes of their own; then this
// one is only there to learn what they offer.
func (m *machine) isolated() bool {
	return !m.solo && m.main.launch.Isolation == config.IsolationSession
}

// rest ends a process that was there to learn.
func (m *machine) rest() {
	if !m.isolated() || m.main.life == 0 {
		return
	}
	m.emit(retire{m.main.life, 0})
	m.main.rest()
}

// learn takes over what the process of a session has listed.
func (m *machine) learn(l config.Launch, offer *Offer) {
	if m.enabled && sameSpawn(l, m.main.launch) && !sameContent(m.main.offer, offer) {
		m.main.offer, m.main.learnt = offer, true
		m.emit(save{m.main.launch, offer})
	}
}

// swap starts l beside what is in force (HOT-4). The definition in force makes
// it a cancel, the pending one changes nothing but live keys. Where nothing is in
// service there is nothing to stay beside: l begins anew (LIF-2).
func (m *machine) swap(l config.Launch, known *Offer) {
	switch {
	case !m.enabled:
		m.start(l, m.nonce, known)
	case sameSpawn(l, m.main.launch):
		m.cancel()
		m.define(&m.main, l)
	case m.next != nil && sameSpawn(l, m.next.launch):
		m.next.launch = l
	case m.main.idle, m.main.hopeless():
		m.reseat(l, known)
	default:
		m.drop()
		next := newSeat(l, nil, false, m.droppedLives())
		m.next = &next
	}
}

// droppedLives are candidates that are not gone yet: a new one waits for them,
// so that a burst of edits never runs more than one beside the process in
// service.
func (m *machine) droppedLives() map[lifeID]bool {
	ahead := map[lifeID]bool{}
	for id, r := range m.lives {
		if r == candidate {
			ahead[id] = true
		}
	}
	return ahead
}

// replace stops what runs and then starts l (HOT-4).
func (m *machine) replace(l config.Launch, known *Offer) {
	if !m.enabled {
		m.start(l, m.nonce, known)
		return
	}
	m.reseat(l, known)
}

// update puts the keys of l that apply in place in force, on the pending
// definition where that is the one meant.
func (m *machine) update(l config.Launch) {
	s := &m.main
	if m.next != nil && sameSpawn(l, m.next.launch) {
		s = m.next
	}
	m.define(s, withLiveKeys(s.launch, l))
	if l.Prestart && !m.isolated() && !m.solo {
		s.idle = false
	}
}

// define puts another definition of the same process into a seat. The list that
// was learnt from the one before is kept for this one, if another word for the
// program makes it another definition to the next start of the daemon.
func (m *machine) define(s *seat, l config.Launch) {
	respelled := s.launch.Cmd != l.Cmd
	s.launch = l
	if respelled && s == &m.main && s.learnt && s.offer != nil {
		m.emit(save{s.launch, s.offer})
	}
}

// cancel drops a pending swap.
func (m *machine) cancel() { m.drop() }

// drop takes the candidate away; it served no call.
func (m *machine) drop() {
	if m.next == nil {
		return
	}
	if m.next.life != 0 {
		m.emit(retire{m.next.life, 0})
	}
	m.next = nil
}

// stop takes the unit out of service for good (HOT-4, LIF-3).
func (m *machine) stop() {
	if !m.enabled {
		return
	}
	l := m.main.launch
	m.reseat(l, nil)
	m.main.offer = nil
	m.enabled = false
}

// kick is a manual start or restart: the count is cleared and the process is
// started now, after the one that runs. A pending definition takes over, as a
// changed harness does at its next start (HOT-5).
func (m *machine) kick(nonce uint64) {
	m.nonce = nonce
	if !m.enabled {
		return
	}
	if m.next != nil {
		m.reseat(m.next.launch, nil)
		return
	}
	old := m.main
	ahead := old.ahead
	if old.life != 0 {
		m.emit(retire{old.life, m.limits.stopGrace})
		ahead = map[lifeID]bool{old.life: true}
	}
	m.main = newSeat(old.launch, old.offer, old.learnt, ahead)
	m.main.proven = old.proven
}

// use starts an upstream that waited for its first use.
func (m *machine) use() { m.main.idle = false }

// shutdown ends every process without waiting for calls (LIF-4).
func (m *machine) shutdown() {
	m.closing = true
	for _, id := range slices.Sorted(maps.Keys(m.lives)) {
		m.emit(retire{id, 0})
	}
}

// promote lets a candidate that is ready take over, and reports whether there
// was one.
func (m *machine) promote() bool {
	if m.next == nil || !m.next.ready() {
		return false
	}
	if m.main.life != 0 {
		m.emit(retire{m.main.life, m.limits.drain})
	}
	m.main, m.next = *m.next, nil
	m.lives[m.main.life] = serving
	m.emit(save{m.main.launch, m.main.offer})
	m.emit(tell{"the changed definition is in service"})
	m.rest()
	return true
}

// seatOf returns the seat that the life id is in, or nil.
func (m *machine) seatOf(id lifeID) *seat {
	switch {
	case id == m.main.life:
		return &m.main
	case m.next != nil && id == m.next.life:
		return m.next
	}
	return nil
}

// spawned notes the process of a life.
func (m *machine) spawned(id lifeID, pid int, exe string) {
	if s := m.seatOf(id); s != nil {
		// The program may have been found, or found elsewhere, since the file
		// was read; what runs is what a later definition is compared with.
		s.pid, s.launch.Exe, s.launch.ExeErr = pid, exe, ""
	}
}

// cameUp notes that initialize was answered.
func (m *machine) cameUp(id lifeID, now time.Time) {
	s := m.seatOf(id)
	if s == nil {
		return
	}
	s.cameUp(now)
	if s == m.next {
		m.emit(tell{"the changed definition has answered initialize"})
	} else {
		m.emit(tell{"initialize was answered"})
	}
}

// listing notes what an upstream was found to offer. A changed definition takes
// over when all that it offers was asked for, and its tools are known.
func (m *machine) listing(id lifeID, f findings) {
	s := m.seatOf(id)
	if s == nil {
		return
	}
	s.answered = s.answered || f.tools || f.over
	if f.over && s.err != f.failure {
		s.err = f.failure
		if f.failure != "" {
			m.emit(tell{f.failure})
		}
	}
	if s != &m.main && !(f.tools && f.over) {
		return
	}
	s.unsaved = s.unsaved || !sameContent(s.offer, f.offer) || f.tools && s.phase != listed
	s.offer = f.offer
	if f.tools {
		s.phase, s.learnt = listed, true
	}
	if s != &m.main || !f.tools || !f.over {
		return
	}
	if s.unsaved {
		s.unsaved = false
		m.emit(save{s.launch, f.offer})
	}
	m.rest()
}

// exited notes that the process of a life is over, or never came to be, and
// not because it was asked to.
func (m *machine) exited(id lifeID, now time.Time, chance float64, reason string) {
	s := m.seatOf(id)
	if s == nil {
		return
	}
	if s == m.next && m.main.serves() {
		reason += replaceHint
	}
	s.exit(now, chance, reason)
	m.emit(tell{reason})
	if s == &m.main && m.next != nil && !s.proven {
		m.succeed()
	}
}

// succeed puts the pending definition in the place of one that has never come
// up: it is not put into service by an edit away from it.
func (m *machine) succeed() {
	offer, learnt := m.next.offer, m.next.learnt
	if offer == nil {
		offer = m.main.offer.kept()
	}
	m.main, m.next = *m.next, nil
	m.main.offer, m.main.learnt = offer, learnt
	if m.main.life != 0 {
		m.lives[m.main.life] = serving
	}
}

// vanished notes that nothing is left of a life: its group is empty.
func (m *machine) vanished(id lifeID) {
	delete(m.lives, id)
	delete(m.main.ahead, id)
	if m.next != nil {
		delete(m.next.ahead, id)
	}
}

// advance does what is due at now: a ready candidate takes over from a process
// that does not serve, and vacant seats are filled.
func (m *machine) advance(now time.Time) {
	if !m.enabled || m.closing {
		return
	}
	if !m.main.serves() {
		m.promote()
	}
	m.fill(&m.main, serving, now)
	if m.next != nil {
		m.fill(m.next, candidate, now)
	}
}

func (m *machine) fill(s *seat, r role, now time.Time) {
	if !s.due(now) {
		return
	}
	m.last++
	m.lives[m.last] = r
	s.spawn(m.last)
	m.emit(spawn{m.last, s.launch})
}

// wake is when advance has something to do next, zero for never.
func (m *machine) wake() time.Time {
	if !m.enabled || m.closing {
		return time.Time{}
	}
	var at time.Time
	if m.main.waits() {
		at = m.main.retryAt
	}
	if m.next != nil && m.next.waits() && (at.IsZero() || m.next.retryAt.Before(at)) {
		at = m.next.retryAt
	}
	return at
}

// over reports whether the unit was stopped and nothing is left of it.
func (m *machine) over() bool { return !m.enabled && len(m.lives) == 0 }
