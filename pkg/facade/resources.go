package facade

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"harness/pkg/broker"
	"harness/pkg/run"
	"harness/pkg/wire"
)

// Sources is what the resources show: the same that the command line does.
type Sources interface {
	// Knowledge is the catalog and the cards of this program.
	Knowledge() *run.Knowledge
	// Identify says what answers: version, instance and the like.
	Identify() Identity
	// State is how the fleet is now, in an order that stays.
	State() []StateItem
	Runs(harness, after string, n int) (runs []run.Info, next string, err error)
	Run(id string) (run.Info, error)
	Messages(id string) ([]run.Message, error)
	Receipts(id string) ([]run.Receipt, error)
	Context(id string) (run.Context, error)
	Card(id string) (string, error)
	// Repositories, Packs and Worktrees are by path or name, those after one.
	Repositories(ctx context.Context, after string, n int) (items []Repository, next string, err error)
	Packs(ctx context.Context, after string, n int) (items []Pack, next string, err error)
	Worktrees(after string, n int) (items []Worktree, next string, err error)
}

// Identity is what there is to know of the daemon that answers.
type Identity struct {
	Version  string `json:"version"`
	Instance string `json:"instance"`
	API      string `json:"control_api"`
}

// StateItem is one harness or upstream as it is now.
type StateItem struct {
	Kind          string  `json:"kind"` // harness or upstream
	Name          string  `json:"name"`
	State         string  `json:"state"`
	Enabled       bool    `json:"enabled"`
	Restarts      int     `json:"restarts"`
	Project       *string `json:"project"`
	ConfigPending bool    `json:"config_pending"`
	Error         *string `json:"error"`
}

// Repository is a directory that work may be done under.
type Repository struct {
	Name  string  `json:"name"`
	Path  string  `json:"path"`
	Kind  string  `json:"kind"`  // root, project or repository
	HEAD  *string `json:"head"`  // null where it is no git repository
	Clean *bool   `json:"clean"` // likewise
}

// Pack is one prompt pack that there is.
type Pack struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Path    string  `json:"path"`
	Tickets int     `json:"tickets"`
	SHA256  string  `json:"sha256"`
	OK      bool    `json:"ok"`
	Error   *string `json:"error"`
}

// Worktree is one git worktree that was made.
type Worktree struct {
	Name   string  `json:"name"`
	Repo   string  `json:"repo"`
	Path   string  `json:"path"`
	Branch string  `json:"branch"`
	Base   string  `json:"base"`
	Head   *string `json:"head"`
}

// envelope is what every resource is in (RES-1).
type envelope struct {
	Schema    string  `json:"schema"`
	Items     any     `json:"items"`
	Count     int     `json:"count"`
	NextAfter *string `json:"next_after"`
}

// page is which part of a list is asked for.
type page struct {
	after string
	limit int
}

// maxPage bounds a page.
const maxPage = 100

// reading is one read.
type reading struct {
	page
	scope *broker.Scope
	arg   string // what stands for the {…} of a template
}

// source is one resource, or one template of them.
type source struct {
	uri, name, does string
	paged           bool
	read            func(ctx context.Context, r reading) (envelope, error)
}

// resources are those of the endpoint, over some sources.
type resources struct {
	from  Sources
	tools []broker.OwnTool
	all   []source
}

// Resources returns the resources over sources. tools are those of the endpoint.
func Resources(from Sources, tools []broker.OwnTool) broker.OwnResources {
	r := &resources{from: from, tools: tools}
	r.all = []source{
		{"capabilities", "capabilities", "What this endpoint is, knows and offers, and what it never does.", false, r.capabilities},
		{"commands", "commands", "Every command of the command line: knowledge, not authority.", true, r.commands},
		{"commands/{role}", "commands of a role", "The commands for one role: orchestrator, implementation or review.", true, r.commands},
		{"state", "state", "How each harness and server is. It can be subscribed to.", true, r.state},
		{"runs", "runs", "The runs, newest first.", true, r.runs},
		{"runs/{id}/status", "status of a run", "How one run is. It can be subscribed to.", false, r.status},
		{"runs/{id}/messages", "messages of a run", "The messages of one run, without their text.", true, r.messages},
		{"runs/{id}/receipts", "receipts of a run", "The receipts of one run.", true, r.receipts},
		{"runs/{id}/command-context", "command context of a run", "Which commands one run knew, and whether this program has the same.", false, r.context},
		{"runs/{id}/command-card", "command card of a run", "The page on the commands that one run was given.", false, r.card},
		{"repositories", "repositories", "The directories that work may be done under.", true, r.repositories},
		{"packs", "packs", "The prompt packs in those directories.", true, r.packs},
		{"worktrees", "worktrees", "The git worktrees that were made.", true, r.worktrees},
	}
	return r
}

const mimeJSON = "application/json"

// List implements [broker.OwnResources].
func (r *resources) List() []broker.OwnResource {
	var list []broker.OwnResource
	for _, s := range r.all {
		template := strings.Contains(s.uri, "{")
		list = append(list, broker.OwnResource{URI: broker.OwnScheme + s.uri, Name: s.name, Does: s.does, MIME: mimeJSON, Template: template})
		if s.paged {
			list = append(list, broker.OwnResource{URI: broker.OwnScheme + s.uri + "{?after,limit}", Name: s.name + ", by page", Does: s.does, MIME: mimeJSON, Template: true})
		}
	}
	return list
}

// match finds whose URI a path is, and what stands for its {…}.
func (r *resources) match(path string) (*source, string) {
	for i := range r.all {
		s := &r.all[i]
		before, after, template := strings.Cut(s.uri, "{")
		if !template {
			if path == s.uri {
				return s, ""
			}
			continue
		}
		_, after, _ = strings.Cut(after, "}")
		if arg, ok := strings.CutPrefix(path, before); ok {
			if arg, ok = strings.CutSuffix(arg, after); ok && arg != "" && !strings.Contains(arg, "/") {
				return s, arg
			}
		}
	}
	return nil, ""
}

// Operation implements [broker.OwnResources].
func (r *resources) Operation(uri string) (name string, ok bool) {
	path, _, _ := strings.Cut(strings.TrimPrefix(uri, broker.OwnScheme), "?")
	if s, _ := r.match(path); s != nil {
		return broker.OwnScheme + s.uri, true
	}
	return "unknown", false
}

// Read implements [broker.OwnResources].
func (r *resources) Read(ctx context.Context, scope *broker.Scope, uri string) (text, mime string, err error) {
	path, query, asks := strings.Cut(strings.TrimPrefix(uri, broker.OwnScheme), "?")
	s, arg := r.match(path)
	if s == nil {
		return "", "", broker.ErrNoResource
	}
	p, err := readPage(query, asks && s.paged, asks && !s.paged)
	if err != nil {
		return "", "", err
	}
	e, err := s.read(ctx, reading{p, scope, arg})
	if err != nil {
		return "", "", explain(err)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return "", "", fmt.Errorf("encode a resource: %w", err)
	}
	if len(data) > maxBytes {
		return "", "", wire.New(wire.OutputLimit, "the resource is larger than 256 KiB; ask for a page with ?after=&limit=")
	}
	return string(data), mimeJSON, nil
}

// readPage reads the query of a URI: strictly, so that a misspelt word is not
// taken for none.
func readPage(query string, paged, refused bool) (page, error) {
	p := page{limit: maxPage}
	if refused {
		return p, wire.New(wire.InvalidArgument, "this resource has no pages")
	}
	if !paged {
		return p, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return p, wire.New(wire.InvalidArgument, "the query cannot be read; it is ?after=&limit=")
	}
	for key, given := range values {
		switch {
		case len(given) != 1:
			return p, wire.New(wire.InvalidArgument, fmt.Sprintf("%.20q is given twice", key))
		case key == "after":
			p.after = given[0]
		case key == "limit":
			if p.limit, err = strconv.Atoi(given[0]); err != nil || p.limit < 1 || p.limit > maxPage {
				return p, wire.New(wire.InvalidArgument, "limit is 1 to 100")
			}
		default:
			return p, wire.New(wire.InvalidArgument, fmt.Sprintf("a page is chosen by after and limit, not by %.20q", key))
		}
	}
	return p, nil
}

// Schema is what an envelope of a kind says it is.
func Schema(kind string) string { return "harness/" + kind + "/v1" }

// wrap makes the envelope of a page.
func wrap[T any](kind string, items []T, next string) envelope {
	e := envelope{Schema: Schema(kind), Items: items, Count: len(items)}
	if items == nil {
		e.Items = []T{}
	}
	if next != "" {
		e.NextAfter = &next
	}
	return e
}

// cut makes the envelope of a page of a list that is there whole.
func cut[T any](kind string, all []T, key func(T) string, p page) (envelope, error) {
	begin := 0
	if p.after != "" {
		begin = slices.IndexFunc(all, func(one T) bool { return key(one) == p.after }) + 1
		if begin == 0 {
			return envelope{}, wire.New(wire.InvalidArgument, "after: there is no such item; begin anew")
		}
	}
	rest := all[begin:]
	if len(rest) <= p.limit {
		return wrap(kind, rest, ""), nil
	}
	rest = rest[:p.limit]
	return wrap(kind, rest, key(rest[len(rest)-1])), nil
}

// capability is the one item of the capabilities.
type capability struct {
	Identity
	Transport       []string          `json:"transport"`
	Mode            string            `json:"mode"`
	CatalogSHA256   string            `json:"catalog_sha256"`
	LeafCount       int               `json:"leaf_count"`
	CardsSHA256     map[string]string `json:"cards_sha256"`
	LaunchContracts []int             `json:"launch_contracts"`
	Tools           []string          `json:"tools"`              // of the endpoint itself, as this session is listed them
	Resources       []string          `json:"resources"`          // as they are listed
	Templates       []string          `json:"resource_templates"` // likewise
	Excluded        []string          `json:"excluded"`
}

func (r *resources) capabilities(_ context.Context, in reading) (envelope, error) {
	k := r.from.Knowledge()
	c := capability{
		Identity: r.from.Identify(), Transport: []string{"stdio", "unix"}, Mode: "fleet", CatalogSHA256: k.CatalogSHA256, LeafCount: len(k.Catalog.Commands),
		CardsSHA256: map[string]string{}, LaunchContracts: run.ContractVersions(), Tools: []string{}, Resources: []string{}, Templates: []string{},
		Excluded: []string{
			"interrupting, terminating or killing a run", "reviewing, accepting or rejecting work", "running a shell", "reading or writing a file by path",
			"reading a terminal", "network transports", "tools made from the command catalog", "up, down, use, reload and other operations of the daemon",
		},
	}
	for _, role := range run.Roles() {
		c.CardsSHA256[role] = k.CardSHA256(role)
	}
	for _, t := range r.tools {
		if !t.Write || in.scope.Write {
			c.Tools = append(c.Tools, t.Tool.Name)
		}
	}
	slices.Sort(c.Tools)
	for _, one := range r.List() {
		if one.Template {
			c.Templates = append(c.Templates, one.URI)
		} else {
			c.Resources = append(c.Resources, one.URI)
		}
	}
	slices.Sort(c.Resources)
	slices.Sort(c.Templates)
	return wrap("capabilities", []capability{c}, ""), nil
}

func (r *resources) commands(_ context.Context, in reading) (envelope, error) {
	all := r.from.Knowledge().Catalog.Sorted()
	if in.arg != "" {
		if !slices.Contains(run.Roles(), in.arg) {
			return envelope{}, broker.ErrNoResource
		}
		all = run.Catalog{Commands: all}.For(in.arg)
	}
	return cut("commands", all, func(c run.Command) string { return c.Path }, in.page)
}

func (r *resources) state(_ context.Context, in reading) (envelope, error) {
	return cut("state", r.from.State(), func(s StateItem) string { return s.Kind + ":" + s.Name }, in.page)
}

func (r *resources) runs(_ context.Context, in reading) (envelope, error) {
	list, next, err := r.from.Runs("", in.after, in.limit)
	return wrap("runs", list, next), err
}

func (r *resources) status(_ context.Context, in reading) (envelope, error) {
	info, err := r.from.Run(in.arg)
	return wrap("status", []run.Info{info}, ""), err
}

func (r *resources) messages(_ context.Context, in reading) (envelope, error) {
	all, err := r.from.Messages(in.arg)
	if err != nil {
		return envelope{}, err
	}
	return cut("messages", all, func(m run.Message) string { return m.ID }, in.page)
}

func (r *resources) receipts(_ context.Context, in reading) (envelope, error) {
	all, err := r.from.Receipts(in.arg)
	if err != nil {
		return envelope{}, err
	}
	return cut("receipts", all, func(r run.Receipt) string { return strconv.Itoa(r.N) }, in.page)
}

func (r *resources) context(_ context.Context, in reading) (envelope, error) {
	c, err := r.from.Context(in.arg)
	return wrap("command-context", []run.Context{c}, ""), err
}

// card is the one item of a command card.
type card struct {
	Run    string `json:"run"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
	Text   string `json:"text"`
}

func (r *resources) card(_ context.Context, in reading) (envelope, error) {
	text, err := r.from.Card(in.arg)
	return wrap("command-card", []card{{in.arg, run.Digest(text), len(text), text}}, ""), err
}

func (r *resources) repositories(ctx context.Context, in reading) (envelope, error) {
	items, next, err := r.from.Repositories(ctx, in.after, in.limit)
	return wrap("repositories", items, next), err
}

func (r *resources) packs(ctx context.Context, in reading) (envelope, error) {
	items, next, err := r.from.Packs(ctx, in.after, in.limit)
	return wrap("packs", items, next), err
}

func (r *resources) worktrees(_ context.Context, in reading) (envelope, error) {
	items, next, err := r.from.Worktrees(in.after, in.limit)
	return wrap("worktrees", items, next), err
}
