package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Call is a tool call that the model is to make.
type Call struct {
	// Tool is how the name of the tool ends, as the agent offers it.
	Tool string
	// Args are the arguments, a JSON object; "" for none.
	Args string
	// Before runs before the agent is told of the call, which waits for it.
	Before func()
	// Until is the end of a name that the model calls as long as no tool is on
	// offer that ends in Tool, or one that ends in Gone: an agent hears of a
	// change while it works. Each of these calls has another argument, since
	// agents stop a model that goes round in circles.
	Until, Gone string
	// Like is the end of a name on offer that the call is spelled like where no
	// tool is on offer that ends in Tool: it is called all the same.
	Like string
}

// Turn is one request in which the model could call a tool.
type Turn struct {
	// API is "messages", "responses", "chat" or "gemini".
	API string
	// Tools are the names of the tools on offer, in order.
	Tools []string
	// Called is the tool that the model called, "" if it spoke instead.
	Called string
	// Body is the request as it was sent.
	Body []byte
}

// Result is what came of a call that the model made.
type Result struct {
	// Tool is the name that was called.
	Tool string
	// Text is what the agent said of it, all text of it, one piece a line.
	Text string
}

// Model is a model with a plan. It is safe for use by several agents, who then
// share the plan.
type Model struct {
	mu     sync.Mutex
	plan   []Call
	made   []made
	turns  []Turn
	strays []string
	err    error
	spare  int           // calls that were made besides the plan
	over   chan struct{} // closed once there is nothing more to call
	ended  bool
}

// made is a call that was made.
type made struct {
	tool   string
	answer *string // nil until the agent told
}

// New returns a model that makes the calls of plan, then says that it is done.
func New(plan ...Call) *Model { return &Model{plan: plan, over: make(chan struct{})} }

// Over is closed when the model has said that it is done, or why it is not.
func (m *Model) Over() <-chan struct{} { return m.over }

// Turns returns what the model was asked so far, as far as there were tools.
func (m *Model) Turns() []Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.turns)
}

// Results returns what came back so far, in the order of the calls.
func (m *Model) Results() []Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Result
	for _, c := range m.made {
		if c.answer != nil {
			list = append(list, Result{c.tool, *c.answer})
		}
	}
	return list
}

// Strays returns the requests that no API of these has, which were refused.
func (m *Model) Strays() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.strays)
}

// Err returns why the plan was not done to its end: nil when every call was made
// and has its result.
func (m *Model) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return m.err
	case len(m.made) < len(m.plan):
		return fmt.Errorf("%d of %d calls were made", len(m.made), len(m.plan))
	}
	for _, c := range m.made {
		if c.answer == nil {
			return fmt.Errorf("the call of %s has no result", c.tool)
		}
	}
	return nil
}

// ask is a request in the words of all APIs.
type ask struct {
	model   string
	stream  bool
	tools   []tool
	results []outcome // of the whole conversation
}

// tool is a tool on offer. Some APIs group tools in spaces.
type tool struct{ space, name string }

func (t tool) String() string {
	if t.space == "" {
		return t.name
	}
	return t.space + "__" + t.name
}

// outcome is a call's result in a conversation, by the id that the call had.
type outcome struct{ id, text string }

// reply is what the model says: a call if tool has a name, else text.
type reply struct {
	id   string // of the call, and of whatever needs an id
	tool tool
	args json.RawMessage
	text string
}

// callID is the id of the n-th call of the plan.
func callID(n int) string { return fmt.Sprintf("call_%d", n) }

// next decides what to say in a turn.
func (m *Model) next(api string, body []byte, a ask) reply {
	r, before := m.decide(api, body, a)
	if before != nil {
		before()
	}
	return r
}

func (m *Model) decide(api string, body []byte, a ask) (r reply, before func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range a.results {
		for n := range m.made {
			if callID(n) == r.id && m.made[n].answer == nil {
				m.made[n].answer = &r.text
			}
		}
	}
	if len(a.tools) == 0 {
		return reply{id: "aside", text: "fine"}, nil
	}
	turn := Turn{API: api, Body: body}
	for _, t := range a.tools {
		turn.Tools = append(turn.Tools, t.String())
	}
	r, before = m.step(a.tools)
	turn.Called = r.tool.String()
	m.turns = append(m.turns, turn)
	return r, before
}

// patience is how often the model calls something else while it waits for a
// tool.
const patience = 200

// step takes the next call of the plan.
func (m *Model) step(offered []tool) (r reply, before func()) {
	n := len(m.made)
	if m.err != nil || n == len(m.plan) {
		return m.end("done"), nil
	}
	c := m.plan[n]
	t, ok := find(offered, c.Tool)
	_, still := find(offered, c.Gone)
	waits := c.Until != "" && (!ok || c.Gone != "" && still)
	if other, there := find(offered, c.Until); waits && there && m.spare < patience {
		m.spare++
		return reply{id: fmt.Sprintf("spare_%d", m.spare), tool: other, args: fmt.Appendf(nil, `{"spare":%d}`, m.spare)}, nil
	}
	if like, there := find(offered, c.Like); !ok && c.Like != "" && there {
		t, ok = tool{like.space, strings.TrimSuffix(like.name, c.Like) + c.Tool}, true
	}
	if !ok {
		m.err = fmt.Errorf("no tool on offer ends in %q", c.Tool)
		return m.end(m.err.Error()), nil
	}
	m.made = append(m.made, made{tool: t.String()})
	args := json.RawMessage(c.Args)
	if c.Args == "" {
		args = json.RawMessage("{}")
	}
	return reply{id: callID(n), tool: t, args: args}, c.Before
}

// end is what the model says last, and whenever it is asked again.
func (m *Model) end(text string) reply {
	if !m.ended {
		m.ended = true
		close(m.over)
	}
	return reply{id: "end", text: text}
}

// find returns the first tool whose name has that end.
func find(offered []tool, end string) (tool, bool) {
	i := slices.IndexFunc(offered, func(t tool) bool { return strings.HasSuffix(t.String(), end) })
	if i < 0 {
		return tool{}, false
	}
	return offered[i], true
}

// limit bounds one request.
const limit = 64 << 20

// ServeHTTP implements [http.Handler].
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, a := range apis() {
		if a.asks(r) {
			m.converse(w, a, r.URL.Path, body)
			return
		}
	}
	if text, ok := aside(r); ok {
		w.Header().Set("Content-Type", "application/json")
		// The agent may be gone.
		_, _ = io.WriteString(w, text)
		return
	}
	m.mu.Lock()
	m.strays = append(m.strays, r.Method+" "+r.URL.Path)
	m.mu.Unlock()
	http.Error(w, "{}", http.StatusNotFound)
}

// converse answers one request of an API.
func (m *Model) converse(w http.ResponseWriter, a api, path string, body []byte) {
	q, err := a.parse(path, body)
	if err != nil {
		err = fmt.Errorf("a request of %s: %w", a.name, err)
		m.mu.Lock()
		m.err = errors.Join(m.err, err)
		m.mu.Unlock()
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s := &stream{w: w}
	rep := m.next(a.name, body, q)
	if q.stream {
		w.Header().Set("Content-Type", "text/event-stream")
		a.stream(s, q, rep)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.write(encode(a.whole(q, rep)))
}

// aside answers what CLIs ask besides: what models there are, how many tokens.
func aside(r *http.Request) (string, bool) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		return `{"input_tokens":1}`, true
	case strings.HasSuffix(r.URL.Path, ":countTokens"):
		return `{"totalTokens":1}`, true
	case strings.HasSuffix(r.URL.Path, "/models") && r.Method == http.MethodGet:
		return `{"object":"list","data":[],"models":[]}`, true
	case r.Method == http.MethodHead:
		return "", true
	default:
		return "", false
	}
}

// api is one model API.
type api struct {
	name   string
	asks   func(*http.Request) bool
	parse  func(path string, body []byte) (ask, error)
	whole  func(ask, reply) any
	stream func(*stream, ask, reply)
}

func apis() []api { return []api{messages(), responses(), chat(), gemini()} }

// posted returns whether a request posts to a path with that end.
func posted(end string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, end)
	}
}

// object is a JSON object to be sent.
type object = map[string]any

// stream is an answer of server-sent events.
type stream struct{ w http.ResponseWriter }

// event sends one, with its type unless that is "".
func (s *stream) event(kind string, data any) {
	if kind != "" {
		s.write("event: " + kind + "\n")
	}
	s.write("data: " + encode(data) + "\n\n")
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}

func (s *stream) write(text string) {
	// The agent may be gone.
	_, _ = io.WriteString(s.w, text)
}

// encode is for values that can be encoded; arguments in a plan that are no
// JSON are a mistake of the test.
func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// texts gathers the text in a piece of a conversation: a string, or parts with
// a text or a content each.
func texts(v any) string {
	var lines []string
	switch v := v.(type) {
	case string:
		lines = append(lines, v)
	case []any:
		for _, part := range v {
			lines = append(lines, texts(part))
		}
	case map[string]any:
		for _, name := range []string{"text", "content", "output", "error", "result"} {
			if part, ok := v[name]; ok {
				lines = append(lines, texts(part))
			}
		}
	}
	return strings.Join(lines, "\n")
}
