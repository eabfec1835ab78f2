package broker

import (
	"encoding/json"
	"fmt"
	"strings"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// request answers or relays one request of the agent.
func (s *session) request(line []byte, m *jsonrpc.Message) {
	id := m.ID.In(line)
	method, err := jsonrpc.Unquote(m.Method.In(line))
	if err != nil {
		s.plain(id, wire.InvalidRequest, "invalid request: method must be a string")
		return
	}
	if method == "tools/call" {
		s.call(line, m)
		return
	}
	switch method {
	case "initialize":
		s.greet(line, m)
	case "tools/list":
		s.list(wire.Tools, line, m)
	case "prompts/list":
		s.list(wire.Prompts, line, m)
	case "resources/list":
		s.list(wire.Resources, line, m)
	case "resources/templates/list":
		if s.firstPage(line, m) {
			s.result(id, s.catalog().templates)
		}
	case "resources/read":
		s.resource(line, m, method)
	case "resources/subscribe", "resources/unsubscribe":
		s.subscription(line, m, method)
	case "prompts/get":
		s.prompt(line, m)
	case "completion/complete":
		s.completion(line, m)
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/list":
		s.task(line, m, method)
	case "ping":
		s.result(id, []byte("{}"))
	case "logging/setLevel":
		s.setLevel(line, m)
	default:
		// server/discover among them: only handshake revisions are served, and
		// whoever probes is told at once (MCP-0).
		s.plain(id, wire.MethodNotFound, fmt.Sprintf("method %q is not served", clip(method)))
	}
}

// list answers one of the list methods with the bytes of the catalog in force.
// It is looked up under the lock that notify takes: a list that is older than
// the notification before it would be believed.
func (s *session) list(k wire.Kind, line []byte, m *jsonrpc.Message) {
	if !s.firstPage(line, m) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.catalog()
	s.told[k] = c.digests[k]
	s.edge.Listed(k, c.sums[k])
	s.edge.Commit(wire.AppendResult(s.edge.Buffer(), m.ID.In(line), c.lists[k]), m.ID.In(line))
}

// firstPage refuses any cursor: lists are one page, so none was handed out
// (MCP-3a).
func (s *session) firstPage(line []byte, m *jsonrpc.Message) bool {
	if raw := m.Cursor.In(line); len(raw) > 0 && string(raw) != "null" {
		s.invalid(m.ID.In(line), "the cursor is not one of this endpoint: its lists are one page")
		return false
	}
	return true
}

// prompt relays a prompts/get to the upstream that has the prompt, or renders
// that of a file.
func (s *session) prompt(line []byte, m *jsonrpc.Message) {
	id := m.ID.In(line)
	name, err := jsonrpc.Unquote(m.Name.In(line))
	if err != nil {
		s.invalid(id, "prompts/get takes the name of a prompt")
		return
	}
	entry, ok := s.catalog().prompts[name]
	switch {
	case !ok:
		s.invalid(id, fmt.Sprintf("unknown prompt %q", clip(name)))
	case entry.file != nil:
		s.render(entry.file, id, m.Params.In(line))
	default:
		s.relay(entry.route, "prompts/get", m.Name, line, m)
	}
}

// render checks the arguments of a prompt file (PRM-3), and renders it. Keys
// are matched exactly, which a struct with tags would not do.
func (s *session) render(p *Prompt, id, raw []byte) {
	var params, arguments map[string]json.RawMessage
	err := json.Unmarshal(raw, &params)
	if all, there := params["arguments"]; err == nil && there {
		err = json.Unmarshal(all, &arguments)
	}
	if err != nil {
		s.invalid(id, "prompts/get takes an object of arguments")
		return
	}
	given := make(map[string]string, len(p.Arguments))
	for _, a := range p.Arguments {
		raw, ok := arguments[a.Name]
		if !ok {
			if a.Required {
				s.invalid(id, fmt.Sprintf("prompt %q needs the argument %q", p.Name, a.Name))
				return
			}
			continue
		}
		text, err := jsonrpc.Unquote(raw)
		if err != nil {
			s.invalid(id, fmt.Sprintf("argument %q of prompt %q must be a string", a.Name, p.Name))
			return
		}
		given[a.Name] = text
	}
	text, err := p.Render(given)
	if err != nil {
		// The arguments are complete and strings, so it can only be too long.
		s.fail(id, wire.InternalError, wire.New(wire.OutputLimit, fmt.Sprintf("prompt %q cannot be rendered: %v", p.Name, err)))
		return
	}
	result, err := plainJSON(p.result(text))
	if err != nil {
		s.internal(id, "prompts/get", err)
		return
	}
	s.result(id, result)
}

// resource relays a request about one resource.
func (s *session) resource(line []byte, m *jsonrpc.Message, method string) {
	if uri, own := s.selfURI(line, m); own {
		s.readOwn(uri, line, m)
		return
	}
	if r, ok := s.resourceRoute(line, m, method); ok {
		s.relay(r, method, m.URI, line, m)
	}
}

// resourceRoute finds whose resource a request is about, or answers why nobody
// is asked.
func (s *session) resourceRoute(line []byte, m *jsonrpc.Message, method string) (route, bool) {
	id := m.ID.In(line)
	uri, err := jsonrpc.Unquote(m.URI.In(line))
	if err != nil {
		s.invalid(id, method+" takes the uri of a resource")
		return route{}, false
	}
	c := s.catalog()
	r, e := c.resources.find(uri)
	if e != nil {
		s.fail(id, wire.ResourceNotFound, e)
	}
	if e == nil {
		r = s.ownRoute(r)
	}
	return r, e == nil
}

// noCompletion is the answer where nobody completes anything.
const noCompletion = `{"completion":{"values":[],"total":0,"hasMore":false}}`

// completion relays a completion/complete to whoever has the prompt, or the
// resource, that an argument is of. Prompt files complete nothing.
func (s *session) completion(line []byte, m *jsonrpc.Message) {
	id, c := m.ID.In(line), s.catalog()
	var r route
	at := m.RefName
	if name, err := jsonrpc.Unquote(m.RefName.In(line)); err == nil {
		entry, ok := c.prompts[name]
		if !ok {
			s.invalid(id, fmt.Sprintf("unknown prompt %q", clip(name)))
			return
		}
		r = entry.route
	} else if uri, err := jsonrpc.Unquote(m.RefURI.In(line)); err == nil {
		if strings.HasPrefix(uri, OwnScheme) && s.b.fleet.Load().own != nil {
			s.result(id, []byte(noCompletion))
			return
		}
		var e *wire.Error
		if r, e = c.resources.find(uri); e != nil {
			s.fail(id, wire.ResourceNotFound, e)
			return
		}
		at = m.RefURI
	} else {
		s.invalid(id, "completion/complete takes a ref with the name of a prompt or the uri of a resource")
		return
	}
	if !r.complete {
		s.result(id, []byte(noCompletion))
		return
	}
	s.relay(r, "completion/complete", at, line, m)
}

func (s *session) result(id, result []byte) {
	s.reply(id, func(b []byte) []byte { return wire.AppendResult(b, id, result) })
}

func (s *session) plain(id []byte, number int, message string) {
	s.reply(id, func(b []byte) []byte { return wire.AppendPlainError(b, id, number, message) })
}

// refuse answers what is no request of its own: a line that is none, or one
// under the id of another.
func (s *session) refuse(id []byte, number int, message string) {
	s.reply(nil, func(b []byte) []byte { return wire.AppendPlainError(b, id, number, message) })
}

func (s *session) fail(id []byte, number int, e *wire.Error) {
	s.reply(id, func(b []byte) []byte { return wire.AppendError(b, id, number, e) })
}

func (s *session) invalid(id []byte, message string) {
	s.fail(id, wire.InvalidParams, wire.New(wire.InvalidArgument, message))
}

// internal answers with a correlation id; the log line has it too.
func (s *session) internal(id []byte, operation string, err error) {
	ref := newCorrelation()
	s.b.opt.Logger.Error("request not answered", "operation", operation, "correlation_id", ref, "error", err)
	s.fail(id, wire.InternalError, &wire.Error{Code: wire.Internal, Message: "internal error; the daemon's log has its correlation id", Correlation: ref})
}

// orEmpty returns params, or an empty object where the request has none.
func orEmpty(params []byte) []byte {
	if len(params) == 0 {
		return []byte("{}")
	}
	return params
}

// clip bounds a name that an agent made up before it is said back.
func clip(name string) string { return cutRunes(name, 100) }
