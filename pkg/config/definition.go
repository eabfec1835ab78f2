package config

import (
	"slices"
	"strings"
)

// environment reads env: valid names, none of harness's own, and strings that
// are expanded (CFG-1).
func (l *loader) environment(v value) map[string]string {
	table, _ := l.table(v)
	out := make(map[string]string, len(table))
	for _, name := range sorted(table) {
		at := v.at.key(name)
		if problem := envNameProblem(name); problem != "" {
			l.fault(at, "%s", problem)
		}
		out[name], _ = l.expanded(value{at, table[name]})
	}
	return out
}

// grants reads mcp_allow. "read" is always among them, and a file that comes
// with a repository cannot say more (CFG-4).
func (l *loader) grants(v value) []string {
	if l.src.Kind == Project {
		l.fault(v.at, "only the global file may grant rights")
		return nil
	}
	out := []string{"read"}
	for _, item := range l.items(v) {
		out = append(out, l.oneOf(item, "read", "write"))
	}
	return asSet(out)
}

// promptPaths reads directories in the order that decides between them, each
// once. A project's are within its own directory: a cloned repository must not
// publish the user's files (PRM-5).
func (l *loader) promptPaths(v value) (dirs []string, lines []int) {
	out := []string{}
	for i, dir := range l.paths(v) {
		switch {
		case dir == "": // has its fault
		case slices.Contains(out, dir):
			l.warn(v.at.item(i), "the same directory is named before")
		case l.src.Kind == Project && !beneath(l.dir, dir):
			l.fault(v.at.item(i), "is outside of the project's directory, which its prompts must be in")
		default:
			out, lines = append(out, dir), append(lines, l.line(v.at.item(i)))
		}
	}
	return out, lines
}

// beneath reports whether a clean path is that of a directory or below it, as far
// as the text of the two tells.
func beneath(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func (l *loader) projectName(v value) string {
	name, ok := typed[string](l, v, "a string")
	if ok {
		l.checkName(v.at, name)
	}
	return name
}
