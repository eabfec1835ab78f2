package watch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWalk_VisitsEveryEntryThatDecides(t *testing.T) {
	d := disk{t, realDir(t)}
	d.mkdir("a/b")
	d.create("a/b/file", "")
	d.symlink("b/file", "a/rel")
	d.symlink(d.path("a/rel"), "abs")
	d.symlink("a", "dir")
	d.symlink("dir/../a/b", "up")
	d.symlink("nowhere/at/all", "dangling")
	d.symlink("loop", "loop")
	tests := []struct {
		path, at string
		ok       bool
		hops     []string // root-relative directory, then name
	}{
		{"a/b/file", "a/b/file", true, []string{"a/b file"}},
		{"a//b/./file", "a/b/file", true, []string{"a/b file"}},
		{"a/b/../b/file", "a/b/file", true, []string{"a/b file"}},
		{"a/b/", "a/b", true, []string{"a b"}},
		{"a/rel", "a/b/file", true, []string{"a rel", "a/b file"}},
		{"abs", "a/b/file", true, []string{" abs", "a rel", "a/b file"}},
		{"dir/b/file", "a/b/file", true, []string{" dir", "a/b file"}},
		{"up/file", "a/b/file", true, []string{" up", " dir", "a/b file"}},
		{"a/none/file", "a/none", false, []string{"a none"}},
		{"a/b/file/below", "a/b/file", false, []string{"a/b file"}},
		{"dangling", "nowhere", false, []string{" dangling", " nowhere"}},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			var hops []string
			w := walker{nodes: map[string]node{}}
			at, _, ok := w.walk(d.root+"/"+tt.path, func(h hop) {
				hops = append(hops, strings.TrimPrefix(strings.TrimPrefix(h.dir, d.root), "/")+" "+h.name)
			})
			if at != d.path(tt.at) || ok != tt.ok {
				t.Errorf("walk = %q, %v, want %q, %v", at, ok, d.path(tt.at), tt.ok)
			}
			if diff := cmp.Diff(tt.hops, hops); diff != "" {
				t.Errorf("hops (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a loop ends", func(t *testing.T) {
		n := 0
		w := walker{nodes: map[string]node{}}
		if _, _, ok := w.walk(d.path("loop"), func(hop) { n++ }); ok || n != maxLinks+1 {
			t.Errorf("a loop leads somewhere (%v) or took %d hops", ok, n)
		}
	})
}

// realDir is a temporary directory without a symbolic link in its path.
func realDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTargets_JoinWhatIsSaidOfOnePath(t *testing.T) {
	md := func(name string) bool { return filepath.Ext(name) == ".md" }
	txt := func(name string) bool { return filepath.Ext(name) == ".txt" }
	known := map[string][32]byte{"/d/a.md": {1}, "/d/a.sh": {2}, "/d/x/a.md": {3}, "/f": {4}, "/e/a.md": {5}}
	all := targets([]Item{
		{Path: "/d", Dir: true, Match: md, Known: known},
		{Path: "/d", Dir: true, Match: txt},
		{Path: "/f", Known: known},
		{Path: "/g"},
		{Path: "/h", Dir: true},
	})
	if len(all) != 4 {
		t.Fatalf("%d targets, want 4", len(all))
	}
	if !all[0].counts("x.md") || !all[0].counts("x.txt") || all[0].counts("x.sh") {
		t.Error("the entries of a directory named twice are not those of both")
	}
	if !all[3].counts("anything") {
		t.Error("without Match some entries do not count")
	}
	for i, want := range []map[string][32]byte{{"/d/a.md": {1}}, {"/f": {4}}, nil} {
		if diff := cmp.Diff(want, all[i].known); diff != "" {
			t.Errorf("known of target %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestTargets_KeepAbsolutePathsAsTheyAre(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/a/link/../b": "/a/link/../b", "rel": filepath.Join(here, "rel")} {
		if got := targets([]Item{{Path: path}})[0].item.path; got != want {
			t.Errorf("%q is watched as %q, want %q", path, got, want)
		}
	}
}

func TestSurvey_HoldsDirectoriesAndTheirParents(t *testing.T) {
	d := disk{t, realDir(t)}
	d.mkdir("prompts")
	d.mkdir("far/away")
	d.create("prompts/a.md", "")
	d.create("far/away/b.md", "")
	d.symlink("../far/away/b.md", "prompts/b.md")
	all := targets([]Item{{Path: d.path("prompts"), Dir: true, Match: isMarkdown}, {Path: d.path("not/yet/there")}})
	set := survey(all)
	got := map[string]bool{}
	for dir, p := range set {
		got[dir] = p.vital
	}
	want := map[string]bool{
		filepath.Dir(d.root): false, d.root: true, d.path("prompts"): true, d.path("far"): false, d.path("far/away"): true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("watch set, true for vital (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{
		"prompts/new.md": true, "prompts/new.txt": false, "prompts": true, "not": true, "other": false,
		"far/away/b.md": true, "far/away/c.md": false, "far/away": true, "unheard/of": true,
	} {
		if got := set.decides(d.path(name)); got != want {
			t.Errorf("an event at %s decides: %v, want %v", name, got, want)
		}
	}
}
