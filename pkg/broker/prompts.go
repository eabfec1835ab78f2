package broker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"harness/pkg/jsonrpc"
)

// promptEntry is one prompt as it is listed: a file's, or an upstream's.
type promptEntry struct {
	name  string
	raw   []byte
	file  *Prompt // nil for an upstream's
	route route
}

// gatherPrompts names the prompts that are seen in a project, those of files
// under their names alone (MCP-2). Where a global file has the name of the
// project's own, that one is hidden (PRM-1).
func (r *realm) gatherPrompts(all []Prompt, project string, warn func(project, text string)) {
	var files []Prompt
	for _, p := range all {
		if p.Project == "" || p.Project == project {
			files = append(files, p)
		}
	}
	slices.SortStableFunc(files, func(a, b Prompt) int { return cmp.Compare(a.Project, b.Project) })
	var originals []Original
	var found []promptEntry
	for i := range files {
		originals = append(originals, Original{Name: files[i].Name})
		found = append(found, promptEntry{file: &files[i]})
	}
	for _, o := range r.offers {
		for _, item := range o.Prompts {
			originals = append(originals, Original{Key: o.Key, Name: item.Name})
			found = append(found, promptEntry{raw: item.Raw, route: o.route(item.Name)})
		}
	}
	taken := map[string]bool{}
	r.exposed = map[string]string{}
	for i, name := range ExposeAll(originals) {
		e, of := found[i], originals[i]
		if taken[name] {
			warn(e.project(), fmt.Sprintf("prompt %q is offered twice", of))
			continue
		}
		taken[name] = true
		if err := e.render(name); err != nil {
			warn(e.project(), fmt.Sprintf("prompt %q is left out: %v", of, err))
			continue
		}
		if e.file != nil {
			r.exposed[of.Name] = name
		}
		r.prompts = append(r.prompts, e)
	}
	slices.SortFunc(r.prompts, func(a, b promptEntry) int { return cmp.Compare(a.name, b.name) })
}

// project is the one whose callers see the prompt, "" for everybody.
func (e *promptEntry) project() string {
	if e.file != nil {
		return e.file.Project
	}
	return e.route.project
}

// render makes what is listed of the prompt under its name.
func (e *promptEntry) render(name string) (err error) {
	e.name = name
	if e.file == nil {
		e.raw, err = jsonrpc.Rename(nil, e.raw, "name", name)
		return err
	}
	p := *e.file
	p.Name = name
	e.file = &p
	e.raw, err = plainJSON(p.describe())
	return err
}

// describe returns p as the protocol lists it.
func (p *Prompt) describe() mcp.Prompt {
	out := mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
	for _, a := range p.Arguments {
		out.Arguments = append(out.Arguments, mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return out
}

// result returns what prompts/get gives for a rendered text.
func (p *Prompt) result(text string) *mcp.GetPromptResult {
	return mcp.NewGetPromptResult(p.Description, []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text)),
	})
}
