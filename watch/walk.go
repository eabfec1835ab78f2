package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks bounds the symbolic links of one path, as the kernel does.
const maxLinks = 40

// walker follows paths component by component. It asks for each path once, so
// one walker serves one look.
type walker struct{ nodes map[string]node }

// node is what stands at a path with no symbolic link before its last component.
type node struct {
	mode   fs.FileMode
	target string // of a symbolic link
	err    error
}

// hop is a directory entry that decides what a path leads to: a symbolic link
// on the way, the file itself, or the first component that is missing.
type hop struct{ dir, name string }

// walk calls visit for every hop of path in order. It returns where the path
// leads, free of symbolic links, and what stands there; ok is false when it
// leads nowhere.
func (w *walker) walk(path string, visit func(hop)) (at string, mode fs.FileMode, ok bool) {
	rest, links := strings.Split(path, "/"), 0
	at, mode = "/", fs.ModeDir
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := join(at, name)
		n := w.node(next)
		mode = n.mode
		switch {
		case n.err != nil:
			visit(hop{at, name})
			return next, 0, false
		case mode&fs.ModeSymlink != 0:
			visit(hop{at, name})
			if links++; links > maxLinks {
				return next, 0, false
			}
			if filepath.IsAbs(n.target) {
				at = "/"
			}
			rest = append(strings.Split(n.target, "/"), rest...)
			mode = fs.ModeDir
		case !mode.IsDir() || !names(rest):
			visit(hop{at, name})
			return next, mode, mode.IsDir() || !names(rest)
		default:
			at = next
		}
	}
	return at, fs.ModeDir, true
}

// names reports whether any component is left that leads further.
func names(rest []string) bool {
	for _, name := range rest {
		if name != "" && name != "." {
			return true
		}
	}
	return false
}

// node asks what stands at path.
func (w *walker) node(path string) node {
	if n, ok := w.nodes[path]; ok {
		return n
	}
	var n node
	fi, err := os.Lstat(path)
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
		n.target, err = os.Readlink(path)
	}
	if n.err = err; err == nil {
		n.mode = fi.Mode()
	}
	w.nodes[path] = n
	return n
}

// join appends one component to a directory without simplifying either.
func join(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}
