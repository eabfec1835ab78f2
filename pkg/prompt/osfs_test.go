package prompt

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree lays out files in a new directory and returns its path, free of links.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// link makes links of name and target pairs in dir.
func link(t *testing.T, dir string, links map[string]string) {
	t.Helper()
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOSFS_ReadsLinksAsToolsLayThem: stow links to the dotfiles, Kubernetes
// links through ..data, and a project may link within its directory.
func TestOSFS_ReadsLinksAsToolsLayThem(t *testing.T) {
	root := tree(t, map[string]string{
		"prompts/plain.md":       "plain",
		"prompts/..v1/config.md": "config",
		"dotfiles/stowed.md":     "stowed",
	})
	dir := filepath.Join(root, "prompts")
	link(t, dir, map[string]string{
		"..data":      "..v1",
		"config.md":   "..data/config.md",
		"absolute.md": filepath.Join(dir, "plain.md"),
		"stowed.md":   "../dotfiles/stowed.md",
		"loop.md":     "loop.md",
	})
	link(t, root, map[string]string{"folded": "prompts"})
	outside := `error: link to "` + filepath.Join(root, "dotfiles/stowed.md") + `", which is outside the project's prompt directory`
	for _, tt := range []struct {
		dir    string
		scope  Scope
		stowed string
	}{
		{"prompts", Global, "stowed"},
		{"folded", Global, "stowed"},
		{"prompts", Project, outside},
		{"folded", Project, outside},
	} {
		got := texts(ReadDir(OSFS{}, filepath.Join(root, tt.dir), tt.scope))
		if got["loop.md"] == "" {
			t.Error("a link to itself was read")
		}
		delete(got, "loop.md")
		want := map[string]string{"plain.md": "plain", "config.md": "config", "absolute.md": "plain", "stowed.md": tt.stowed}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, scope %d (-want +got):\n%s", tt.dir, tt.scope, diff)
		}
	}
}

// TestOSFS_WaitsForNoPipe would hang if it did.
// A directory of a project is in the project's own, whatever links lead where.
func TestReadProjectDir_StaysInTheProject(t *testing.T) {
	root := tree(t, map[string]string{
		"home/secret.md":        "secret",
		"project/in/a.md":       "a",
		"project/at/root.md":    "root",
		"project-beside/out.md": "out",
	})
	link(t, filepath.Join(root, "project"), map[string]string{
		"inward": "in", "home": "../home", "beside": "../project-beside", "whole": "/", "chain": "home",
	})
	link(t, root, map[string]string{"alias": "project"})
	for dir, want := range map[string]Dir{
		"in":      {Entries: []Entry{{Name: "a.md", Data: []byte("a")}}},
		"inward":  {Entries: []Entry{{Name: "a.md", Data: []byte("a")}}},
		"nothing": {Missing: true},
		"home":    {Outside: true},
		"beside":  {Outside: true},
		"whole":   {Outside: true},
		"chain":   {Outside: true},
	} {
		for _, project := range []string{"project", "alias"} {
			at := filepath.Join(root, project)
			want.Path = filepath.Join(at, dir)
			got := ReadProjectDir(OSFS{}, want.Path, at)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", dir, project, diff)
			}
			if _, warnings, _ := Collect([]Dir{got}, nil); (len(warnings) == 1) != want.Outside {
				t.Errorf("%s of %s: %v", dir, project, warnings)
			}
		}
	}
}

func TestOSFS_WaitsForNoPipe(t *testing.T) {
	root := tree(t, map[string]string{"d/a.md": "a"})
	dir := filepath.Join(root, "d")
	pipe := filepath.Join(dir, "pipe.md")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link(t, dir, map[string]string{"link.md": "pipe.md"})
	want := map[string]string{
		"a.md":    "a",
		"pipe.md": "error: is a named pipe, not a regular file",
		"link.md": "error: is a named pipe, not a regular file",
	}
	if diff := cmp.Diff(want, texts(ReadDir(OSFS{}, dir, Global))); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for _, root := range []string{"", dir} {
		name := pipe
		if root != "" {
			name = "pipe.md"
		}
		info, data, err := OSFS{}.ReadFile(root, name, 1)
		if err != nil || data != nil || regular(info) == nil {
			t.Errorf("in root %q: %v, %q, %v", root, info, data, err)
		}
	}
	if d := ReadDir(OSFS{}, pipe, Global); d.Err == nil {
		t.Errorf("a pipe as a directory: %+v", d)
	}
}

func TestOSFS_ReadFileStaysInItsRootAndLimit(t *testing.T) {
	root := tree(t, map[string]string{"d/a.md": "abcdef", "secret.md": "secret"})
	dir := filepath.Join(root, "d")
	link(t, dir, map[string]string{"out.md": "../secret.md", "up": "..", "in.md": "a.md"})
	for _, name := range []string{"out.md", "up/secret.md", "../secret.md", filepath.Join(root, "secret.md")} {
		if _, data, err := (OSFS{}).ReadFile(dir, name, 9); err == nil {
			t.Errorf("%q read as %q", name, data)
		}
	}
	if _, data, err := (OSFS{}).ReadFile("", filepath.Join(dir, "in.md"), 9); err == nil {
		t.Errorf("a link at the end read as %q", data)
	}
	for limit, want := range map[int]string{3: "abc", 9: "abcdef"} {
		info, data, err := OSFS{}.ReadFile(dir, "a.md", limit)
		if err != nil || string(data) != want || info.UID != (OSFS{}).UID() {
			t.Errorf("limit %d: %v, %q, %v", limit, info, data, err)
		}
	}
}

func TestOSFS_BoundsWhatItReads(t *testing.T) {
	large := bytes.Repeat([]byte("x"), MaxFile+1)
	root := tree(t, map[string]string{"large.md": string(large), "full.md": string(large[1:])})
	want := map[string]string{"large.md": "error: larger than 1048576 bytes", "full.md": string(large[1:])}
	if diff := cmp.Diff(want, texts(ReadDir(OSFS{}, root, Global))); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestOSFS_TellsAMissingDirectory(t *testing.T) {
	root := tree(t, map[string]string{"file": "x"})
	link(t, root, map[string]string{"dangling": "nowhere"})
	for name, missing := range map[string]bool{"nowhere": true, "dangling": true, "file": false} {
		if d := ReadDir(OSFS{}, filepath.Join(root, name), Global); d.Missing != missing || (d.Err == nil) != missing {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
