package contract

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness/pkg/ledger"
)

// TestEvidence_ThatWasTamperedWithIsNoticed changes each file of a session in
// each way: nothing that reads the session answers any more.
func TestEvidence_ThatWasTamperedWithIsNoticed(t *testing.T) {
	b := newBench(t)
	text := sh("echo one") + "[[check]]\nname='b'\ncmd='true'\n"
	wait(t, b.begin(t, "s", text))
	other := &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal}
	reads := map[string]func() error{
		"look":   func() error { _, err := other.Look("s"); return err },
		"status": func() error { _, err := other.Status("s"); return err },
		"export": func() error { _, err := other.Export("s"); return err },
		"text":   func() error { _, _, err := other.Text("s"); return err },
		"run": func() error {
			_, err := other.Run(t.Context(), Request{Session: "s", Name: "c", Text: []byte(text), Root: b.root})
			return err
		},
	}
	for name, read := range reads {
		if err := read(); err != nil {
			t.Fatalf("%s before: %v", name, err)
		}
	}
	dir := filepath.Join(b.Ledger.Dir("s"), "evidence")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		put := func(data []byte) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, data, 0o400))
		}
		for way, change := range map[string]func() error{
			"changed":  func() error { return put([]byte(strings.Replace(string(was), "bytes", "bytez", 1))) },
			"appended": func() error { return put(append(slices.Clip(was), '\n')) },
			"removed":  func() error { return os.Remove(path) },
			"a link":   func() error { return errors.Join(os.Rename(path, path+".was"), os.Symlink(path+".was", path)) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			for name, read := range reads {
				var fault *ledger.Fault
				if err := read(); !errors.As(err, &fault) || !strings.Contains(fault.Message, "evidence/"+f.Name()) || fault.Entry == 0 {
					t.Errorf("%s of %s %s: %v", name, f.Name(), way, err)
				}
			}
			_ = os.Remove(path)
			if err := os.WriteFile(path, was, 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
}
