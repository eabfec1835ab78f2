package config

// read takes the whole tree of a file into cfg.
func (l *loader) read(tree map[string]any, cfg *Config) {
	known := sections()
	for _, name := range sorted(tree) {
		v := value{place("").key(name), tree[name]}
		if read, ok := known[name]; ok {
			read(l, v, cfg)
			continue
		}
		what, meant := "key", suggest(name, known.names())
		if _, ok := v.raw.(map[string]any); ok {
			what = "table"
			if meant == "" && meantPrompts(name) {
				meant = meantPromptsTable
			}
		}
		l.fault(v.at, "unknown %s%s", what, meant)
	}
}

// readTable takes one table into a Go value, by its key table.
func readTable[T any](l *loader, v value, known fields[T], into *T) (table map[string]any) {
	table, _ = l.table(v)
	for _, name := range sorted(table) {
		at := v.at.key(name)
		if read, ok := known[name]; ok {
			read(l, value{at, table[name]}, into)
			continue
		}
		l.fault(at, "unknown key%s", suggest(name, known.names()))
	}
	return table
}

func (l *loader) server(v value, cfg *Config) {
	if l.src.Kind == Project {
		l.fault(v.at, "only the global file may have this table")
		return
	}
	readTable(l, v, serverFields(), &cfg.Server)
}

func (l *loader) project(v value, cfg *Config) {
	if l.src.Kind == Global {
		l.fault(v.at, "only a project's file may have this table; `harness validate --project FILE` checks such a file")
		return
	}
	readTable(l, v, projectFields(), &cfg.Project)
}

func (l *loader) upstreams(v value, cfg *Config) {
	known := upstreamFields()
	table, _ := l.table(v)
	for _, key := range sorted(table) {
		v := value{v.at.key(key), table[key]}
		if key == promptsKey {
			readTable(l, v, promptFields(), cfg)
			continue
		}
		if table, ok := v.raw.(map[string]any); ok && meantPrompts(key) && hasPathsAlone(table) {
			l.fault(v.at, "paths without a cmd%s", meantPromptsTable)
			continue
		}
		if problem := keyProblem(key); problem != "" {
			l.fault(v.at, "%s", problem)
		}
		u := newUpstream(key, l.dir, l.line(v.at))
		l.requireCmd(v, readTable(l, v, known, &u))
		cfg.Upstreams[key] = u
	}
}

// meantPrompts tells whether a name is a near miss of the reserved key.
func meantPrompts(name string) bool { return nearest(name, []string{promptsKey}) != "" }

const meantPromptsTable = ", did you mean [mcp." + promptsKey + "]?"

// hasPathsAlone tells whether a table declares directories and no server.
func hasPathsAlone(table map[string]any) bool {
	_, server := table["cmd"]
	for key := range table {
		if nearest(key, promptFields().names()) != "" {
			return !server
		}
	}
	return false
}

func (l *loader) agents(v value, cfg *Config) {
	known := agentFields()
	table, _ := l.table(v)
	for _, name := range sorted(table) {
		v := value{v.at.key(name), table[name]}
		l.checkName(v.at, name)
		a := newAgent(name, l.dir, l.line(v.at))
		l.requireCmd(v, readTable(l, v, known, &a))
		cfg.Agents[name] = a
	}
}

func (l *loader) profiles(v value, cfg *Config) {
	if l.src.Kind == Project {
		l.fault(v.at, "only the global file may have profiles")
		return
	}
	known := profileFields()
	table, _ := l.table(v)
	for _, name := range sorted(table) {
		v := value{v.at.key(name), table[name]}
		l.checkName(v.at, name)
		p := Profile{Name: name, Members: []string{}, Line: l.line(v.at)}
		readTable(l, v, known, &p)
		cfg.Profiles[name] = p
	}
}

func (l *loader) checkName(at place, name string) {
	if problem := nameProblem(name); problem != "" {
		l.fault(at, "%s", problem)
	}
}

// requireCmd faults a definition without a cmd, unless the line that had it
// may be the one that does not parse.
func (l *loader) requireCmd(v value, table map[string]any) {
	if _, ok := table["cmd"]; !ok && table != nil && !l.incomplete(v.at) {
		l.fault(v.at, "cmd is missing")
	}
}
