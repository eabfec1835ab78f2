package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"harness/pkg/control"
	"harness/pkg/evidence"
	"harness/pkg/wire"
)

// place is a directory that packs, worktrees and prompts may live under: one of
// [server] roots, or that of a project that is up (EVI-4).
type place struct {
	name string // of the project, or the base name of the root
	path string
}

// places lists them.
func (o *ops) places() []place {
	var list []place
	for _, root := range o.limits.roots() {
		list = append(list, place{filepath.Base(root), filepath.Clean(root)})
	}
	for _, p := range o.Projects() {
		list = append(list, place{p.Name, filepath.Dir(p.Path)})
	}
	slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.name, b.name)) })
	return slices.CompactFunc(list, func(a, b place) bool { return a.path == b.path })
}

// under finds the place that a path is in, opens it, and returns the rest of the
// path. Nothing is looked at outside of the places.
func (o *ops) under(argument, path string) (dir *evidence.Dir, rel string, err error) {
	refused := func(why string) error {
		return &control.Problem{Code: wire.InvalidArgument, Message: fmt.Sprintf("%s: %s", argument, why)}
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || strings.ContainsRune(path, 0) {
		return nil, "", refused("it takes an absolute path without . or .. in it")
	}
	best := ""
	for _, p := range o.places() {
		if (path == p.path || strings.HasPrefix(path, strings.TrimSuffix(p.path, "/")+"/")) && len(p.path) > len(best) {
			best = p.path
		}
	}
	if best == "" {
		return nil, "", &control.Problem{
			Code: wire.InvalidArgument, Message: argument + ": it is neither under [server] roots nor in a project that is up",
			Hint: "add its directory to roots in [server]",
		}
	}
	if dir, err = evidence.OpenDir(best); err != nil {
		return nil, "", refused(pathReason(err))
	}
	rel, err = filepath.Rel(best, path)
	if err != nil {
		return nil, "", errors.Join(refused("it is not below its root"), dir.Close())
	}
	return dir, rel, nil
}

// readUnder reads a regular file of at most limit bytes.
func (o *ops) readUnder(argument, path string, limit int64) ([]byte, error) {
	dir, rel, err := o.under(argument, path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	data, _, err := dir.Read(rel, limit)
	if err != nil {
		return nil, &control.Problem{Code: wire.InvalidArgument, Message: argument + ": " + pathReason(err)}
	}
	return data, nil
}

// dirUnder opens a directory.
func (o *ops) dirUnder(argument, path string) (*evidence.Dir, error) {
	dir, rel, err := o.under(argument, path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	sub, err := dir.Sub(rel)
	if err != nil {
		return nil, &control.Problem{Code: wire.InvalidArgument, Message: argument + ": " + pathReason(err)}
	}
	return sub, nil
}

// pathReason says why a path is not opened, without the path.
func pathReason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is nothing at that path"
	case errors.Is(err, syscall.ENOTDIR):
		return "it is not a directory, or a parent of it is not"
	case errors.Is(err, evidence.ErrLink):
		return "a component of the path is a symbolic link; name the real path"
	case errors.Is(err, evidence.ErrIrregular):
		return "it is not a regular file"
	case errors.Is(err, evidence.ErrTooLarge):
		return "the file is too large"
	case errors.Is(err, fs.ErrPermission):
		return "it may not be read"
	}
	return "it cannot be opened"
}
