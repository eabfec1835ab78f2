package config

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// plain brings a file to the form that is parsed: without a byte order mark
// and with line feeds alone, so that the encoding of line ends is no part of
// any value. A file in another encoding gives the line and name of what is
// wrong with it instead (problem != "").
func plain(data []byte) (text []byte, line int, problem string) {
	if name := foreignEncoding(data); name != "" {
		return nil, 1, fmt.Sprintf("file is encoded in %s, expected UTF-8", name)
	}
	text = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return nil, lineAt(text, i), "file holds a NUL byte, expected text in UTF-8"
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, lineAt(text, i), fmt.Sprintf("byte 0x%02x is not UTF-8, which is the encoding expected", text[i])
	}
	return text, 0, ""
}

// foreignEncoding names the UTF-16 or UTF-32 that data is in, by its mark or,
// without one, by where the zero bytes of its ASCII characters are.
func foreignEncoding(data []byte) string {
	for _, mark := range []struct{ prefix, name string }{
		{"\xFF\xFE\x00\x00", "UTF-32 (little endian)"}, // before UTF-16, whose mark it begins with
		{"\x00\x00\xFE\xFF", "UTF-32 (big endian)"},
		{"\xFF\xFE", "UTF-16 (little endian)"},
		{"\xFE\xFF", "UTF-16 (big endian)"},
	} {
		if bytes.HasPrefix(data, []byte(mark.prefix)) {
			return mark.name
		}
	}
	return unmarkedUTF16(data)
}

// unmarkedUTF16 looks at the first characters: where at least half of them
// have a zero in one half and none in the other, it is UTF-16 of mostly ASCII.
func unmarkedUTF16(data []byte) string {
	const look = 128
	head := data[:min(len(data), look)&^1]
	var zero [2]int
	for i, b := range head {
		if b == 0 {
			zero[i&1]++
		}
	}
	switch pairs := len(head) / 2; {
	case zero[0] == 0 && zero[1] > 0 && zero[1]*2 >= pairs:
		return "UTF-16 (little endian)"
	case zero[1] == 0 && zero[0] > 0 && zero[0]*2 >= pairs:
		return "UTF-16 (big endian)"
	}
	return ""
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// lineAt is the line, from 1, that offset is on.
func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:offset], []byte("\n"))
}
