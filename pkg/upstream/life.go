package upstream

import (
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"harness/pkg/config"
	"harness/pkg/jsonrpc"
)

const (
	// exitSoon is how long a process may take to exit once it cannot be read
	// from or written to any more; then it is ended.
	exitSoon = 500 * time.Millisecond
	// lastWords is how long the end of a process's stderr is waited for once
	// nothing of the process is left.
	lastWords = time.Second
)

// fatalError is why nothing more can come of a life.
type fatalError struct{ why string }

func (f *fatalError) Error() string { return f.why }

// life is one process from its start until nothing is left of it. Its
// goroutine runs run; the process's stdout and stderr have one each.
type life struct {
	unit       *Unit
	id         lifeID
	launch     config.Launch
	maxMessage int64

	// The life's own goroutine sets these, and others read them only where
	// the unit's lock was in between.
	child  child
	conn   *conn
	stdout *tail
	isUp   bool
	spent  bool // stdout was read to its end

	ended  chan struct{} // closed when all of stdout was delivered
	quiet  chan struct{} // closed when all of stderr was
	orders chan struct{} // capacity 1: retire was called

	mu      sync.Mutex
	retired bool
	until   time.Time // when calls under way have had their time
}

func newLife(u *Unit, s spawn, maxMessage int64) *life {
	return &life{
		unit: u, id: s.id, launch: s.launch, maxMessage: maxMessage,
		ended: make(chan struct{}), quiet: make(chan struct{}), orders: make(chan struct{}, 1),
	}
}

func (l *life) log() *slog.Logger { return l.unit.log }

// retire lets the calls under way end within that time and then stops the
// process; a second call can only shorten it. It does not wait.
func (l *life) retire(within time.Duration) {
	until := time.Now().Add(within)
	l.mu.Lock()
	if !l.retired || until.Before(l.until) {
		l.retired, l.until = true, until
	}
	l.mu.Unlock()
	notify(l.orders)
}

// order returns what retire asked for.
func (l *life) order() (retired bool, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retired, l.until
}

// run is the whole life. It ends with the unit knowing that nothing is left,
// whatever happens: a bug met on the way costs this life, not the daemon.
func (l *life) run() {
	defer l.unit.vanished(l.id)
	defer func() {
		if p := recover(); p != nil {
			l.log().Error("panic", "value", p, "stack", string(debug.Stack()))
			l.abandon()
		}
	}()
	if retired, _ := l.order(); retired {
		return
	}
	if err := l.spawn(); err != nil {
		l.unit.exited(l.id, err.Error())
		return
	}
	if err := l.attend(); errors.Is(err, errRetired) {
		l.leave()
	} else {
		l.crash(err)
	}
	l.clear()
}

// spawn starts the process and the goroutines that read from it.
func (l *life) spawn() error {
	spec, err := prepare(l.launch, l.unit.opt.Env(), l.unit.opt.ReadFile)
	if err != nil {
		return err
	}
	l.child, err = l.unit.spawner.Start(spec)
	if err != nil {
		return err
	}
	l.unit.spawned(l.id, l.child.PID(), spec.Path)
	l.conn = newConn(l.unit.board, l.child.Stdin(), 2*l.maxMessage, l.unit.journal.noise)
	l.conn.subscription = l.unit.subscription
	l.conn.refused = l.unit.refuse
	l.conn.heard = func(line []byte, m *jsonrpc.Message) { l.unit.opt.Heard(l.unit.key, line, m) }
	if p := l.unit.private; p != nil {
		l.conn.heard, l.conn.only = p.peer.Heard, p.peer.Answerer
	}
	l.stdout = &tail{src: l.child.Stdout()}
	l.unit.group.Go(l.readStdout)
	l.unit.group.Go(l.readStderr)
	return nil
}

// readStdout delivers what the process says. A bug in whoever hears it ends
// the life.
func (l *life) readStdout() {
	defer close(l.ended)
	defer func() {
		if p := recover(); p != nil {
			l.log().Error("panic", "value", p, "stack", string(debug.Stack()))
			l.conn.fail(errors.New("internal error; see the daemon's log"))
		}
	}()
	// Why stdout ended is of no interest beside how the process did.
	_ = l.conn.read(jsonrpc.NewReader(l.stdout, readBuffer, l.maxMessage))
}

func (l *life) readStderr() {
	defer close(l.quiet)
	l.unit.journal.drain(l.child.Stderr())
}

// crash ends a life that was not asked to end: because of err the process is
// gone, or of no use. Answers that are in the pipe are still delivered, then
// the unit decides what follows, and the calls left over are told (LIF-6).
func (l *life) crash(err error) {
	// Where it cannot be read from or written to it is about to exit, and how
	// it does is what callers should be told.
	_, over := errors.AsType[*fatalError](err)
	gone := over && l.exits(exitSoon)
	reason, grace := err.Error(), l.unit.stopGrace()
	if gone {
		l.exhaust()
		reason = exitReason(l.child.Exit())
		if !l.isUp {
			reason += " before it answered initialize"
		}
		// What is left of the group has the time that passes anyway.
		grace = min(grace, l.launch.RestartDelay)
	}
	o := l.unit.exited(l.id, reason)
	l.cut(o)
	l.child.Stop(grace)
}

// exits waits for the process to exit, at most limit.
func (l *life) exits(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.child.Exited():
		return true
	case <-timer.C:
		return false
	}
}

// leave ends a life that was asked to end: after its last call, or when the
// time for that is over (HOT-4).
func (l *life) leave() {
	why := "its process was stopped before it answered"
	if err := l.drain(); err != nil && l.exits(exitSoon) {
		l.exhaust()
		why = exitReason(l.child.Exit())
	} else if err != nil {
		why = err.Error()
	}
	l.cut(l.unit.outage(why))
	l.child.Stop(l.unit.stopGrace())
}

// cut ends the connection: calls that are left are told, and what the process
// asked is taken back.
func (l *life) cut(o outage) {
	deliver(l.unit.board.cutAll(l.conn, o))
	l.conn.withdrawAll()
	_ = l.conn.out.Close() // it never fails
}

// drain waits until no call is under way, nil, or the time for it is over,
// nil, or nothing more can come.
func (l *life) drain() error {
	idle := l.unit.board.retire(l.conn)
	for !idle {
		_, until := l.order()
		timer := time.NewTimer(time.Until(until))
		_, err := l.await(signals{alarm: timer.C, idle: l.conn.idle})
		timer.Stop()
		switch {
		case errors.Is(err, errAlarm), errors.Is(err, errIdle):
			return nil
		case !errors.Is(err, errRetired): // else: less time than before
			return err
		}
	}
	return nil
}

// exhaust delivers what is left in stdout.
func (l *life) exhaust() {
	if !l.spent {
		l.spent = true
		l.stdout.finish()
		<-l.ended
	}
}

// clear gives the pipes up once nothing of the process is left.
func (l *life) clear() {
	l.exhaust()
	l.child.Stdout().Close()
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	select {
	case <-l.quiet:
	case <-timer.C:
	}
	l.child.Stderr().Close()
	<-l.quiet
}

// abandon ends a life that met a bug.
func (l *life) abandon() {
	o := l.unit.exited(l.id, "internal error; see the daemon's log")
	if l.conn == nil {
		return
	}
	l.cut(o)
	l.child.Stop(0)
	l.clear()
}
