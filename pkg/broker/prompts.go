package broker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
)

// promptSet is the prompts of one realm.
type promptSet struct {
	named   []*Prompt // by name
	byName  map[string]*Prompt
	exposed map[string]string // names by what the files are called
	list    []byte
}

// gather names the prompts that are seen in a project. Where a global one has
// the name of the project's own, that one is hidden (PRM-1).
func gather(all []Prompt, project string, warn func(project, text string)) promptSet {
	s := promptSet{byName: map[string]*Prompt{}, exposed: map[string]string{}}
	var seen []Prompt
	for _, p := range all {
		if p.Project == "" || p.Project == project {
			seen = append(seen, p)
		}
	}
	slices.SortStableFunc(seen, func(a, b Prompt) int { return cmp.Compare(a.Project, b.Project) })
	originals := make([]Original, len(seen))
	for i, p := range seen {
		originals[i] = Original{Name: p.Name}
	}
	for i, name := range ExposeAll(originals) {
		p := seen[i]
		if _, taken := s.byName[name]; taken {
			warn(p.Project, fmt.Sprintf("prompt %q is offered twice", p.Name))
			continue
		}
		s.exposed[p.Name], p.Name = name, name
		s.byName[name] = &p
		s.named = append(s.named, &p)
	}
	slices.SortFunc(s.named, func(a, b *Prompt) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// render makes the result of prompts/list.
func (s *promptSet) render() error {
	all := mcp.ListPromptsResult{Prompts: make([]mcp.Prompt, len(s.named))}
	for i, p := range s.named {
		all.Prompts[i] = p.describe()
	}
	var err error
	s.list, err = plainJSON(all)
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
