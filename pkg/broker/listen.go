package broker

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"harness/pkg/jsonrpc"
)

// Subscriber is an [Upstream] that keeps subscriptions over the processes it
// has: those that it has answered it makes again by itself.
type Subscriber interface {
	// Unsubscribe ends a subscription that nobody is left of. It does not block,
	// and calls nobody back.
	Unsubscribe(uri string)
}

// Logger is an [Upstream] that can be told how much to log.
type Logger interface {
	// SetLevel has the upstream log from that level up, also the processes it
	// has later.
	SetLevel(level string)
}

// topic is one resource of one upstream that sessions are subscribed to.
type topic struct {
	project, key, uri string
	of                *session // whose own upstream it is, nil for a shared one
}

// subscription is who hears of a topic.
type subscription struct {
	up Upstream
	// heard has the URI that each session asked with, as raw JSON.
	heard map[*session][]byte
}

// topic is what a route to a resource is about.
func (r route) topic(s *session) topic {
	uri, _ := jsonrpc.Unquote(r.name) // harness quoted it
	if r.open == nil {
		s = nil
	}
	return topic{r.project, r.key, uri, s}
}

// subscription relays a subscribe or unsubscribe, unless the upstream has
// nothing to do for it: an upstream is asked once per resource (MCP-4).
func (s *session) subscription(line []byte, m *jsonrpc.Message, method string) {
	if uri, own := s.selfURI(line, m); own {
		s.subscribeOwn(uri, method == "resources/subscribe", m.URI.In(line), m.ID.In(line))
		return
	}
	r, ok := s.resourceRoute(line, m, method)
	if !ok {
		return
	}
	share := s.b.leave
	if method == "resources/subscribe" {
		share = s.b.join
	}
	if share(s, r, m.URI.In(line)) {
		s.done(m.ID.In(line))
		return
	}
	s.relay(r, method, m.URI, line, m)
}

// settleLocked notes what an answered request has changed.
func (s *session) settleLocked(c *jsonrpc.Call, line []byte, m *jsonrpc.Message) {
	switch f := s.calls[string(c.ID)]; {
	case f == nil:
	case f.asked != nil:
		s.b.subscribe(s, f.of, f.asked)
	case f.task:
		if id := taskOf(m.Result.In(line)); id != nil {
			s.tasks.note(id, f.of)
		}
	}
}

// subscribe has a session hear of a resource from now on.
func (b *Broker) subscribe(s *session, r route, asked []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.topics[r.topic(s)]
	if sub == nil || sub.up != r.up {
		sub = &subscription{up: r.up, heard: map[*session][]byte{}}
		b.topics[r.topic(s)] = sub
	}
	sub.heard[s] = asked
}

// join is subscribe where the upstream has been asked before; false where it
// has not.
func (b *Broker) join(s *session, r route, asked []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.topics[r.topic(s)]
	if sub == nil || sub.up != r.up {
		return false
	}
	sub.heard[s] = bytes.Clone(asked)
	return true
}

// leave has a session hear nothing more of a resource. It reports whether there
// is nothing to ask of the upstream: others still hear of it, or it was told.
func (b *Broker) leave(s *session, r route, _ []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	sub := b.topics[r.topic(s)]
	if sub == nil || sub.up != r.up {
		return false
	}
	delete(sub.heard, s)
	return b.leftLocked(r.topic(s), sub)
}

// leftLocked ends the subscription of an upstream that nobody hears of any
// more. It does so under the lock: who subscribes next asks after it. It reports
// whether that was done, or is not due.
func (b *Broker) leftLocked(t topic, sub *subscription) bool {
	if len(sub.heard) > 0 {
		return true
	}
	delete(b.topics, t)
	u, ok := sub.up.(Subscriber)
	if ok {
		u.Unsubscribe(t.uri)
	}
	return ok
}

// leaveAll ends the subscriptions of a session that is over.
func (b *Broker) leaveAll(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for t, sub := range b.topics {
		if _, there := sub.heard[s]; there {
			delete(sub.heard, s)
			b.leftLocked(t, sub)
		}
	}
}

// Hear passes on what an upstream says without having been asked: that a
// resource was updated, to those who subscribed, and log messages, to those who
// see the upstream and want that much (MCP-4). It runs on the goroutine that
// reads the upstream, does not block, and keeps nothing of line.
func (b *Broker) Hear(project, key string, line []byte, m *jsonrpc.Message) {
	b.hear(nil, project, key, line, m)
}

// hear is Hear of an upstream that works for one session, nil for all.
func (b *Broker) hear(only *session, project, key string, line []byte, m *jsonrpc.Message) {
	method, err := jsonrpc.Text(m.Method.In(line))
	if err != nil {
		return
	}
	switch string(method) {
	case "notifications/resources/updated":
		b.updated(only, project, key, line, m)
	case "notifications/message":
		b.logged(only, project, key, line, m)
	case "notifications/tasks/status":
		b.tasked(only, project, key, line, m)
	case "notifications/elicitation/complete":
		if only != nil {
			only.tell(project, key, 0, func(dst []byte) []byte { return append(dst, line...) })
		}
	}
}

func (b *Broker) updated(only *session, project, key string, line []byte, m *jsonrpc.Message) {
	uri, err := jsonrpc.Unquote(m.URI.In(line))
	if err != nil {
		return
	}
	for s, asked := range b.hearers(topic{project, key, uri, only}) {
		s.tell(project, key, 0, func(dst []byte) []byte {
			if asked == nil {
				return append(dst, line...)
			}
			return jsonrpc.Splice(dst, line, jsonrpc.Edit{At: m.URI, With: asked})
		})
	}
}

// hearers returns who hears of a resource that was updated, each with the URI
// that it asked with. Whoever subscribed to a resource that this one is a part
// of is told the URI as it is, which is nil here.
func (b *Broker) hearers(of topic) map[*session][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	heard := map[*session][]byte{}
	for t, sub := range b.topics {
		if t.project != of.project || t.key != of.key || t.of != of.of || !within(of.uri, t.uri) {
			continue
		}
		for s, asked := range sub.heard {
			if t.uri == of.uri {
				heard[s] = asked
			} else if _, there := heard[s]; !there {
				heard[s] = nil
			}
		}
	}
	return heard
}

// within reports whether a URI is another one or lies below it.
func within(uri, other string) bool {
	rest, ok := strings.CutPrefix(uri, other)
	return ok && (rest == "" || strings.HasSuffix(other, "/") || strings.ContainsAny(rest[:1], "/?#"))
}

func (b *Broker) logged(only *session, project, key string, line []byte, m *jsonrpc.Message) {
	params := m.Params.In(line)
	at, found, err := jsonrpc.Member(params, "level")
	if err != nil || !found {
		return
	}
	word, err := jsonrpc.Unquote(at.In(params))
	if err != nil {
		return
	}
	level, known := severityOf(word)
	if !known {
		return
	}
	hearers := []*session{only}
	if only == nil {
		hearers = b.snapshot()
	}
	for _, s := range hearers {
		s.tell(project, key, level, func(dst []byte) []byte { return append(dst, line...) })
	}
}

// tell sends a session what an upstream said, if the session sees the upstream
// and, of a log message, wants that much.
func (s *session) tell(project, key string, level severity, build func([]byte) []byte) {
	scope := s.who.Scope()
	if project != "" && project != scope.Project || !scope.sees(key) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.initialized || level != 0 && level < s.wants() {
		return
	}
	s.edge.Commit(build(s.edge.Buffer()), nil)
	s.flushLocked()
}

// severity is how grave a log message is, 0 for not known.
type severity int

// levels are the words for it, from the least on.
func levels() []string {
	return []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
}

// unasked is the level of a session that has not said one.
const unasked severity = 2 // info

func severityOf(word string) (severity, bool) {
	i := slices.Index(levels(), word)
	return severity(i + 1), i >= 0
}

func (s *session) wants() severity {
	if s.level == 0 {
		return unasked
	}
	return s.level
}

// setLevel notes how much of the upstreams' logs an agent wants.
func (s *session) setLevel(line []byte, m *jsonrpc.Message) {
	var params struct {
		Level string `json:"level"`
	}
	err := json.Unmarshal(orEmpty(m.Params.In(line)), &params)
	level, known := severityOf(params.Level)
	if err != nil || !known {
		s.invalid(m.ID.In(line), "logging/setLevel takes a level: "+strings.Join(levels(), ", "))
		return
	}
	s.mu.Lock()
	s.level = level
	s.mu.Unlock()
	s.b.setLevels()
	s.eachPrivate(func(p Private) { p.SetLevel(params.Level) })
	s.done(m.ID.In(line))
}

// setLevels has the upstreams log as much as the session that wants most. As
// long as nobody has asked they log what they like. Who asks at the same time
// waits: what was found first must not be said last.
func (b *Broker) setLevels() {
	b.leveling.Lock()
	defer b.leveling.Unlock()
	var most severity
	for _, s := range b.snapshot() {
		s.mu.Lock()
		if s.level != 0 && (most == 0 || s.level < most) {
			most = s.level
		}
		s.mu.Unlock()
	}
	if most == 0 {
		return
	}
	for _, r := range b.fleet.Load().realms {
		for _, o := range r.offers {
			if l, ok := o.Upstream.(Logger); ok {
				l.SetLevel(levels()[most-1])
			}
		}
	}
}
