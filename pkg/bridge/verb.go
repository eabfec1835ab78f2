package bridge

import (
	"harness/pkg/handover"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// verb is what the bridge has to know of a request's method.
type verb uint8

const (
	other       verb = iota
	call             // tools/call: harness's failures are tool results (MCP-7)
	greet            // initialize: has no effect, so it may be sent again
	level            // logging/setLevel: a part of the session, repeated on each link
	subscribe        // resources/subscribe: likewise
	unsubscribe      // resources/unsubscribe: ends what is repeated
	discover         // server/discover: answered at once, daemon or not (MCP-0)
	ping
	templates
	lists // the first page of the list of wire.Kind 0; the next ones follow
)

// verbOf returns the verb of the request m, which line holds.
func verbOf(line []byte, m *jsonrpc.Message) verb {
	method, err := jsonrpc.Text(m.Method.In(line))
	if err != nil {
		return other
	}
	switch string(method) {
	case "tools/call":
		return call
	case "initialize":
		return greet
	case "logging/setLevel":
		return level
	case "resources/subscribe":
		return subscribe
	case "resources/unsubscribe":
		return unsubscribe
	case "server/discover":
		return discover
	case "ping":
		return ping
	case "resources/templates/list":
		return templates
	}
	for k := range wire.Kinds {
		if string(method) == k.ListMethod() && !m.Cursor.Present() {
			return lists + verb(k)
		}
	}
	return other
}

// verbAs returns the verb that a daemon noted.
func verbAs(v handover.Verb) verb {
	switch v {
	case handover.Call:
		return call
	case handover.Greet:
		return greet
	case handover.Level:
		return level
	case handover.Subscribe:
		return subscribe
	case handover.Unsubscribe:
		return unsubscribe
	}
	return other
}

// kind returns which list is asked for, if one is.
func (v verb) kind() (k wire.Kind, ok bool) { return wire.Kind(v - lists), v >= lists }

// kept reports whether a request is a part of the session once it was answered.
func (v verb) kept() bool { return v == greet || v == level || v == subscribe || v == unsubscribe }

// failure is the answer that e is to the request with the raw id.
func (v verb) failure(id []byte, e *wire.Error) []byte {
	if v == call {
		return wire.AppendToolError(nil, id, e)
	}
	return wire.AppendError(nil, id, wire.InternalError, e)
}

// unlinked returns the answer to what needs no daemon, nil if it needs one.
func (v verb) unlinked(id []byte) []byte {
	switch {
	case v == ping:
		return wire.AppendResult(nil, id, []byte("{}"))
	case v == templates:
		return wire.AppendResult(nil, id, []byte(`{"resourceTemplates":[]}`))
	case v >= lists:
		k, _ := v.kind()
		return wire.AppendResult(nil, id, k.EmptyList())
	}
	return nil
}
