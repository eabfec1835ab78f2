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

// readers is everything that reads session s.
func readers(t *testing.T, b *bench, text string) map[string]func() error {
	t.Helper()
	other := &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal}
	return map[string]func() error{
		"look":   func() error { _, err := other.Look("s"); return err },
		"status": func() error { _, err := other.Status("s"); return err },
		"export": func() error { _, err := other.Export("s"); return err },
		"text":   func() error { _, _, err := other.Text("s"); return err },
		"run": func() error {
			_, err := other.Run(t.Context(), Request{Session: "s", Name: "c", Text: []byte(text), Root: b.root})
			return err
		},
	}
}

// TestEvidence_ThatWasTamperedWithIsNoticed changes each file of a session in
// each way: nothing that reads the session answers any more.
func TestEvidence_ThatWasTamperedWithIsNoticed(t *testing.T) {
	b := newBench(t)
	text := sh("echo one") + "[[check]]\nname='b'\ncmd='true'\n"
	wait(t, b.begin(t, "s", text))
	reads := readers(t, b, text)
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
		beside := filepath.Join(t.TempDir(), "beside")
		put := func(data []byte) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, data, 0o400))
		}
		for way, change := range map[string]func() error{
			"changed":  func() error { return put([]byte(strings.Replace(string(was), "bytes", "bytez", 1))) },
			"appended": func() error { return put(append(slices.Clip(was), '\n')) },
			"removed":  func() error { return os.Remove(path) },
			"a link":   func() error { return errors.Join(os.Rename(path, beside), os.Symlink(beside, path)) },
			"writable": func() error { return os.Chmod(path, 0o666) },
			"linked":   func() error { return os.Link(path, beside) },
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
			_, _ = os.Remove(path), os.Remove(beside)
			if err := os.WriteFile(path, was, 0o400); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEvidence_TheDirectoryOfASessionHasNothingElse changes what is around the
// evidence of steps, of a session that is done: it reads as before once that is
// undone.
func TestEvidence_TheDirectoryOfASessionHasNothingElse(t *testing.T) {
	b := newBench(t)
	text := sh("echo one")
	wait(t, b.begin(t, "s", text))
	dir := b.Ledger.Dir("s")
	beside := filepath.Join(t.TempDir(), "beside")
	for _, name := range []string{"entries.jsonl", "contract.toml", "evidence/0002.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o400 {
			t.Errorf("%s is not sealed: %v, %v", name, info.Mode(), err)
		}
	}
	swap := func(path string) error { return errors.Join(os.Rename(path, beside), os.Symlink(beside, path)) }
	swapBack := func(path string) error { return errors.Join(os.Remove(path), os.Rename(beside, path)) }
	type change struct{ do, undo func(path string) error }
	changes := map[string]change{
		"open to others": {func(path string) error { return os.Chmod(path, 0o666) }, func(path string) error { return os.Chmod(path, 0o400) }},
		"hard link":      {func(path string) error { return os.Link(path, beside) }, func(string) error { return os.Remove(beside) }},
		"link":           {swap, swapBack},
		"gone":           {func(path string) error { return os.Rename(path, beside) }, func(path string) error { return os.Rename(beside, path) }},
		"appended": {func(path string) error { return appendTo(path, "x") }, func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, data[:len(data)-1], 0o400))
		}},
	}
	add := change{func(path string) error { return os.WriteFile(path, nil, 0o400) }, os.Remove}
	for _, tc := range []struct {
		file string
		ways map[string]change
	}{
		{"entries.jsonl", changes},
		{"contract.toml", changes},
		{"", map[string]change{"link": {swap, swapBack}}},
		{"evidence", map[string]change{"link": {swap, swapBack}}},
		{"README", map[string]change{"added": add}},
		{"evidence/0001.json", map[string]change{"added": add}},
		{"evidence/x", map[string]change{"added": add}},
	} {
		for way, c := range tc.ways {
			path := filepath.Join(dir, tc.file)
			if err := c.do(path); err != nil {
				t.Fatal(err)
			}
			for what, read := range readers(t, b, text) {
				var fault *ledger.Fault
				if err := read(); !errors.As(err, &fault) || !strings.Contains(err.Error(), tc.file) || !strings.Contains(err.Error(), "session s") {
					t.Errorf("%s %s, %s: %v", tc.file, way, what, err)
				}
			}
			if err := c.undo(path); err != nil {
				t.Fatal(err)
			}
			for what, read := range readers(t, b, text) {
				if err := read(); err != nil {
					t.Fatalf("%s not %s any more, %s: %v", tc.file, way, what, err)
				}
			}
		}
	}
}

func appendTo(path, text string) error {
	data, err := os.ReadFile(path)
	return errors.Join(err, os.Remove(path), os.WriteFile(path, append(data, text...), 0o400))
}

// A session of before its chain was sealed is read as it is.
func TestEvidence_OfBeforeChainsWereSealed(t *testing.T) {
	b := newBench(t)
	text := sh("true")
	wait(t, b.begin(t, "s", text))
	for _, name := range []string{"entries.jsonl", "contract.toml"} {
		if err := os.Chmod(filepath.Join(b.Ledger.Dir("s"), name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for what, read := range readers(t, b, text) {
		if err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
