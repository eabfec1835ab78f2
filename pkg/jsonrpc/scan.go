package jsonrpc

import (
	"bytes"
)

// bad is the index a scanner's methods return when the text does not go on as
// JSON does; the scanner then knows where and why.
const bad = -1

// scanner walks one line. Its methods take the index to start from and return
// the index behind what they read, or bad.
type scanner struct {
	b      []byte
	strict bool // check what is inside values, not only where they end
	around int  // how many brackets are open around the values read
	at     int
	reason string
}

// fail notes the fault at b[i] and returns bad.
func (s *scanner) fail(i int, reason string) int {
	s.at, s.reason = i, reason
	return bad
}

// fault returns what was noted.
func (s *scanner) fault() error { return &SyntaxError{Offset: s.at, Reason: s.reason} }

// space skips white space.
func (s *scanner) space(i int) int {
	for i < len(s.b) && isSpace(s.b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// next skips white space and returns the byte behind it, or 0 at the end: no
// byte that JSON allows there is 0.
func (s *scanner) next(i int) (int, byte) {
	if i < len(s.b) && s.b[i] > ' ' { // most writers leave no space
		return i, s.b[i]
	}
	if i = s.space(i); i < len(s.b) {
		return i, s.b[i]
	}
	return i, 0
}

// value reads the value that starts at b[i].
func (s *scanner) value(i int) int {
	if i >= len(s.b) {
		return s.fail(i, "a value is missing")
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.text(i)
	case c != '{' && c != '[':
		return s.scalar(i)
	case s.strict:
		return s.check(i)
	}
	return s.skip(i)
}

// text reads the string that opens at b[i].
func (s *scanner) text(i int) int {
	if s.strict {
		return s.checkText(i)
	}
	return s.skipText(i)
}

// skipText finds the end of the string that opens at b[i] and looks at nothing
// else in it.
func (s *scanner) skipText(i int) int {
	b := s.b
	j := i + 1
	// Keys and short values: a call to IndexByte costs more than they do.
	for ; j+8 <= len(b) && j-i < 32; j += 8 {
		mark := textEnds(load(b, j))
		if mark == 0 {
			continue
		}
		j += first(mark)
		if b[j] == '"' {
			return j + 1
		}
		break
	}
	for {
		n := bytes.IndexByte(b[min(j, len(b)):], '"')
		if n < 0 {
			return s.fail(i, "a string has no end")
		}
		j += n
		if !escaped(b, i, j) {
			return j + 1
		}
		j++
	}
}

// escaped reports whether b[j] has an odd number of backslashes before it, in
// the string that opens at b[open].
func escaped(b []byte, open, j int) bool {
	k := j
	for k-1 > open && b[k-1] == '\\' {
		k--
	}
	return (j-k)&1 == 1
}

// nextStructural returns where the first quote, bracket or brace is from i on,
// or len(b).
func nextStructural(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		if mark := structural(load(b, i)); mark != 0 {
			return i + first(mark)
		}
	}
	for i < len(b) && structural(uint64(b[i])) == 0 {
		i++
	}
	return i
}

// skip finds the end of the array or object that opens at b[i]: brackets must
// match and strings must end, the rest is not looked at.
func (s *scanner) skip(i int) int {
	b := s.b
	var n nest
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			if i = s.skipText(i); i == bad {
				return bad
			}
		case '{', '[':
			if s.around+n.depth == maxDepth {
				return s.fail(i, "values are nested too deeply")
			}
			n.push(c)
			i++
		case '}', ']':
			if !n.closes(c) {
				return s.fail(i, "brackets do not match")
			}
			i++
			if n.pop(); n.depth == 0 {
				return i
			}
		case ',', ':', ' ':
			i++
		default:
			i = nextStructural(b, i+1)
		}
	}
	return s.fail(i, "a bracket is not closed")
}
