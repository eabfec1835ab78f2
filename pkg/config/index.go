package config

import "slices"

// index says where in a file things are, and what a reader of the tree should
// not conclude from what is missing in it.
type index struct {
	starts []int          // offset at which each line begins
	size   int            // bytes of the file
	at     map[place]int  // the line where each table, key and element is first named
	hurt   map[place]bool // tables that lost a line to a syntax error
	torn   bool           // something is lost that other tables may speak of
}

// Where says at which lines of its source a Config has things. Its zero value
// knows of none.
type Where struct {
	at      map[place]int
	prompts []int // of the PromptPaths
}

// Line is the line of a table or key, given from the outermost table inwards; of
// what is not written, that of the table that it would be in, and 0 where there
// is none either.
func (w Where) Line(names ...string) int {
	var p place
	for _, name := range names {
		p = p.key(name)
	}
	for ; p != ""; p = p.parent() {
		if n, ok := w.at[p]; ok {
			return n
		}
	}
	return 0
}

// Equal is always true: where things stand has no meaning.
func (w Where) Equal(Where) bool { return true }

// PromptPath is the line of PromptPaths[i].
func (w Where) PromptPath(i int) int {
	if i < len(w.prompts) {
		return w.prompts[i]
	}
	return 0
}

// newIndex is an index of no places over text.
func newIndex(text []byte) index {
	starts := []int{0}
	for i, c := range text {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return index{starts: starts, size: len(text), at: map[place]int{}, hurt: map[place]bool{}}
}

// lineOf is the line of offset, from 1.
func (x *index) lineOf(offset int) int {
	i, found := slices.BinarySearch(x.starts, offset)
	if found {
		return i + 1
	}
	return i
}

// lineStart is where the line of offset begins.
func (x *index) lineStart(offset int) int {
	return x.starts[x.lineOf(offset)-1]
}

// nextLine is where the line after that of offset begins, or the end of the
// file.
func (x *index) nextLine(offset int) int {
	if n := x.lineOf(offset); n < len(x.starts) {
		return x.starts[n]
	}
	return x.size
}

// mark notes that p stands at line, unless it was named before.
func (x *index) mark(p place, line int) {
	if _, ok := x.at[p]; !ok {
		x.at[p] = line
	}
}

// line is the line where p is first named, or of the nearest thing around it
// that has one.
func (x *index) line(p place) int {
	for p != "" {
		if n, ok := x.at[p]; ok {
			return n
		}
		p = p.parent()
	}
	return 1
}

// incomplete tells whether the table p lost something to a syntax error, so
// that a key it lacks may have been lost rather than forgotten.
func (x *index) incomplete(p place) bool { return x.hurt[p] }
