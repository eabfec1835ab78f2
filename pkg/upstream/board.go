package upstream

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// maxParked is how many calls may wait for a first start.
const maxParked = 1024

// board is the switchboard of one unit: it knows where calls go now, and which
// are under way to which process. Routing and registering are one critical
// section, so a call is registered with the connection in force at that
// instant, and one that is being drained waits for it: no call can fall
// between two processes (HOT-4). Whoever takes a call out of the table owes it
// its one Answer or Fail; all methods that take calls out return them instead
// of telling their owners, who must not be called under the lock.
//
// Requests are numbered by one table over all processes of the unit, so that
// an answer that comes late, or from the wrong process, finds nothing.
type board struct {
	key string
	// hurry wakes the unit's goroutine because a deadline is nearer than the
	// one it waits for. It must not block.
	hurry func()
	// tells is set where somebody waits for the board to be idle; then hurry
	// says so too.
	tells bool

	mu    sync.Mutex
	route route
	calls jsonrpc.Pending
	last  uint64 // the newest number
	// free are tickets to be used again; there is one for each call.
	free []*ticket
	// parked are the numbers of the calls that wait for a process, oldest
	// first; those cancelled meanwhile are still among them.
	parked      []uint64
	parkedBytes int64
	deadline    time.Time // of the call that is out of time next, zero for none
}

// route is where calls go: to conn, or else they wait, or else they fail.
type route struct {
	conn *conn
	wait bool
	// idle is true when waiting is in vain until somebody starts the process.
	idle    bool
	outage  outage
	timeout time.Duration // call_timeout, 0 for none
	limit   int64         // bytes that may wait
}

// ticket is where one registered call is; the Call's Relay. It is guarded by
// the board's lock.
type ticket struct {
	n        uint64
	conn     *conn // nil while parked
	deadline time.Time
	line     []byte // what is to be sent, while parked
}

// failure is a call that was taken out, with what to tell its owner.
type failure struct {
	call *jsonrpc.Call
	err  *wire.Error
}

// deliver tells the owners of failed calls, each one flush after its last.
func deliver(failed []failure) {
	var owners flushes
	for _, f := range failed {
		f.call.Owner.Fail(f.call, f.err)
		owners.add(f.call.Owner)
	}
	owners.flush()
}

// flushes are the owners that something was appended for.
type flushes struct{ owners []jsonrpc.Owner }

func (f *flushes) add(o jsonrpc.Owner) {
	if !slices.Contains(f.owners, o) {
		f.owners = append(f.owners, o)
	}
}

func (f *flushes) flush() {
	for _, o := range f.owners {
		o.Flush()
	}
	clear(f.owners)
	f.owners = f.owners[:0]
}

// relay registers c and appends its line for the process in force, or keeps it
// until there is one; idle says that somebody has to see to that. Where calls
// fail nothing is registered.
func (b *board) relay(c *jsonrpc.Call, line []byte, m *jsonrpc.Message, out *jsonrpc.Batch) (idle bool, e *wire.Error) {
	// Once the lock is released c may be failed and used again by its owner.
	name := c.Name
	b.mu.Lock()
	to := b.route.conn
	if to == nil {
		defer b.mu.Unlock()
		return b.park(c, line, m)
	}
	t := b.register(c)
	t.conn = to
	to.inflight++
	n := t.n
	b.mu.Unlock()
	dst := out.Append(to.out)
	*dst = appendRequest(*dst, line, m, n, name)
	return false, nil
}

// register numbers c.
func (b *board) register(c *jsonrpc.Call) *ticket {
	t := b.ticket()
	c.Relay = t
	t.n = b.calls.Add(c)
	b.last = t.n
	if b.route.timeout > 0 {
		t.deadline = time.Now().Add(b.route.timeout)
		if b.deadline.IsZero() || t.deadline.Before(b.deadline) {
			b.deadline = t.deadline
			b.hurry()
		}
	}
	return t
}

func (b *board) ticket() *ticket {
	if n := len(b.free); n > 0 {
		t := b.free[n-1]
		b.free = b.free[:n-1]
		return t
	}
	return &ticket{}
}

// park keeps c and its line until there is a process (LIF-6), or says why
// nobody waits for one.
func (b *board) park(c *jsonrpc.Call, line []byte, m *jsonrpc.Message) (idle bool, e *wire.Error) {
	switch {
	case !b.route.wait:
		return false, b.route.outage.err(b.key, time.Now())
	case len(b.parked) >= maxParked || b.parkedBytes+int64(len(line)) > b.route.limit:
		return false, callError(wire.UpstreamUnavailable, b.key, b.route.outage.state,
			"upstream "+b.key+" is still starting, and too many calls wait for it")
	}
	t := b.register(c)
	t.line = appendRequest(nil, line, m, t.n, c.Name)
	b.parked = append(b.parked, t.n)
	b.parkedBytes += int64(len(t.line))
	return b.route.idle, nil
}

// appendRequest appends an agent's line as the upstream gets it: with the
// number n as its id and, where it has one, its progress token, and with the
// upstream's own name. Every other byte stays (MCP-3).
func appendRequest(dst, line []byte, m *jsonrpc.Message, n uint64, name jsonrpc.Edit) []byte {
	var digits [20]byte
	id := strconv.AppendUint(digits[:0], n, 10)
	edits := [3]jsonrpc.Edit{{At: m.ID, With: id}, {At: m.ProgressToken, With: id}, name}
	return append(jsonrpc.Splice(dst, line, edits[:]...), '\n')
}

// set puts a route in force. Parked calls are sent where there is a process
// now; they are returned as failed where there is none to wait for.
func (b *board) set(r route) []failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.route = r
	switch {
	case r.conn != nil:
		return b.send(r.conn)
	case !r.wait:
		return b.drop(r.outage)
	}
	return nil
}

// send writes the parked calls to conn, oldest first, in one piece.
func (b *board) send(to *conn) []failure {
	if len(b.parked) == 0 {
		return nil
	}
	lines := make([]byte, 0, b.parkedBytes)
	for _, n := range b.parked {
		if c := b.calls.Get(n); c != nil {
			t := ticketOf(c)
			lines = append(lines, t.line...)
			t.conn, t.line = to, nil
			to.inflight++
		}
	}
	b.parked, b.parkedBytes = nil, 0
	if _, err := to.out.Write(lines); err != nil {
		return b.cut(to, outage{state: b.route.outage.state, why: err.Error()})
	}
	return nil
}

// drop takes the parked calls out.
func (b *board) drop(o outage) []failure {
	var failed []failure
	now := time.Now()
	for _, n := range b.parked {
		if c := b.calls.Get(n); c != nil {
			b.take(c)
			failed = append(failed, failure{c, o.err(b.key, now)})
		}
	}
	b.parked, b.parkedBytes = nil, 0
	return failed
}

// cutAll takes out every call that is under way to conn.
func (b *board) cutAll(to *conn, o outage) []failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cut(to, o)
}

func (b *board) cut(to *conn, o outage) []failure {
	var failed []failure
	now := time.Now()
	for _, c := range b.calls.All() {
		if ticketOf(c).conn == to {
			b.take(c)
			failed = append(failed, failure{c, o.err(b.key, now)})
		}
	}
	return failed
}

// ticketOf returns the ticket of a call that is in the table.
func ticketOf(c *jsonrpc.Call) *ticket {
	t, _ := c.Relay.(*ticket)
	return t
}

// take removes c from the table and gives its ticket back.
func (b *board) take(c *jsonrpc.Call) {
	t := ticketOf(c)
	b.calls.Take(t.n)
	if b.tells && b.calls.Len() == 0 {
		b.hurry()
	}
	if to := t.conn; to != nil {
		to.inflight--
		if to.retired && to.inflight == 0 {
			notify(to.idle)
		}
	}
	b.parkedBytes -= int64(len(t.line))
	*t = ticket{}
	c.Relay = nil
	b.free = append(b.free, t)
}

// notify wakes whoever waits on a channel of capacity 1.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

// answered takes out the call that conn has answered as number n. Where nobody
// waits for that answer, late says that somebody once did.
func (b *board) answered(from *conn, n uint64) (c *jsonrpc.Call, late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c = b.calls.Get(n)
	if c == nil || ticketOf(c).conn != from {
		return nil, n <= b.last
	}
	b.take(c)
	return c, false
}

// progress passes a notification on to the owner of the call number n, under
// the lock: once the call is taken out its owner hears nothing more of it.
func (b *board) progress(from *conn, n uint64, line []byte, m *jsonrpc.Message) jsonrpc.Owner {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.calls.Get(n)
	if c == nil || ticketOf(c).conn != from || c.Token == nil {
		return nil
	}
	c.Owner.Progress(c, line, m)
	return c.Owner
}

// cancel takes c out, if it still waits for an answer, and tells the process
// where it was sent to one.
func (b *board) cancel(c *jsonrpc.Call, notice []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := ticketOf(c)
	if t == nil {
		return false
	}
	n, to := t.n, t.conn
	b.take(c)
	if to != nil {
		to.cancel(n, notice)
	}
	return true
}

// refused takes out the calls of lines that conn's writer did not take. Calls
// that were failed before are not among them any more.
func (b *board) refused(from *conn, numbers []uint64, o outage) []failure {
	b.mu.Lock()
	defer b.mu.Unlock()
	var failed []failure
	now := time.Now()
	for _, n := range numbers {
		if c := b.calls.Get(n); c != nil && ticketOf(c).conn == from {
			b.take(c)
			failed = append(failed, failure{c, o.err(b.key, now)})
		}
	}
	return failed
}

// expire takes out the calls whose time is over at now, tells their processes,
// and returns when the next one's is.
func (b *board) expire(now time.Time) (failed []failure, next time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deadline.IsZero() || now.Before(b.deadline) {
		return nil, b.deadline
	}
	b.deadline = time.Time{}
	for n, c := range b.calls.All() {
		t := ticketOf(c)
		switch {
		case t.deadline.IsZero():
		case now.Before(t.deadline):
			if b.deadline.IsZero() || t.deadline.Before(b.deadline) {
				b.deadline = t.deadline
			}
		default:
			if to := t.conn; to != nil {
				to.cancel(n, jsonrpc.Cancelled("timeout"))
			}
			b.take(c)
			failed = append(failed, failure{c, callError(wire.Timeout, b.key, b.route.outage.state,
				"upstream "+b.key+" did not answer within call_timeout")})
		}
	}
	return failed, b.deadline
}

// retire marks conn as one that gets no new calls and reports whether none is
// under way; else its idle channel says when.
func (b *board) retire(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.retired = true
	return c.inflight == 0
}
