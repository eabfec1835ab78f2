package prompt

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeFS is a tree of files by path. Links are resolved as a whole name only.
type fakeFS map[string]fakeFile

type fakeFile struct {
	mode fs.FileMode
	uid  int // of the owner, less that of the reader
	data string
	link string      // target, for a link
	err  error       // of every use
	open fs.FileMode // what the file has become when it is opened, if not 0
}

var _ FS = fakeFS{}

func (f fakeFS) find(op, name string) (fakeFile, error) {
	file, ok := f[name]
	if !ok {
		return file, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return file, file.err
}

func (f fakeFS) List(dir string) ([]string, error) {
	if _, err := f.find("open", dir); err != nil {
		return nil, err
	}
	var names []string
	for name := range f {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	return names, nil
}

func (f fakeFS) Lstat(name string) (Info, error) {
	file, err := f.find("lstat", name)
	return Info{Mode: file.mode, UID: 1000 + file.uid}, err
}

func (f fakeFS) Resolve(name string) (string, error) {
	file, err := f.find("lstat", name)
	if err == nil && file.link != "" {
		return f.Resolve(file.link)
	}
	return name, err
}

func (f fakeFS) ReadFile(root, name string, limit int) (Info, []byte, error) {
	if root != "" && !filepath.IsLocal(name) {
		return Info{}, nil, errors.New("leads out of the root")
	}
	file, err := f.find("open", path.Join(root, name))
	if file.open != 0 {
		file.mode = file.open
	}
	return Info{Mode: file.mode, UID: 1000 + file.uid}, []byte(file.data[:min(limit, len(file.data))]), err
}

func (f fakeFS) UID() int { return 1000 }

// hardTree is a directory /d with one file of each kind that matters, and what
// its links lead to.
func hardTree() fakeFS {
	const link = fs.ModeSymlink
	return fakeFS{
		"/d":              {mode: fs.ModeDir},
		"/d/plain.md":     {data: "plain"},
		"/d/other-uid.md": {data: "a file of another user, no link", uid: 1},
		"/d/notes.txt":    {data: "not looked at"},
		"/d/.hidden.md":   {data: "not looked at"},
		"/d/dir.md":       {mode: fs.ModeDir},
		"/d/pipe.md":      {mode: fs.ModeNamedPipe},
		"/d/socket.md":    {mode: fs.ModeSocket},
		"/d/swapped.md":   {open: fs.ModeNamedPipe},
		"/d/large.md":     {data: strings.Repeat("x", MaxFile+1)},
		"/d/full.md":      {data: strings.Repeat("x", MaxFile)},
		"/d/locked.md":    {err: &fs.PathError{Op: "open", Path: "/d/locked.md", Err: fs.ErrPermission}},
		"/d/vanished.md":  {err: &fs.PathError{Op: "lstat", Path: "/d/vanished.md", Err: fs.ErrNotExist}},

		"/d/in.md":                  {mode: link, link: "/d/..data/in.md"},
		"/d/..data/in.md":           {data: "inside"},
		"/d/out.md":                 {mode: link, link: "/home/dotfiles/out.md"},
		"/d/chain.md":               {mode: link, link: "/d/out.md"},
		"/d/beside.md":              {mode: link, link: "/dd/beside.md"},
		"/dd/beside.md":             {data: "beside"},
		"/d/markdown.md":            {mode: link, link: "/home/dotfiles/x.markdown"},
		"/d/secret.md":              {mode: link, link: "/home/.ssh/id_ed25519"},
		"/d/root.md":                {mode: link, link: "/etc/motd.md"},
		"/d/to-dir.md":              {mode: link, link: "/home/dir.md"},
		"/d/to-pipe.md":             {mode: link, link: "/home/pipe.md"},
		"/d/to-swapped.md":          {mode: link, link: "/home/swapped.md"},
		"/d/dangling.md":            {mode: link, link: "/home/nothing.md"},
		"/home/dotfiles/out.md":     {data: "outside"},
		"/home/dotfiles/x.markdown": {data: "outside too"},
		"/home/.ssh/id_ed25519":     {data: "secret"},
		"/etc/motd.md":              {data: "another user's", uid: -1000},
		"/home/dir.md":              {mode: fs.ModeDir},
		"/home/pipe.md":             {mode: fs.ModeNamedPipe},
		"/home/swapped.md":          {open: fs.ModeNamedPipe},
	}
}

// TestReadDir_FollowsLinksOnlySoFar holds PRM-4 and PRM-5 to one tree.
func TestReadDir_FollowsLinksOnlySoFar(t *testing.T) {
	tree := hardTree()
	both := map[string]string{
		"plain.md":     "plain",
		"other-uid.md": "a file of another user, no link",
		"full.md":      strings.Repeat("x", MaxFile),
		"in.md":        "inside",
		"dir.md":       "error: is a directory, not a regular file",
		"pipe.md":      "error: is a named pipe, not a regular file",
		"socket.md":    "error: is not a regular file",
		"swapped.md":   "error: is a named pipe, not a regular file",
		"large.md":     "error: larger than 1048576 bytes",
		"locked.md":    "error: open: permission denied",
		"secret.md":    `error: link to "/home/.ssh/id_ed25519", which is not a markdown file`,
		"dangling.md":  "error: link: lstat: file does not exist",
	}
	outside := func(target string) string {
		return `error: link to "` + target + `", which is outside the project's prompt directory`
	}
	for _, tt := range []struct {
		name  string
		scope Scope
		want  map[string]string
	}{
		{"global", Global, map[string]string{
			"out.md":        "outside",
			"chain.md":      "outside",
			"beside.md":     "beside",
			"markdown.md":   "outside too",
			"root.md":       `error: link to "/etc/motd.md", which is another user's file`,
			"to-dir.md":     "error: is a directory, not a regular file",
			"to-pipe.md":    "error: is a named pipe, not a regular file",
			"to-swapped.md": "error: is a named pipe, not a regular file",
		}},
		{"project", Project, map[string]string{
			"out.md":        outside("/home/dotfiles/out.md"),
			"chain.md":      outside("/home/dotfiles/out.md"),
			"beside.md":     outside("/dd/beside.md"),
			"markdown.md":   outside("/home/dotfiles/x.markdown"),
			"root.md":       outside("/etc/motd.md"),
			"to-dir.md":     outside("/home/dir.md"),
			"to-pipe.md":    outside("/home/pipe.md"),
			"to-swapped.md": outside("/home/swapped.md"),
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			maps.Copy(tt.want, both)
			if diff := cmp.Diff(tt.want, texts(ReadDir(tree, "/d", tt.scope))); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

// texts renders the entries of a directory by name.
func texts(d Dir) map[string]string {
	out := map[string]string{}
	for _, e := range d.Entries {
		out[e.Name] = string(e.Data)
		if e.Err != nil {
			out[e.Name] = "error: " + e.Err.Error()
		}
	}
	return out
}

func TestReadDir_SortsEntries(t *testing.T) {
	tree := fakeFS{"/d": {mode: fs.ModeDir}}
	want := Dir{Path: "/d"}
	for _, name := range []string{"a.md", "b.markdown", "c.md", "d.md", "e.md"} {
		tree["/d/"+name] = fakeFile{data: name}
		want.Entries = append(want.Entries, Entry{Name: name, Data: []byte(name)})
	}
	if diff := cmp.Diff(want, ReadDir(tree, "/d", Global)); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestReadDir_TellsAMissingDirectoryFromOneItCannotList(t *testing.T) {
	tree := fakeFS{"/locked": {err: &fs.PathError{Op: "open", Path: "/locked", Err: fs.ErrPermission}}}
	if d := ReadDir(tree, "/nowhere", Global); !d.Missing || d.Err != nil {
		t.Errorf("missing: %+v", d)
	}
	if d := ReadDir(tree, "/locked", Global); d.Missing || d.Err == nil || d.Err.Error() != "open: permission denied" {
		t.Errorf("locked: %+v", d)
	}
}
