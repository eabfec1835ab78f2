package upstream

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Tool is one tool as its server described it.
type Tool struct {
	// Name is the server's own name for it, decoded.
	Name string
	// Raw is the tool object byte for byte (MCP-3). It is shared and must not
	// be written to.
	Raw []byte
}

// Offer is what one upstream has for sessions. It is immutable.
type Offer struct {
	// Tools are in the server's own order, names unique.
	Tools []Tool
	// Instructions are the server's, "" for none.
	Instructions string
	// Kept is true for the last known list of an upstream that has not come
	// up yet (MCP-3a), false for what the process itself said.
	Kept bool
	// Digest identifies the content; Kept is no part of it.
	Digest [sha256.Size]byte
}

// newOffer returns the offer of tools and instructions with its digest.
func newOffer(tools []Tool, instructions string) *Offer {
	o := &Offer{Tools: tools, Instructions: instructions}
	h := sha256.New()
	part := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	part([]byte(instructions))
	for _, t := range tools {
		part(t.Raw)
	}
	h.Sum(o.Digest[:0])
	return o
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

// page is one answer to tools/list. Keys are matched exactly, which a struct
// with tags would not do.
type page struct {
	tools []json.RawMessage
	// next is the raw cursor of the page after, nil on the last one. A cursor
	// may well be the empty string.
	next json.RawMessage
}

// parsePage takes the result of tools/list apart. The bytes of each tool stay
// as they are.
func parsePage(result []byte) (page, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(result, &fields); err != nil {
		return page{}, fmt.Errorf("result: %w", err)
	}
	var p page
	if err := json.Unmarshal(fields["tools"], &p.tools); err != nil {
		return page{}, errors.New("result has no list of tools")
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

// toolList collects the pages of one listing.
type toolList struct {
	tools []Tool
	names map[string]bool
	odd   []string // why tools were left out
}

// add appends the tools of one page. A tool that is no object or has no name
// is left out, and its neighbours are not (MCP-2, MCP-3a).
func (l *toolList) add(p page) {
	if l.names == nil {
		l.names = map[string]bool{}
	}
	for _, raw := range p.tools {
		name, err := toolName(raw)
		switch {
		case err != nil:
			l.odd = append(l.odd, err.Error())
		case l.names[name]:
			l.odd = append(l.odd, fmt.Sprintf("tool %q is listed twice", name))
		default:
			l.names[name] = true
			l.tools = append(l.tools, Tool{Name: name, Raw: raw})
		}
	}
}

func toolName(raw []byte) (string, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return "", errors.New("a tool is not an object")
	}
	var name *string
	if err := json.Unmarshal(fields["name"], &name); err != nil || name == nil || *name == "" {
		return "", errors.New("a tool has no name")
	}
	return *name, nil
}
