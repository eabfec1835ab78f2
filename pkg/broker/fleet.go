package broker

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// Content is everything there is to serve.
type Content struct {
	// Offers are those of the global file and of every project that is up.
	Offers  []Offer
	Prompts []Prompt
	// Own are the endpoint's own tools. They are shared and must not be written to.
	Own []OwnTool
	// OwnResources are those of the endpoint itself, nil for none.
	OwnResources OwnResources
}

// Fleet is one immutable state of everything there is to serve. What a caller
// sees of it is a [Catalog], made when the first one of its scope asks.
type Fleet struct {
	Warnings []string // what was left out or renamed, for the log

	own    OwnResources
	realms map[string]*realm // by project; "" is the global one
	views  sync.Map          // a scope's key → *Catalog
}

// realm is what the callers of one project could see, or those of none: every
// upstream, every tool under the name it has there, and the prompts.
type realm struct {
	offers    []Offer       // by key
	tools     []entry       // by name
	prompts   []promptEntry // by name
	exposed   map[string]string
	resources resourceSet
}

// entry is one tool as it is listed.
type entry struct {
	name  string
	raw   []byte
	route route
}

// Merge builds the fleet of a content. It is pure: order in the content never
// shows in the result.
func Merge(c Content) (*Fleet, error) {
	f := &Fleet{own: c.OwnResources, realms: map[string]*realm{"": {}}}
	for _, o := range c.Offers {
		f.ensure(o.Project)
	}
	for _, p := range c.Prompts {
		f.ensure(p.Project)
	}
	for _, project := range slices.Sorted(maps.Keys(f.realms)) {
		if err := f.fill(project, c); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// ensure makes the realm of a project, where there is none.
func (f *Fleet) ensure(project string) {
	if f.realms[project] == nil {
		f.realms[project] = &realm{}
	}
}

// fill makes the realm of a project from what is global and what is its own.
// What is odd about the global part is said once, in the global realm.
func (f *Fleet) fill(project string, c Content) error {
	r := f.realms[project]
	for _, o := range c.Offers {
		if o.Project == "" || o.Project == project {
			r.offers = append(r.offers, o)
		}
	}
	// Of a global and a project's upstream with one key the global one is meant
	// (CFG-4): the sort is stable and the second is dropped.
	slices.SortFunc(r.offers, func(a, b Offer) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Project, b.Project)) })
	r.offers = slices.CompactFunc(r.offers, func(a, b Offer) bool { return a.Key == b.Key })
	warn := func(of, text string) {
		if of == project {
			f.Warnings = append(f.Warnings, text)
		}
	}
	if err := r.name(c.Own, warn); err != nil {
		return err
	}
	if err := r.resources.own(c.OwnResources); err != nil {
		return err
	}
	r.resources.listed = append(r.resources.listed, gatherResources(r.offers, func(o Offer) []Item { return o.Resources }, "uri", warn)...)
	r.resources.templates = append(r.resources.templates, gatherResources(r.offers, func(o Offer) []Item { return o.Templates }, "uriTemplate", warn)...)
	for _, list := range [][]resource{r.resources.listed, r.resources.templates} {
		slices.SortFunc(list, func(a, b resource) int { return cmp.Compare(a.uri, b.uri) })
	}
	for _, o := range r.offers {
		if o.HasResources {
			r.resources.owners = append(r.resources.owners, o)
		}
	}
	r.gatherPrompts(c.Prompts, project, warn)
	return nil
}

// name gives every tool the name agents see (MCP-2), and renders it.
func (r *realm) name(own []OwnTool, warn func(project, text string)) error {
	type tool struct {
		offer Offer
		tool  Item
	}
	var originals []Original
	var tools []tool
	for _, o := range r.offers {
		for _, t := range o.Tools {
			if !o.offers(t.Name) {
				continue
			}
			originals = append(originals, Original{Key: o.Key, Name: t.Name})
			tools = append(tools, tool{o, t})
		}
	}
	taken := map[string]bool{}
	for i, name := range ExposeAll(originals) {
		o, t := tools[i].offer, tools[i].tool
		if taken[name] {
			warn(o.Project, fmt.Sprintf("%s: tool %q is offered twice", o.Key, t.Name))
			continue
		}
		taken[name] = true
		raw, err := jsonrpc.Rename(nil, t.Raw, "name", name)
		if err != nil {
			warn(o.Project, fmt.Sprintf("%s: tool %q is left out: %v", o.Key, t.Name, err))
			continue
		}
		r.tools = append(r.tools, entry{name: name, raw: raw, route: o.route(t.Name)})
	}
	for i := range own {
		t := &own[i]
		raw, err := plainJSON(t.Tool)
		if err != nil {
			return fmt.Errorf("render the tool %s: %w", t.Tool.Name, err)
		}
		r.tools = append(r.tools, entry{name: t.Tool.Name, raw: raw, route: route{own: t}})
	}
	slices.SortFunc(r.tools, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return nil
}

// plainJSON returns v in JSON without the escapes that are for HTML.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// View returns what a scope sees. A project that is not up has nothing of its
// own.
func (f *Fleet) View(s *Scope) *Catalog { return f.viewFor(s, "", nil) }

// viewFor is View for agents of a class: what would cost them the whole list is
// left out of it.
func (f *Fleet) viewFor(s *Scope, class string, lint func(class string, tool []byte) string) *Catalog {
	key := s.key + class
	if c, ok := f.views.Load(key); ok {
		return c.(*Catalog)
	}
	r, ok := f.realms[s.Project]
	if !ok {
		r = f.realms[""]
	}
	c, _ := f.views.LoadOrStore(key, r.view(s, func(tool []byte) string {
		if class == "" {
			return ""
		}
		return lint(class, tool)
	}))
	return c.(*Catalog)
}

// view makes the catalog of one scope. What lint objects to is not listed; it
// can be called all the same.
func (r *realm) view(s *Scope, lint func(tool []byte) string) *Catalog {
	c := &Catalog{routes: map[string]route{}, keys: map[string]Offer{}, prompts: map[string]promptEntry{}, exposed: r.exposed}
	var visible []Offer
	for _, o := range r.offers {
		if s.sees(o.Key) {
			c.keys[o.Key] = o
			visible = append(visible, o)
		}
	}
	tools := rendered{}
	for _, t := range r.tools {
		if _, there := c.keys[t.route.key]; !there && t.route.own == nil {
			continue
		}
		c.routes[t.name] = t.route
		if own := t.route.own; own != nil && own.Write && !s.Write {
			continue // not listed, and refused by name (WHO-3)
		}
		if why := lint(t.raw); why != "" {
			c.leftOut = append(c.leftOut, LeftOut{Project: t.route.project, Key: t.route.key, Tool: t.name, Reason: why})
			continue
		}
		tools.add(t.raw)
	}
	c.tools = tools.n
	c.lists[wire.Tools] = tools.list("tools")
	c.showPrompts(r.prompts)
	c.showResources(&r.resources)
	c.instructions = joinInstructions(visible, wire.MaxInstructions)
	c.digest()
	return c
}

// showPrompts puts the prompts in the catalog: those of files are seen whatever
// the scope (PRM-6).
func (c *Catalog) showPrompts(all []promptEntry) {
	list, bodies := rendered{}, sha256.New()
	for _, p := range all {
		if _, there := c.keys[p.route.key]; !there && p.file == nil {
			continue
		}
		c.prompts[p.name] = p
		list.add(p.raw)
		if p.file != nil {
			c.files++
			bodies.Write(p.file.Body[:])
		}
	}
	bodies.Sum(c.bodies[:0])
	c.lists[wire.Prompts] = list.list("prompts")
}

// showResources puts the resources of the visible upstreams in the catalog.
func (c *Catalog) showResources(all *resourceSet) {
	c.resources = all.seen(c.keys)
	list, templates := rendered{}, rendered{}
	for _, r := range c.resources.listed {
		list.add(r.raw)
	}
	for _, r := range c.resources.templates {
		templates.add(r.raw)
	}
	c.lists[wire.Resources], c.templates = list.list("resources"), templates.list("resourceTemplates")
}

// rendered is the inside of a list that grows by raw items.
type rendered struct {
	text []byte
	n    int
}

func (r *rendered) add(raw []byte) {
	if r.n > 0 {
		r.text = append(r.text, ',')
	}
	r.text = append(r.text, raw...)
	r.n++
}

// list returns the result of the list method whose member has that name.
func (r *rendered) list(member string) []byte {
	return fmt.Appendf(nil, `{%q:[%s]}`, member, r.text)
}
