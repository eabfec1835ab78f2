package broker

import (
	"encoding/json"
	"strings"

	"harness/pkg/jsonrpc"
)

// Private is an [Upstream] that works for one session.
type Private interface {
	Upstream
	Subscriber
	Logger
	// Notify passes a notification of the agent on; line is not kept.
	Notify(line []byte)
	// Ended reports whether it was taken out of service and will not come back;
	// it takes no lock.
	Ended() bool
	// Close ends it once no call is under way. Nothing new is asked of it.
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

// ownRoute returns the route with the session's own upstream in it, which is
// made at its first use, where the sessions do not share one. Only the reader
// goroutine makes them; it holds no lock meanwhile, for whoever makes one may
// wait for a goroutine that is telling this session something.
func (s *session) ownRoute(r route) route {
	if r.open == nil {
		return r
	}
	full := r.project + "/" + r.key
	s.mu.Lock()
	p, level := s.privates[full], s.level
	s.mu.Unlock()
	if p == nil || p.Ended() {
		p = r.open(Peer{
			Answerer: s, Capabilities: s.askable(),
			Heard: func(line []byte, m *jsonrpc.Message) { s.b.hear(s, r.project, r.key, line, m) },
		})
		if level != 0 {
			p.SetLevel(levels()[level-1])
		}
		s.mu.Lock()
		s.privates[full] = p
		s.mu.Unlock()
	}
	r.up = p
	return r
}

// shed closes the session's own upstreams that all sessions share by now.
func (s *session) shed() {
	keys := s.catalog().keys
	var over []Private
	s.mu.Lock()
	for full, p := range s.privates {
		project, key, _ := strings.Cut(full, "/")
		if o, seen := keys[key]; seen && o.Project == project && o.Open == nil && !o.Stopped {
			delete(s.privates, full)
			over = append(over, p)
		}
	}
	s.mu.Unlock()
	for _, p := range over {
		p.Close()
	}
}

// askable is what of the agent's capabilities an upstream may make use of.
func (s *session) askable() string {
	can := map[string]json.RawMessage{}
	for _, name := range []string{"elicitation", "roots", "sampling"} {
		if raw := s.capabilities[name]; len(raw) > 0 {
			can[name] = raw
		}
	}
	raw, err := plainJSON(can)
	if err != nil {
		return "{}" // what was read as JSON can be written as such
	}
	return string(raw)
}

// eachPrivate does something with every upstream of the session's own.
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
