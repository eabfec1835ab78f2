package plain

import (
	"unicode"
	"unicode/utf8"
)

// Text returns s with what could move a cursor, colour a screen or reorder a
// line shown as an escape: control characters as \n, \x1b or \u0085,
// bidirectional overrides and line separators as \u202e, bytes that are not
// UTF-8 as \xff. Text that needs none of it is returned as it is.
func Text(s string) string {
	for i, r := range s {
		if hidden(r) || r == utf8.RuneError {
			return string(Append([]byte(s[:i]), []byte(s[i:])))
		}
	}
	return s
}

// Append appends to dst what Text makes of text, and returns the result.
func Append(dst, text []byte) []byte {
	for len(text) > 0 {
		if n := printable(text); n > 0 {
			dst, text = append(dst, text[:n]...), text[n:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = appendByte(dst, text[0])
		case hidden(r):
			dst = appendRune(dst, r)
		default:
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}

// printable is the length of the printable ASCII that text begins with.
func printable(text []byte) int {
	for i, b := range text {
		if b < ' ' || b >= 0x7f {
			return i
		}
	}
	return len(text)
}

// hidden says whether r acts on the text around it instead of being seen.
func hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) ||
		r == '\u2028' || r == '\u2029'
}

func appendRune(dst []byte, r rune) []byte {
	switch r {
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	if r < utf8.RuneSelf {
		return appendByte(dst, byte(r))
	}
	return append(dst, '\\', 'u', hex(r>>12), hex(r>>8), hex(r>>4), hex(r))
}

func appendByte(dst []byte, b byte) []byte {
	return append(dst, '\\', 'x', hex(rune(b)>>4), hex(rune(b)))
}

func hex(r rune) byte { return "0123456789abcdef"[r&15] }
