package jsonrpc

import "bytes"

// tokenLimit is how much of one key or scalar a tracer keeps.
const tokenLimit = 1 << 10

// tracer looks for a message's id and method in a line it gets in pieces and
// never sees as a whole. It trusts the line to be JSON: what comes of one that
// is not names an id the line does contain, or none.
type tracer struct {
	depth            int
	inText, inEscape bool
	over             bool // the object has ended, or there never was one

	// At depth 1 only.
	key   []byte // raw, of the member being read; nil before its colon
	token []byte // raw, the key or scalar being read
	long  bool   // token was cut off at tokenLimit, or the value is no scalar

	out TooLong
}

// found returns what there was.
func (t *tracer) found() *TooLong {
	t.out.Response = t.out.Response && t.out.Method == nil
	return &t.out
}

// feed goes through the next piece of the line.
func (t *tracer) feed(piece []byte) {
	for len(piece) > 0 && !t.over {
		switch {
		case t.inText:
			piece = piece[t.text(piece):]
		case t.depth > 1 && len(piece) >= 8 && structural(load(piece, 0)) == 0:
			piece = piece[8:]
		default:
			t.structure(piece[0])
			piece = piece[1:]
		}
	}
}

// text goes through the piece of a string, to its end if that is in it, and
// returns how long it was.
func (t *tracer) text(piece []byte) int {
	n := 1
	switch {
	case t.inEscape:
		t.inEscape = false
	case piece[0] == '\\':
		t.inEscape = true
	case piece[0] == '"':
		t.inText = false
	default:
		n = indexTextEnd(piece)
	}
	t.keep(piece[:n])
	return n
}

// indexTextEnd returns where the first quote or backslash is, or len(b).
func indexTextEnd(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if mark := textEnds(load(b, i)); mark != 0 {
			return i + first(mark)
		}
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// keep adds to the token at depth 1.
func (t *tracer) keep(piece []byte) {
	switch {
	case t.depth != 1 || t.long:
	case len(t.token)+len(piece) > tokenLimit:
		t.long = true
	default:
		t.token = append(t.token, piece...)
	}
}

// structure takes one byte outside strings.
func (t *tracer) structure(c byte) {
	switch {
	case isSpace(c):
	case t.depth == 0 && c != '{':
		t.over = true
	case c == '{' || c == '[':
		t.long = true // nothing at depth 1 that we keep is an array or object
		t.depth++
		if t.depth == 1 {
			t.startMember()
		}
	case c == '}' || c == ']':
		if t.depth == 1 {
			t.endMember()
			t.over = true
		}
		t.depth--
	case t.depth > 1:
		t.inText = c == '"'
	case c == ':' && t.key == nil:
		t.key = append([]byte{}, t.token...)
		t.token, t.long = t.token[:0], false
	case c == ',':
		t.endMember()
		t.startMember()
	default:
		t.inText = c == '"'
		t.keep([]byte{c})
	}
}

func (t *tracer) startMember() {
	t.key, t.token, t.long = nil, t.token[:0], false
}

// endMember takes the member just read, of a name's members the first.
func (t *tracer) endMember() {
	var m Message
	key := bytes.Trim(t.key, `"`)
	p := peeker{m: &m}
	span, _ := p.find(inMessage, key)
	switch {
	case span == nil:
	case span == &m.Result || span == &m.Error:
		t.out.Response = true
	case t.long:
	case span == &m.ID && t.out.ID == nil && isID(t.token):
		t.out.ID = bytes.Clone(t.token)
	case span == &m.Method && t.out.Method == nil && isID(t.token) && t.token[0] == '"':
		t.out.Method = bytes.Clone(t.token)
	}
}
