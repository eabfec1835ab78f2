package config

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
)

// Load reads one file. It returns the configuration and, in line order,
// whatever is remarkable but legal; or no configuration and every fault of the
// file, in line order (CFG-1). It never fails for what lies outside the file:
// whether commands, directories and env_files exist is not its business.
//
// A source that is empty or white space alone gives an empty Config that says
// so, not a fault.
func Load(src Source, env Env) (*Config, Warnings, Faults) {
	l := &loader{src: src, env: env, dir: path.Dir(src.Path)}
	cfg := l.load()
	warnings, faults := l.located(l.warnings), l.located(l.faults)
	if len(faults) > 0 {
		return nil, warnings, faults
	}
	return cfg, warnings, nil
}

// A loader is one Load: what it was given, where things are, and what it found
// to say. It lives on one goroutine.
type loader struct {
	src Source
	env Env
	dir string // of the file; what relative paths are relative to

	index
	faults, warnings []remark
}

func (l *loader) load() *Config {
	cfg := newConfig(l.src, l.dir)
	text, line, problem := plain(l.src.Data)
	if problem != "" {
		l.faults = append(l.faults, remark{line, "", problem})
		return nil
	}
	if len(bytes.TrimSpace(text)) == 0 {
		cfg.Empty = true
		return cfg
	}
	s := newScanner(text)
	s.scan()
	tree := s.tree()
	l.index, l.faults = s.index, s.remarks
	cfg.Where.at = l.at
	l.read(tree, cfg)
	l.check(cfg)
	return cfg
}

// newConfig is what a file of no tables means. Lists and maps are never nil,
// so that equal files are equal to reflection and in JSON.
func newConfig(src Source, dir string) *Config {
	cfg := &Config{
		Path:        src.Path,
		Kind:        src.Kind,
		Upstreams:   map[string]Upstream{},
		PromptPaths: []string{},
		Agents:      map[string]Agent{},
		Profiles:    map[string]Profile{},
	}
	if src.Kind == Project {
		cfg.Project.Name = defaultProject(dir)
	} else {
		cfg.Server = DefaultServer()
	}
	return cfg
}

// fault notes that the thing at p is wrong.
func (l *loader) fault(p place, format string, args ...any) {
	l.faults = append(l.faults, remark{l.line(p), p, fmt.Sprintf(format, args...)})
}

// warn notes that the thing at p is legal but hardly meant.
func (l *loader) warn(p place, format string, args ...any) {
	l.warnings = append(l.warnings, remark{l.line(p), p, fmt.Sprintf(format, args...)})
}

// located ties remarks to the file, in line order; of one line, in the order
// found.
func (l *loader) located(remarks []remark) []Fault {
	slices.SortStableFunc(remarks, func(a, b remark) int { return a.line - b.line })
	var out []Fault
	for _, r := range remarks {
		out = append(out, Fault{File: l.src.Path, Line: r.line, Key: r.at.String(), Message: r.message})
	}
	return out
}

// sorted are the keys of a table in a fixed order, so that a file always gives
// the same report.
func sorted[V any](table map[string]V) []string {
	return slices.Sorted(maps.Keys(table))
}
