package broker

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"harness/pkg/wire"
)

// Options is what a [Broker] needs from outside.
type Options struct {
	Version string       // reported by initialize
	Logger  *slog.Logger // never sees a payload
	// StopGrace is how long a session that ended its input waits for the
	// answers to what it sent; asked at each such end.
	StopGrace func() time.Duration
	// Class names the kind of agent that calls itself client in initialize, ""
	// where it is not known; nil for nobody. Lint says why agents of a class would
	// refuse a whole list for one tool, "" where they would not.
	Class func(client string) string
	Lint  func(class string, tool []byte) string
	// Event tells what happened to sessions; nil for nobody. It must not block.
	Event func(Event)
}

// Event is something that happened to a session.
type Event struct {
	Kind    string // "session", "notification" or "tool"
	Session string // or the tool
	Message string
}

// SessionInfo is one connected session, as status shows it.
type SessionInfo struct {
	ID      string
	Harness string // name of the harness it belongs to, "" when unattributed
	Client  string // clientInfo.name as the agent gave it, "" before initialize
	Since   time.Time
}

// Published says what a publish meant to the sessions.
type Published struct {
	Changed  [wire.Kinds]bool // the list, or what is behind it, differs
	Notified int              // notifications written
}

// Broker owns the sessions and the catalog they see.
type Broker struct {
	opt   Options
	fleet atomic.Pointer[Fleet]

	mu       sync.Mutex
	sessions map[*session]struct{}
	last     int // number of the newest session
	topics   map[topic]*subscription
	told     map[LeftOut]bool // guarded by mu: what an event told of

	leveling sync.Mutex // see setLevels; taken before mu
}

// New returns a broker that serves first. It starts nothing.
func New(first *Fleet, opt Options) *Broker {
	if opt.Event == nil {
		opt.Event = func(Event) {}
	}
	if opt.Class == nil {
		opt.Class = func(string) string { return "" }
	}
	b := &Broker{opt: opt, sessions: map[*session]struct{}{}, topics: map[topic]*subscription{}, told: map[LeftOut]bool{}}
	b.fleet.Store(first)
	return b
}

// View returns what a scope sees now.
func (b *Broker) View(s *Scope) *Catalog { return b.fleet.Load().View(s) }

// Publish puts f in force and tells each session what differs for it, once a
// kind (HOT-6). It is called by one goroutine at a time. What it says to have
// changed is what changed for a caller that is nobody's.
func (b *Broker) Publish(f *Fleet) Published {
	var p Published
	before, now := b.View(Unattributed()), f.View(Unattributed())
	b.fleet.Store(f)
	for k := range wire.Kinds {
		p.Changed[k] = !before.equal(now, k)
	}
	b.setLevels() // also what is new
	p.Notified = b.Refresh()
	return p
}

// Refresh tells each session what differs for it since it was last told, after
// its scope may have become another (HOT-5), and returns how many notifications
// that took.
func (b *Broker) Refresh() int {
	n := 0
	for _, s := range b.snapshot() {
		s.shed()
		n += s.notify()
	}
	return n
}

// Sessions returns the connected sessions, oldest first.
func (b *Broker) Sessions() []SessionInfo {
	infos := []SessionInfo{}
	for _, s := range b.snapshot() {
		infos = append(infos, s.describe())
	}
	slices.SortFunc(infos, func(x, y SessionInfo) int { return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.ID, y.ID)) })
	return infos
}

func (b *Broker) snapshot() []*session {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*session, 0, len(b.sessions))
	for s := range b.sessions {
		all = append(all, s)
	}
	return all
}

// Serve runs one session of a caller over edge, which it closes, and returns
// when the session is over. A panic ends that session and nothing else. The end
// of ctx ends nothing: whoever wants the session to end closes edge.
func (b *Broker) Serve(ctx context.Context, edge Edge, caller Caller) {
	b.mu.Lock()
	b.last++
	s := newSession(context.WithoutCancel(ctx), b, "s"+strconv.Itoa(b.last), edge, caller)
	b.sessions[s] = struct{}{}
	b.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			b.opt.Logger.Error("a session ended in a panic", "session", s.id, "panic", r, "stack", string(debug.Stack()))
			s.close()
		}
		b.mu.Lock()
		delete(b.sessions, s)
		b.mu.Unlock()
		b.setLevels()
	}()
	s.run()
}
