package upstream

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"harness/pkg/config"
	"harness/pkg/jsonrpc"
)

// Peer is the one session that a private process works for (MCP-5).
type Peer struct {
	// Answerer is asked what the process asks its client.
	Answerer jsonrpc.Answerer
	// Capabilities are what the session can be asked, a raw JSON object.
	Capabilities string
	// Heard gets what the process says without having been asked; it must not
	// keep line.
	Heard func(line []byte, m *jsonrpc.Message)
}

// private is what sets a unit with one session apart. What changes of it is
// guarded by the unit's lock.
type private struct {
	peer Peer
	// late is a changed definition that waits for the session to be idle.
	late *config.Launch
	// closed is set once the session needs it no more, and ended once nobody
	// serves it any more. Neither is ever started again.
	closed bool
	ended  atomic.Bool
}

// Private returns a unit of the session's own, with the definition in force: its
// process is started at its first use, restarted as any other, and ends with
// Close. Its lists are kept as those of u, which has no process but to learn
// them.
func (u *Unit) Private(peer Peer) *Unit {
	p := newUnit(u.key, u.pool)
	p.journal, p.private, p.board.tells = u.journal, &private{peer: peer}, true
	p.keep = u.learn
	p.leave = func(p *Unit) bool { return p.end() && u.disown(p) }
	if !u.adopt(p) {
		p.private.ended.Store(true)
		return p
	}
	p.apply(func(*machine, time.Time) {})
	u.pool.supervisor.Add(p)
	return p
}

// adopt gives the unit of a session, which nobody else knows yet, the definition
// in force, and has it follow what becomes of that; false where there is none.
func (u *Unit) adopt(child *Unit) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.m.enabled || u.m.closing {
		return false
	}
	launch := u.m.main.launch
	launch.Prestart = false
	child.m.solo, child.m.limits = true, u.m.limits
	child.m.start(launch, u.m.nonce, &Offer{})
	u.children[child] = struct{}{}
	return true
}

// Close ends a unit of one session as soon as no call is under way.
func (u *Unit) Close() {
	u.apply(func(*machine, time.Time) { u.private.closed, u.private.late = true, nil })
}

// Ended reports whether a unit of one session is of no use any more, because the
// definition it had was taken out of service. It takes no lock.
func (u *Unit) Ended() bool { return u.private.ended.Load() }

// end is over, for good: a word that comes later finds it so.
func (u *Unit) end() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.m.over() {
		u.private.ended.Store(true)
	}
	return u.m.over()
}

// disown takes a unit of one session that is over off its list.
func (u *Unit) disown(child *Unit) bool {
	u.mu.Lock()
	delete(u.children, child)
	u.mu.Unlock()
	notify(u.wake) // it may be over itself
	u.opt.Changed()
	return true
}

// learn takes over what a unit of a session has listed.
func (u *Unit) learn(l config.Launch, o *Offer) {
	u.apply(func(m *machine, _ time.Time) { m.learn(l, o) })
}

// Notify passes a notification of the session on to its process.
func (u *Unit) Notify(line []byte) {
	u.mu.Lock()
	c := u.standing.conn
	u.mu.Unlock()
	if c != nil {
		c.write(append([]byte(nil), line...))
	}
}

// ripen has the machine look again where something waits for the session to be
// idle, and it is.
func (u *Unit) ripen() {
	if u.private == nil || !u.board.idle() {
		return
	}
	u.mu.Lock()
	waits := u.private.late != nil || u.private.closed && u.m.enabled
	u.mu.Unlock()
	if waits || u.view.Load().PendingReady {
		u.apply(func(*machine, time.Time) {})
	}
}

// family returns the units of the sessions.
func (u *Unit) family() []*Unit {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.children))
}

// spread has the units of the sessions follow what happened to the definition:
// each takes another one over once its session is idle (HOT-4).
func (u *Unit) spread() {
	u.mu.Lock()
	l, enabled, limits, nonce := u.m.main.launch, u.m.enabled, u.m.limits, u.m.nonce
	if u.m.next != nil {
		l = u.m.next.launch
	}
	u.mu.Unlock()
	l.Prestart = false
	for _, child := range u.family() {
		child.apply(func(m *machine, _ time.Time) {
			m.limits = limits
			switch {
			case child.private.ended.Load():
			case !enabled:
				child.private.late = nil
				m.stop()
			case child.private.closed, l.Isolation != config.IsolationSession: // its session closes it
			case !m.enabled, nonce != m.nonce:
				m.start(l, nonce, &Offer{})
			case sameSpawn(l, m.main.launch) || l.Update != config.Replace:
				child.private.late = nil
				m.swap(l, nil)
			default:
				child.private.late = &l
			}
		})
	}
}

// whenIdle does what waits for a session that has nothing under way.
func (u *Unit) whenIdle(m *machine) {
	if u.private == nil || !m.enabled || !u.board.idle() {
		return
	}
	if u.private.closed {
		m.stop()
		return
	}
	if l := u.private.late; l != nil {
		u.private.late = nil
		m.replace(*l, &Offer{})
	}
	m.promote()
}

// idle reports whether no call is under way.
func (b *board) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls.Len() == 0
}

// embrace adds to a status what the units of the sessions are.
func (u *Unit) embrace(s Status) Status {
	for _, child := range u.family() {
		c := child.view.Load()
		s.Instances += c.Instances
		s.Restarts += c.Restarts
		if c.State != Stopped && s.State == Stopped {
			s.State, s.PID = c.State, c.PID
		}
		if s.Error == "" {
			s.Error = c.Error
		}
		if s.Refused == "" {
			s.Refused = c.Refused
		}
	}
	return s
}
