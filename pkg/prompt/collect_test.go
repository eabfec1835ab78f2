package prompt

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMatches_LooksAtMarkdownOnly(t *testing.T) {
	for name, want := range map[string]bool{
		"a.md": true, "a.markdown": true, "a b.md": true, "a.b.md": true, "#a.md": true, "é.md": true, "-.md": true,
		"": false, "a": false, "a.txt": false, "a.MD": false, "md": false, ".md": false, ".a.md": false, ".markdown": false,
		"a.md~": false, "~": false, "#a.md#": false, ".#a.md": false, "#": false, "4913": false, "a.md.swp": false, "..data": false,
		"../a.md": false, "a/../../b.md": false, "/etc/a.md": false,
	} {
		if got := Matches(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// dirOf makes a directory of name and text pairs.
func dirOf(path string, files ...string) Dir {
	d := Dir{Path: path}
	for pair := range slices.Chunk(files, 2) {
		d.Entries = append(d.Entries, Entry{Name: pair[0], Data: []byte(pair[1])})
	}
	return d
}

// served renders prompts as `name=file:body`.
func served(prompts []*Prompt) []string {
	var out []string
	for _, p := range prompts {
		out = append(out, p.Name+"="+p.File+":"+string(p.Body))
	}
	return out
}

// said renders warnings.
func said(warnings []Fault) []string {
	var out []string
	for _, w := range warnings {
		out = append(out, w.String())
	}
	return out
}

const broken = "---\nnever closed\n"

func TestCollect_ServesWhatWinsAndSaysWhatDoesNot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		dirs   []Dir
		served []string
		said   []string
	}{
		{name: "no directories"},
		{
			name:   "sorted by name, whatever the order",
			dirs:   []Dir{dirOf("/b", "z.md", "1", "a.md", "2"), dirOf("/a", "m.md", "3")},
			served: []string{"a=/b/a.md:2", "m=/a/m.md:3", "z=/b/z.md:1"},
		},
		{
			name:   "the earlier directory wins",
			dirs:   []Dir{dirOf("/b", "x.md", "1"), dirOf("/a", "x.md", "2")},
			served: []string{"x=/b/x.md:1"},
			said:   []string{"/a/x.md:1: skipped: /b/x.md has the same name and comes first"},
		},
		{
			name:   "two extensions in one directory",
			dirs:   []Dir{dirOf("/a", "x.md", "1", "x.markdown", "2")},
			served: []string{"x=/a/x.markdown:2"},
			said:   []string{"/a/x.md:1: skipped: /a/x.markdown has the same name and comes first"},
		},
		{
			name:   "a broken file takes no name from a later one",
			dirs:   []Dir{dirOf("/a", "x.md", broken), dirOf("/b", "x.md", "2")},
			served: []string{"x=/b/x.md:2"},
			said:   []string{"/a/x.md:1: front matter is opened by `---` and never closed"},
		},
		{
			name:   "two underscores",
			dirs:   []Dir{dirOf("/a", "git__log.md", "1", "git_log.md", "2", "__.md", "3")},
			served: []string{"git_log=/a/git_log.md:2"},
			said: []string{
				`/a/__.md:1: skipped: a prompt's name cannot hold "__", which separates upstreams from their own names`,
				`/a/git__log.md:1: skipped: a prompt's name cannot hold "__", which separates upstreams from their own names`,
			},
		},
		{
			name:   "entries that are not looked at",
			dirs:   []Dir{dirOf("/a", ".x.md", "1", "x.md~", "2", "#x.md#", "3", "x.txt", "4", "../x.md", "5", "x.md", "6")},
			served: []string{"x=/a/x.md:6"},
		},
		{
			name:   "unreadable entries and directories yet to appear cost themselves alone",
			dirs:   []Dir{{Path: "/later", Missing: true}, {Path: "/a", Entries: []Entry{{Name: "x.md", Err: errFileSize}, {Name: "y.md", Data: []byte("1")}}}},
			served: []string{"y=/a/y.md:1"},
			said:   []string{"/a/x.md:1: larger than 1048576 bytes"},
		},
		{
			name:   "a directory listed twice",
			dirs:   []Dir{dirOf("/a", "x.md", "1", "y.md", ""), dirOf("/a/", "x.md", "1", "y.md", "")},
			served: []string{"x=/a/x.md:1"},
			said:   []string{"/a/y.md:1: is empty"},
		},
		{
			name:   "warnings of a file that is served",
			dirs:   []Dir{dirOf("/a", "x.md", "{{who}}")},
			served: []string{"x=/a/x.md:{{who}}"},
			said:   []string{`/a/x.md:1: placeholder "who" is not a declared argument and stays as written`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prompts, warnings, kept := Collect(tt.dirs, nil)
			if diff := cmp.Diff(tt.served, served(prompts)); diff != "" {
				t.Errorf("served (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.said, said(warnings)); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			for _, p := range prompts {
				if kept[p.File] != p {
					t.Errorf("%s is not kept", p.File)
				}
			}
		})
	}
}

// TestCollect_ValidToInvalidToValid follows one directory through its edits, as
// the daemon does.
func TestCollect_ValidToInvalidToValid(t *testing.T) {
	const stays = "; the last good version of the file stays"
	var kept map[string]*Prompt
	for _, step := range []struct {
		name   string
		dir    Dir
		served []string
		said   []string
	}{
		{name: "broken from the start", dir: dirOf("/a", "x.md", ""), said: []string{"/a/x.md:1: is empty"}},
		{name: "good", dir: dirOf("/a", "x.md", "one"), served: []string{"x=/a/x.md:one"}},
		{name: "emptied", dir: dirOf("/a", "x.md", ""), served: []string{"x=/a/x.md:one"}, said: []string{"/a/x.md:1: is empty" + stays}},
		{
			name:   "a named pipe in its place",
			dir:    Dir{Path: "/a", Entries: []Entry{{Name: "x.md", Err: errors.New("is a named pipe")}}},
			served: []string{"x=/a/x.md:one"}, said: []string{"/a/x.md:1: is a named pipe" + stays},
		},
		{
			name:   "a directory that cannot be listed",
			dir:    Dir{Path: "/a", Err: errors.New("open: permission denied")},
			served: []string{"x=/a/x.md:one"}, said: []string{"/a: open: permission denied"},
		},
		{name: "good again", dir: dirOf("/a", "x.md", "two"), served: []string{"x=/a/x.md:two"}},
		{name: "removed", dir: dirOf("/a")},
		{name: "back and broken", dir: dirOf("/a", "x.md", broken), said: []string{"/a/x.md:1: front matter is opened by `---` and never closed"}},
		{name: "good once more", dir: dirOf("/a", "x.md", "three"), served: []string{"x=/a/x.md:three"}},
		{name: "the directory is gone", dir: Dir{Path: "/a", Missing: true}, said: []string{"/a: no such directory any more"}},
		{name: "and stays so", dir: Dir{Path: "/a", Missing: true}},
		{name: "and cannot be listed", dir: Dir{Path: "/a", Err: errors.New("is a file")}, said: []string{"/a: is a file"}},
	} {
		var prompts []*Prompt
		var warnings []Fault
		prompts, warnings, kept = Collect([]Dir{step.dir}, kept)
		if diff := cmp.Diff(step.served, served(prompts)); diff != "" {
			t.Errorf("%s: served (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.said, said(warnings)); diff != "" {
			t.Errorf("%s: said (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestCollect_ALastGoodVersionKeepsItsName(t *testing.T) {
	dirs := []Dir{dirOf("/a", "x.md", "1"), dirOf("/b", "x.md", "2")}
	_, _, kept := Collect(dirs, nil)
	dirs[0] = dirOf("/a", "x.md", broken)
	prompts, _, _ := Collect(dirs, kept)
	if diff := cmp.Diff([]string{"x=/a/x.md:1"}, served(prompts)); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
}

// TestCollect_C59_NamesAreThoseOfTheFilesAndNoOthers: a name is looked up among
// prompts, never opened.
func TestCollect_C59_NamesAreThoseOfTheFilesAndNoOthers(t *testing.T) {
	prompts, _, _ := Collect([]Dir{dirOf("/a/prompts", "p1.md", "x", "../secret.md", "y", "sub/p2.md", "z")}, nil)
	if diff := cmp.Diff([]string{"p1=/a/prompts/p1.md:x"}, served(prompts)); diff != "" {
		t.Errorf("served (-want +got):\n%s", diff)
	}
	for _, name := range []string{"../secret", "/etc/hostname", "..%2fsecret", "a\x00b", "./p1", "P1", "p1.md", "sub/p2", strings.Repeat("p1", 4<<10)} {
		if slices.ContainsFunc(prompts, func(p *Prompt) bool { return p.Name == name }) {
			t.Errorf("%q is served", name)
		}
	}
}

// TestCollect_Properties: whatever the directories hold, names are unique and
// sorted, what is served is kept, previous is left alone, and a second pass over
// the same input changes nothing.
func TestCollect_Properties(t *testing.T) {
	name := rapid.SampledFrom([]string{"a.md", "b.md", "a.markdown", "c__d.md", ".e.md", "f.md"})
	text := rapid.SampledFrom([]string{"", "x", "y {{z}}", broken, "---\ntitle: t\n---\nx"})
	dir := rapid.Custom(func(t *rapid.T) Dir {
		d := Dir{Path: rapid.SampledFrom([]string{"/1", "/2", "/3"}).Draw(t, "path")}
		for _, n := range rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "names") {
			d.Entries = append(d.Entries, Entry{Name: n, Data: []byte(text.Draw(t, "text"))})
		}
		return d
	})
	rapid.Check(t, func(t *rapid.T) {
		_, _, previous := Collect(rapid.SliceOfN(dir, 0, 3).Draw(t, "before"), nil)
		size := len(previous)
		dirs := rapid.SliceOfN(dir, 0, 3).Draw(t, "after")
		prompts, warnings, kept := Collect(dirs, previous)
		if len(previous) != size {
			t.Error("previous was changed")
		}
		for i, p := range prompts {
			if i > 0 && prompts[i-1].Name >= p.Name {
				t.Errorf("%s before %s", prompts[i-1].Name, p.Name)
			}
			if kept[p.File] != p {
				t.Errorf("%s is served and not kept", p.File)
			}
		}
		again, warningsAgain, keptAgain := Collect(dirs, kept)
		if diff := cmp.Diff(prompts, again); diff != "" {
			t.Errorf("prompts of a second pass:\n%s", diff)
		}
		if diff := cmp.Diff(kept, keptAgain); diff != "" {
			t.Errorf("kept by a second pass:\n%s", diff)
		}
		if diff := cmp.Diff(warnings, warningsAgain); diff != "" {
			t.Errorf("warnings of a second pass:\n%s", diff)
		}
	})
}
