package prompt

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v2"
)

// node says on which lines a YAML value and its parts stand. A zero line is not
// known: nulls have none.
type node struct {
	line   int
	items  []node
	fields map[string][]field // by key, in the order of lines
}

// field is one occurrence of a key of a mapping.
type field struct {
	line  int // of the key
	value node
}

// label is a key of a mapping and its line, by which equal keys differ.
type label struct {
	name string
	line int
}

// locate finds the lines of YAML that has been decoded before. What it cannot
// find stays unknown.
func locate(front []byte) node {
	var n node
	_ = yaml.Unmarshal(front, &n) // a line that is missing is no reason to fail
	return n
}

// UnmarshalYAML implements [yaml.Unmarshaler]. It takes any value and fails for
// none.
func (n *node) UnmarshalYAML(unmarshal func(any) error) error {
	n.line = probe(unmarshal)
	if unmarshal(&n.items) == nil {
		return nil
	}
	var fields map[label]node
	_ = unmarshal(&fields) // a scalar has none
	n.fields = make(map[string][]field, len(fields))
	for key, value := range fields {
		n.fields[key.name] = append(n.fields[key.name], field{line: key.line, value: value})
	}
	for _, same := range n.fields {
		slices.SortFunc(same, func(a, b field) int { return cmp.Compare(a.line, b.line) })
	}
	return nil
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (l *label) UnmarshalYAML(unmarshal func(any) error) error {
	l.line = probe(unmarshal)
	return unmarshal(&l.name)
}

// probe returns the line of a value. The decoder names it when the value does
// not fit, and no value fits a channel.
func probe(unmarshal func(any) error) int {
	var none chan struct{}
	err := unmarshal(&none)
	if err == nil {
		return 0
	}
	line, _ := yamlPlace(err)
	return line
}

// first returns the first occurrence of a key, or nothing known.
func (n node) first(key string) field {
	if same := n.fields[key]; len(same) > 0 {
		return same[0]
	}
	return field{}
}

// item returns the value of a list's item, or nothing known.
func (n node) item(i int) node {
	if i < len(n.items) {
		return n.items[i]
	}
	return node{}
}

// joinLines renders the lines of a key for a message: "2, 5".
func joinLines(same []field) string {
	text := make([]string, len(same))
	for i, f := range same {
		text[i] = strconv.Itoa(f.line)
	}
	return strings.Join(text, ", ")
}
