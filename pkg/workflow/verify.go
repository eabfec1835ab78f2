package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"harness/pkg/evidence"
)

// tornDir is what a chain's torn records are set aside in.
const tornDir = "torn"

// wreck is a workflow that cannot be believed.
type wreck struct {
	err  error
	spec Spec // what could be read of it
}

// ruin remembers why a workflow was left alone, and from which file it was.
func (e *Engine) ruin(id string, err error) {
	if _, said := errors.AsType[*evidence.Fault](err); !said {
		err = &evidence.Fault{Entry: ".", Message: "not readable"}
	}
	w := wreck{err: named(id, err)}
	if dir, err := e.dir.Sub(id); err == nil {
		if data, err := dir.ReadSealed(specFile, maxSpec); err == nil {
			_ = json.Unmarshal(data, &w.spec) // or it is of no file that is known
		}
		dir.Close()
	}
	e.wrecks[id] = w
}

// begun reports whether a workflow may have launched something: its journal has
// a record, or what cannot be told from one.
func begun(dir *evidence.Dir, id string) bool {
	records, _, err := evidence.ReadChain(dir, journalDir, id)
	var f *evidence.Fault
	switch {
	case err == nil:
		return len(records) > 0
	case errors.As(err, &f):
		return !(f.Entry == journalDir || f.Torn && f.Entry == journalDir+"/"+evidence.EntryName(1, TypeStarted))
	}
	return true
}

// verify holds everything that a workflow has on the disk against what was
// written (EVI-3). The caller holds f.mu.
func (f *flow) verify() error {
	if err := f.files(); err != nil {
		return named(f.spec.ID, err)
	}
	return named(f.spec.ID, f.chain())
}

// chain holds the journal against the records that were added. Beyond them there
// may be what a write that failed has left: that record, whole or torn.
func (f *flow) chain() error {
	records, head, err := evidence.ReadChain(f.dir, journalDir, f.spec.ID)
	want := f.journal.Head()
	if f.stuck != nil {
		if fault, is := errors.AsType[*evidence.Fault](err); is && fault.Torn {
			err = nil
		} else if err == nil && len(records) == want.N+1 && records[want.N].Prev == want.Sum {
			head = want
		}
	}
	if lost, wrong := errors.AsType[*evidence.Fault](head.Holds(want)); wrong && err == nil {
		err = &evidence.Fault{Entry: path.Join(journalDir, lost.Entry), Message: lost.Message}
	}
	return err
}

// files checks the definition and the prompts, and that nothing else is there.
func (f *flow) files() error {
	want, err := evidence.Canonical(f.spec)
	if err != nil {
		return err
	}
	prompts := map[string]string{}
	for _, n := range f.spec.Graph.Nodes {
		if file, _ := n.text(); file != "" {
			prompts[promptsDir+"/"+n.ID] = n.PromptSHA256
		}
	}
	if err := f.only("", func(name string) bool {
		return slices.Contains([]string{specFile, journalDir, promptsDir, tornDir}, name)
	}); err != nil {
		return err
	}
	if err := f.only(promptsDir+"/", func(name string) bool { return prompts[name] != "" }); err != nil {
		return err
	}
	prompts[specFile] = evidence.Digest(want)
	for _, name := range slices.Sorted(maps.Keys(prompts)) {
		if data, err := f.dir.ReadSealed(name, maxSpec); err != nil {
			return err
		} else if evidence.Digest(data) != prompts[name] {
			return &evidence.Fault{Entry: name, Message: "not as it was when the workflow began"}
		}
	}
	return nil
}

// only demands that a directory has nothing that has no place in it. below ends
// in a slash, or is empty.
func (f *flow) only(below string, known func(string) bool) error {
	dir := f.dir
	if below != "" {
		sub, err := f.dir.Sub(below[:len(below)-1])
		if err != nil {
			return &evidence.Fault{Entry: below[:len(below)-1], Message: "not readable"}
		}
		defer sub.Close()
		dir = sub
	}
	names, err := dir.Names()
	if err != nil {
		return fmt.Errorf("list a workflow: %w", err)
	}
	for _, name := range names {
		if !known(below + name) {
			return &evidence.Fault{Entry: below + name, Message: "not a file of a workflow"}
		}
	}
	return nil
}
