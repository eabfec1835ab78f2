package adapter

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// RootOnly reports whether nobody but root can change what is at a path: it,
// and all directories above it, belong to root, and neither group nor others
// may write there. What is not there yet is as its directory is.
func RootOnly(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		link, err := os.Lstat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil || !roots(link):
			return false
		case link.Mode()&fs.ModeSymlink != 0:
			// Its target's directories count as well.
			target, err := filepath.EvalSymlinks(p)
			if err != nil || !RootOnly(target) {
				return false
			}
		case link.Mode()&0o022 != 0:
			return false
		}
		if p == "/" {
			return true
		}
	}
}

func roots(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid == 0
}
