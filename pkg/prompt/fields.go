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
	lines  func() node // costs a decoding, so it is asked only for a message
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
	numbers := map[string]int{}
	for i, value := range list {
		item, ok := m.argument(i, value)
		if !ok {
			continue
		}
		a := item.decode()
		if first, taken := numbers[a.Name]; taken {
			item.fail("name", "name %s is that of argument %d already", quote(a.Name), first)
		}
		numbers[a.Name] = i + 1
		p.Arguments = append(p.Arguments, a)
	}
}

// argument is the mapping of one argument; the first has index 0.
func (m mapping) argument(i int, value any) (item mapping, ok bool) {
	item = mapping{r: m.r, prefix: fmt.Sprintf("argument %d: ", i+1), lines: func() node {
		list := m.lines().first("arguments")
		item := list.value.item(i)
		item.line = cmp.Or(item.line, list.line)
		return item
	}}
	fields, ok := value.(map[any]any)
	if !ok {
		item.fail("", "is %s, not a mapping with a name", kindOf(value))
		return item, false
	}
	item.values = make(map[string]any, len(fields))
	for key, value := range fields {
		item.values[fmt.Sprint(key)] = value
	}
	return item, true
}

// decode reads one argument.
func (m mapping) decode() Argument {
	m.known("name", "description", "required")
	a := Argument{Name: m.text("name"), Description: m.text("description"), Required: m.flag("required")}
	switch _, isText := m.values["name"].(string); {
	case m.values["name"] == nil:
		m.fail("", "has no name")
	case isText && !isName(a.Name):
		m.fail("name", "name %s is not made of letters, digits, `_`, `-` and `.`", quote(a.Name))
	}
	return a
}

// text returns a key's text.
func (m mapping) text(key string) string {
	value, ok := m.values[key].(string)
	switch {
	case !ok && m.values[key] != nil:
		m.wrong(key, "text")
	case !utf8.ValidString(value): // from !!binary
		m.fail(key, "%s is not valid UTF-8", key)
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

// known warns about every other key, in the order of names.
func (m mapping) known(keys ...string) {
	for _, key := range slices.Sorted(maps.Keys(m.values)) {
		if !slices.Contains(keys, key) {
			m.r.warn(m.lineOf(key), "%sunknown key %s is ignored (known: %s)", m.prefix, quote(key), strings.Join(keys, ", "))
		}
	}
}

// wrong reports a value of a wrong type.
func (m mapping) wrong(key, want string) {
	m.fail(key, "%s is %s, not %s", key, kindOf(m.values[key]), want)
}

// fail reports something on the line of a key, or with "" on that of m.
func (m mapping) fail(key, format string, args ...any) {
	m.r.fail(m.lineOf(key), "%s"+format, append([]any{m.prefix}, args...)...)
}

// lineOf returns the line of a key or, if that is not known, of the mapping.
func (m mapping) lineOf(key string) int {
	lines := m.lines()
	return cmp.Or(lines.first(key).line, lines.line)
}

// checkDuplicates reports every key that a mapping has twice, at any depth.
func checkDuplicates(r *report, value any, lines func() node) {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			checkDuplicates(r, item, func() node { return lines().item(i) })
		}
	case yaml.MapSlice:
		count := map[string]int{}
		for _, item := range value {
			key := fmt.Sprint(item.Key)
			if count[key]++; count[key] == 2 {
				failDuplicate(r, key, lines())
			}
			checkDuplicates(r, item.Value, func() node { return lines().first(key).value })
		}
	}
}

// failDuplicate reports a key of a mapping on its second line; if both stand on
// one, as in `{a: 1, a: 2}`, on that.
func failDuplicate(r *report, key string, lines node) {
	same := lines.fields[key]
	if len(same) > 1 {
		r.fail(same[1].line, "duplicate key %s (lines %s)", quote(key), joinLines(same))
		return
	}
	r.fail(cmp.Or(lines.first(key).line, lines.line), "duplicate key %s", quote(key))
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
