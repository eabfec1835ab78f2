package config

import (
	"path"
	"slices"
	"strings"
	"time"
)

// A value is one value of the tree and where it stands.
type value struct {
	at  place
	raw any
}

// The readers below return the value as its type, converting nothing. What is
// not of that type, or out of bounds, is a fault; they return a zero value
// then, which nobody sees, since a load with faults yields no configuration.

func (l *loader) table(v value) (map[string]any, bool) {
	return typed[map[string]any](l, v, "a table")
}

func (l *loader) boolean(v value) bool {
	b, _ := typed[bool](l, v, "true or false")
	return b
}

// integer reads a whole number of at least low and at most high.
func (l *loader) integer(v value, low, high int64) int {
	n, ok := typed[int64](l, v, "an integer")
	if ok && (n < low || n > high) {
		l.fault(v.at, "is %d, expected at least %d and at most %d", n, low, high)
	}
	return int(n)
}

// text reads a string that is used as it stands.
func (l *loader) text(v value) string {
	s, _ := typed[string](l, v, "a string")
	return s
}

// list reads a list of strings that are used as they stand, each of which
// check says why it cannot be, or "".
func (l *loader) list(v value, check func(s string) (problem string)) []string {
	out := []string{}
	for _, item := range l.items(v) {
		s, ok := typed[string](l, item, "a string")
		if !ok {
			continue
		}
		if problem := check(s); problem != "" {
			l.fault(item.at, "%s", problem)
		}
		out = append(out, s)
	}
	return out
}

func (l *loader) items(v value) []value {
	list, _ := typed[[]any](l, v, "a list of strings")
	out := make([]value, len(list))
	for i, raw := range list {
		out[i] = value{v.at.item(i), raw}
	}
	return out
}

// duration reads a string such as "1s", of at least low and at most high.
func (l *loader) duration(v value, low, high time.Duration) time.Duration {
	const form = `a duration such as "500ms", "5s" or "10m"`
	s, ok := typed[string](l, v, form)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		l.fault(v.at, "%s is not %s", show(s), form)
	case d < 0:
		l.fault(v.at, "%s is negative", show(s))
	case d < low:
		l.fault(v.at, "%s is too short, expected at least %s", show(s), low)
	case d > high:
		l.fault(v.at, "%s is too long, expected at most %s", show(s), high)
	}
	return d
}

// size reads a string such as "64MiB", of at least low and at most high bytes.
func (l *loader) size(v value, low, high int64) int64 {
	const form = `a size such as "512KiB" or "64MiB"`
	s, ok := typed[string](l, v, form)
	if !ok {
		return 0
	}
	n, ok := parseSize(s)
	switch {
	case !ok:
		l.fault(v.at, "%s is not %s (units: B KB KiB MB MiB GB GiB)", show(s), form)
	case n < low || n > high:
		l.fault(v.at, "%s is out of bounds, expected at least %d and at most %d bytes", show(s), low, high)
	}
	return n
}

// oneOf reads a string that is one of known.
func (l *loader) oneOf(v value, known ...string) string {
	s, ok := typed[string](l, v, "one of "+choices(known))
	if ok && !slices.Contains(known, s) {
		l.fault(v.at, "%s is not one of %s%s", show(s), choices(known), suggest(s, known))
	}
	return s
}

func choices(known []string) string {
	quoted := make([]string, len(known))
	for i, k := range known {
		quoted[i] = show(k)
	}
	return strings.Join(quoted, ", ")
}

// expanded reads a string with `~` and `${VAR}` in it. Faults about it never
// repeat it: it may hold the value of any variable.
func (l *loader) expanded(v value) (string, bool) {
	s, ok := typed[string](l, v, "a string")
	if !ok {
		return "", false
	}
	out, problems := l.env.expand(s)
	for _, problem := range problems {
		l.fault(v.at, "%s", problem)
	}
	if strings.IndexByte(out, 0) >= 0 {
		l.fault(v.at, "holds a NUL character, which no process can be given")
	}
	return out, len(problems) == 0
}

func (l *loader) expandedList(v value) []string {
	out := []string{}
	for _, item := range l.items(v) {
		s, _ := l.expanded(item)
		out = append(out, s)
	}
	return out
}

// path reads a path and makes it absolute; it is "" only after a fault.
func (l *loader) path(v value) string {
	s, ok := l.expanded(v)
	switch {
	case !ok:
		return ""
	case s == "":
		l.fault(v.at, "is empty, expected a path")
		return ""
	}
	return absolute(l.dir, s)
}

func (l *loader) paths(v value) []string {
	out := []string{}
	for _, item := range l.items(v) {
		out = append(out, l.path(item))
	}
	return out
}

// optionalPath reads a path of which "" means none.
func (l *loader) optionalPath(v value) string {
	s, ok := l.expanded(v)
	if !ok || s == "" {
		return ""
	}
	return absolute(l.dir, s)
}

// command reads what is to be run: a bare name is left for PATH, anything with
// a slash is a path.
func (l *loader) command(v value) string {
	s, ok := l.expanded(v)
	switch {
	case !ok:
		return ""
	case strings.TrimSpace(s) == "":
		// The table is at fault as much as the key: it defines nothing.
		l.faults = append(l.faults, remark{l.line(v.at), v.at.parent(), "cmd is empty"})
		return ""
	case strings.Contains(s, "/"):
		return absolute(l.dir, s)
	}
	return s
}

// globProblem says why path.Match cannot use pattern, or "".
func globProblem(pattern string) string {
	if _, err := path.Match(pattern, ""); err != nil {
		return show(pattern) + " is not a pattern"
	}
	return ""
}

// typed is the value as a T, or a fault that says what was expected and what
// kind of value is there instead, but not which.
func typed[T any](l *loader, v value, expected string) (T, bool) {
	t, ok := v.raw.(T)
	if !ok {
		l.fault(v.at, "expected %s, got %s", expected, kindOf(v.raw))
	}
	return t, ok
}

func kindOf(raw any) string {
	switch list := raw.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case map[string]any:
		return "a table"
	case []any:
		if len(list) > 0 && !slices.ContainsFunc(list, func(e any) bool { _, ok := e.(map[string]any); return !ok }) {
			return "an array of tables"
		}
		return "a list"
	}
	return "a date or time"
}

// asSet puts a list whose order means nothing into one order, each element
// once.
func asSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
