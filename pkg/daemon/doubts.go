package daemon

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
	"harness/pkg/prompt"
)

// Doubts lists what will keep a definition of a valid config from coming up as
// things are on this disk now. They are no faults: what is missing may be
// installed, mounted or written before the start.
func Doubts(c *config.Config) config.Warnings {
	var list config.Warnings
	for _, key := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[key]
		list = append(list, doubt(placed(c, "mcp", key), u.Cmd, u.Workdir, u.EnvFile)...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		list = append(list, doubt(placed(c, "harness", name), a.Cmd, a.Workdir, a.EnvFile)...)
	}
	for i, dir := range c.PromptPaths {
		message := doubtDir(dir)
		if c.Kind == config.Project && prompt.ReadProjectDir(prompt.OSFS{}, dir, filepath.Dir(c.Path)).Outside {
			message = dir + ": leads out of the project's directory; nothing in it is served"
		}
		if message != "" {
			list = append(list, config.Fault{File: c.Path, Line: c.Where.PromptPath(i), Key: "mcp.prompts.paths", Message: message})
		}
	}
	return list
}

// doubtDir looks at one directory, and names it; "" is a directory.
func doubtDir(path string) string {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return path + ": there is no such directory"
	case err != nil:
		return path + ": " + bare(err).Error()
	case !info.IsDir():
		return path + ": is not a directory"
	}
	return ""
}

// placed makes faults of the keys of one definition of a file.
func placed(c *config.Config, table, name string) func(key string) config.Fault {
	return func(key string) config.Fault {
		return config.Fault{File: c.Path, Line: c.Where.Line(table, name, key), Key: table + "." + name + "." + key}
	}
}

// unplaced is placed for a definition that is known without its file.
func unplaced(table string) func(key string) config.Fault {
	return func(key string) config.Fault { return config.Fault{Key: table + "." + key} }
}

// doubt looks at one definition.
func doubt(at func(key string) config.Fault, cmd, workdir, envFile string) config.Warnings {
	var list config.Warnings
	add := func(key, message string) {
		f := at(key)
		f.Message = message
		list = append(list, f)
	}
	if p := lookUp(cmd); p.Exe == "" {
		message := p.ExeErr
		if words := strings.Fields(cmd); len(words) > 1 {
			message += fmt.Sprintf("; the words after %q belong in args", words[0])
		}
		add("cmd", message)
	}
	if message := doubtDir(workdir); message != "" {
		add("workdir", message)
	}
	if envFile == "" {
		return list
	}
	data, err := ReadRegular(envFile)
	if err == nil {
		_, err = config.ParseEnvFile(data)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		add("env_file", envFile+": there is no such file")
	case err != nil:
		add("env_file", envFile+": "+bare(err).Error())
	}
	return list
}
