package adapter

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// World is what an agent CLI that is started now would find its servers by.
type World struct {
	// Home and Dir are absolute: the home directory and the working directory,
	// without a link in it.
	Home, Dir string
	// Lookup finds a variable, as [os.LookupEnv] does.
	Lookup func(name string) (value string, ok bool)
	// ReadFile reads a file. It must fail with [fs.ErrNotExist] for one that is
	// not there.
	ReadFile func(path string) ([]byte, error)
}

// Own is what one agent CLI has servers of its own in.
type Own struct {
	// Agent is the program's name.
	Agent string
	// Looked are the files that it would look at for servers, Files those of
	// them that can be read.
	Looked, Files []string
	// Servers are in the order of the files; of two of one name the agent uses
	// the later one. In a file they are in the order of their names.
	Servers []OwnServer
	// Faults are files, and parts of them, that cannot be read.
	Faults []OwnFault
}

// OwnFault is what is wrong with a file. It repeats nothing of what is in it.
type OwnFault struct {
	File    string
	Line    int // 0 where none is to blame
	Message string
}

// OwnServer is one MCP server in the settings of an agent CLI.
type OwnServer struct {
	Agent, File, Name string
	// Why says why nothing but its agent can run it, "" where that can be done.
	// Nothing below is of use then.
	Why string
	// Cmd, Args, Env and Workdir are what the agent would spawn; Workdir is
	// empty where the entry does not say.
	Cmd     Text
	Args    []Text
	Env     map[string]Text
	Workdir Text
	// Dir is what its relative paths are relative to. Project is true for an
	// entry that is for this directory alone, in which the server begins too.
	Dir     string
	Project bool
	Enabled bool
	// StartTimeout and CallTimeout are 0 where the entry does not say.
	StartTimeout, CallTimeout time.Duration
	// Allow and Deny are the names of tools; a nil Allow allows all.
	Allow, Deny []string
	// Notes say what of the entry is not, or not quite, in the rest.
	Notes []string
}

// origin is a table of servers in a file.
type origin struct {
	file    string
	at      []string // the names of the tables that it is in, and its own
	dir     string
	project bool
}

// own is how an agent CLI keeps its servers.
type own struct {
	// origins are where it looks, what has more say behind what has less.
	origins func(World) []origin
	decode  func(text []byte) (tree map[string]any, line int, err error)
	// layered is true where of two entries of a name the later one only
	// changes the earlier.
	layered bool
	read    func(w World, entry *fields, s *OwnServer)
	// off says which servers are switched off elsewhere; nil where that is
	// not known.
	off func(w World, load func(file string) map[string]any) func(OwnServer) bool
}

// Agents are the names of the CLIs whose own servers can be read.
func Agents() []string {
	var names []string
	for _, c := range clis() {
		names = append(names, c.program)
	}
	return names
}

// ReadOwn finds the servers of a CLI, which must be one of [Agents].
func ReadOwn(agent string, w World) Own {
	r := reader{World: w, Own: Own{Agent: agent}, trees: map[string]map[string]any{}}
	for _, c := range clis() {
		if c.program == agent {
			r.cli = c.own
			r.all()
		}
	}
	return r.Own
}

// reader reads the files of one CLI.
type reader struct {
	World
	Own
	cli   own
	trees map[string]map[string]any // by file; nil where there is none
}

func (r *reader) all() {
	raw := map[string]map[string]any{} // the entries so far, where they are layered
	for _, o := range r.cli.origins(r.World) {
		table, ok := r.table(o)
		if !ok {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(table)) {
			entry, ok := table[name].(map[string]any)
			s := OwnServer{Agent: r.Agent, File: o.file, Name: name, Dir: o.dir, Project: o.project, Enabled: true}
			if !ok {
				s.Why = "it is no table"
				r.Servers = append(r.Servers, s)
				continue
			}
			if r.cli.layered && raw[name] != nil {
				i := slices.IndexFunc(r.Servers, func(s OwnServer) bool { return s.Name == name })
				if entry["command"] == nil {
					s.File, s.Dir, s.Project = r.Servers[i].File, r.Servers[i].Dir, r.Servers[i].Project
				}
				entry = overlay(raw[name], entry)
				r.Servers = slices.Delete(r.Servers, i, i+1)
			}
			raw[name] = entry
			r.Servers = append(r.Servers, r.server(s, entry))
		}
	}
	if r.cli.off == nil {
		return
	}
	off := r.cli.off(r.World, r.load)
	for i, s := range r.Servers {
		r.Servers[i].Enabled = s.Enabled && !off(s)
	}
}

// overlay is an object with the members of another in place of its own.
func overlay(under, over map[string]any) map[string]any {
	out := maps.Clone(under)
	for name, value := range over {
		a, nested := out[name].(map[string]any)
		if b, ok := value.(map[string]any); ok && nested {
			value = overlay(a, b)
		}
		out[name] = value
	}
	return out
}

// table returns the servers of an origin.
func (r *reader) table(o origin) (map[string]any, bool) {
	if !slices.Contains(r.Looked, o.file) {
		r.Looked = append(r.Looked, o.file)
	}
	tree := r.load(o.file)
	if tree == nil {
		return nil, false
	}
	if !slices.Contains(r.Files, o.file) {
		r.Files = append(r.Files, o.file)
	}
	var value any = tree
	for i, name := range o.at {
		table, ok := value.(map[string]any)
		if !ok {
			r.Faults = append(r.Faults, OwnFault{o.file, 0, strings.Join(o.at[:i], ".") + " is no table"})
			return nil, false
		}
		if value, ok = table[name]; !ok || value == nil {
			return nil, false
		}
	}
	table, ok := value.(map[string]any)
	if !ok {
		r.Faults = append(r.Faults, OwnFault{o.file, 0, strings.Join(o.at, ".") + " is no table"})
	}
	return table, ok
}

// load reads a file once.
func (r *reader) load(file string) map[string]any {
	if tree, seen := r.trees[file]; seen {
		return tree
	}
	r.trees[file] = nil
	text, err := r.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		r.Faults = append(r.Faults, OwnFault{file, 0, "cannot be read: " + bare(err).Error()})
		return nil
	}
	tree, line, err := r.cli.decode(text)
	if err != nil {
		r.Faults = append(r.Faults, OwnFault{file, line, err.Error()})
	}
	r.trees[file] = tree
	return tree
}

// bare is what went wrong with a file, without its path.
func bare(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}

func (r *reader) server(s OwnServer, entry map[string]any) OwnServer {
	f := &fields{entry: entry}
	r.cli.read(r.World, f, &s)
	if off, there := f.flag("disabled"); there && off {
		s.Enabled = false
	}
	if on, there := f.flag("enabled"); there && !on {
		s.Enabled = false
	}
	s.Notes = append(s.Notes, f.notes...)
	if s.Why == "" && f.problem == "" && len(s.Cmd) == 0 {
		s.Why = "it has no command"
	}
	s.Why = cmp.Or(s.Why, f.problem)
	return s
}

// jsonTree reads an object, with comments and trailing commas where they are.
func jsonTree(text []byte) (tree map[string]any, line int, err error) {
	text = []byte(strings.TrimPrefix(string(text), "\xEF\xBB\xBF"))
	if strings.TrimSpace(string(text)) == "" {
		return nil, 0, nil
	}
	err = json.Unmarshal(plainJSON(text), &tree)
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := text[:min(int(at.Offset), len(text))]
		return nil, 1 + strings.Count(string(before), "\n"), errors.New("not valid JSON")
	}
	if err != nil {
		return nil, 0, errNoObject
	}
	return tree, 0, nil
}

func tomlTree(text []byte) (tree map[string]any, line int, err error) {
	err = toml.Unmarshal(text, &tree)
	if err == nil {
		return tree, 0, nil
	}
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ = at.Position()
	}
	// Its own words may repeat a value.
	return nil, line, errors.New("not valid TOML")
}

// here are the directories whose files are for what is started in w.Dir: that
// of the repository that it is in, if there is one, and it.
func here(w World) []string {
	for dir := w.Dir; ; dir = path.Dir(dir) {
		for _, mark := range []string{".git/HEAD", ".git"} {
			if _, err := w.ReadFile(path.Join(dir, mark)); err == nil {
				return slices.Compact([]string{dir, w.Dir})
			}
		}
		if dir == path.Dir(dir) {
			return []string{w.Dir}
		}
	}
}

// directory is where a CLI keeps its files: that of a variable, or one at home.
func (w World) directory(variable, below, otherwise string) string {
	if dir, _ := w.Lookup(variable); dir != "" {
		return absolute(w.Dir, path.Join(dir, below))
	}
	return path.Join(w.Home, otherwise)
}

// absolute is where a path is that is relative to dir.
func absolute(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(dir, name)
}

// listed reports whether a name is in a list at a path of member names.
func listed(tree map[string]any, name string, at ...string) (yes, there bool) {
	var value any = tree
	for _, member := range at {
		table, _ := value.(map[string]any)
		value = table[member]
	}
	list, there := value.([]any)
	return slices.Contains(list, any(name)), there
}
