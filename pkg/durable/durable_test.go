package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
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

// A user's file is no state file: it has the mode that any file of theirs has, and
// stays what and where it is.
func TestWriteFile_IsAnyFileOfTheUsers(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	path, link := filepath.Join(dir, "x.json"), filepath.Join(dir, "link")
	if err := os.Symlink("x.json", link); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		file, text, mode string
	}{
		{path, "new", "-rw-r-----"},
		{path, "kept", "-rw-rw-rw-"},
		{link, "linked", "-rw-rw-rw-"},
	} {
		if step.mode == "-rw-rw-rw-" {
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteFile(step.file, []byte(step.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != step.text {
			t.Errorf("it holds %q, %v", got, err)
		}
		if diff := cmp.Diff(map[string]string{"x.json": step.mode, "link": "Lrwxrwxrwx"}, names(t, dir)); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.text, diff)
		}
	}
}

func TestWriteFile_WritesToWhatIsNoFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := errors.Join(WriteFile(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), []byte("text"), 0o666), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWriteFile_NamesTheFileAlone(t *testing.T) {
	for _, path := range []string{"/proc/x.json", filepath.Join(t.TempDir(), "none", "x.json")} {
		want := "write " + path + ": no such file or directory"
		if err := WriteFile(path, nil, 0o666); err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestRead_TakesRegularFilesAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]error{0: nil, 4: nil, 5: nil, 3: ErrTooLarge} {
		if got, err := Read(path, limit); !errors.Is(err, want) || err == nil && string(got) != "text" {
			t.Errorf("limit %d: %q, %v", limit, got, err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir} {
		if _, err := Read(path, 0); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}
