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
	if len(*faults) > 0 {
		return
	}
	if loop := cycle(ids, needs); loop != nil {
		faults.add(kind+"."+loop[0]+".needs", "a cycle: %v", loop)
	}
}

// cycle returns the ids of a cycle, nil where there is none.
func cycle(ids []string, needs map[string][]string) []string {
	left := map[string]int{}
	for _, id := range ids {
		left[id] = len(needs[id])
	}
	for changed := true; changed; {
		changed = false
		for _, id := range ids {
			n, there := left[id]
			if !there || n > 0 {
				continue
			}
			delete(left, id)
			changed = true
			for _, other := range ids {
				if _, there := left[other]; there && slices.Contains(needs[other], id) {
					left[other]--
				}
			}
		}
	}
	var loop []string
	for _, id := range ids {
		if _, there := left[id]; there {
			loop = append(loop, id)
		}
	}
	return loop
}
