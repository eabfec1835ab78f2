package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Environ returns the environment of a child (LIF-8): base, then the
// variables of its env_file, then those of its definition; of equal names the
// last wins and is the only one, since of two some programs take the first.
// Values are in it and in nothing else.
func Environ(base []string, file []EnvVar, env map[string]string) []string {
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

// ReadEnvFile reads a dotenv file as a start needs it (CFG-5). The error names
// the file and the line at fault, never a value.
func ReadEnvFile(path string, read func(string) ([]byte, error)) ([]EnvVar, error) {
	if path == "" {
		return nil, nil
	}
	data, err := read(path)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err // the path is told once
		}
		return nil, fmt.Errorf("read env_file %s: %w", path, err)
	}
	vars, err := ParseEnvFile(data)
	if fault, ok := errors.AsType[*EnvFault](err); ok {
		return nil, fmt.Errorf("env_file %s:%d: %s", path, fault.Line, fault.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("env_file %s: %w", path, err)
	}
	return vars, nil
}
