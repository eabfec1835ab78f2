package broker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"harness/pkg/wire"
)

// Limits of an exposed name (MCP-2).
const (
	nameLimit  = wire.MaxName
	digestSize = 6 // hex digits of SHA-256 in a rewritten name
)

// Original names something an upstream offers, or, with an empty Key, a prompt
// file.
type Original struct{ Key, Name string }

// String returns "<key>__<name>", or the name alone when there is no key.
func (o Original) String() string {
	if o.Key == "" {
		return o.Name
	}
	return o.Key + "__" + o.Name
}

// ExposeAll returns the name under which agents see each original: itself where
// it has at most 50 characters out of [A-Za-z0-9_-], and otherwise what is left of
// it when cut or replaced, with six hex digits of its SHA-256 (MCP-2). Names are
// unique even where "-" and "_" are one; equal originals get equal names. Of originals that want one
// name the bytewise smallest keeps it and the others are rewritten. Neither
// the order of originals nor what else is among them matters to a name: only
// those it would be confused with do.
func ExposeAll(originals []Original) []string {
	order := slices.Clone(originals)
	slices.SortFunc(order, func(a, b Original) int {
		return cmp.Or(strings.Compare(a.String(), b.String()), strings.Compare(a.Key, b.Key))
	})
	order = slices.Compact(order)
	names := make(map[Original]string, len(order))
	taken := make(map[string]bool, len(order))
	for _, o := range order { // those that may keep their names come first
		if name := o.String(); isPlain(name) && !taken[fold(name)] {
			names[o], taken[fold(name)] = name, true
		}
	}
	for _, o := range order {
		if _, ok := names[o]; !ok {
			names[o] = rewriteUnique(o.String(), taken)
		}
	}
	exposed := make([]string, len(originals))
	for i, o := range originals {
		exposed[i] = names[o]
	}
	return exposed
}

// rewriteUnique rewrites name so that it is none of taken, and takes it.
func rewriteUnique(name string, taken map[string]bool) string {
	for attempt := 0; ; attempt++ {
		rewritten := rewrite(name, attempt)
		if !taken[fold(rewritten)] {
			taken[fold(rewritten)] = true
			return rewritten
		}
	}
}

// rewrite makes a valid name of any text and marks it with its digest. Six
// digits can meet in two names, or be somebody's own name; attempts after 0
// digest something else.
func rewrite(name string, attempt int) string {
	digested := name
	if attempt > 0 {
		digested += "\x00" + strconv.Itoa(attempt)
	}
	sum := sha256.Sum256([]byte(digested))
	suffix := "_" + hex.EncodeToString(sum[:digestSize/2])
	plain := strings.Map(func(r rune) rune {
		if isPlainRune(r) {
			return r
		}
		return '_'
	}, name)
	return plain[:min(len(plain), nameLimit-len(suffix))] + suffix
}

// fold maps names that some agents take for one to one.
func fold(name string) string { return strings.ReplaceAll(name, "-", "_") }

// isPlain reports whether name may be exposed as it is.
func isPlain(name string) bool {
	return name != "" && len(name) <= nameLimit && !strings.ContainsFunc(name, func(r rune) bool { return !isPlainRune(r) })
}

func isPlainRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-'
}
