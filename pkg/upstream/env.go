package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness/pkg/config"
)

// environment returns the environment of a child (LIF-8): base, then the
// variables of its env_file, then those of its definition; of equal names the
// last wins. Values are in it and in nothing else.
func environment(base []string, file []config.EnvVar, env map[string]string) []string {
	set := make(map[string]string, len(file)+len(env))
	for _, v := range file {
		set[v.Name] = v.Value.Reveal()
	}
	maps.Copy(set, env)
	out := make([]string, 0, len(base)+len(set))
	for _, entry := range base {
		name, _, _ := strings.Cut(entry, "=")
		if _, replaced := set[name]; !replaced {
			out = append(out, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		out = append(out, name+"="+set[name])
	}
	return out
}

// lookup returns the value of name in an environment list, "" when unset.
func lookup(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// readEnvFile reads a dotenv file as a start needs it (CFG-5). The error names
// the file and the line at fault, never a value.
func readEnvFile(path string, read func(string) ([]byte, error)) ([]config.EnvVar, error) {
	if path == "" {
		return nil, nil
	}
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("read env_file: %w", err)
	}
	vars, err := config.ParseEnvFile(data)
	if fault, ok := errors.AsType[*config.EnvFault](err); ok {
		return nil, fmt.Errorf("env_file %s:%d: %s", path, fault.Line, fault.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("env_file %s: %w", path, err)
	}
	return vars, nil
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
