package broker

import (
	"encoding/json"

	"harness/pkg/jsonrpc"
)

// Private is an [Upstream] that works for one session.
type Private interface {
	Upstream
	Subscriber
	Logger
	// Notify passes a notification of the agent on; line is not kept.
	Notify(line []byte)
	// Close ends it. Nothing is asked of it any more.
	Close()
}

// Peer is the session that a [Private] works for.
type Peer struct {
	// Answerer is asked what the upstream asks its client.
	Answerer jsonrpc.Answerer
	// Capabilities are what the session can be asked, a raw JSON object.
	Capabilities string
	// Heard gets what the upstream says without having been asked; it keeps
	// nothing of line.
	Heard func(line []byte, m *jsonrpc.Message)
}

// own returns the route with the session's own upstream in it, which is made at
// its first use, where the sessions do not share one.
func (s *session) ownRoute(r route) route {
	if r.open == nil {
		return r
	}
	full := r.project + "/" + r.key
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.privates[full]
	if p == nil {
		p = r.open(Peer{
			Answerer: s, Capabilities: s.askable(),
			Heard: func(line []byte, m *jsonrpc.Message) { s.b.hear(s, r.project, r.key, line, m) },
		})
		if s.level != 0 {
			p.SetLevel(levels()[s.level-1])
		}
		s.privates[full] = p
	}
	r.up = p
	return r
}

// askable is what of the agent's capabilities an upstream may make use of.
func (s *session) askable() string {
	can := map[string]json.RawMessage{}
	for _, name := range []string{"elicitation", "roots", "sampling"} {
		if raw := s.capabilities[name]; len(raw) > 0 && string(raw) != "null" {
			can[name] = raw
		}
	}
	raw, err := plainJSON(can)
	if err != nil {
		return "{}" // what was read as JSON can be written as such
	}
	return string(raw)
}

// each does something with every upstream of the session's own.
func (s *session) eachPrivate(do func(Private)) {
	s.mu.Lock()
	var all []Private
	for _, p := range s.privates {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		do(p)
	}
}
