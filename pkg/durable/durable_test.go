package durable

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// names lists a directory with what each entry's mode is.
func names(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = info.Mode().String()
	}
	return all
}

func TestWrite_IsPrivateWhateverWasThere(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "deep", "down", "x.json")
	for _, before := range []fs.FileMode{0, 0o644, 0o400} {
		if before != 0 {
			if err := os.Chmod(path, before); err != nil {
				t.Fatal(err)
			}
		}
		want := fmt.Appendf(nil, "after %o", before)
		if err := Write(path, want); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("it holds %q, %v", got, err)
		}
		if diff := cmp.Diff(map[string]string{"x.json": "-rw-------"}, names(t, filepath.Dir(path))); diff != "" {
			t.Errorf("after mode %o (-want +got):\n%s", before, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"down": "drwx------"}, names(t, filepath.Join(root, "deep"))); diff != "" {
		t.Error(diff)
	}
}

func TestWrite_PutsNothingElsewhere(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	// A temporary file that is tried in TMPDIR would fail there.
	if err := os.Chmod(tmp, 0o500); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(t.TempDir(), "x"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(tmp); err != nil || after.ModTime() != before.ModTime() {
		t.Errorf("something was in TMPDIR: %v", err)
	}
}

func TestWrite_IsSeenWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	old, young := bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<17)
	if err := Write(path, old); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for i := range 20 {
				if err := Write(path, [][]byte{old, young}[i%2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { writers.Wait(); close(over) }()
	for reads := 0; ; reads++ {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, old) && !bytes.Equal(got, young) {
			t.Fatalf("read %d is neither: %d bytes, %v", reads, len(got), err)
		}
		select {
		case <-over:
			if left := names(t, filepath.Dir(path)); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
			return
		default:
		}
	}
}

func TestWrite_ThatFailsLeavesWhatWasThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	if diff := cmp.Diff(map[string]string{"x": "drwx------"}, names(t, dir)); diff != "" {
		t.Errorf("left behind (-want +got):\n%s", diff)
	}
	if err := Write(filepath.Join(dir, "x", "in the way", "y", "z"), nil); err != nil {
		t.Error(err)
	}
	file := filepath.Join(dir, "file")
	if err := Write(file, nil); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(file, "x"), nil); err == nil {
		t.Error("a file was taken for a directory")
	}
}

func TestSetAside_KeepsTheFileToBeLookedAt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	for _, text := range []string{"torn", "foreign"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		aside, err := SetAside(path)
		if err != nil || aside != path+".bad" {
			t.Fatalf("%s, %v", aside, err)
		}
		if got, err := os.ReadFile(aside); err != nil || string(got) != text {
			t.Errorf("set aside: %q, %v", got, err)
		}
		if diff := cmp.Diff(map[string]string{"x.json.bad": "-rw-------"}, names(t, dir)); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := SetAside(path); err == nil {
		t.Error("what is not there was set aside")
	}
}
