package broker

import (
	"encoding/json"
	"fmt"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// maxTasks is how many tasks a session's upstreams are remembered for. Of the
// others it is known where to ask as long as one upstream alone has tasks.
const maxTasks = 1024

// tasks are whose the tasks are that a session has begun, by their raw ids. It
// is guarded by the session's mu.
type tasks struct {
	of    map[string]route
	order []string // oldest first
}

// note remembers a task.
func (t *tasks) note(id []byte, r route) {
	if t.of == nil {
		t.of = map[string]route{}
	}
	if _, known := t.of[string(id)]; !known {
		t.order = append(t.order, string(id))
	}
	t.of[string(id)] = r
	if len(t.order) > maxTasks {
		delete(t.of, t.order[0])
		t.order = t.order[1:]
	}
}

// capabilities are what a session is told that the endpoint can do: what it
// always can and, where an upstream that it sees has tasks, those. They pass
// through raw, so with several upstreams they cannot be listed.
func (c *Catalog) capabilities() string {
	var having []Offer
	for _, o := range c.keys {
		if o.Tasks != "" {
			having = append(having, o)
		}
	}
	switch len(having) {
	case 0:
		return wire.Capabilities
	case 1:
		return withTasks(having[0].Tasks)
	}
	for _, o := range having {
		if fields, _ := tasksOf(o.Tasks); fields["cancel"] == nil {
			return withTasks(`{"requests":{"tools":{"call":{}}}}`)
		}
	}
	return withTasks(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)
}

func withTasks(raw string) string {
	return wire.Capabilities[:len(wire.Capabilities)-1] + `,"tasks":` + raw + `}`
}

func tasksOf(raw string) (fields map[string]json.RawMessage, err error) {
	err = json.Unmarshal([]byte(raw), &fields)
	return fields, err
}

// task relays a request about one task to the upstream that has it, or about
// all to the only one that has any.
func (s *session) task(line []byte, m *jsonrpc.Message, method string) {
	id, params := m.ID.In(line), orEmpty(m.Params.In(line))
	var only []route
	for _, o := range s.catalog().keys {
		if o.Tasks != "" {
			only = append(only, o.route(""))
		}
	}
	if method == "tasks/list" && len(only) != 1 || len(only) == 0 {
		s.plain(id, wire.MethodNotFound, fmt.Sprintf("method %q is not served", method))
		return
	}
	at, found, err := jsonrpc.Member(params, "taskId")
	if method != "tasks/list" && (err != nil || !found) {
		s.invalid(id, method+" takes a taskId")
		return
	}
	s.mu.Lock()
	r, known := s.tasks.of[string(at.In(params))]
	s.mu.Unlock()
	switch {
	case known:
	case len(only) == 1:
		r = only[0]
	default:
		s.invalid(id, "this session has begun no such task")
		return
	}
	s.relay(r, method, jsonrpc.Span{}, line, m)
}

// augmented reports whether a call asks for a task.
func augmented(line []byte, m *jsonrpc.Message) bool {
	_, found, err := jsonrpc.Member(m.Params.In(line), "task")
	return err == nil && found
}

// taskOf returns the raw id of the task that a result names, nil for none.
func taskOf(result []byte) []byte {
	at, found, err := jsonrpc.Member(result, "task")
	if err != nil || !found {
		return nil
	}
	task := at.In(result)
	id, found, err := jsonrpc.Member(task, "taskId")
	if err != nil || !found {
		return nil
	}
	return id.In(task)
}

// tasked passes the news of a task on to the sessions that have begun it.
func (b *Broker) tasked(only *session, project, key string, line []byte, m *jsonrpc.Message) {
	params := m.Params.In(line)
	at, found, err := jsonrpc.Member(params, "taskId")
	if err != nil || !found {
		return
	}
	for _, s := range b.snapshot() {
		s.mu.Lock()
		r, has := s.tasks.of[string(at.In(params))]
		s.mu.Unlock()
		if has && r.key == key && r.project == project && (only == nil || only == s) {
			s.tell(project, key, 0, func(dst []byte) []byte { return append(dst, line...) })
		}
	}
}
