package upstream

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Item is one thing that a server lists, as it described it.
type Item struct {
	// Name is the server's own name for it, decoded: the name of a tool or a
	// prompt, the uri of a resource, the uriTemplate of a template.
	Name string
	// Raw is the object byte for byte (MCP-3). It is shared and must not be
	// written to.
	Raw []byte
}

// Can is what a server announced beside lists.
type Can struct {
	Complete  bool `json:"complete,omitempty"`  // completion/complete
	Subscribe bool `json:"subscribe,omitempty"` // resources/subscribe
	Log       bool `json:"log,omitempty"`       // logging/setLevel
	Resources bool `json:"resources,omitempty"` // resources at all, listed or not
	// Tasks is what it announced of tasks, a raw JSON object; "" for none.
	Tasks string `json:"tasks,omitempty"`
}

// Offer is what one upstream has for sessions. It is immutable.
type Offer struct {
	// Each list is in the server's own order, names unique.
	Tools, Prompts, Resources, Templates []Item
	// Instructions are the server's, "" for none.
	Instructions string
	// Can is what else it does.
	Can Can
	// Kept is true for the last known list of an upstream that has not come
	// up yet (MCP-3a), false for what the process itself said.
	Kept bool
	// Digest identifies the content; Kept is no part of it.
	Digest [sha256.Size]byte
}

// list is one of the lists that a server may have.
type list struct {
	method string // lists it, in pages
	member string // of the result
	name   string // the key that names an item
	noun   string // one item, for messages
	in     func(*Offer) *[]Item
}

// lists are all of them.
func lists() []list {
	return []list{
		{"tools/list", "tools", "name", "tool", func(o *Offer) *[]Item { return &o.Tools }},
		{"prompts/list", "prompts", "name", "prompt", func(o *Offer) *[]Item { return &o.Prompts }},
		{"resources/list", "resources", "uri", "resource", func(o *Offer) *[]Item { return &o.Resources }},
		{"resources/templates/list", "resourceTemplates", "uriTemplate", "template", func(o *Offer) *[]Item { return &o.Templates }},
	}
}

// sealed returns o with its digest.
func (o Offer) sealed() *Offer {
	h := sha256.New()
	part := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	part([]byte(o.Instructions))
	part(fmt.Append(nil, o.Can))
	for _, l := range lists() {
		items := *l.in(&o)
		part(fmt.Append(nil, len(items)))
		for _, item := range items {
			part(item.Raw)
		}
	}
	h.Sum(o.Digest[:0])
	return &o
}

// kept returns o as an offer that outlived its process.
func (o *Offer) kept() *Offer {
	if o == nil || o.Kept {
		return o
	}
	k := *o
	k.Kept = true
	return &k
}

// sameContent reports whether a session would see no difference.
func sameContent(a, b *Offer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Digest == b.Digest
}

// page is one answer to a list method. Keys are matched exactly, which a struct
// with tags would not do.
type page struct {
	items []json.RawMessage
	// next is the raw cursor of the page after, nil on the last one. A cursor
	// may well be the empty string.
	next json.RawMessage
}

// parsePage takes the result of a list method apart. The bytes of each item
// stay as they are.
func (l list) parsePage(result []byte) (page, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(result, &fields); err != nil {
		return page{}, fmt.Errorf("result: %w", err)
	}
	var p page
	if err := json.Unmarshal(fields[l.member], &p.items); err != nil {
		return page{}, fmt.Errorf("result has no list of %ss", l.noun)
	}
	var next *string
	if raw, ok := fields["nextCursor"]; ok {
		if err := json.Unmarshal(raw, &next); err != nil {
			return page{}, errors.New("nextCursor is not a string")
		}
		if next != nil {
			p.next = raw
		}
	}
	return p, nil
}

// collected are the pages of one listing.
type collected struct {
	list
	items []Item
	names map[string]bool
	odd   []string // why items were left out
}

// add appends the items of one page. One that is no object or has no name is
// left out, and its neighbours are not (MCP-2, MCP-3a).
func (c *collected) add(items []json.RawMessage) {
	if c.names == nil {
		c.names = map[string]bool{}
	}
	for _, raw := range items {
		name, err := c.nameOf(raw)
		switch {
		case err != nil:
			c.odd = append(c.odd, err.Error())
		case c.names[name]:
			c.odd = append(c.odd, fmt.Sprintf("%s %q is listed twice", c.noun, name))
		default:
			c.names[name] = true
			c.items = append(c.items, Item{Name: name, Raw: raw})
		}
	}
}

func (l list) nameOf(raw []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return "", fmt.Errorf("a %s is not an object", l.noun)
	}
	var name *string
	if err := json.Unmarshal(fields[l.name], &name); err != nil || name == nil || *name == "" {
		return "", fmt.Errorf("a %s has no %s", l.noun, l.name)
	}
	return *name, nil
}
