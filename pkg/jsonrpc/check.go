package jsonrpc

import "unicode/utf8"

// Valid reports whether line is one JSON value and valid UTF-8. The error is a
// [*SyntaxError]. It accepts exactly what json.Valid does, if that is UTF-8:
// half a surrogate pair, written as an escape, is accepted. It does not
// allocate unless values are more than 64 deep.
func Valid(line []byte) error {
	s := scanner{b: line, strict: true}
	i, _ := s.next(0)
	if i = s.value(i); i != bad {
		i = s.end(i)
	}
	if i == bad {
		return s.fault()
	}
	return nil
}

// end checks that nothing but white space follows.
func (s *scanner) end(i int) int {
	if i = s.space(i); i < len(s.b) {
		return s.fail(i, "something follows the value")
	}
	return i
}

// check reads the array or object that opens at b[i] in full.
func (s *scanner) check(i int) int {
	var n nest
	for {
		// A value starts at b[i].
		c := byte(0)
		if i < len(s.b) {
			c = s.b[i]
		}
		switch c {
		case '"':
			i = s.checkText(i)
		case '{', '[':
			if s.around+n.depth == maxDepth {
				return s.fail(i, "values are nested too deeply")
			}
			n.push(c)
			if i, c = s.next(i + 1); c != '}' && c != ']' {
				if i = s.member(i, &n); i == bad {
					return bad
				}
				continue
			}
			// An empty one: closed below.
		default:
			i = s.scalar(i)
		}
		if i == bad {
			return bad
		}
		if i = s.advance(i, &n); i == bad || n.depth == 0 {
			return i
		}
	}
}

// advance goes from behind a value to the next one: past the brackets that end
// with it, a comma and a key. It returns early when the outermost bracket has
// been closed.
func (s *scanner) advance(i int, n *nest) int {
	for n.depth > 0 {
		var c byte
		switch i, c = s.next(i); c {
		case ',':
			i, _ = s.next(i + 1)
			return s.member(i, n)
		case '}', ']':
			if !n.closes(c) {
				return s.fail(i, "brackets do not match")
			}
			n.pop()
			i++
		default:
			return s.fail(i, "a comma or a closing bracket is missing")
		}
	}
	return i
}

// member reads the key and colon before an object's next value, and nothing
// before an array's.
func (s *scanner) member(i int, n *nest) int {
	if n.inArray() {
		return i
	}
	if i = s.key(i); i == bad {
		return bad
	}
	return s.colon(i)
}

// key reads an object's key.
func (s *scanner) key(i int) int {
	if i >= len(s.b) || s.b[i] != '"' {
		return s.fail(i, "a key is missing")
	}
	return s.text(i)
}

// colon reads what stands between a key and its value.
func (s *scanner) colon(i int) int {
	i, c := s.next(i)
	if c != ':' {
		return s.fail(i, "a colon is missing")
	}
	i, _ = s.next(i + 1)
	return i
}

// checkText reads the string that opens at b[i]: no control characters, known
// escapes, valid UTF-8.
func (s *scanner) checkText(i int) int {
	b := s.b
	var high uint64 // every byte seen, or-ed: is there any beyond ASCII?
	for j := i + 1; ; {
		for words := 0; j+8 <= len(b); words++ {
			if words == 4 { // few strings are longer; for those that are it pays
				j = skipPlain(b, j, &high)
				continue
			}
			x := load(b, j)
			high |= x
			if mark := textStops(x); mark != 0 {
				j += first(mark)
				break
			}
			j += 8
		}
		if j >= len(b) {
			return s.fail(i, "a string has no end")
		}
		switch c := b[j]; {
		case c == '"':
			return s.checkUTF8(i, j, high)
		case c == '\\':
			if j = s.escape(j); j == bad {
				return bad
			}
		case c < ' ':
			return s.fail(j, "a string holds a control character")
		default: // one of the last seven bytes of the line
			high |= uint64(c)
			j++
		}
	}
}

// skipPlain goes on from b[j] as long as 32 bytes at a time hold nothing that
// textStops marks, and adds them to high.
func skipPlain(b []byte, j int, high *uint64) int {
	for ; j+32 <= len(b); j += 32 {
		w := b[j : j+32 : j+32]
		x0, x1, x2, x3 := load(w, 0), load(w, 8), load(w, 16), load(w, 24)
		if textStops(x0)|textStops(x1)|textStops(x2)|textStops(x3) != 0 {
			break
		}
		*high |= x0 | x1 | x2 | x3
	}
	return j
}

// checkUTF8 checks the string between the quotes at b[i] and b[j]; high is the
// or of at least its bytes.
func (s *scanner) checkUTF8(i, j int, high uint64) int {
	if high&highs != 0 && !utf8.Valid(s.b[i+1:j]) {
		return s.fail(i, "a string is not UTF-8")
	}
	return j + 1
}

// escape reads the escape whose backslash is b[i].
func (s *scanner) escape(i int) int {
	if i+1 >= len(s.b) {
		return s.fail(i, "an escape is cut off")
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 <= len(s.b) && isHex(s.b[i+2]) && isHex(s.b[i+3]) && isHex(s.b[i+4]) && isHex(s.b[i+5]) {
			return i + 6
		}
	}
	return s.fail(i, "an escape is unknown")
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// scalar reads a number or a literal. Unlike strings these are always read in
// full: they are short.
func (s *scanner) scalar(i int) int {
	if i >= len(s.b) {
		return s.fail(i, "a value is missing")
	}
	switch s.b[i] {
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

func (s *scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.b) && string(s.b[i:end]) == word {
		return end
	}
	return s.fail(i, "a literal is unknown")
}

// number reads a number by JSON's grammar: no leading zero, no plus sign, a
// digit on both sides of the point.
func (s *scanner) number(i int) int {
	b, start := s.b, i
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b) || !isDigit(b[i]):
		return s.fail(start, "a value is malformed")
	case b[i] == '0':
		i++
	default:
		i = s.digits(i)
	}
	if i < len(b) && b[i] == '.' {
		if i = s.digits(i + 1); !isDigit(b[i-1]) {
			return s.fail(start, "a number is malformed")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if i = s.digits(i); !isDigit(b[i-1]) {
			return s.fail(start, "a number is malformed")
		}
	}
	return i
}

func (s *scanner) digits(i int) int {
	for i < len(s.b) && isDigit(s.b[i]) {
		i++
	}
	return i
}
