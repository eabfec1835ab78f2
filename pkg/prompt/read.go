package prompt

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Scope says how far a link in a prompt directory may lead (PRM-5).
type Scope int

const (
	// Global is a directory of the user's own config: a link may lead to a
	// regular markdown file of the same user anywhere.
	Global Scope = iota
	// Project is a directory of a project's config: a link may not lead out of
	// it, for a cloned repository must not publish the user's files.
	Project
)

// Info is what ReadDir asks of a file.
type Info struct {
	Mode fs.FileMode
	UID  int // of the owner
}

// FS is the file system as ReadDir needs it. [OSFS] is the real one.
type FS interface {
	// List returns the names in a directory, in any order.
	List(dir string) ([]string, error)
	// Lstat describes name itself, link or not.
	Lstat(name string) (Info, error)
	// Resolve returns the path that name stands for, free of links.
	Resolve(name string) (string, error)
	// ReadFile opens name and returns what the open file is and at most limit
	// bytes of it; of one that is not regular, nothing. It never waits for a
	// writer, and fails if the last component is a link, or, where root is not
	// "", if name, which is then relative to root, leads out of it.
	ReadFile(root, name string, limit int) (Info, []byte, error)
	// UID is the user whose files links may lead to.
	UID() int
}

// ReadProjectDir is ReadDir of a directory that a project names, whose own
// directory is root. One that a link leads out of it is not looked at (PRM-5).
func ReadProjectDir(fsys FS, dir, root string) Dir {
	at, err := fsys.Resolve(dir)
	if err != nil {
		return ReadDir(fsys, dir, Project) // which says why
	}
	root, err = fsys.Resolve(root)
	if err != nil || at != root && !strings.HasPrefix(at, strings.TrimSuffix(root, "/")+"/") {
		return Dir{Path: dir, Outside: true}
	}
	return ReadDir(fsys, dir, Project)
}

// ReadDir reads the prompt files of a directory. It fails for no file: what is
// wrong is said in each Entry and in Dir. The entries are sorted by name; a
// file that vanished while it was read is not among them.
func ReadDir(fsys FS, dir string, scope Scope) Dir {
	d := Dir{Path: dir}
	names, err := fsys.List(dir)
	if err != nil {
		d.Missing = errors.Is(err, fs.ErrNotExist)
		if !d.Missing {
			d.Err = bare(err)
		}
		return d
	}
	r := reader{fs: fsys, dir: dir, scope: scope}
	for _, name := range names {
		if !Matches(name) {
			continue
		}
		data, err := r.read(name)
		if errors.Is(err, errVanished) {
			continue
		}
		d.Entries = append(d.Entries, Entry{Name: name, Data: data, Err: err})
	}
	slices.SortFunc(d.Entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return d
}

var (
	errVanished = errors.New("vanished")
	errFileSize = fmt.Errorf("larger than %d bytes", MaxFile)
)

// reader reads the files of one directory.
type reader struct {
	fs    FS
	dir   string
	scope Scope
}

// read returns the content of one entry if the link policy allows it.
func (r *reader) read(name string) ([]byte, error) {
	file := path.Join(r.dir, name)
	info, err := r.fs.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errVanished
	}
	if err != nil {
		return nil, bare(err)
	}
	if info.Mode&fs.ModeSymlink != 0 {
		return r.readLink(file)
	}
	if err := regular(info); err != nil {
		return nil, err
	}
	info, data, err := r.fs.ReadFile("", file, MaxFile+1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errVanished
	}
	return content(info, data, err)
}

// readLink returns the content of what a link leads to. The open file is judged,
// not the path: what the path stands for may change between the two.
func (r *reader) readLink(file string) ([]byte, error) {
	target, err := r.fs.Resolve(file)
	if err != nil {
		return nil, fmt.Errorf("link: %w", bare(err))
	}
	if !isMarkdown(target) {
		return nil, fmt.Errorf("link to %q, which is not a markdown file", target)
	}
	root, name, err := r.within(target)
	if err != nil {
		return nil, err
	}
	info, err := r.fs.Lstat(target)
	if err != nil {
		return nil, fmt.Errorf("link: %w", bare(err))
	}
	if err := regular(info); err != nil {
		return nil, err
	}
	info, data, err := r.fs.ReadFile(root, name, MaxFile+1)
	if err == nil && info.UID != r.fs.UID() {
		return nil, fmt.Errorf("link to %q, which is another user's file", target)
	}
	return content(info, data, err)
}

// within splits a link's target into a root that must hold it and a name in
// that root. A global directory has no such root.
func (r *reader) within(target string) (root, name string, err error) {
	if r.scope == Global {
		return "", target, nil
	}
	root, err = r.fs.Resolve(r.dir)
	if err != nil {
		return "", "", fmt.Errorf("resolve directory: %w", bare(err))
	}
	name, inside := strings.CutPrefix(target, strings.TrimSuffix(root, "/")+"/")
	if !inside {
		return "", "", fmt.Errorf("link to %q, which is outside the project's prompt directory", target)
	}
	return root, name, nil
}

// content judges what was read of an open file.
func content(info Info, data []byte, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, bare(err)
	case regular(info) != nil:
		return nil, regular(info)
	case len(data) > MaxFile:
		return nil, errFileSize
	}
	return data, nil
}

// regular says what a file is that is not regular.
func regular(info Info) error {
	switch mode := info.Mode; {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return errors.New("is a directory, not a regular file")
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("is a named pipe, not a regular file")
	}
	return errors.New("is not a regular file")
}

// bare drops the path from an error: the fault it ends up in names the file.
func bare(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", pathErr.Op, pathErr.Err)
	}
	return err
}
