package broker

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// Upstream is one MCP server as the broker uses it. Implementations are safe
// for concurrent use and never block on the server.
type Upstream interface {
	// Relay registers c and appends line, with id, tool name and progress
	// token replaced, to out; or keeps it until the server's first start is
	// over (LIF-6). On a non-nil error nothing was sent and c is not answered
	// by the upstream.
	Relay(c *jsonrpc.Call, line []byte, m *jsonrpc.Message, out *jsonrpc.Batch) *wire.Error
	// Cancel takes c back and tells the server, with the agent's
	// notifications/cancelled, nil for none. It reports whether c was still unanswered; then c's owner
	// hears nothing more of it.
	Cancel(c *jsonrpc.Call, notice []byte) bool
}

// Offer is what one upstream brings to a catalog.
type Offer struct {
	Key      string
	Project  string // the one whose callers see it, "" for everybody
	Upstream Upstream
	// Open makes an upstream of a session's own; nil where all sessions share
	// Upstream (MCP-5).
	Open         func(Peer) Private
	Instructions string
	// Each list has what it names once.
	Tools, Prompts, Resources, Templates []Item
	// Offers reports whether a tool is offered at all; nil offers every one. It is
	// asked of those that are listed, and of calls to those that never were.
	Offers func(tool string) bool
	// HasResources is true for one that announced any, listed or not, and
	// Completes for one that completes arguments.
	HasResources, Completes bool
	// Tasks is what it announced of tasks, a raw JSON object; "" for none.
	Tasks string
	// Known is false while the upstream's tools have never been listed: a
	// call is then relayed under the name as spelled, since an agent may know
	// the tool from before (MCP-2).
	Known bool
	// Stopped is true for one that is declared and told not to run: its tools
	// are not listed (MCP-3a), and a call says why.
	Stopped bool
}

// Item is one thing that an upstream lists: its own name for it (a tool's or a
// prompt's name, a resource's URI, a template), and the definition as sent.
type Item struct {
	Name string
	Raw  []byte
}

// Prompt is one prompt served from a file.
type Prompt struct {
	Name, Title, Description string
	Project                  string // the one whose callers see it, "" for everybody
	Arguments                []Argument
	// Body identifies the text: a catalog differs where it differs, though the
	// list does not show it (HOT-6).
	Body   [sha256.Size]byte
	Render func(arguments map[string]string) (string, error)
}

// Argument is one argument of a [Prompt].
type Argument struct {
	Name, Description string
	Required          bool
}

// route is where a request about an exposed name goes.
type route struct {
	up       Upstream
	key      string
	project  string
	name     []byte             // the upstream's own name as raw JSON
	open     func(Peer) Private // nil for an upstream that all sessions share
	own      *OwnTool           // a tool of the endpoint itself; the rest is empty then
	self     bool               // a resource of the endpoint itself; likewise
	complete bool               // the upstream completes arguments
	tasks    bool               // the upstream has tasks
}

func (o Offer) offers(tool string) bool { return o.Offers == nil || o.Offers(tool) }

// route returns the way to what o calls name.
func (o Offer) route(name string) route {
	return route{up: o.Upstream, open: o.Open, key: o.Key, project: o.Project, name: wire.AppendQuoted(nil, name), complete: o.Completes, tasks: o.Tasks != ""}
}

// to returns the same way to another name.
func (r route) to(name string) route {
	r.name = wire.AppendQuoted(nil, name)
	return r
}

// Catalog is one immutable, pre-rendered state of everything that callers of
// one scope see. The same content gives the same bytes (MCP-3a).
type Catalog struct {
	lists [wire.Kinds][]byte
	// templates is the list of resource templates, which is told of as the
	// resources are.
	templates []byte
	digests   [wire.Kinds][sha256.Size]byte
	sums      [wire.Kinds]uint64 // of the bytes of each list alone
	routes    map[string]route
	keys      map[string]Offer
	leftOut   []LeftOut
	tools     int
	prompts   map[string]promptEntry
	exposed   map[string]string // names of prompts by what their files are called
	files     int               // prompts of files
	// bodies identifies what is behind the prompts of files.
	bodies    [sha256.Size]byte
	resources resourceSet
	// instructions are the upstreams' own, joined.
	instructions string
}

// Tools returns how many tools the catalog lists.
func (c *Catalog) Tools() int { return c.tools }

// Prompts returns how many prompts of files the catalog lists.
func (c *Catalog) Prompts() int { return c.files }

// PromptName returns the name under which the prompt of a file called name is
// served, which differs from it where agents would not take it (MCP-2).
func (c *Catalog) PromptName(name string) string {
	if exposed, ok := c.exposed[name]; ok {
		return exposed
	}
	return name
}

// digest fixes what a change is told by: the bytes of each list and, for
// prompts, the bodies behind it.
func (c *Catalog) digest() {
	for k, list := range c.lists {
		c.digests[k], c.sums[k] = sha256.Sum256(list), wire.ListSum(list)
	}
	with := func(k wire.Kind, more []byte) {
		c.digests[k] = sha256.Sum256(append(bytes.Clone(c.lists[k]), more...))
	}
	with(wire.Prompts, c.bodies[:])
	with(wire.Resources, c.templates)
}

// find returns the route of an exposed tool name, or why there is none.
func (c *Catalog) find(name string) (route, *wire.Error) {
	if r, ok := c.routes[name]; ok {
		return r, nil
	}
	key, tool, spaced := strings.Cut(name, "__")
	if !spaced {
		return route{}, wire.New(wire.UnknownTool, fmt.Sprintf("no tool is named %q; list the tools again", clip(name)))
	}
	o, ok := c.keys[key]
	if !ok {
		return route{}, &wire.Error{Code: wire.UnknownNamespace, Message: fmt.Sprintf("no upstream is named %q; list the tools again", clip(key)), Upstream: clip(key)}
	}
	if o.Stopped {
		return route{}, &wire.Error{
			Code: wire.UpstreamUnavailable, Upstream: key, State: "stopped",
			Message: fmt.Sprintf("upstream %q is stopped; `harness start mcp.%s` starts it", key, key),
		}
	}
	if !o.Known && o.offers(tool) {
		return o.route(tool), nil
	}
	return route{}, &wire.Error{Code: wire.UnknownTool, Message: fmt.Sprintf("upstream %q has no tool %q; list the tools again", key, clip(tool)), Upstream: key}
}

// joinInstructions joins what the upstreams say of themselves, by key, within
// limit characters (MCP-4). A long text is cut so that it never costs the
// others their share.
func joinInstructions(offers []Offer, limit int) string {
	type part struct{ head, text string }
	var parts []part
	for _, o := range offers {
		if text := strings.TrimSpace(o.Instructions); text != "" {
			parts = append(parts, part{o.Key + ": ", text})
		}
	}
	// The shortest take their share first and leave the rest to the longer.
	byLength := make([]int, len(parts))
	left := limit
	for i, p := range parts {
		byLength[i] = i
		left -= utf8.RuneCountInString(p.head) + 1
	}
	slices.SortStableFunc(byLength, func(a, b int) int {
		return cmp.Compare(utf8.RuneCountInString(parts[a].text), utf8.RuneCountInString(parts[b].text))
	})
	for n, i := range byLength {
		share := max(left, 0) / (len(byLength) - n)
		parts[i].text = cutRunes(parts[i].text, share)
		left -= utf8.RuneCountInString(parts[i].text)
	}
	var b strings.Builder
	for i, p := range parts {
		if p.text == "" {
			continue
		}
		if i > 0 && b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.head + p.text)
	}
	return cutRunes(b.String(), limit)
}

// cutRunes returns the first n characters of s, the last of them an ellipsis
// where something was cut.
func cutRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	return string([]rune(s)[:n-1]) + "…"
}

// equal reports whether both catalogs show the same for kind k.
func (c *Catalog) equal(o *Catalog, k wire.Kind) bool {
	return bytes.Equal(c.digests[k][:], o.digests[k][:])
}
