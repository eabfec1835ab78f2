package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// errNoObject is what is wrong with text that was to be a JSON object.
var errNoObject = errors.New("no JSON object")

// member is one member of an object in a JSON text.
type member struct {
	name       string
	start, end int // of the value
}

// object lists the members of the object that begins at plain[at], a valid
// JSON text, and returns where the first would begin.
func object(plain []byte, at int) (list []member, begin int, err error) {
	dec := json.NewDecoder(bytes.NewReader(plain[at:]))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, errNoObject
	}
	begin = at + int(dec.InputOffset())
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, 0, errNoObject
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, 0, errNoObject
		}
		end := at + int(dec.InputOffset())
		list = append(list, member{name.(string), end - len(value), end})
	}
	return list, begin, nil
}

// last finds a member. Of two with a name the last counts.
func last(list []member, name string) (member, bool) {
	for _, m := range slices.Backward(list) {
		if m.name == name {
			return m, true
		}
	}
	return member{}, false
}

// document is a JSON text, maybe with comments and trailing commas.
type document struct {
	text  []byte
	plain []byte // the same length, with blanks for what JSON has not
}

// parse accepts a text whose value is an object.
func parse(text []byte) (document, error) {
	d := document{text, plainJSON(text)}
	if !json.Valid(d.plain) {
		return d, errNoObject
	}
	_, _, err := object(d.plain, 0)
	return d, err
}

// find returns the member at a path of names.
func (d document) find(path ...string) (m member, ok bool) {
	for _, name := range path {
		list, _, err := object(d.plain, m.start)
		if err != nil {
			return member{}, false
		}
		if m, ok = last(list, name); !ok {
			return member{}, false
		}
	}
	return m, ok
}

// has reports whether there is a member at a path of names.
func (d document) has(path ...string) bool {
	_, ok := d.find(path...)
	return ok
}

// put returns the text with one more member, at a path of member names. Objects
// on the way that are missing are made; nothing else changes.
func (d document) put(value string, path ...string) ([]byte, error) {
	at := 0
	for i, name := range path {
		list, begin, err := object(d.plain, at)
		if err != nil {
			return nil, fmt.Errorf("%s is %w", strings.Join(path[:i], "."), err)
		}
		m, ok := last(list, name)
		if ok && i < len(path)-1 {
			at = m.start
			continue
		}
		if ok {
			return nil, fmt.Errorf("there is a %s already", strings.Join(path, "."))
		}
		text := quote(name) + ":" + nested(value, path[i+1:])
		if len(list) > 0 {
			text += ","
		}
		return d.insert(begin, text), nil
	}
	return nil, errNoObject
}

// insert returns the text with more in it at an offset.
func (d document) insert(at int, more string) []byte {
	return slices.Concat(d.text[:at], []byte(more), d.text[at:])
}

// nested wraps a value into one object for each name.
func nested(value string, path []string) string {
	for _, name := range slices.Backward(path) {
		value = "{" + quote(name) + ":" + value + "}"
	}
	return value
}

// plainJSON returns text with blanks in place of comments and of commas before
// a closing bracket.
func plainJSON(text []byte) []byte {
	plain := slices.Clone(text)
	comma := -1 // where a comma waits for what follows it
	for i := 0; i < len(plain); {
		end, blank := i+1, false
		switch rest := plain[i:]; {
		case rest[0] == '"':
			end = i + stringEnd(rest)
		case bytes.HasPrefix(rest, []byte("//")):
			blank, end = true, i+until(rest, "\n", 0)
		case bytes.HasPrefix(rest, []byte("/*")):
			blank, end = true, i+until(rest, "*/", 2)
		}
		switch c := plain[i]; {
		case blank:
			copy(plain[i:end], bytes.Repeat([]byte{' '}, end-i))
		case strings.IndexByte(" \t\r\n", c) >= 0:
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			plain[comma], comma = ' ', -1
		default:
			comma = -1
		}
		i = end
	}
	return plain
}

// stringEnd returns the length of the string that text begins with.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// until returns the length of what text begins with, up to mark and n bytes of
// it. What begins with /* is at least as long as that.
func until(text []byte, mark string, n int) int {
	if i := bytes.Index(text[n:], []byte(mark)); i >= 0 {
		return n + i + n
	}
	return len(text)
}

// quote returns s as a string of JSON, which is one of TOML too.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Strings can always be encoded.
	_ = enc.Encode(s)
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// quoteAll returns words as an array of JSON, which is one of TOML too.
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// stdioServer is the entry of an MCP server as most agents spell it.
func stdioServer(bridge []string) string {
	return `{"command":` + quote(bridge[0]) + `,"args":` + quoteAll(bridge[1:]) + "}"
}

// pasteJSON is the text to put into a settings file that is JSON.
func pasteJSON(key string, entry func(bridge []string) string) func([]string) string {
	return func(bridge []string) string {
		return nested(entry(bridge), []string{key, server})
	}
}
