package config

import (
	"path"
	"strings"
)

// expand replaces a `~` or `~/` at the start of s by the home directory and
// every ${VAR} by its value; `$${` is a literal `${`, and a `$` before
// anything else is left alone. Each thing that cannot be expanded is one
// problem, which names variables and never shows a value.
func (e Env) expand(s string) (out string, problems []string) {
	var b strings.Builder
	rest := s
	if rest == "~" || strings.HasPrefix(rest, "~/") {
		if e.Home == "" {
			problems = append(problems, "~ cannot be expanded: the home directory is not known")
		}
		rest = rest[1:]
		b.WriteString(strings.TrimSuffix(e.Home, rest[:min(1, len(rest))]))
	}
	for {
		i := strings.IndexByte(rest, '$')
		if i < 0 {
			b.WriteString(rest)
			return b.String(), problems
		}
		b.WriteString(rest[:i])
		value, tail, problem := e.dollar(rest[i:])
		if problem != "" {
			problems = append(problems, problem)
		}
		b.WriteString(value)
		rest = tail
	}
}

// dollar expands what s, which starts with a dollar sign, starts with.
func (e Env) dollar(s string) (value, rest, problem string) {
	if tail, ok := strings.CutPrefix(s, "$${"); ok {
		return "${", tail, ""
	}
	body, ok := strings.CutPrefix(s, "${")
	if !ok {
		return "$", s[1:], ""
	}
	name, tail, ok := strings.Cut(body, "}")
	switch {
	case !ok:
		return "", "", "${ has no closing }; a literal ${ is written $${"
	case !validEnvName(name):
		return "", tail, "${…} must hold the name of a variable; a literal ${ is written $${"
	}
	if value, ok = e.lookup(name); !ok {
		return "", tail, "${" + name + "} is not set"
	}
	return value, tail, ""
}

func (e Env) lookup(name string) (string, bool) {
	if e.Lookup == nil {
		return "", false
	}
	return e.Lookup(name)
}

// absolute resolves name against dir, the directory of the file that says it.
func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}
