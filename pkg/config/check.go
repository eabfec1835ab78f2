package config

import (
	"cmp"
	"path"
	"slices"
)

// check judges what one table says of another. In a file with syntax errors
// the other may be the one that did not parse, so only what is there is
// compared, and nothing is missed.
func (l *loader) check(cfg *Config) {
	l.checkFolded(cfg)
	l.checkAutostart(cfg)
	if l.torn {
		return
	}
	l.checkMembers(cfg)
	l.checkVisible(cfg)
}

// checkFolded faults keys of upstreams that differ by - and _ alone, which
// some agents cannot tell apart.
func (l *loader) checkFolded(cfg *Config) {
	first := map[string]Upstream{}
	for _, u := range byLine(cfg.Upstreams, func(u Upstream) (int, string) { return u.Line, u.Key }) {
		other, ok := first[fold(u.Key)]
		if !ok {
			first[fold(u.Key)] = u
			continue
		}
		l.fault(upstreamPlace(u.Key), "key differs from mcp.%s on line %d only by - and _", showKey(other.Key), other.Line)
	}
}

// checkAutostart faults every profile after the first that starts by itself.
func (l *loader) checkAutostart(cfg *Config) {
	var first *Profile
	for _, p := range byLine(cfg.Profiles, func(p Profile) (int, string) { return p.Line, p.Name }) {
		switch {
		case !p.Autostart:
		case first == nil:
			first = &p
		default:
			l.fault(place("").key("profile").key(p.Name).key("autostart"),
				"only one profile can be true, and %s on line %d is", show(first.Name), first.Line)
		}
	}
}

// checkMembers faults members of profiles that no table declares.
func (l *loader) checkMembers(cfg *Config) {
	names := sorted(cfg.Agents)
	for _, name := range sorted(cfg.Profiles) {
		at := place("").key("profile").key(name).key("members")
		for _, member := range cfg.Profiles[name].Members {
			if _, ok := cfg.Agents[member]; !ok {
				l.fault(at, "%s is not a [harness.*] table of this file%s", show(member), suggest(member, names))
			}
		}
	}
}

// checkVisible warns of patterns in a harness's mcp that match no upstream. It
// is no fault: taking an upstream away must not refuse the file. A project's
// harness may mean an upstream of the global file, which is not known here.
func (l *loader) checkVisible(cfg *Config) {
	if cfg.Kind == Project {
		return
	}
	keys := sorted(cfg.Upstreams)
	for _, name := range sorted(cfg.Agents) {
		for _, pattern := range cfg.Agents[name].MCP {
			matches := func(key string) bool { ok, _ := path.Match(pattern, key); return ok }
			if pattern != "*" && !slices.ContainsFunc(keys, matches) {
				l.warn(place("").key("harness").key(name).key("mcp"),
					"%s matches no [mcp.*] of this file%s", show(pattern), suggest(pattern, keys))
			}
		}
	}
}

func upstreamPlace(key string) place { return place("").key("mcp").key(key) }

// byLine are the values of a table in the order of the file, so that of two
// that clash the later is at fault.
func byLine[V any](table map[string]V, where func(V) (line int, name string)) []V {
	out := make([]V, 0, len(table))
	for _, v := range table {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b V) int {
		lineA, nameA := where(a)
		lineB, nameB := where(b)
		return cmp.Or(cmp.Compare(lineA, lineB), cmp.Compare(nameA, nameB))
	})
	return out
}
