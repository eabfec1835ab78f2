package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"harness/pkg/wire"
)

// errNotString is a raw value that should have been a string.
var errNotString = errors.New("not a string")

// Text decodes a raw JSON string as encoding/json does. What has no escapes is
// returned as a part of raw, without a copy.
func Text(raw []byte) ([]byte, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, errNotString
	}
	s := scanner{b: raw}
	if s.checkText(0) == len(raw) && bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1 : len(raw)-1], nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, fmt.Errorf("decode a string: %w", err)
	}
	return []byte(text), nil
}

// Unquote is [Text] as a string of its own.
func Unquote(raw []byte) (string, error) {
	text, err := Text(raw)
	return string(text), err
}

// AppendQuoted appends s to dst as a JSON string, with no more escapes than
// JSON demands; see [wire.AppendQuoted].
func AppendQuoted(dst []byte, s string) []byte { return wire.AppendQuoted(dst, s) }

// unescape decodes the inside of a raw JSON string into dst and returns its
// length, or 0 when it is longer than dst, holds an unknown escape or
// characters beyond ASCII in an escape: no key of ours does.
func unescape(dst, raw []byte) int {
	n := 0
	for i := 0; i < len(raw); n++ {
		c, size := raw[i], 1
		if c == '\\' {
			c, size = unescapeOne(raw[i:])
		}
		if size == 0 || n == len(dst) {
			return 0
		}
		dst[n] = c
		i += size
	}
	return n
}

// unescapeOne decodes the escape raw starts with, if it is one for ASCII, and
// returns its size.
func unescapeOne(raw []byte) (c byte, size int) {
	s := scanner{b: raw}
	end := s.escape(0)
	if end == bad {
		return 0, 0
	}
	switch raw[1] {
	case 'b':
		return '\b', end
	case 'f':
		return '\f', end
	case 'n':
		return '\n', end
	case 'r':
		return '\r', end
	case 't':
		return '\t', end
	case 'u':
		return unescapeHex(raw[2:6])
	}
	return raw[1], end
}

// unescapeHex decodes the four digits of a \u escape.
func unescapeHex(digits []byte) (c byte, size int) {
	r := 0
	for _, d := range digits {
		v := int(d - '0')
		if !isDigit(d) {
			v = int(d|0x20-'a') + 10
		}
		r = r<<4 | v
	}
	if r >= utf8.RuneSelf {
		return 0, 0
	}
	return byte(r), len(`\u0000`)
}
