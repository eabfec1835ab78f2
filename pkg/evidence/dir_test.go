package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// openTemp opens a new directory, both ways that there are.
func openTemp(t *testing.T, each func(t *testing.T, dir *Dir, path string)) {
	t.Helper()
	for _, walk := range []bool{false, true} {
		t.Run(fmt.Sprintf("walk=%v", walk), func(t *testing.T) {
			t.Parallel()
			path, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			dir, err := OpenDir(path)
			if err != nil {
				t.Fatal(err)
			}
			dir.walk = walk
			t.Cleanup(func() { dir.Close() })
			each(t, dir, path)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDir_FollowsNoLinkInAnyComponent(t *testing.T) {
	t.Parallel()
	openTemp(t, func(t *testing.T, dir *Dir, path string) {
		must(t, os.MkdirAll(filepath.Join(path, "a/b/c"), 0o700))
		must(t, os.WriteFile(filepath.Join(path, "a/b/c/f"), []byte("text"), 0o600))
		if data, _, err := dir.Read("a/b/c/f", 10); err != nil || string(data) != "text" {
			t.Fatal(string(data), err)
		}
		links := map[string]string{"la": "a", "a/lb": "b", "a/b/lc": "c", "a/b/c/lf": "f", "abs": path + "/a", "a/b/up": "../../a"}
		for name, to := range links {
			must(t, os.Symlink(to, filepath.Join(path, name)))
		}
		for _, bad := range []string{"la/b/c/f", "a/lb/c/f", "a/b/lc/f", "a/b/c/lf", "abs/b/c/f", "a/b/up/b/c/f"} {
			if _, _, err := dir.Read(bad, 10); !errors.Is(err, ErrLink) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		for _, bad := range []string{"../x", "/etc/passwd", "a/../a/b/c/f", "a//b", "", "a/./b", "a/b/c/f\x00"} {
			if _, _, err := dir.Read(bad, 10); err == nil {
				t.Errorf("%q was read", bad)
			}
		}
		for _, bad := range []string{"a/b/c/f/x", "none/x"} {
			if _, _, err := dir.Read(bad, 10); err == nil || errors.Is(err, ErrLink) {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}

func TestDir_LooksAtAnythingButALink(t *testing.T) {
	t.Parallel()
	openTemp(t, func(t *testing.T, dir *Dir, path string) {
		must(t, os.MkdirAll(filepath.Join(path, "a/b"), 0o700))
		must(t, os.WriteFile(filepath.Join(path, "a/secret"), nil, 0o000))
		must(t, syscall.Mkfifo(filepath.Join(path, "a/fifo"), 0o600))
		for name, to := range map[string]string{"la": "a", "a/lb": "b", "a/lf": "secret", "a/void": "none"} {
			must(t, os.Symlink(to, filepath.Join(path, name)))
		}
		for _, rel := range []string{".", "a", "a/b", "a/secret", "a/fifo"} {
			info, err := dir.Look(rel)
			if err != nil || info.Name != filepath.Base(rel) {
				t.Errorf("%s: %+v, %v", rel, info, err)
			}
		}
		for _, rel := range []string{"la", "a/lb", "a/lf", "a/void", "la/b", "la/none", "a/lb/none", "a/../a"} {
			if _, err := dir.Look(rel); !errors.Is(err, ErrLink) {
				t.Errorf("%s: %v", rel, err)
			}
			if f, err := dir.OpenDirectory(rel); err == nil {
				f.Close()
				t.Errorf("%s was opened as a directory", rel)
			}
		}
		if _, err := dir.Look("a/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := dir.Look("a/secret/x"); !errors.Is(err, syscall.ENOTDIR) {
			t.Error(err)
		}
	})
}

func TestDir_ReadsRegularFilesAlone(t *testing.T) {
	t.Parallel()
	openTemp(t, func(t *testing.T, dir *Dir, path string) {
		must(t, syscall.Mkfifo(filepath.Join(path, "fifo"), 0o600))
		must(t, os.Mkdir(filepath.Join(path, "dir"), 0o700))
		must(t, os.WriteFile(filepath.Join(path, "big"), make([]byte, 11), 0o600))
		for _, name := range []string{"fifo", "dir"} {
			if _, _, err := dir.Read(name, 10); !errors.Is(err, ErrIrregular) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := dir.Read("big", 10); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		dev, err := OpenDir("/dev")
		must(t, err)
		defer dev.Close()
		dev.walk = dir.walk
		if _, _, err := dev.Read("null", 10); !errors.Is(err, ErrIrregular) {
			t.Errorf("a device: %v", err)
		}
	})
}

// ledgerIn writes a chain of n records to the directory log below a directory.
func ledgerIn(t interface{ Fatal(...any) }, dir *Dir, n int) {
	made, err := dir.Make("log")
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	l := NewLedger(made, "c")
	for i := range n {
		if _, err := l.Append("step", epoch, i); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is done to a file of a chain is found, and the file named.
func TestLedger_TamperingIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	number := 0
	rapid.Check(t, func(t *rapid.T) {
		number++
		path := filepath.Join(top, fmt.Sprint(number))
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		dir, err := OpenDir(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		ledgerIn(t, dir, 3)
		name := EntryName(rapid.IntRange(1, 3).Draw(t, "n"), "step")
		file := filepath.Join(path, "log", name)
		want := []string{"log/" + name}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		replace := func(data []byte, mode os.FileMode) error {
			return errors.Join(os.Remove(file), os.WriteFile(file, data, mode), os.Chmod(file, mode))
		}
		other := filepath.Join(path, "other")
		switch rapid.SampledFrom([]string{"mode", "write", "link", "hard", "fifo", "dir", "rename", "extra", "gone"}).Draw(t, "what") {
		case "mode":
			err = os.Chmod(file, rapid.SampledFrom([]os.FileMode{0o600, 0o440, 0o404, 0o000, 0o500, os.ModeSetuid | 0o400}).Draw(t, "mode"))
		case "write":
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] ^= 1
			err = replace(data, 0o400)
		case "link":
			err = errors.Join(os.Rename(file, other), os.Symlink(other, file))
		case "hard":
			err = os.Link(file, other)
		case "fifo":
			err = errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o400))
		case "dir":
			err = errors.Join(os.Remove(file), os.Mkdir(file, 0o400))
		case "rename":
			as := rapid.SampledFrom([]string{"0009-step.json", "0001-other.json", "x", ".hidden"}).Draw(t, "as")
			err = os.Rename(file, filepath.Join(path, "log", as))
			want = append(want, "log/"+as, "log/0001-*", "log/0002-*", "log/0003-*")
		case "extra":
			as := rapid.SampledFrom([]string{"0002-other.json", "README", "0004-step.json~", "0005-step.json"}).Draw(t, "as")
			err = os.WriteFile(filepath.Join(path, "log", as), data, 0o400)
			want = []string{"log/" + as, "log/0002-step.json", "log/0004-*"}
		case "gone":
			name = min(name, "0002-step.json") // the last one is what a seal is for
			err = os.Remove(filepath.Join(path, "log", name))
			want = []string{"log/" + lostName(map[string]int{"0001-step.json": 1, "0002-step.json": 2}[name])}
		}
		if err != nil {
			t.Fatal(err)
		}
		records, _, err := ReadChain(dir, "log", "c")
		var f *Fault
		if !errors.As(err, &f) || records != nil || !slices.Contains(want, f.Entry) {
			t.Fatalf("%d records, %v, want a fault of %v", len(records), err, want)
		}
	})
}

// A crash leaves a record whole or torn: a torn one is set aside and named, and
// the chain goes on, however often that happens.
func TestLedger_TornTailIsSetAsideAndNamed(t *testing.T) {
	t.Parallel()
	openTemp(t, func(t *testing.T, dir *Dir, path string) {
		ledgerIn(t, dir, 2)
		var asides []string
		for round := range 3 {
			l, records, torn, err := OpenLedger(dir, "log", "c", epoch)
			must(t, err)
			if (torn != nil) != (round > 0) || len(records) != 2+round {
				t.Fatalf("round %d: %d records, %+v", round, len(records), torn)
			}
			if torn != nil {
				asides = append(asides, torn.Aside)
				data, err := os.ReadFile(filepath.Join(path, torn.Aside))
				if err != nil || len(data) != torn.Bytes || Digest(data) != torn.SHA256 || records[len(records)-1].Type != "torn" {
					t.Errorf("%+v: %q, %v, %+v", torn, data, err, records[len(records)-1])
				}
			}
			must(t, l.Close())
			// What a kill leaves between the making of a file and its content.
			must(t, os.WriteFile(filepath.Join(path, "log", EntryName(3+round, "step")), []byte("{\"schema\":"[:round*3]), 0o400))
			if _, _, err := ReadChain(dir, "log", "c"); err == nil || !strings.Contains(err.Error(), "torn") {
				t.Errorf("a reader: %v", err)
			}
		}
		if len(asides) != 2 {
			t.Error(asides)
		}
	})
}

func TestLedger_IsNotRepairedWhereItIsBrokenOtherwise(t *testing.T) {
	t.Parallel()
	openTemp(t, func(t *testing.T, dir *Dir, path string) {
		ledgerIn(t, dir, 3)
		must(t, os.Remove(filepath.Join(path, "log/0001-step.json")))
		if _, _, _, err := OpenLedger(dir, "log", "c", epoch); err == nil || !strings.Contains(err.Error(), "log/0001-*") {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(path, "torn")); err == nil {
			t.Error("something was set aside")
		}
	})
}

func TestDir_RemovesWithoutFollowing(t *testing.T) {
	t.Parallel()
	openTemp(t, func(t *testing.T, dir *Dir, path string) {
		must(t, os.MkdirAll(filepath.Join(path, "keep"), 0o700))
		must(t, os.WriteFile(filepath.Join(path, "keep/f"), nil, 0o400))
		ledgerIn(t, dir, 2)
		must(t, os.Symlink(filepath.Join(path, "keep"), filepath.Join(path, "log/link")))
		must(t, dir.Remove("log"))
		if _, err := os.Lstat(filepath.Join(path, "log")); err == nil {
			t.Error("it is there")
		}
		if _, err := os.Stat(filepath.Join(path, "keep/f")); err != nil {
			t.Error(err)
		}
		if err := dir.Remove("../x"); err == nil {
			t.Error("it removed what is outside")
		}
	})
}
