package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Fault is one thing that is wrong with a workflow or a pack.
type Fault struct {
	Line    int    // 0 where it has none
	Key     string // "" where it has none
	Message string
}

// Faults are all that is wrong with one file.
type Faults []Fault

func (f *Faults) add(key, format string, args ...any) {
	*f = append(*f, Fault{Key: key, Message: fmt.Sprintf(format, args...)})
}

// decode reads TOML strictly into v.
func decode(data []byte, v any) Faults {
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().Decode(v)
	var strict *toml.StrictMissingError
	var one *toml.DecodeError
	var faults Faults
	switch {
	case err == nil:
	case errors.As(err, &strict):
		for i := range strict.Errors {
			line, _ := strict.Errors[i].Position()
			faults = append(faults, Fault{Line: line, Key: strings.Join(strict.Errors[i].Key(), "."), Message: "there is no such key"})
		}
	case errors.As(err, &one):
		line, _ := one.Position()
		faults = append(faults, Fault{Line: line, Message: one.Error()})
	default:
		faults = append(faults, Fault{Message: err.Error()})
	}
	return faults
}

// checkNeeds finds needs that are nobody's, double, or of itself, and cycles.
func checkNeeds(kind string, ids []string, needs map[string][]string, faults *Faults) {
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			faults.add(kind+"."+id, "there are two of this id")
		}
		seen[id] = true
	}
	for _, id := range ids {
		for i, need := range needs[id] {
			switch {
			case need == id:
				faults.add(kind+"."+id+".needs", "it needs itself")
			case !seen[need]:
				faults.add(kind+"."+id+".needs", "there is no %s %q", kind, need)
			case slices.Contains(needs[id][:i], need):
				faults.add(kind+"."+id+".needs", "%q is named twice", need)
			}
		}
	}
	if loop := cycle(ids, needs); loop != nil {
		faults.add(kind+"."+loop[0]+".needs", "a cycle: %s", strings.Join(loop, " -> "))
	}
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
