package config

import (
	"strconv"
	"strings"
)

// A place names a table, a key or an element of a list within a file. The
// separators cannot stand in a bare key, so "a.b" as one quoted key and a
// dotted a.b stay two places. The zero place is the file itself.
type place string

const (
	keySep  = "\x1f"
	itemSep = "\x1e"
)

// key is the place of one key of the table p.
func (p place) key(name string) place {
	if strings.ContainsAny(name, keySep+itemSep) {
		name = strings.NewReplacer(keySep, "\uFFFD", itemSep, "\uFFFD").Replace(name)
	}
	return p + place(keySep+name)
}

// item is the place of element i of the list p.
func (p place) item(i int) place {
	return p + place(itemSep+strconv.Itoa(i))
}

// parent is the table or list that p is in.
func (p place) parent() place {
	return p[:max(0, strings.LastIndexAny(string(p), keySep+itemSep))]
}

// String renders the place for people: keys joined by dots and quoted where
// TOML would want quotes, elements as [0].
func (p place) String() string {
	var b strings.Builder
	for rest := string(p); rest != ""; {
		mark := rest[:1]
		part, tail := rest[1:], ""
		if i := strings.IndexAny(part, keySep+itemSep); i >= 0 {
			part, tail = part[:i], part[i:]
		}
		rest = tail
		switch {
		case mark == itemSep:
			b.WriteString("[" + part + "]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.WriteString(showKey(part))
	}
	return b.String()
}

// showKey quotes a key that is not bare, so that no control character of a
// file reaches a terminal (CFG-6).
func showKey(name string) string {
	if name != "" && len(name) <= maxShown && within(name, isWord) {
		return name
	}
	return show(name)
}

// maxShown bounds how much of a user's text a message repeats, in bytes.
const maxShown = 64

// show quotes a text of the file for a message: escaped, and cut when long. It
// is for keys and for values that cannot be secret.
func show(s string) string {
	if len(s) <= maxShown {
		return strconv.Quote(s)
	}
	return strconv.Quote(strings.ToValidUTF8(s[:maxShown], "")) + "…"
}
