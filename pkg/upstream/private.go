package upstream

import (
	"maps"
	"slices"
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

// private is what sets a unit with one session apart.
type private struct {
	peer Peer
	of   *Unit
	// late is a changed definition that waits for the session to be idle.
	late *config.Launch
}

// Private returns a unit of the session's own, with the definition in force: its
// process is started at its first use, restarted as any other, and ends with
// Close. Its lists are kept as those of u, which has no process but to learn
// them.
func (u *Unit) Private(peer Peer) *Unit {
	p := newUnit(u.key, u.pool)
	p.journal.close()
	p.journal, p.private, p.board.tells = u.journal, &private{peer: peer, of: u}, true
	p.keep = u.learn
	p.leave = func(p *Unit) bool { return p.over() && u.disown(p) }
	u.mu.Lock()
	launch, nonce, gone := u.m.main.launch, u.m.nonce, !u.m.enabled || u.m.closing
	if !gone {
		u.children[p] = struct{}{}
	}
	u.mu.Unlock()
	if gone {
		return p
	}
	launch.Prestart = false
	p.apply(func(m *machine, _ time.Time) {
		m.solo = true
		m.start(launch, nonce, &Offer{})
	})
	u.pool.supervisor.Add(p)
	return p
}

// Close ends a unit of one session.
func (u *Unit) Close() { u.apply(func(m *machine, _ time.Time) { m.stop() }) }

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
	waits := u.private.late != nil
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
			case !enabled:
				m.stop()
			case nonce != m.nonce:
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
	if u.private == nil || !u.board.idle() {
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
