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
		list = append(list, doubt(c.Path, "mcp."+key, u.Line, u.Cmd, u.Workdir, u.EnvFile)...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		list = append(list, doubt(c.Path, "harness."+name, a.Line, a.Cmd, a.Workdir, a.EnvFile)...)
	}
	for _, dir := range c.PromptPaths {
		message := doubtDir(dir)
		if c.Kind == config.Project && prompt.ReadProjectDir(prompt.OSFS{}, dir, filepath.Dir(c.Path)).Outside {
			message = "leads out of the project's directory; nothing in it is served"
		}
		if message != "" {
			list = append(list, config.Fault{File: c.Path, Key: "mcp.prompts.paths", Message: dir + ": " + message})
		}
	}
	return list
}

// doubtDir looks at one directory; "" is a directory.
func doubtDir(path string) string {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such directory"
	case err != nil:
		return bare(err).Error()
	case !info.IsDir():
		return "it is no directory"
	}
	return ""
}

// doubt looks at one definition.
func doubt(file, table string, line int, cmd, workdir, envFile string) config.Warnings {
	var list config.Warnings
	add := func(key, message string) {
		list = append(list, config.Fault{File: file, Line: line, Key: table + "." + key, Message: message})
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
		add("env_file", "there is no such file")
	case err != nil:
		add("env_file", bare(err).Error())
	}
	return list
}
