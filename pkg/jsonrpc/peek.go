package jsonrpc

import "bytes"

// Peek finds in one pass over line what [Message] names. The top level, and
// the objects inside it that are looked into, are read by JSON's grammar; of
// every other value only its end is found: brackets must match and strings
// must be closed, but what stands between is not looked at (PRF-1). It does
// not allocate unless it fails or values are more than 64 deep, in which case
// it still uses no more than a few kB.
//
// The error is [ErrEmpty], [ErrBatch], [ErrNotObject], [ErrDuplicate] or a
// [*SyntaxError]. Beside a [*SyntaxError], m holds what was found before the
// fault; beside [ErrDuplicate], the first member of each name: enough to tell
// whose message it was, and not to be relayed.
func Peek(line []byte, m *Message) error {
	p := peeker{scanner: scanner{b: line}, m: m}
	return p.message()
}

// PeekValid is [Valid] and [Peek] in one pass, for lines of agents: an
// upstream answers nothing to a broken one and the call would hang. The first
// error of the two is returned, Valid's before Peek's.
func PeekValid(line []byte, m *Message) error {
	p := peeker{scanner: scanner{b: line, strict: true}, m: m}
	return p.message()
}

// peeker fills a Message.
type peeker struct {
	scanner
	m         *Message
	duplicate bool
}

// message reads the whole line.
func (p *peeker) message() error {
	*p.m = Message{}
	i, c := p.next(0)
	if i == len(p.b) {
		return ErrEmpty
	}
	if c == '{' {
		i = p.object(i, inMessage)
	} else {
		i = p.value(i)
	}
	if i != bad {
		i = p.end(i)
	}
	p.m.classify(p.b)
	switch {
	case i == bad:
		return p.fault()
	case c == '[':
		return ErrBatch
	case c != '{':
		return ErrNotObject
	case p.duplicate:
		return ErrDuplicate
	}
	return nil
}

// place is which object a key stands in.
type place uint8

const (
	elsewhere place = iota
	inMessage
	inParams
	inParamsMeta
	inParamsRef
	inResult
	inError
)

// object reads the object that opens at b[i]. It calls itself only for values
// that have a place of their own, so at most three deep.
func (p *peeker) object(i int, at place) int {
	i, c := p.next(i + 1)
	if c == '}' {
		return i + 1
	}
	p.around++
	for {
		start := i + 1
		if i = p.key(i); i == bad {
			return bad
		}
		key := p.b[start : i-1]
		if i = p.colon(i); i == bad {
			return bad
		}
		if i = p.store(i, at, key); i == bad {
			return bad
		}
		switch i, c = p.next(i); c {
		case ',':
			i, _ = p.next(i + 1)
		case '}':
			p.around--
			return i + 1
		default:
			return p.fail(i, "a comma or a closing bracket is missing")
		}
	}
}

// store reads the value at b[i] and notes where it is if key is one of ours.
func (p *peeker) store(i int, at place, key []byte) int {
	span, inside := p.find(at, key)
	var end int
	if inside != elsewhere && i < len(p.b) && p.b[i] == '{' {
		end = p.object(i, inside)
	} else {
		end = p.value(i)
	}
	if span == nil || end == bad {
		return end
	}
	if span.Present() {
		p.duplicate = true
		return end
	}
	*span = Span{i, end}
	if span == &p.m.isError {
		p.m.IsError = string(p.b[i:end]) == "true"
	}
	return end
}

// longestKey is the longest key with a span, progressToken.
const longestKey = len("progressToken")

// find returns the span for a raw key, if it has one, and the place that the
// key's value is.
func (p *peeker) find(at place, key []byte) (*Span, place) {
	span, inside := p.m.lookup(at, key)
	if span != nil || at == elsewhere || bytes.IndexByte(key, '\\') < 0 {
		return span, inside
	}
	var buf [longestKey]byte
	if n := unescape(buf[:], key); n > 0 {
		return p.m.lookup(at, buf[:n])
	}
	return nil, elsewhere
}

// lookup is the table of what [Message] holds.
func (m *Message) lookup(at place, key []byte) (*Span, place) {
	switch at {
	case inMessage:
		return m.lookupMessage(key)
	case inParams:
		return m.lookupParams(key)
	case inParamsMeta:
		if string(key) == "progressToken" {
			return &m.ProgressToken, elsewhere
		}
	case inParamsRef:
		switch string(key) {
		case "name":
			return &m.RefName, elsewhere
		case "uri":
			return &m.RefURI, elsewhere
		}
	case inResult:
		switch string(key) {
		case "isError":
			return &m.isError, elsewhere
		case "content":
			return &m.Content, elsewhere
		case "_meta":
			return &m.ResultMeta, elsewhere
		}
	case inError:
		if string(key) == "message" {
			return &m.ErrMessage, elsewhere
		}
	}
	return nil, elsewhere
}

func (m *Message) lookupMessage(key []byte) (*Span, place) {
	switch string(key) {
	case "id":
		return &m.ID, elsewhere
	case "method":
		return &m.Method, elsewhere
	case "params":
		return &m.Params, inParams
	case "result":
		return &m.Result, inResult
	case "error":
		return &m.Error, inError
	}
	return nil, elsewhere
}

func (m *Message) lookupParams(key []byte) (*Span, place) {
	switch string(key) {
	case "name":
		return &m.Name, elsewhere
	case "uri":
		return &m.URI, elsewhere
	case "ref":
		return &m.Ref, inParamsRef
	case "cursor":
		return &m.Cursor, elsewhere
	case "requestId":
		return &m.RequestID, elsewhere
	case "progressToken":
		return &m.ParamsToken, elsewhere
	case "_meta":
		return &m.Meta, inParamsMeta
	}
	return nil, elsewhere
}
