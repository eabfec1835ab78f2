package config

import (
	"cmp"
	"slices"
	"strings"
)

// This file is the list of what the schema has and this version does not
// serve. To serve one of these, take it out here.

// idle are the places of the keys that are checked in full and are part of the
// desired state, but that nothing acts upon yet.
func (l *loader) idle(cfg *Config) map[string][]place {
	found := map[string][]place{}
	for name := range cfg.Agents {
		for _, key := range []string{"env_pass"} {
			if at := place("").key("harness").key(name).key(key); l.written(at) {
				found[key] = append(found[key], at)
			}
		}
	}
	return found
}

// enumerate joins words as a sentence does.
func enumerate(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// warnIdle makes one warning of all that is idle, at the first of it.
func (l *loader) warnIdle(cfg *Config) {
	idle := l.idle(cfg)
	if len(idle) == 0 {
		return
	}
	var all []place
	for _, places := range idle {
		all = append(all, places...)
	}
	first := slices.MinFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(l.line(a), l.line(b)), cmp.Compare(a, b))
	})
	l.warn(first, "this version checks %s but does not act on it yet", enumerate(sorted(idle)))
}
