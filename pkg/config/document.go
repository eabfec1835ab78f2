package config

import (
	"path"
	"time"
)

// A Document is a TOML file of another schema than harness.toml's (a contract,
// say), read with the same strictness and the same quality of faults: exact
// spelling, exact types, every fault at once with its line (CFG-1). Its reader
// asks it for values by walking Nodes; nothing is expanded in them.
//
// It lives on one goroutine.
type Document struct {
	l    *loader
	root Node
}

// A Node is one value of a Document and where it stands.
type Node struct {
	l *loader
	v value
}

// OpenDocument parses data. Syntax errors are among the Faults, and the rest
// of the file is there to be read beside them. name is what faults call the
// file.
func OpenDocument(name string, data []byte) *Document {
	l := &loader{src: Source{Path: name}, dir: path.Dir(name)}
	d := &Document{l: l, root: Node{l, value{"", map[string]any{}}}}
	text, line, problem := plain(data)
	l.index = newIndex(text)
	if problem != "" {
		l.faults = append(l.faults, remark{line, "", problem})
		l.torn = true
		return d
	}
	s := newScanner(text)
	s.scan()
	tree := s.tree()
	l.index, l.faults = s.index, s.remarks
	if tree != nil {
		d.root.v.raw = tree
	}
	return d
}

// Root is the table that the whole file is.
func (d *Document) Root() Node { return d.root }

// Faults are the syntax errors and whatever was faulted since, in line order.
func (d *Document) Faults() Faults { return d.l.located(d.l.faults) }

// Fault notes that something is wrong with n. The message must not repeat a
// value that could be secret.
func (n Node) Fault(format string, args ...any) { n.l.fault(n.v.at, format, args...) }

// Complete reports whether no part of the table n was lost to a syntax error:
// only then is a key that is not there one that was forgotten.
func (n Node) Complete() bool { return !n.l.incomplete(n.v.at) && !n.l.torn }

// Fields reads a table by the keys there are: each key of the file that is
// known is handed to its reader, in the order of their names, any other is a
// fault. It returns the keys that the file has.
func (n Node) Fields(known map[string]func(Node)) map[string]Node {
	table, _ := n.l.table(n.v)
	found := make(map[string]Node, len(table))
	for _, name := range sorted(table) {
		at := Node{n.l, value{n.v.at.key(name), table[name]}}
		read, ok := known[name]
		if !ok {
			what := "key"
			switch at.v.raw.(type) {
			case map[string]any, []any:
				if n.v.at == "" {
					what = "table"
				}
			}
			at.Fault("unknown %s%s", what, suggest(name, sorted(known)))
			continue
		}
		found[name] = at
		read(at)
	}
	return found
}

// Tables are the elements of an array of tables.
func (n Node) Tables() []Node {
	list, ok := n.v.raw.([]any)
	if !ok {
		n.Fault("expected an array of tables, got %s", kindOf(n.v.raw))
	}
	out := make([]Node, len(list))
	for i, raw := range list {
		out[i] = Node{n.l, value{n.v.at.item(i), raw}}
	}
	return out
}

// Text reads a string.
func (n Node) Text() string { return n.l.text(n.v) }

// Bool reads true or false.
func (n Node) Bool() bool { return n.l.boolean(n.v) }

// Texts reads a list of strings, each of which check says why it cannot be, or
// "".
func (n Node) Texts(check func(s string) (problem string)) []string { return n.l.list(n.v, check) }

// Raw is the value as parsed: a string, bool, int64, float64, date or time,
// []any or map[string]any.
func (n Node) Raw() any { return n.v.raw }

// Show quotes a text of a file for a message: escaped, and cut when long.
func Show(s string) string { return show(s) }

// EnvNameProblem says why a file cannot let the variable through to what it
// starts, or "".
func EnvNameProblem(name string) string {
	if problem := envNameProblem(name); problem != "" {
		return show(name) + ": " + problem
	}
	return ""
}

// Int reads a whole number of at least low and at most high.
func (n Node) Int(low, high int64) int { return n.l.integer(n.v, low, high) }

// Duration reads a string such as "10m", of at least low and at most high.
func (n Node) Duration(low, high time.Duration) time.Duration { return n.l.duration(n.v, low, high) }

// Size reads a string such as "1MiB" in bytes, of at least low and at most high.
func (n Node) Size(low, high int64) int64 { return n.l.size(n.v, low, high) }
