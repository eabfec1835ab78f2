package adapter

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRootOnly_LooksAtAllDirectoriesAbove(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/": true, "/etc": true, "/etc/passwd": true, "/etc/none/such": true, "/etc/passwd/none": false,
		"/tmp": false, "/tmp/none": false, "etc": false, "": false,
	} {
		if got := RootOnly(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can make what is root's
	}
	home, err := os.MkdirTemp("/var/lib", "harness-test-") //nolint:usetesting // all directories above it are root's
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	file := filepath.Join(home, "a")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "b")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"in": file, "out": outside, "gone": "/none/such"} {
		if err := os.Symlink(target, filepath.Join(home, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"a": true, "in": true, "out": false, "gone": false, "new": true} {
		if got := RootOnly(filepath.Join(home, name)); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if err := os.Chmod(home, 0o775); err != nil {
		t.Fatal(err)
	}
	if RootOnly(file) {
		t.Error("a directory that its group can write to is root's alone")
	}
}
