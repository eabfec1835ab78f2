package upstream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thejerf/suture/v4"

	"harness/pkg/config"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// Unit keeps one upstream like its definition. Words and results change its
// machine under one lock, at once and without doing anything; what they ask
// for is done by the goroutine in Serve, in order.
type Unit struct {
	key     string
	pool    *Pool
	opt     *Options
	log     *slog.Logger
	spawner spawner
	keep    func(config.Launch, *Offer)
	// leave takes the unit out of its pool if it is still over, and says
	// whether it did.
	leave   func(*Unit) bool
	board   *board
	journal *journal
	wake    chan struct{} // capacity 1: the goroutine has something to do
	group   sync.WaitGroup
	view    atomic.Pointer[Status]

	mu     sync.Mutex
	m      machine
	lives  map[lifeID]*life
	outbox []effect // decided on, not yet done
	// children are the units of sessions that this one gave out.
	children map[*Unit]struct{}
	// private is of such a unit, nil for one that all sessions share.
	private *private
	// standing is what sessions have asked for that outlives a process.
	standing standing
}

// report is the effect of telling the world; it carries the state of the
// moment it was decided on.
type report struct{ event Event }

func (report) effect() {}

// newUnit returns a unit that keeps nothing yet, without its log and limits.
func newUnit(key string, p *Pool) *Unit {
	u := &Unit{
		key: key, pool: p, children: map[*Unit]struct{}{}, opt: &p.opt, log: p.opt.Logger.With("upstream", key),
		spawner: p.spawner, keep: p.keeper.put, leave: p.remove, wake: make(chan struct{}, 1),
		m: machine{lives: map[lifeID]role{}}, lives: map[lifeID]*life{},
	}
	u.board = &board{key: key, hurry: func() { notify(u.wake) }}
	u.view.Store(&Status{Key: key, State: Stopped})
	return u
}

// String names the unit as messages and the supervisor do.
func (u *Unit) String() string { return "mcp." + u.key }

// Relay passes an agent's request on: it is registered, and its line, with the
// id, the progress token and the tool's own name spliced in, is appended to
// out, or kept for an upstream that is in its first start (LIF-6). From then
// on c belongs to the board until its owner gets the one Answer or Fail, which
// may be before Relay returns. An error means that nothing was registered and
// nothing will be sent. Any goroutine may call it; it never waits.
func (u *Unit) Relay(c *jsonrpc.Call, line []byte, m *jsonrpc.Message, out *jsonrpc.Batch) *wire.Error {
	idle, err := u.board.relay(c, line, m, out)
	if idle {
		u.apply(func(m *machine, _ time.Time) { m.use() })
	}
	return err
}

// Cancel takes c back, and reports whether its owner will hear nothing of it;
// otherwise its Answer or Fail is on its way. Where c was sent, the upstream
// is told, with the raw JSON reason if there is one. What c's line is in must
// have been flushed before. The owner must not hold a lock that its own
// methods take.
func (u *Unit) Cancel(c *jsonrpc.Call, notice []byte) bool { return u.board.cancel(c, notice) }

// apply changes the machine and everything that follows from it at once: what
// status shows and where calls go. What has to be done goes to the outbox.
func (u *Unit) apply(change func(m *machine, now time.Time)) {
	u.mu.Lock()
	now := time.Now()
	change(&u.m, now)
	u.m.advance(now)
	u.whenIdle(&u.m)
	old, s := u.view.Load(), u.m.status()
	u.queue(old.State, &s, now)
	differs := !reflect.DeepEqual(*old, s)
	if differs {
		u.view.Store(&s)
	}
	failed := u.reroute(&s)
	u.mu.Unlock()
	notify(u.wake)
	deliver(failed)
	if differs {
		u.opt.Changed()
	}
}

// queue moves the machine's effects to the outbox, with an event for each
// thing it tells, or one for a state that is new without a word.
func (u *Unit) queue(old State, s *Status, now time.Time) {
	told := false
	say := func(message string) {
		told = true
		u.outbox = append(u.outbox, report{Event{At: now, Key: u.key, State: s.State, PID: s.PID, Message: message}})
	}
	for _, e := range u.m.take() {
		if t, ok := e.(tell); ok {
			say(t.message)
		} else {
			u.outbox = append(u.outbox, e)
		}
	}
	if s.State != old && !told {
		say("")
	}
}

// reroute puts the machine's route in force and returns the calls that have
// nowhere to go any more.
func (u *Unit) reroute(s *Status) []failure {
	id, wait := u.m.route()
	r := route{
		wait: wait, idle: u.m.main.idle, outage: outage{s.State, s.NextRetry, s.Error},
		timeout: s.Launch.CallTimeout, limit: 2 * u.m.limits.maxMessage,
	}
	if l := u.lives[id]; l != nil {
		r.conn = l.conn
	}
	failed := u.board.set(r)
	u.standing.restore(r.conn)
	return failed
}

// outage is what callers of a process that is on its way out are told.
func (u *Unit) outage(why string) outage {
	s := u.view.Load()
	return outage{s.State, s.NextRetry, why}
}

// stopGrace is how long the ladder of LIF-3 takes at most, now.
func (u *Unit) stopGrace() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.m.limits.stopGrace
}

// The results of a life.

func (u *Unit) spawned(id lifeID, pid int, exe string) {
	u.apply(func(m *machine, _ time.Time) { m.spawned(id, pid, exe) })
}

// cameUp is told once the life's connection may carry calls.
func (u *Unit) cameUp(id lifeID) {
	u.apply(func(m *machine, now time.Time) { m.cameUp(id, now) })
}

// offers is what is offered of a life so far, which may be what its predecessor
// left; nil for nothing.
func (u *Unit) offers(id lifeID) *Offer {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.m.seatOf(id); s != nil {
		return s.offer
	}
	return nil
}

func (u *Unit) listing(id lifeID, f findings) {
	u.apply(func(m *machine, _ time.Time) { m.listing(id, f) })
}

// exited returns what the callers of that life are to be told.
func (u *Unit) exited(id lifeID, reason string) outage {
	u.apply(func(m *machine, now time.Time) { m.exited(id, now, rand.Float64(), reason) })
	return u.outage(reason)
}

func (u *Unit) vanished(id lifeID) {
	u.apply(func(m *machine, _ time.Time) {
		m.vanished(id)
		delete(u.lives, id)
	})
}

// over reports whether the unit was stopped and nothing is left of it.
func (u *Unit) over() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.m.over()
}

// Serve does what was decided on, and wakes the machine when something is due,
// until the unit was stopped and is over or ctx ends; then it ends every
// process and waits for them (LIF-4). Only a bug makes the supervisor call it
// again, and it goes on where it was.
func (u *Unit) Serve(ctx context.Context) error {
	for {
		u.ripen()
		u.perform()
		failed, deadline := u.board.expire(time.Now())
		deliver(failed)
		timer := u.alarm(deadline)
		select {
		case <-ctx.Done():
			timer.Stop()
			u.shutdown()
			return ctx.Err()
		case <-u.wake:
		case <-timer.C:
			u.apply(func(*machine, time.Time) {})
		}
		timer.Stop()
		if u.leave(u) {
			u.finish()
			return suture.ErrDoNotRestart
		}
	}
}

// alarm returns a timer for the next thing that is due.
func (u *Unit) alarm(deadline time.Time) *time.Timer {
	u.mu.Lock()
	at := u.m.wake()
	u.mu.Unlock()
	if at.IsZero() || !deadline.IsZero() && deadline.Before(at) {
		at = deadline
	}
	if at.IsZero() {
		return time.NewTimer(never)
	}
	return time.NewTimer(time.Until(at))
}

// never is longer than any daemon runs.
const never = 1 << 62

// shutdown ends every process and waits until nothing is left of them.
func (u *Unit) shutdown() {
	u.apply(func(m *machine, _ time.Time) { m.shutdown() })
	u.perform()
	u.finish()
}

// finish waits for what is left to end and closes the log.
func (u *Unit) finish() {
	u.group.Wait()
	u.perform()
	if u.private == nil {
		u.journal.close()
	}
}

// perform empties the outbox. An effect is taken out before it is done, so
// that one which meets a bug is not met again.
func (u *Unit) perform() {
	for {
		u.mu.Lock()
		if len(u.outbox) == 0 {
			u.mu.Unlock()
			return
		}
		e := u.outbox[0]
		u.outbox = u.outbox[1:]
		u.mu.Unlock()
		u.do(e)
	}
}

func (u *Unit) do(e effect) {
	switch e := e.(type) {
	case spawn:
		u.bear(e)
	case retire:
		u.mu.Lock()
		l := u.lives[e.id]
		u.mu.Unlock()
		if l != nil {
			l.retire(e.within)
		}
	case save:
		u.keep(e.launch, e.offer)
	case report:
		u.opt.Event(e.event)
	}
}

// bear starts a life, unless the daemon ends.
func (u *Unit) bear(e spawn) {
	u.mu.Lock()
	closing := u.m.closing
	l := newLife(u, e, u.m.limits.maxMessage)
	if !closing {
		u.lives[e.id] = l
	}
	u.mu.Unlock()
	if closing {
		u.vanished(e.id)
		return
	}
	u.group.Go(l.run)
}
