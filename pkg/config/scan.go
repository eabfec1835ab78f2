package config

import (
	"errors"
	"fmt"

	"github.com/pelletier/go-toml/v2/unstable"
)

// A scanner reads a file for what the parsed tree cannot tell: where things
// are, every syntax error instead of the first alone, and where a table or key
// was defined before. What it finds broken becomes a hole; with the holes
// blanked out, the rest of the file can be parsed and judged too.
type scanner struct {
	index
	text    []byte
	remarks []remark
	holes   []span
	kept    []expression // what is in no hole, in order

	table   place         // the table that keys belong to
	lost    bool          // that table is a duplicate: what it holds is not kept
	defined map[place]int // the line of each table header and key
	arrays  map[place]int // how many elements each array of tables has so far
}

// A span is a half-open range of bytes of a file.
type span struct{ start, end int }

// A remark is a fault or a warning that is not tied to a file yet.
type remark struct {
	line    int
	at      place
	message string
}

// An expression is a table header or a key with its value, as it stands at the
// top level of a file.
type expression struct {
	span
	at     place
	header bool
}

// Bounds on what is parsed at all. No file that means something comes near
// them; one that was made to keep the daemon busy (a parser compares every key
// with every other, and joins the parts of each) is refused while it is cheap.
const (
	maxNesting     = 6 // of values; those of the schema have 2
	maxParts       = 8 // of a dotted key; those of the schema have 4
	maxExpressions = 20_000
)

const tooDeep = "nested too deeply"

func newScanner(text []byte) *scanner {
	return &scanner{
		index:   newIndex(text),
		text:    text,
		defined: map[place]int{},
		arrays:  map[place]int{},
	}
}

// scan reads the whole file.
func (s *scanner) scan() {
	for at := 0; at < s.size; {
		at = s.stretch(at)
	}
	if len(s.kept) > maxExpressions {
		s.remark(s.lineOf(s.kept[maxExpressions].start), "", fmt.Sprintf("file has more than %d tables and keys", maxExpressions))
		s.holes = append(s.holes, span{0, s.size})
		s.kept, s.torn = nil, true
	}
}

func (s *scanner) remark(line int, at place, message string) {
	s.remarks = append(s.remarks, remark{line, at, message})
}

// stretch reads from the start of a line to the end of the file or to the next
// syntax error, and returns where to go on.
func (s *scanner) stretch(from int) int {
	var p unstable.Parser
	p.Reset(s.text[from:])
	next := from
	for p.NextExpression() {
		next = s.nextLine(s.expression(from, p.Expression()))
	}
	err := p.Error()
	if err == nil {
		return s.size
	}
	offset, message := next, err.Error()
	if e, ok := errors.AsType[*unstable.ParserError](err); ok {
		offset, message = from+cap(p.Data())-cap(e.Highlight), e.Message
	}
	return s.broken(next, min(offset, s.size-1), message)
}

// expression takes one top-level expression in and returns the offset of its
// last byte. Offsets of nodes are relative to base.
func (s *scanner) expression(base int, n *unstable.Node) (last int) {
	if n.Kind != unstable.KeyValue {
		return s.header(base, n)
	}
	start := base + int(n.Raw.Offset)
	e := span{start, start + int(n.Raw.Length)}
	if s.lost {
		s.holes = append(s.holes, e)
		return e.end - 1
	}
	at, fresh := s.keyValue(s.table, base, n, maxNesting)
	if fresh {
		s.kept = append(s.kept, expression{e, at, false})
	} else {
		s.holes = append(s.holes, e)
	}
	return e.end - 1
}

// header opens the table or the element that n names.
func (s *scanner) header(base int, n *unstable.Node) (last int) {
	k := s.key("", base, n.Key())
	e := span{s.lineStart(k.start), s.nextLine(k.end)}
	s.table, s.lost = k.at, false
	switch {
	case k.deep:
		s.remark(k.line, k.at, tooDeep)
		s.lost = true
	case n.Kind == unstable.ArrayTable:
		s.table = k.at.item(s.arrays[k.at])
		s.arrays[k.at]++
		s.mark(s.table, k.line)
	default:
		s.lost = !k.repeats && !s.define(k.at, k.line, "table is defined twice")
	}
	if s.lost {
		s.holes = append(s.holes, e)
	} else {
		s.kept = append(s.kept, expression{e, k.at, true})
	}
	return k.end
}

// keyValue takes in a key of the table in. It is fresh when neither it nor,
// in an inline table, anything below it was set before.
func (s *scanner) keyValue(in place, base int, n *unstable.Node, depth int) (at place, fresh bool) {
	k := s.key(in, base, n.Key())
	if k.deep {
		s.remark(k.line, k.at, tooDeep)
		return k.at, false
	}
	if !k.repeats && !s.define(k.at, k.line, "key is set twice") {
		return k.at, false
	}
	fresh = s.value(k.at, base, n.Value(), depth-1)
	s.torn = s.torn || !fresh // more is dropped than was repeated
	return k.at, fresh
}

// value indexes what is inside the value of at, and tells whether all of it is
// fresh and not too deep.
func (s *scanner) value(at place, base int, n *unstable.Node, depth int) bool {
	children := n.Children()
	if depth == 0 && n.Child() != nil {
		s.remark(s.line(at), at, tooDeep)
		return false
	}
	fresh := true
	for i := 0; children.Next(); i++ {
		switch child := children.Node(); n.Kind {
		case unstable.InlineTable:
			_, ok := s.keyValue(at, base, child, depth)
			fresh = fresh && ok
		case unstable.Array:
			item := at.item(i)
			if child.Raw.Length > 0 {
				s.mark(item, s.lineOf(base+int(child.Raw.Offset)))
			}
			fresh = s.value(item, base, child, depth-1) && fresh
		}
	}
	return fresh
}

// A keyRef is one dotted key where it stands.
type keyRef struct {
	at         place
	line       int
	start, end int  // of the first and the last byte
	repeats    bool // it is below an array of tables, where names come again
	deep       bool // it has more parts than at names
}

// key reads the dotted key of a header or a value of the table in, and marks
// everything on the way to it.
func (s *scanner) key(in place, base int, parts unstable.Iterator) keyRef {
	k := keyRef{at: in, start: -1}
	for i := 0; parts.Next(); i++ {
		n := parts.Node()
		start := base + int(n.Raw.Offset)
		if k.start < 0 {
			k.start, k.line = start, s.lineOf(start)
		}
		k.end = start + int(n.Raw.Length) - 1
		if k.deep = i >= maxParts; k.deep {
			continue
		}
		k.repeats = k.repeats || s.arrays[k.at] > 0
		k.at = k.at.key(string(n.Data))
		s.mark(k.at, k.line)
	}
	return k
}

// define notes a header or key, and remarks on one that is there already.
func (s *scanner) define(at place, line int, twice string) bool {
	if first, ok := s.defined[at]; ok {
		s.remark(line, at, fmt.Sprintf("%s, first on line %d", twice, first))
		return false
	}
	s.defined[at] = line
	return true
}
