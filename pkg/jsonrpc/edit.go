package jsonrpc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Edit replaces one Span of a line. A Span of no length inserts; the zero Span
// is absent, and an edit of it does nothing.
type Edit struct {
	At   Span
	With []byte
}

// Splice appends line to dst with the edits made, and no newline. Everything
// that no edit names is copied as it is. The edits may come in any order and
// are sorted in place; they must not overlap. Of two that insert at one place
// the first given stands first.
func Splice(dst, line []byte, edits ...Edit) []byte {
	slices.SortStableFunc(edits, func(a, b Edit) int { return cmp.Compare(a.At.Start, b.At.Start) })
	done := 0
	for _, e := range edits {
		if e.At == (Span{}) {
			continue
		}
		dst = append(dst, line[done:e.At.Start]...)
		dst = append(dst, e.With...)
		done = e.At.End
	}
	return append(dst, line[done:]...)
}

// errNoObject and errNoName are why something cannot be renamed.
var (
	errNoObject = errors.New("not an object")
	errNoName   = errors.New("nothing to name it by")
)

// Member returns where in object, one raw JSON object, the value of the member
// named key is, and whether there is one. The whole of object is checked as
// [Valid] does; two members of that name are [ErrDuplicate].
func Member(object []byte, key string) (at Span, found bool, err error) {
	s := scanner{b: object, strict: true}
	i, c := s.next(0)
	if c != '{' {
		return Span{}, false, errNoObject
	}
	if err := Valid(object); err != nil {
		return Span{}, false, err
	}
	for i, c = s.next(i + 1); c != '}'; {
		start := i
		i = s.key(i)
		name := object[start:i]
		i = s.colon(i)
		value := Span{i, s.value(i)}
		if text, err := Text(name); err == nil && string(text) == key {
			if found {
				return at, found, ErrDuplicate
			}
			at, found = value, true
		}
		if i, c = s.next(value.End); c == ',' {
			i, _ = s.next(i + 1)
		}
	}
	return at, found, nil
}

// Rename appends a raw object to dst with name as the value of its member key,
// and every other byte as it is (MCP-3). One that is no valid JSON object, or
// has not exactly one such member, a string, is an error, and dst is returned
// as it was.
func Rename(dst, object []byte, key, name string) ([]byte, error) {
	at, found, err := Member(object, key)
	switch {
	case err != nil:
		return dst, err
	case !found || object[at.Start] != '"':
		return dst, fmt.Errorf("%w: no %s", errNoName, key)
	}
	dst = append(dst, object[:at.Start]...)
	dst = AppendQuoted(dst, name)
	return append(dst, object[at.End:]...), nil
}
