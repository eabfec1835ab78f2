package adapter

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Text is a word of a definition: its parts, one behind the other. No part is
// empty, and of two neighbours one at least is a variable.
type Text []Part

// Part is text as it stands, or the value of a variable that is named.
type Part struct {
	Text     string
	Variable bool
}

// add puts a part at the end.
func (t Text) add(p Part) Text {
	switch last := len(t) - 1; {
	case p.Text == "":
		return t
	case !p.Variable && last >= 0 && !t[last].Variable:
		t[last].Text += p.Text
		return t
	default:
		return append(t, p)
	}
}

// dialect is how a CLI writes variables in a word. What it has to say beyond
// the text are notes, why it cannot be said a problem.
type dialect func(word string) (t Text, notes []string, problem string)

// literally is the dialect without variables.
func literally(word string) (Text, []string, string) { return Text(nil).add(Part{Text: word}), nil, "" }

// The variables of a word: ${VAR} and ${VAR:-default}, those or $VAR, {env:VAR}.
const (
	braced = `\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`
	dollar = `\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}|([A-Za-z_][A-Za-z0-9_]*))`
	curly  = `\{env:([A-Za-z_][A-Za-z0-9_]*)\}`
)

// shell is the dialect with variables that are braced, or have a dollar. A
// default, and a $VAR that is not set, are made what they mean now.
func (w World) shell(expression string) dialect {
	variables := regexp.MustCompile(expression)
	return func(word string) (t Text, notes []string, problem string) {
		at := 0
		for _, m := range variables.FindAllStringSubmatchIndex(word, -1) {
			t = t.add(Part{Text: word[at:m[0]]})
			at = m[1]
			simple := len(m) > 6 && m[6] >= 0
			name := group(word, m, 1) + group(word, m, 3)
			_, set := w.Lookup(name)
			otherwise, has := strings.CutPrefix(group(word, m, 2), ":-")
			switch {
			case has && set:
				notes = append(notes, "the default of ${"+name+":-…} is left out, since harness has none and the variable is set")
				t = t.add(Part{name, true})
			case has:
				notes = append(notes, "the default of ${"+name+":-…} takes its place, since harness has none and the variable is not set")
				t = t.add(Part{Text: otherwise})
			case simple && !set:
				t = t.add(Part{Text: word[m[0]:m[1]]})
			default:
				t = t.add(Part{name, true})
			}
		}
		return t.add(Part{Text: word[at:]}), notes, ""
	}
}

// group is what a group of an expression matched, "" where it did not.
func group(word string, m []int, n int) string {
	if 2*n >= len(m) || m[2*n] < 0 {
		return ""
	}
	return word[m[2*n]:m[2*n+1]]
}

// inBraces is the dialect of {env:VAR} and {file:PATH}.
func inBraces(word string) (t Text, notes []string, problem string) {
	if strings.Contains(word, "{file:") {
		return nil, nil, "takes a text from a file ({file:…}), which harness.toml cannot"
	}
	at := 0
	for _, m := range regexp.MustCompile(curly).FindAllStringSubmatchIndex(word, -1) {
		t = t.add(Part{Text: word[at:m[0]]}).add(Part{word[m[2]:m[3]], true})
		at = m[1]
	}
	return t.add(Part{Text: word[at:]}), nil, ""
}

// fields reads the members of an entry. The first that is not what it should be
// is its problem, in words that do not repeat it.
type fields struct {
	entry   map[string]any
	notes   []string
	problem string
}

func (f *fields) fail(format string, args ...any) {
	if f.problem == "" {
		f.problem = fmt.Sprintf(format, args...)
	}
}

// has reports whether there is a member.
func (f *fields) has(name string) bool { return f.entry[name] != nil }

// string reads a member that is one, "" where there is none.
func (f *fields) string(name string) string {
	s, ok := f.entry[name].(string)
	if !ok && f.has(name) {
		f.fail("%s is not a string", name)
	}
	return s
}

// flag reads a member that is true or false.
func (f *fields) flag(name string) (value, there bool) {
	value, there = f.entry[name].(bool)
	if !there && f.has(name) {
		f.fail("%s is neither true nor false", name)
	}
	return value, there
}

// strings reads a list; nil where there is none.
func (f *fields) strings(name string) []string {
	if !f.has(name) {
		return nil
	}
	list, ok := f.entry[name].([]any)
	words := make([]string, len(list))
	for i, item := range list {
		word, isString := item.(string)
		words[i], ok = word, ok && isString
	}
	if !ok {
		f.fail("%s is not a list of strings", name)
	}
	return words
}

// words reads the strings of a list in a dialect.
func (f *fields) words(name string, list []string, in dialect) []Text {
	var all []Text
	for _, word := range list {
		all = append(all, f.text(name, word, in))
	}
	return all
}

// text reads a word in a dialect.
func (f *fields) text(name, word string, in dialect) Text {
	t, notes, problem := in(word)
	f.notes = append(f.notes, notes...)
	if problem != "" {
		f.fail("%s %s", name, problem)
	}
	return t
}

// variables reads a table of strings. Numbers and booleans are what they are
// written as.
func (f *fields) variables(name string, in dialect) map[string]Text {
	table, ok := f.entry[name].(map[string]any)
	if !ok && f.has(name) {
		f.fail("%s is no table", name)
	}
	env := make(map[string]Text, len(table))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		word, ok := scalar(table[key])
		if !ok {
			f.fail("%s.%s is not a string", name, key)
		}
		env[key] = f.text(name+"."+key, word, in)
	}
	return env
}

func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	default:
		return "", false
	}
}

// duration reads a number of units. One that harness cannot take is left out.
func (f *fields) duration(name string, unit time.Duration) time.Duration {
	var n float64
	switch v := f.entry[name].(type) {
	case nil:
		return 0
	case int64:
		n = float64(v)
	case float64:
		n = v
	}
	d := n * float64(unit)
	if math.IsNaN(d) || d < float64(time.Millisecond) || d > float64(365*24*time.Hour) {
		f.notes = append(f.notes, name+" is left out: it is no time between 1ms and a year")
		return 0
	}
	return time.Duration(d).Round(time.Millisecond)
}

// command reads the members that most CLIs spell alike.
func (f *fields) command(s *OwnServer, in dialect) {
	s.Cmd = f.text("command", f.string("command"), in)
	s.Args = f.words("args", f.strings("args"), in)
	s.Env = f.variables("env", in)
	s.Workdir = f.text("cwd", f.string("cwd"), in)
}

// remote says that an entry is of a server elsewhere, where one of the members
// says so, or its type.
func (f *fields) remote(s *OwnServer, members ...string) {
	kind, _ := f.entry["type"].(string)
	if slices.Contains([]string{"http", "sse", "ws", "websocket", "remote", "streamable-http", "streamableHttp"}, kind) {
		s.Why = "it is not on stdio but " + kind + ", which harness does not run"
		return
	}
	for _, name := range members {
		if f.has(name) && kind != "stdio" {
			s.Why = "it is not on stdio but has a " + name + ", which harness does not run"
			return
		}
	}
}
