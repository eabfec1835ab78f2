package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness/pkg/config"
)

// projectsFile keeps which projects are up.
const projectsFile = "projects.json"

// projectsSchema is what that file says it is.
const projectsSchema = "harness/projects/v1"

// projectsState is the content of the projects file.
type projectsState struct {
	Schema   string        `json:"schema"`
	Projects []keptProject `json:"projects"` // in the order in which they came up
}

// keptProject is one project that is up, until it is told to go down (CFG-4).
type keptProject struct {
	Path string `json:"path"` // of its file
	// SHA256 is of the text that the owner approved (CLI-6). What the file holds
	// since then was approved with it.
	SHA256 string    `json:"sha256"`
	Since  time.Time `json:"since"`
}

// loadProjects returns what an earlier daemon had up.
func (s *stateDir) loadProjects() []keptProject {
	f, _ := load(s, projectsFile, func(f *projectsState) bool { return f.Schema == projectsSchema })
	return slices.DeleteFunc(f.Projects, func(p keptProject) bool { return !filepath.IsAbs(p.Path) })
}

// project is the file of a project that is up.
type project struct {
	*followed
	kept keptProject
}

// name is what the project is called by what was good of it last.
func (p project) name() string {
	if p.base != nil {
		return p.base.Project.Name
	}
	empty, _, _ := config.Load(p.source(nil), p.env)
	return empty.Project.Name
}

// admission is what came of asking for a project to be up.
type admission struct {
	cfg      *config.Config // nil where the text did not validate
	sha256   string         // of the text
	faults   []config.Fault // why it was refused
	warnings []config.Fault
	// pending is true where the owner has not said yet that this may run.
	pending bool
}

// admit takes up the project whose file is path, at now. Unless it is up
// already, its text must validate, share neither a name nor a key with what is
// there, and have been approved; else nothing is changed (CFG-4, CLI-6).
func (l *loader) admit(path string, approved func(sha256 string) bool, now time.Time) (admission, error) {
	if l.adopted == nil {
		return admission{}, errNotUp
	}
	text, err := ReadRegular(path)
	sum := sha256.Sum256(text)
	a := admission{sha256: hex.EncodeToString(sum[:])}
	if i := l.projectAt(path); i >= 0 {
		o := l.projects[i].judge(text, err)
		a.cfg, a.faults, a.warnings = o.cfg, o.faults, o.warnings
		return a, nil
	}
	f, _ := newFollowed(path, config.Project, nil, l.global.env)
	o := f.judge(text, err)
	a.faults, a.warnings = o.faults, o.warnings
	if !o.accepted {
		return a, nil
	}
	a.cfg = o.cfg
	if a.faults = l.objections(o.cfg); len(a.faults) > 0 {
		return a, nil
	}
	if a.pending = !approved(a.sha256); a.pending {
		return a, nil
	}
	f.base = o.cfg // should it break before it is read again
	l.projects = append(l.projects, project{f, keptProject{path, a.sha256, now.UTC()}})
	l.keepProjects()
	return a, nil
}

var (
	errNotUp   = errors.New("the daemon has read no file yet")
	errNotHere = errors.New("no such project is up")
)

// dismiss forgets a project that is up, and all that was kept of it.
func (l *loader) dismiss(path string) error {
	i := l.projectAt(path)
	if i < 0 {
		return errNotHere
	}
	l.projects = slices.Delete(slices.Clone(l.projects), i, i+1)
	l.keepProjects()
	l.save(lastGoodName(path), nil)
	return nil
}

// projectAt is the index of the project whose file is path, -1 for none.
func (l *loader) projectAt(path string) int {
	return slices.IndexFunc(l.projects, func(p project) bool { return p.path == path })
}

// keepProjects has a later daemon take up what is up now.
func (l *loader) keepProjects() {
	kept := projectsState{Schema: projectsSchema, Projects: []keptProject{}}
	for _, p := range l.projects {
		kept.Projects = append(kept.Projects, p.kept)
	}
	l.save(projectsFile, kept)
}

// objections says why a project cannot be taken up beside what is there: a
// second one of its name, or a key that the global file has too.
func (l *loader) objections(c *config.Config) []config.Fault {
	var faults []config.Fault
	for _, p := range l.projects { // also one that is up since a moment ago, and not read yet
		if p.name() == c.Project.Name {
			faults = append(faults, nameTaken(c, p.path))
		}
	}
	for _, clash := range clashes(c, l.adopted.global.cfg) {
		clash.Message = "refused: " + clash.Message
		faults = append(faults, clash)
	}
	return faults
}

func nameTaken(c *config.Config, other string) config.Fault {
	return config.Fault{
		File: c.Path, Line: c.Where.Line("project", "name"), Key: "project.name",
		Message: fmt.Sprintf("project %q is up from %s; give this one another name in [project]", c.Project.Name, other),
	}
}

// distinct refuses each text that would take the name of another project that
// is up: who has a name keeps it.
func distinct(projects []outcome) {
	holder := map[string]string{} // path by name
	renamed := func(o outcome) bool { return o.of.base == nil || o.of.base.Project.Name != o.cfg.Project.Name }
	for _, o := range projects {
		if !renamed(o) {
			holder[o.cfg.Project.Name] = o.of.path
		}
	}
	for i, o := range projects {
		if !renamed(o) {
			continue
		}
		other, taken := holder[o.cfg.Project.Name]
		if !taken {
			holder[o.cfg.Project.Name] = o.of.path
			continue
		}
		projects[i] = o.refused(nameTaken(o.cfg, other))
	}
}

// clashes lists the upstreams of a project whose key the global file has too.
func clashes(project, global *config.Config) []config.Fault {
	taken := make(map[string]string, len(global.Upstreams))
	for key := range global.Upstreams {
		taken[fold(key)] = key
	}
	var faults []config.Fault
	for _, key := range slices.Sorted(maps.Keys(project.Upstreams)) {
		if other, clash := taken[fold(key)]; clash {
			faults = append(faults, config.Fault{
				File: project.Path, Line: project.Upstreams[key].Line, Key: "mcp." + key,
				Message: fmt.Sprintf("%s has mcp.%s, which wins; rename this one", global.Path, other),
			})
		}
	}
	return faults
}

// withoutClashes returns a project's config without the upstreams whose key the
// global file has gained, and a warning for each of those (CFG-4).
func withoutClashes(project, global *config.Config) (*config.Config, []config.Fault) {
	own := *project
	own.Upstreams = maps.Clone(project.Upstreams)
	warnings := clashes(project, global)
	for i, w := range warnings {
		delete(own.Upstreams, strings.TrimPrefix(w.Key, "mcp."))
		warnings[i].Message = "not run: " + w.Message
	}
	return &own, warnings
}

// fold makes keys equal that agents may take for one another (MCP-2).
func fold(key string) string { return strings.ReplaceAll(key, "-", "_") }
