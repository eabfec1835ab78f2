package bridge

import (
	"bytes"
	"slices"
	"strconv"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// handshake is what makes a session: what the agent said once, and every
// daemon has to hear. A nil line is one that was not said, or not answered.
type handshake struct {
	greeting    []byte // the agent's initialize
	initialized bool   // the agent said so
	level       []byte // the agent's last logging/setLevel
	// subscribed are the agent's subscriptions, oldest first. It is replaced,
	// never changed.
	subscribed []subscription
}

// subscription is one resource that the agent wants to hear of.
type subscription struct {
	uri  string // decoded
	line []byte // the agent's resources/subscribe
}

// settle notes what an answered request has made of the session.
func (h *handshake) settle(v verb, line []byte) {
	switch v {
	case greet:
		h.greeting = line
	case level:
		h.level = line
	case subscribe, unsubscribe:
		h.subscribe(line, v == subscribe)
	}
}

// subscribe notes an answered resources/subscribe, or what ended one.
func (h *handshake) subscribe(line []byte, on bool) {
	uri := resource(line)
	left := slices.DeleteFunc(slices.Clone(h.subscribed), func(s subscription) bool { return s.uri == uri })
	if on {
		left = append(left, subscription{uri, line})
	}
	h.subscribed = left
}

// resource returns the resource that a request is about, "" if none.
func resource(line []byte) string {
	var m jsonrpc.Message
	if jsonrpc.Peek(line, &m) != nil {
		return ""
	}
	uri, _ := jsonrpc.Unquote(m.URI.In(line)) // no daemon takes one that is none
	return uri
}

// due returns what of h a daemon that heard done has not heard.
func (h handshake) due(done handshake) handshake {
	if h.greeting == nil {
		// The agent's own lines make the session, in their order.
		return handshake{}
	}
	due := handshake{initialized: h.initialized && !done.initialized}
	if !bytes.Equal(h.greeting, done.greeting) {
		due.greeting = h.greeting
	}
	if !bytes.Equal(h.level, done.level) {
		due.level = h.level
	}
	for _, s := range h.subscribed {
		if !slices.ContainsFunc(done.subscribed, func(d subscription) bool { return d.uri == s.uri }) {
			due.subscribed = append(due.subscribed, s)
		}
	}
	return due
}

// asked returns the revision that an initialize asked for, "" if none.
func asked(greeting []byte) string {
	var m jsonrpc.Message
	if jsonrpc.Peek(greeting, &m) != nil {
		return ""
	}
	params := m.Params.In(greeting)
	at, found, err := jsonrpc.Member(params, "protocolVersion")
	if err != nil || !found {
		return ""
	}
	version, err := jsonrpc.Unquote(at.In(params))
	if err != nil {
		return ""
	}
	return version
}

// shown is what list of each kind the agent was given last, 0 for none.
type shown [wire.Kinds]uint64

func (s *shown) set(k wire.Kind, result []byte) { s[k] = wire.ListSum(result) }

// replay repeats the handshake on one new link, under ids that no agent uses,
// with a question for each list that the agent was shown.
type replay struct {
	prefix string // of the ids
	asked  int
	lines  []byte               // what is to be sent
	waits  map[string]wire.Kind // raw ids without an answer; Kinds for no list

	done    handshake // what the daemon has heard
	shown   shown
	changed [wire.Kinds]bool // the agent is to be told
	heard   [][]byte         // other notifications, for the agent
}

func newReplay(prefix string) *replay {
	return &replay{prefix: prefix, waits: map[string]wire.Kind{}}
}

// prepare makes lines what the daemon has yet to hear of h, and reports whether
// that is anything.
func (r *replay) prepare(h handshake, shown shown) bool {
	due, before := h.due(r.done), r.shown
	r.lines, r.done, r.shown = r.lines[:0], h, shown
	if due.greeting != nil {
		r.ask(due.greeting, wire.Kinds)
	}
	if due.initialized {
		r.lines = append(wire.AppendNotification(r.lines, "notifications/initialized"), '\n')
	}
	if due.level != nil {
		r.ask(due.level, wire.Kinds)
	}
	for _, s := range due.subscribed {
		r.order(s.line)
	}
	for k := range wire.Kinds {
		// The agent may have been shown one since.
		if h.greeting != nil && h.initialized && shown[k] != 0 && (due.initialized || before[k] == 0) {
			r.ask([]byte(`{"jsonrpc":"2.0","id":0,"method":"`+k.ListMethod()+`"}`), k)
		}
	}
	return len(r.lines) > 0
}

// due reports whether there would be anything to prepare.
func (r *replay) due(h handshake, shown shown) bool {
	would := newReplay(r.prefix)
	would.done, would.shown = r.done, r.shown
	return would.prepare(h, shown)
}

// ask adds request, whose answer settles k, Kinds for no list.
func (r *replay) ask(request []byte, k wire.Kind) { r.waits[r.order(request)] = k }

// order adds request under an id of the bridge's own, which it returns. Where
// the upstream that has to answer is only starting, that would take too long to
// be waited for; the answer is for nobody.
func (r *replay) order(request []byte) (id string) {
	var m jsonrpc.Message
	// The requests are the bridge's own, or were read and checked before.
	_ = jsonrpc.Peek(request, &m)
	r.asked++
	id = strconv.Quote(r.prefix + strconv.Itoa(r.asked))
	r.lines = append(jsonrpc.Splice(r.lines, request, jsonrpc.Edit{At: m.ID, With: []byte(id)}), '\n')
	return id
}

// hear takes one line of the daemon. Notifications about lists are settled by
// the answer that comes after them: whatever changed before it is in it. None
// is for an agent that has not said initialized (MCP-0).
func (r *replay) hear(line []byte) {
	var m jsonrpc.Message
	if jsonrpc.Peek(line, &m) != nil {
		return
	}
	switch m.Kind() {
	case jsonrpc.Response:
		id := string(m.ID.In(line))
		k, ok := r.waits[id]
		delete(r.waits, id)
		if ok && k < wire.Kinds && m.Result.Present() {
			r.changed[k] = wire.ListSum(m.Result.In(line)) != r.shown[k]
		}
	case jsonrpc.Notification:
		method, _ := jsonrpc.Text(m.Method.In(line))
		for k := range wire.Kinds {
			if string(method) == k.ChangedMethod() {
				r.changed[k] = true
				return
			}
		}
		if r.done.initialized {
			r.heard = append(r.heard, slices.Clone(line))
		}
	}
}

// news takes what the agent is to be told once the session is there again.
func (r *replay) news() [][]byte {
	news := r.heard
	for k, changed := range r.changed {
		if changed {
			news = append(news, wire.AppendNotification(nil, wire.Kind(k).ChangedMethod()))
		}
	}
	r.heard, r.changed = nil, [wire.Kinds]bool{}
	return news
}
