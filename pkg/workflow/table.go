package workflow

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"harness/pkg/config"
	"harness/pkg/evidence"
)

// Outside is what a workflow or a pack is held against that is not in its text.
type Outside struct {
	Roles []string // that there are
	// Read returns the text of a file, by its path relative to the one that names
	// it. The error says why not, without the path.
	Read func(file string) ([]byte, error)
	// Harness reports whether a harness is declared; nil for all.
	Harness func(name string) bool
	// Contract says what is wrong with the text of a contract; nil for nothing.
	Contract func(name string, text []byte) config.Faults
}

// entry is one of the tables of a list that has an order of its own: a node, or
// a ticket.
type entry struct {
	id    string
	place string // how faults call it
	at    config.Node
	found map[string]config.Node // its keys
	needs []string
}

// fault notes what is wrong with a key, or with the table where it has none.
func (e *entry) fault(key, format string, args ...any) {
	at, there := e.found[key]
	if !there {
		at = e.at
	}
	at.Fault(format, args...)
}

// read reads the table by its keys. One that is empty, 0 or false is as if it was
// not there.
func (e *entry) read(known map[string]func(config.Node)) {
	none := func(_ string, n config.Node) bool {
		raw := n.Raw()
		return raw == "" || raw == int64(0) || raw == false
	}
	for key, read := range known {
		known[key] = func(n config.Node) {
			if !none(key, n) {
				read(n)
			}
		}
	}
	e.found = e.at.Fields(known)
	maps.DeleteFunc(e.found, none)
}

// missing notes that a key is not there, unless a syntax error may have taken it.
func (e *entry) missing(format string, args ...any) {
	if e.at.Complete() {
		e.at.Fault(format, args...)
	}
}

// tables reads the elements of a list, which the file calls so, and returns them
// with what read makes of each.
func tables[T any](n config.Node, called string, most int, read func(e *entry) T) (all []T, entries []*entry) {
	list := n.Tables()
	if _, is := n.Raw().([]any); is && len(list) == 0 {
		n.Fault("is empty, expected 1 to %d tables", most)
	}
	if len(list) > most {
		n.Fault("has %d tables, expected at most %d", len(list), most)
		return nil, nil
	}
	for i, at := range list {
		e := &entry{place: fmt.Sprintf("%s[%d]", called, i), at: at}
		all, entries = append(all, read(e)), append(entries, e)
	}
	return all, entries
}

// texts reads a list of strings as they are.
func texts(n config.Node) []string { return n.Texts(func(string) string { return "" }) }

// name reads what can be the name of a thing that has evidence.
func name(n config.Node) string {
	s := n.Text()
	if _, text := n.Raw().(string); text && !evidence.IsName(s) {
		n.Fault("%s is no name: letters, digits, _ . and -, at most 64", config.Show(s))
	}
	return s
}

// role reads one of the roles that there are.
func role(n config.Node, roles []string) string {
	s := n.Text()
	if _, text := n.Raw().(string); text && !slices.Contains(roles, s) {
		n.Fault("%s is not a role; use one of %s", config.Show(s), strings.Join(roles, ", "))
	}
	return s
}

// file reads a path that stays below the directory that it is relative to; "" for
// any other.
func file(n config.Node) string {
	s := n.Text()
	if _, text := n.Raw().(string); text && !below(s) {
		n.Fault("%s is no path below the directory of this file, without . or ..", config.Show(s))
		return ""
	}
	return s
}

// below reports whether a path stays below the directory that it is relative to.
func below(file string) bool {
	return file != "" && !path.IsAbs(file) && path.Clean(file) == file && file != "." && file != ".." && !strings.HasPrefix(file, "../") && !strings.ContainsRune(file, 0)
}

// checkNeeds finds needs that are nobody's, double, or of itself, and cycles;
// unless a syntax error may have taken what is needed.
func checkNeeds(kind string, root config.Node, entries []*entry) {
	if !root.Complete() || slices.ContainsFunc(entries, func(e *entry) bool { return !e.at.Complete() }) {
		return
	}
	var ids []string
	needs, at := map[string][]string{}, map[string]*entry{}
	for _, e := range entries {
		if e.id == "" {
			continue // that is said already
		}
		ids = append(ids, e.id)
		if at[e.id] != nil {
			e.fault("id", "there are two %ss of this id, %s", kind, config.Show(e.id))
			continue
		}
		needs[e.id], at[e.id] = e.needs, e
	}
	for _, e := range entries {
		for i, need := range e.needs {
			switch {
			case need == e.id && need != "":
				e.fault("needs", "it needs itself")
			case at[need] == nil:
				e.fault("needs", "there is no %s %s", kind, config.Show(need))
			case slices.Contains(e.needs[:i], need):
				e.fault("needs", "%s is named twice", config.Show(need))
			}
		}
	}
	if loop := cycle(ids, needs); loop != nil {
		at[loop[0]].fault("needs", "a cycle: %s", strings.Join(loop, " -> "))
	}
}

// faultsOf are the faults of a document. Each says which node or ticket it is of
// by its id, where it has one: that is what a reader of the file looks for.
func faultsOf(d *config.Document, kind string, entries []*entry) config.Faults {
	faults := d.Faults()
	ids := map[string]string{}
	for _, e := range entries {
		if evidence.IsName(e.id) {
			ids[e.place] = kind + "." + e.id
		}
	}
	for i, f := range faults {
		end := strings.IndexByte(f.Key, ']') + 1
		if id, has := ids[f.Key[:end]]; has {
			faults[i].Key = id + f.Key[end:]
		}
	}
	return faults
}

// cycle returns ids of which each needs the one after it, and the last is the
// first; nil where there are none. What needs itself alone is not looked for.
func cycle(ids []string, needs map[string][]string) []string {
	var path []string // each needs the one after it
	done := map[string]bool{}
	var visit func(id string) []string
	visit = func(id string) []string {
		if at := slices.Index(path, id); at >= 0 {
			return append(slices.Clone(path[at:]), id)
		}
		if done[id] {
			return nil
		}
		path = append(path, id)
		for _, need := range needs[id] {
			if need == id {
				continue
			}
			if loop := visit(need); loop != nil {
				return loop
			}
		}
		path, done[id] = path[:len(path)-1], true
		return nil
	}
	for _, id := range ids {
		if loop := visit(id); loop != nil {
			return loop
		}
	}
	return nil
}
