package broker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// OwnScheme begins every URI of the endpoint's own resources. An upstream's that
// begins so is listed under an address, as one of two with the same URI is.
const OwnScheme = "harness://"

// ErrNoResource is what [OwnResources] return for a URI that leads to nothing.
var ErrNoResource = errors.New("no such resource")

// OwnResource is one resource of the endpoint itself, or one template of them.
type OwnResource struct {
	URI        string // or a template
	Name, Does string
	MIME       string
	Template   bool
}

// OwnResources are the resources of the endpoint itself. Every session sees
// them. They are safe for use by many goroutines.
type OwnResources interface {
	// List returns what there is, always the same.
	List() []OwnResource
	// Read returns the text of one, and its type. A [*wire.Error] reaches the
	// caller as it is, [ErrNoResource] as an unknown resource, and of anything
	// else no more than where to look (RES-5).
	Read(ctx context.Context, scope *Scope, uri string) (text, mime string, err error)
	// Operation is what a URI asks for, without what is particular about it: for
	// the log. ok is false where it asks for nothing that there could be.
	Operation(uri string) (name string, ok bool)
}

// ownRead is one read under way.
type ownRead struct {
	OwnCall
	from OwnResources
	uri  string
}

var _ Upstream = (*ownRead)(nil)

// ownItems renders the resources of the endpoint itself, or the templates.
func ownItems(all []OwnResource, templates bool) ([]resource, error) {
	var list []resource
	for _, r := range all {
		if r.Template != templates {
			continue
		}
		key := "uri"
		if templates {
			key = "uriTemplate"
		}
		item := map[string]string{key: r.URI, "name": r.Name, "description": r.Does, "mimeType": r.MIME}
		raw, err := plainJSON(item)
		if err != nil {
			return nil, err
		}
		list = append(list, resource{uri: r.URI, own: r.URI, raw: raw, route: route{self: true}})
	}
	return list, nil
}

// selfURI is the URI that a request is about, where it is one of the endpoint's
// own.
func (s *session) selfURI(line []byte, m *jsonrpc.Message) (string, bool) {
	uri, err := jsonrpc.Unquote(m.URI.In(line))
	if err != nil || !strings.HasPrefix(uri, OwnScheme) || s.b.fleet.Load().own == nil {
		return "", false
	}
	_, _, addressed := addressed(uri)
	return uri, !addressed
}

// readOwn begins a read of one of the endpoint's own resources.
func (s *session) readOwn(uri string, line []byte, m *jsonrpc.Message) {
	r := &ownRead{OwnCall: OwnCall{Scope: s.who.Scope(), Who: s.who, s: s}, from: s.b.fleet.Load().own, uri: uri}
	s.relay(route{up: r, self: true}, "resources/read", m.URI, line, m)
}

// Relay implements [Upstream]: it begins the read, beside the session.
func (r *ownRead) Relay(call *jsonrpc.Call, _ []byte, _ *jsonrpc.Message, _ *jsonrpc.Batch) *wire.Error {
	ctx, cancel := context.WithCancel(r.s.ctx)
	r.cancel = cancel
	r.s.own.Go(func() {
		defer cancel()
		var text, mime string
		var err error
		if panicked := guard(func() { text, mime, err = r.from.Read(ctx, r.Scope, r.uri) }); panicked != nil {
			err = panicked
		}
		r.answer(call, text, mime, err)
	})
	return nil
}

// answer answers the read, unless it was taken back.
func (r *ownRead) answer(call *jsonrpc.Call, text, mime string, err error) {
	if !r.claim() {
		return
	}
	var result []byte
	if err == nil {
		content := map[string]string{"uri": r.uri, "mimeType": mime, "text": text}
		result, err = plainJSON(map[string]any{"contents": []any{content}})
	}
	if err == nil {
		r.s.finish(call, func(b []byte) []byte { return wire.AppendResult(b, call.ID, result) })
		return
	}
	number, e := r.failure(err)
	r.s.finish(call, func(b []byte) []byte { return wire.AppendError(b, call.ID, number, e) })
}

// failure says what an agent is told of a read that failed.
func (r *ownRead) failure(err error) (int, *wire.Error) {
	var e *wire.Error
	switch {
	case errors.Is(err, ErrNoResource):
		return wire.ResourceNotFound, notThere()
	case errors.As(err, &e) && e.Code == wire.UnknownRun:
		return wire.ResourceNotFound, e
	case errors.As(err, &e) && e.Code == wire.InvalidArgument:
		return wire.InvalidParams, e
	case errors.As(err, &e):
		return wire.InternalError, e
	}
	ref := newCorrelation()
	operation, _ := r.from.Operation(r.uri)
	r.s.b.opt.Logger.Error("resource not read", "operation", operation, "category", category(err), "correlation_id", ref)
	return wire.InternalError, &wire.Error{Code: wire.Internal, Message: "internal error; the daemon's log has its correlation id", Correlation: ref}
}

func notThere() *wire.Error {
	return wire.New(wire.InvalidArgument, "no resource is at that URI; list the resources and their templates")
}

// category is what kind of failure an error is, without its text, which may name
// what nobody should read (RES-5).
func category(err error) string {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	case errors.As(err, &syntax):
		return "malformed"
	case strings.HasPrefix(err.Error(), "panic: "):
		return "panic"
	}
	return "failed"
}

// selfTopic is what subscriptions to one of the endpoint's own resources are
// under.
func selfTopic(uri string) topic {
	base, _, _ := strings.Cut(uri, "?")
	return topic{uri: base}
}

// subscribeOwn begins or ends a subscription to one of the endpoint's own
// resources.
func (s *session) subscribeOwn(uri string, begin bool, asked, id []byte) {
	if _, could := s.b.fleet.Load().own.Operation(uri); begin && !could {
		s.fail(id, wire.ResourceNotFound, notThere())
		return
	}
	t := selfTopic(uri)
	s.b.mu.Lock()
	sub := s.b.topics[t]
	if sub == nil && begin {
		sub = &subscription{heard: map[*session][]byte{}}
		s.b.topics[t] = sub
	}
	switch {
	case begin:
		sub.heard[s] = append([]byte(nil), asked...)
	case sub != nil:
		delete(sub.heard, s)
		if len(sub.heard) == 0 {
			delete(s.b.topics, t)
		}
	}
	s.b.mu.Unlock()
	s.result(id, []byte("{}"))
}

// Updated tells the sessions that are subscribed to one of the endpoint's own
// resources that it is not as it was. It does not block.
func (b *Broker) Updated(uri string) {
	b.mu.Lock()
	var heard map[*session][]byte
	if sub := b.topics[selfTopic(uri)]; sub != nil {
		heard = maps.Clone(sub.heard)
	}
	b.mu.Unlock()
	for s, asked := range heard {
		s.updated(asked)
	}
}

// updated tells a session that what it subscribed to, as it spelled it, is not
// as it was.
func (s *session) updated(asked []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.initialized {
		return
	}
	b := append(s.edge.Buffer(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":`...)
	s.edge.Commit(append(append(b, asked...), `}}`...), nil)
	s.flushLocked()
}
