package upstream

import (
	"maps"
	"slices"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// standing is what an upstream has been asked for that has to be asked again of
// every process that takes over. It is guarded by the unit's lock.
type standing struct {
	subscribed map[string]bool // by URI
	level      string          // "" while nobody has asked for one
	conn       *conn           // the process that was asked last
}

// Unsubscribe ends a subscription that nobody is left of.
func (u *Unit) Unsubscribe(uri string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.standing.subscribed[uri] {
		delete(u.standing.subscribed, uri)
		u.standing.conn.order("resources/unsubscribe", "uri", uri)
	}
}

// SetLevel has the upstream log from that level up, if it knows how to.
func (u *Unit) SetLevel(level string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.standing.level == level {
		return
	}
	u.standing.level = level
	u.standing.conn.setLevel(level)
}

// subscription is told that a process has answered a subscribe or an
// unsubscribe. Where another has taken over meanwhile, that is asked too.
func (u *Unit) subscription(from *conn, uri string, on bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !on {
		delete(u.standing.subscribed, uri)
		return
	}
	if u.standing.subscribed == nil {
		u.standing.subscribed = map[string]bool{}
	}
	u.standing.subscribed[uri] = true
	if from != u.standing.conn {
		u.standing.conn.order("resources/subscribe", "uri", uri)
	}
}

// restore asks a process that takes over for what stands.
func (s *standing) restore(c *conn) {
	if c == nil || c == s.conn {
		return
	}
	s.conn = c
	for _, uri := range slices.Sorted(maps.Keys(s.subscribed)) {
		c.order("resources/subscribe", "uri", uri)
	}
	if s.level != "" {
		c.setLevel(s.level)
	}
}

// setLevel passes a level on to a process that has a log.
func (c *conn) setLevel(level string) {
	if c != nil && c.logs.Load() {
		c.order("logging/setLevel", "level", level)
	}
}

// order sends a request with one argument whose answer is of no interest.
func (c *conn) order(method, name, value string) {
	if c == nil {
		return
	}
	params := append(wire.AppendQuoted([]byte{'{'}, name), ':')
	_, forget := c.ask(method, append(wire.AppendQuoted(params, value), '}'))
	forget() // a process that never answers must not cost memory each time
}

// note tells the unit of an answer that changes what stands.
func (c *conn) note(call *jsonrpc.Call, m *jsonrpc.Message) {
	on := call.Method == "resources/subscribe"
	if m.Error.Present() || !on && call.Method != "resources/unsubscribe" {
		return
	}
	if uri, err := jsonrpc.Unquote(call.Name.With); err == nil {
		c.subscription(c, uri, on)
	}
}
