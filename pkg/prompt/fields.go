package prompt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v2"
)

// mapping is a YAML mapping of the front matter on its way into a prompt. A key
// whose value is null counts as not given.
type mapping struct {
	r      *report
	prefix string // of messages: "" or "argument 2: "
	values map[string]any
	lines  node
	line   int // of what is wrong with the mapping as a whole
}

// fill sets what the front matter says about p.
func fill(p *Prompt, m mapping) {
	m.known("title", "description", "arguments")
	p.Title = m.text("title")
	p.Description = m.text("description")
	list, ok := m.values["arguments"].([]any)
	if !ok && m.values["arguments"] != nil {
		m.wrong("arguments", "a list")
	}
	lines := map[string]int{}
	for i, value := range list {
		item := m.argument(i, value)
		if a := item.decode(); item.unique(a.Name, lines) {
			p.Arguments = append(p.Arguments, a)
		}
	}
}

// argument is the mapping of one argument; the first has index 0.
func (m mapping) argument(i int, value any) mapping {
	lines := m.lines.first("arguments").value.item(i)
	item := mapping{
		r:      m.r,
		prefix: fmt.Sprintf("argument %d: ", i+1),
		lines:  lines,
		line:   cmp.Or(lines.line, m.lineOf("arguments")),
	}
	fields, ok := value.(map[any]any)
	if !ok {
		item.fail(item.line, "is %s, not a mapping with a name", kindOf(value))
		return item
	}
	item.values = make(map[string]any, len(fields))
	for key, value := range fields {
		item.values[fmt.Sprint(key)] = value
	}
	return item
}

// decode reads one argument. Of one that is no mapping, which has been said,
// nothing is left.
func (m mapping) decode() Argument {
	if m.values == nil {
		return Argument{}
	}
	m.known("name", "description", "required")
	a := Argument{Name: m.text("name"), Description: m.text("description"), Required: m.flag("required")}
	switch _, isText := m.values["name"].(string); {
	case m.values["name"] == nil:
		m.fail(m.line, "has no name")
	case isText && !isName(a.Name):
		m.fail(m.lineOf("name"), "name %s is not made of letters, digits, `_`, `-` and `.`", quote(a.Name))
	}
	return a
}

// unique reports whether an argument's name is the first of its kind; lines
// holds those before it.
func (m mapping) unique(name string, lines map[string]int) bool {
	if name == "" {
		return false
	}
	if first, taken := lines[name]; taken {
		m.fail(m.lineOf("name"), "name %s is declared on line %d already", quote(name), first)
		return false
	}
	lines[name] = m.lineOf("name")
	return true
}

// text returns a key's text.
func (m mapping) text(key string) string {
	value, ok := m.values[key].(string)
	switch {
	case !ok && m.values[key] != nil:
		m.wrong(key, "text")
	case !utf8.ValidString(value): // from !!binary
		m.fail(m.lineOf(key), "%s is not valid UTF-8", key)
	}
	return value
}

// flag returns a key's boolean.
func (m mapping) flag(key string) bool {
	value, ok := m.values[key].(bool)
	if !ok && m.values[key] != nil {
		m.wrong(key, "a boolean (true or false)")
	}
	return value
}

// known warns about every other key, in the order of lines.
func (m mapping) known(keys ...string) {
	byLine := func(a, b string) int { return cmp.Or(cmp.Compare(m.lineOf(a), m.lineOf(b)), cmp.Compare(a, b)) }
	for _, key := range slices.SortedFunc(maps.Keys(m.values), byLine) {
		if !slices.Contains(keys, key) {
			m.r.warn(m.lineOf(key), "%sunknown key %s is ignored (known: %s)", m.prefix, quote(key), strings.Join(keys, ", "))
		}
	}
}

// wrong reports a value of a wrong type.
func (m mapping) wrong(key, want string) {
	m.fail(m.lineOf(key), "%s is %s, not %s", key, kindOf(m.values[key]), want)
}

func (m mapping) fail(line int, format string, args ...any) {
	m.r.fail(line, "%s"+format, append([]any{m.prefix}, args...)...)
}

// lineOf returns the line of a key, or of the mapping if that is not known.
func (m mapping) lineOf(key string) int {
	return cmp.Or(m.lines.first(key).line, m.line)
}

// checkDuplicates reports every key that a mapping has twice, at any depth. line
// is that of the value or of what holds it.
func checkDuplicates(r *report, value any, lines node, line int) {
	line = cmp.Or(lines.line, line)
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			checkDuplicates(r, item, lines.item(i), line)
		}
	case yaml.MapSlice:
		count := map[string]int{}
		for _, item := range value {
			key := fmt.Sprint(item.Key)
			if count[key]++; count[key] == 2 {
				failDuplicate(r, key, lines.fields[key], line)
			}
			checkDuplicates(r, item.Value, lines.first(key).value, line)
		}
	}
}

// failDuplicate reports a key on its second line. Where its lines are not known,
// or are one, as in `{a: 1, a: 2}`, line or the one is named.
func failDuplicate(r *report, key string, same []field, line int) {
	switch len(same) {
	case 0:
		r.fail(line, "duplicate key %s", quote(key))
	case 1:
		r.fail(cmp.Or(same[0].line, line), "duplicate key %s", quote(key))
	default:
		r.fail(same[1].line, "duplicate key %s (lines %s)", quote(key), joinLines(same))
	}
}

// kindOf names the type of a YAML value for a reader who wrote it.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case bool:
		return "an unquoted boolean"
	case []any:
		return "a list"
	case map[any]any:
		return "a mapping"
	}
	return "an unquoted number"
}
