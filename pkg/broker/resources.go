package broker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// addressMark joins a URI to the key of the upstream that is meant, where two
// have the same one: "demo://info#harness.upstream=mem".
const addressMark = "#harness.upstream="

// address returns how a resource of one upstream is read whoever else has its
// URI. It can be taken apart again by [addressed].
func address(uri, key string) string { return uri + addressMark + key }

// addressed takes apart what [address] made.
func addressed(uri string) (plain, key string, ok bool) {
	at := strings.LastIndex(uri, addressMark)
	if at < 0 {
		return uri, "", false
	}
	return uri[:at], uri[at+len(addressMark):], true
}

// resource is one resource, or one template of them, as it is listed.
type resource struct {
	uri   string // as agents see it
	own   string // as the upstream spells it
	raw   []byte
	route route
}

// gatherResources gives each resource the URI that agents see: its own, unless
// another upstream has the same. Then neither keeps it, so that a read never
// returns the other's content in silence, and who starts first never matters.
func gatherResources(offers []Offer, of func(Offer) []Item, key string, warn func(project, text string)) []resource {
	owners := map[string]int{}
	for _, o := range offers {
		for _, item := range of(o) {
			owners[item.Name]++
		}
	}
	var list []resource
	for _, o := range offers {
		for _, item := range of(o) {
			r := resource{uri: item.Name, own: item.Name, raw: item.Raw, route: o.route(item.Name)}
			if owners[item.Name] > 1 || strings.HasPrefix(item.Name, OwnScheme) {
				r.uri = address(item.Name, o.Key)
				var err error
				if r.raw, err = jsonrpc.Rename(nil, item.Raw, key, r.uri); err != nil {
					warn(o.Project, fmt.Sprintf("%s: resource %q is left out: %v", o.Key, item.Name, err))
					continue
				}
			}
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b resource) int { return cmp.Compare(a.uri, b.uri) })
	return list
}

// resourceSet is what one scope sees of the resources.
type resourceSet struct {
	listed, templates []resource
	owners            []Offer // those upstreams that have resources at all
}

// own begins the set with the endpoint's own, which come first.
func (s *resourceSet) own(from OwnResources) (err error) {
	if from == nil {
		return nil
	}
	all := from.List()
	if s.listed, err = ownItems(all, false); err != nil {
		return fmt.Errorf("render the resources: %w", err)
	}
	if s.templates, err = ownItems(all, true); err != nil {
		return fmt.Errorf("render the resource templates: %w", err)
	}
	return nil
}

// seen narrows the set to the upstreams that are visible.
func (s *resourceSet) seen(keys map[string]Offer) resourceSet {
	visible := func(all []resource) []resource {
		return slices.DeleteFunc(slices.Clone(all), func(r resource) bool {
			_, there := keys[r.route.key]
			return !there && !r.route.self
		})
	}
	return resourceSet{
		listed: visible(s.listed), templates: visible(s.templates),
		owners: slices.DeleteFunc(slices.Clone(s.owners), func(o Offer) bool { _, there := keys[o.Key]; return !there }),
	}
}

// find returns whose resource a URI is, and what it is called there, or why
// that cannot be told. A tool may have named one that is not listed: then the
// templates count, then who else has URIs of that scheme, then who is the only
// one that has resources.
func (s *resourceSet) find(uri string) (route, *wire.Error) {
	if plain, key, ok := addressed(uri); ok {
		for _, o := range s.owners {
			if o.Key == key {
				return o.route(plain), nil
			}
		}
	}
	ways := []func(resource) bool{
		func(r resource) bool { return r.uri == uri },
		func(r resource) bool { return r.own == uri },
	}
	for _, same := range ways {
		if r, err, found := only(matching(s.listed, same), uri); found {
			return r, err
		}
	}
	for _, same := range ways {
		if r, err, found := only(matching(s.templates, same), uri); found {
			return r, err
		}
	}
	fits := func(r resource) bool { return matches(r.own, uri) }
	if r, err, found := only(matching(s.templates, fits), uri); found {
		return r, err
	}
	scheme := schemeOf(uri)
	alike := func(r resource) bool { return scheme != "" && schemeOf(r.own) == scheme }
	may := append(matching(s.listed, alike), matching(s.templates, alike)...)
	if r, err, found := only(may, uri); found {
		if err != nil {
			err = wire.New(wire.InvalidArgument, fmt.Sprintf("no upstream lists %q; several have resources of %s:, so %s", clip(uri), clip(scheme), sayWhich(keysOf(may), uri)))
		}
		return r, err
	}
	if len(s.owners) == 1 {
		return s.owners[0].route(uri), nil
	}
	return route{}, wire.New(wire.InvalidArgument, fmt.Sprintf("no resource is at %q; list the resources", clip(uri)))
}

// matching returns the upstreams of the resources that fit.
func matching(list []resource, fits func(resource) bool) []route {
	var found []route
	for _, r := range list {
		if !r.route.self && fits(r) {
			found = append(found, r.route)
		}
	}
	return found
}

// only returns the one upstream that routes lead to. found is false where they
// lead nowhere; leading to several is an error that says how to tell them apart.
func only(routes []route, uri string) (r route, e *wire.Error, found bool) {
	keys := keysOf(routes)
	switch len(keys) {
	case 0:
		return route{}, nil, false
	case 1:
		return routes[0].to(uri), nil, true
	}
	return route{}, wire.New(wire.InvalidArgument, fmt.Sprintf("%d upstreams have %q; %s", len(keys), clip(uri), sayWhich(keys, uri))), true
}

// keysOf are the upstreams that routes lead to, sorted, each once.
func keysOf(routes []route) []string {
	var keys []string
	for _, r := range routes {
		keys = append(keys, r.key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// sayWhich says how the resource of one of several upstreams is asked for.
func sayWhich(keys []string, uri string) string {
	return fmt.Sprintf("say which: %q or the like for %s", address(clip(uri), keys[0]), strings.Join(keys, ", "))
}

// schemeOf returns the scheme of a URI, "" for none.
func schemeOf(uri string) string {
	scheme, _, ok := strings.Cut(uri, ":")
	if !ok {
		return ""
	}
	return scheme
}

// matches reports whether a URI could be one of a template: the text between
// its expressions is there, in order. A simple expression stands for one
// segment, any other for anything (RFC 6570). All ways to read the URI are
// followed side by side, so that no template takes longer than its length times
// the URI's.
func matches(template, uri string) bool {
	want, ok := compile(template)
	if !ok {
		return false
	}
	// at has the places in want that the URI up to here could have reached.
	at, next := make([]bool, len(want)+1), make([]bool, len(want)+1)
	at[0] = true
	pass(want, at)
	for _, c := range uri {
		clear(next)
		for j, w := range want {
			if at[j] && w.takes(c) {
				next[j+w.step()] = true
			}
		}
		pass(want, next)
		at, next = next, at
		if !slices.Contains(at, true) {
			return false
		}
	}
	return at[len(want)]
}

// wanted is what comes next in a URI: a character, or one of those below.
type wanted rune

const (
	oneOf    wanted = utf8.MaxRune + 1 + iota // a character of a segment
	segment                                   // any number of those
	anything                                  // any number of characters
)

func (w wanted) takes(c rune) bool {
	switch w {
	case oneOf, segment:
		return c != '/'
	case anything:
		return true
	}
	return w == wanted(c)
}

// step is how far a character that was taken leads.
func (w wanted) step() int {
	if w == segment || w == anything {
		return 0
	}
	return 1
}

// pass goes on where nothing need be taken.
func pass(want []wanted, at []bool) {
	for j, w := range want {
		at[j+1] = at[j+1] || at[j] && w.step() == 0
	}
}

// compile takes a template apart; false where an expression does not end.
func compile(template string) (want []wanted, ok bool) {
	for rest := template; rest != ""; {
		if c, n := utf8.DecodeRuneInString(rest); c != '{' {
			want, rest = append(want, wanted(c)), rest[n:]
			continue
		}
		shut := strings.IndexByte(rest, '}')
		switch {
		case shut < 0:
			return nil, false
		case strings.IndexByte("+#./;?&=,!@|", rest[1]) >= 0:
			want = append(want, anything)
		default:
			want = append(want, oneOf, segment)
		}
		rest = rest[shut+1:]
	}
	return want, true
}
