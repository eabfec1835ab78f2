package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"harness/pkg/wire"
)

// projectFile is what the file of a project is called.
const projectFile = "harness.toml"

// Above lists dir and the directories above it, nearest first, up to and with
// home, or up to the root where dir is not under it. Both must be absolute and
// clean.
func Above(dir, home string) []string {
	list := []string{dir}
	for dir != home && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		list = append(list, dir)
	}
	return list
}

// errNoProject is wrapped by what [FindProject] returns where there is none.
var errNoProject = errors.New("no harness.toml of a project")

// FindProject returns the nearest project file at or above dir, up to home, and
// never the global one (section 2 of the contract). Links in dir are resolved,
// so that a project has one path however it is reached.
func FindProject(dir, home, global string) (string, error) {
	start, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("there is no directory %s", dir)
	}
	if resolved, err := filepath.EvalSymlinks(home); err == nil {
		home = resolved
	}
	own, _ := os.Stat(global) // nil, which is no file, where there is none
	for _, at := range Above(start, home) {
		path := filepath.Join(at, projectFile)
		if info, err := os.Stat(path); err == nil && !os.SameFile(own, info) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w at or above %s", errNoProject, start)
}

// NoProject says that no project of that name is among those that are up.
func NoProject(name string, up []Project) *Problem {
	return &Problem{Code: wire.OperationFailed, Message: fmt.Sprintf("no project %q is up", name), Hint: OtherProjects(up)}
}

// OtherProjects says what could be done about it where a project is not up.
func OtherProjects(up []Project) string {
	if len(up) == 0 {
		return "`harness up` in its directory brings one up"
	}
	named := make([]string, len(up))
	for i, p := range up {
		named[i] = fmt.Sprintf("%s (%s)", p.Name, p.Path)
	}
	return "up are: " + strings.Join(named, " ")
}

// ProjectAt returns the one of these projects that dir is in: the nearest. Its
// file need not be there any more.
func ProjectAt(list []Project, dir string) (Project, bool) {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	for _, at := range Above(dir, "") {
		for _, p := range list {
			if filepath.Dir(p.Path) == at {
				return p, true
			}
		}
	}
	return Project{}, false
}
