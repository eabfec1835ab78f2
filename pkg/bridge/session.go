package bridge

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"harness/pkg/handover"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

const (
	// requestWait is how long a request waits for a daemon that is not there.
	requestWait = 2 * time.Second
	// greetWait is how long initialize waits before it is answered without a
	// daemon; an answer is due within a second.
	greetWait = 700 * time.Millisecond
)

// waits is how long what is held waits; tests that do not measure it wait
// longer.
type waits struct{ request, greet time.Duration }

// session is one agent's session without its descriptors: which of its
// requests have no answer yet and where each of them is, and what a new daemon
// has to hear. Every request leaves it once: with its answer, with a failure,
// or cancelled. It has no lock of its own.
type session struct {
	version  func() string
	waits    waits
	refusal  string              // why the daemon that is there takes no session, "" if it does or there is none
	requests map[string]*request // those without an answer, by raw id
	queue    []*request          // those held for a daemon, in order
	asked    int                 // requests so far
	handshake
	shown shown
	met   bool // there was a daemon at some time
	alone bool // initialize was answered without one
}

// request is one request of the agent that has no answer.
type request struct {
	id    string // raw
	n     int    // how many came before it
	verb  verb
	place place
	line  []byte    // kept while it may have to be sent again
	until time.Time // when it is given up; zero until it is first held
}

// place is where a request is.
type place uint8

const (
	gathered place = iota // with the goroutine that read it
	held                  // in the queue
	taken                 // with the daemon, or on the way to it
)

func newSession(version func() string) session {
	return session{
		version:  version,
		waits:    waits{request: requestWait, greet: greetWait},
		requests: map[string]*request{},
	}
}

// add notes a request that was read. It returns nil if its id is that of a
// request still in flight.
func (s *session) add(id []byte, v verb, line []byte) *request {
	if s.requests[string(id)] != nil {
		return nil
	}
	r := &request{id: string(id), n: s.asked, verb: v}
	s.asked++
	if v.kept() {
		r.line = slices.Clone(line)
	}
	if v == greet {
		s.initialized = false
	}
	s.requests[r.id] = r
	return r
}

// has reports whether r still waits for its answer.
func (s *session) has(r *request) bool { return r != nil && s.requests[r.id] == r }

func (s *session) remove(r *request) {
	delete(s.requests, r.id)
	if r.place == held {
		s.queue = slices.DeleteFunc(s.queue, func(q *request) bool { return q == r })
	}
}

// cancel forgets a request: no answer comes to one that was cancelled.
// Initialize cannot be.
func (s *session) cancel(id []byte) {
	if r := s.requests[string(id)]; r != nil && r.verb != greet {
		s.remove(r)
	}
}

// hold keeps a request that no daemon took for the next one. It returns the
// answer instead where none is needed: without a daemon all lists are empty.
func (s *session) hold(r *request, line []byte, now time.Time) (answer []byte) {
	if answer = s.answerAlone(r); answer != nil {
		return answer
	}
	if r.line == nil {
		r.line = slices.Clone(line)
	}
	s.enqueue(r, len(s.queue), now)
	return nil
}

func (s *session) enqueue(r *request, at int, now time.Time) {
	r.place = held
	if r.until.IsZero() {
		r.until = now.Add(s.waits.request)
		if r.verb == greet {
			r.until = now.Add(s.waits.greet)
		}
	}
	s.queue = slices.Insert(s.queue, at, r)
}

// answerAlone answers what can be without a daemon, as long as there never was
// one.
func (s *session) answerAlone(r *request) []byte {
	if s.met || !s.alone {
		return nil
	}
	answer := r.verb.unlinked([]byte(r.id))
	if answer == nil {
		return nil
	}
	if k, ok := r.verb.kind(); ok {
		s.shown.set(k, k.EmptyList())
	}
	s.remove(r)
	return answer
}

// overdue takes what has waited until now off the queue. It returns the
// answers and when to look again, zero while nothing waits.
func (s *session) overdue(now time.Time) (answers [][]byte, next time.Time) {
	for _, r := range slices.Clone(s.queue) {
		switch {
		case !r.until.After(now):
			answers = append(answers, s.giveUp(r))
		case s.alone && !s.met && r.verb.unlinked(nil) != nil:
			answers = append(answers, s.answerAlone(r))
		case next.IsZero() || r.until.Before(next):
			next = r.until
		}
	}
	return answers, next
}

// giveUp returns the answer to what no daemon came for.
func (s *session) giveUp(r *request) []byte {
	s.remove(r)
	if r.verb != greet {
		return r.verb.failure([]byte(r.id), s.absent())
	}
	s.greeting, s.alone = r.line, true
	return wire.AppendInitialize(nil, []byte(r.id), asked(r.line), s.version(), wire.Capabilities, "")
}

// absent is the failure of what needed a daemon.
func (s *session) absent() *wire.Error {
	why := "the harness daemon is not running; start it with `harness daemon`, then try again"
	if s.refusal != "" {
		why = "the harness daemon refused this session: " + s.refusal
	}
	return wire.New(wire.DaemonUnavailable, why)
}

// release returns what waited, which is now with the daemon, in order.
func (s *session) release() []*request {
	queue := s.queue
	s.queue, s.met = nil, true
	return queue
}

// sent notes that the daemon has r, or part of it.
func (r *request) sent() {
	r.place = taken
	if !r.verb.kept() {
		r.line = nil
	}
}

// answered takes a response of the daemon and reports whether the agent is to
// have it: only the first one to a request that waits.
func (s *session) answered(line []byte, m *jsonrpc.Message) bool {
	id := m.ID.In(line)
	r := s.requests[string(id)]
	if r == nil {
		return string(id) == "null" // what could not be read has no other id
	}
	s.remove(r)
	if !m.Result.Present() {
		return true
	}
	s.settle(r.verb, r.line)
	if k, ok := r.verb.kind(); ok {
		s.shown.set(k, m.Result.In(line))
	}
	return true
}

// refused takes a response that was too long to be read, and returns the
// answer in its place, nil if nobody waits for one.
func (s *session) refused(id []byte) []byte {
	r := s.requests[string(id)]
	if r == nil {
		return nil
	}
	s.remove(r)
	return r.verb.failure(id, wire.New(wire.MessageTooLarge, "the answer is longer than the bridge takes"))
}

// lost fails everything the daemon had, once and for good (MCP-1). Only
// initialize waits for the next one, in front of what was said after it.
func (s *session) lost(now time.Time) (answers [][]byte) {
	gone := wire.New(wire.DaemonUnavailable, "the harness daemon went away during this request; it was not sent again and may have had its effect")
	first := 0
	for _, r := range s.inOrder() {
		switch {
		case r.place != taken:
		case r.verb == greet:
			s.enqueue(r, first, now)
			first++
		default:
			s.remove(r)
			answers = append(answers, r.verb.failure([]byte(r.id), gone))
		}
	}
	return answers
}

// handOver takes all that is held off the session, as what the agent says next:
// it is the daemon's from now on. Nothing else waits, since there is no link.
func (s *session) handOver() []byte {
	initialized := s.initialized
	queue := s.release()
	for _, r := range queue {
		delete(s.requests, r.id)
	}
	return released(queue, initialized).buf
}

// takeBack makes the session what it has become with a daemon that had it whole.
func (s *session) takeBack(st *handover.State) {
	clear(s.requests)
	for _, q := range st.Requests {
		if st.Over {
			break
		}
		r := &request{id: string(q.ID), n: s.asked, verb: verbAs(q.Verb), place: taken, line: q.Line}
		s.asked++
		s.requests[r.id] = r
	}
	for _, q := range st.SetUp {
		s.settle(verbAs(q.Verb), q.Line)
	}
	s.initialized, s.shown = st.Initialized, st.Shown
}

// inOrder returns the requests without an answer as they were asked.
func (s *session) inOrder() []*request {
	return slices.SortedFunc(maps.Values(s.requests), func(a, b *request) int { return cmp.Compare(a.n, b.n) })
}
