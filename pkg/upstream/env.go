package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// lookup returns the value of name in an environment list, "" when unset.
func lookup(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// FindExe returns the file that cmd names: itself where it has a slash, else
// the first in path. It is looked up at every start, since what was missing
// may have been installed meanwhile, and always in the daemon's own PATH: one
// from a definition or an env_file would put a value of theirs into messages.
func FindExe(cmd, path string) (string, error) {
	if strings.Contains(cmd, "/") {
		if err := executable(cmd); err != nil {
			return "", fmt.Errorf("executable not found: %q: %w", cmd, err)
		}
		return cmd, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // it would depend on where the daemon was started
		}
		if file := filepath.Join(dir, cmd); executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("executable not found: %q (PATH searched: %s)", cmd, path)
}

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file")
	case err != nil:
		return errors.New("not accessible")
	case info.IsDir():
		return errors.New("is a directory")
	case info.Mode()&0o111 == 0:
		return errors.New("is not executable")
	}
	return nil
}
