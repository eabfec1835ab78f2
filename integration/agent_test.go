package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// agent is an MCP client over `harness mcp`, and a strict one: every line it
// gets must be JSON-RPC, every answer must be to a question of its own, and
// no question may be answered twice.
type agent struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr *buffer
	exited chan struct{}

	bySignal bool // the test ended it; its exit code is not looked at
	writing  sync.Mutex

	mu      sync.Mutex
	lines   []message
	asked   map[string]*call // every id ever used, as spelled
	nextID  int
	changed chan struct{} // closed and replaced at each line
	faults  []string
	ended   bool // stdout is at its end
}

// message is one line the agent got.
type message struct {
	at      time.Time
	raw     []byte
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Params  json.RawMessage
	Result  json.RawMessage
	Error   *rpcError
}

type rpcError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

// call is a request under way.
type call struct {
	a      *agent
	id     string // as spelled
	sent   time.Time
	answer chan message // capacity 1
	done   bool         // owned by the agent's mu
}

// agent starts a bridge and says nothing to it yet. When the test ends its
// stdin is closed, and it must exit 0 by itself.
func (h *home) agent(args ...string) *agent {
	h.t.Helper()
	return h.client("harness", append([]string{"mcp"}, args...)...)
}

// client is the same for any MCP server on stdio: what a test compares the
// bridge with.
func (h *home) client(name string, args ...string) *agent {
	h.t.Helper()
	a := &agent{
		t: h.t, stderr: &buffer{}, asked: map[string]*call{},
		changed: make(chan struct{}), exited: make(chan struct{}),
		cmd: h.command(context.Background(), name, args...),
	}
	a.cmd.Stderr = a.stderr
	in, err := a.cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	a.in = in
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go a.read(out)
	h.t.Cleanup(a.end)
	return a
}

// connected is an agent that shook hands.
func (h *home) connected(args ...string) *agent {
	h.t.Helper()
	a := h.agent(args...)
	a.initialize("2025-11-25")
	a.initialized()
	return a
}

// read collects lines until the bridge closes its stdout, then its exit.
func (a *agent) read(out io.Reader) {
	defer close(a.exited)
	r := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			a.take(bytes.TrimSuffix(line, []byte("\n")), err == nil)
		}
		if err != nil {
			break
		}
	}
	a.mu.Lock()
	a.ended = true
	close(a.changed)
	a.changed = make(chan struct{})
	a.mu.Unlock()
	a.cmd.Wait()
}

// take checks one line and hands it to who waits for it.
func (a *agent) take(line []byte, whole bool) {
	m := message{at: time.Now(), raw: line}
	a.mu.Lock()
	defer a.mu.Unlock()
	if why := a.check(line, whole, &m); why != "" {
		a.faults = append(a.faults, fmt.Sprintf("%s: %.300s", why, line))
	}
	a.lines = append(a.lines, m)
	close(a.changed)
	a.changed = make(chan struct{})
}

// check decodes a line and says what is wrong with it.
func (a *agent) check(line []byte, whole bool, m *message) string {
	switch {
	case !whole:
		return "a line without its end"
	case json.Unmarshal(line, m) != nil:
		return "not a JSON object"
	case m.JSONRPC != "2.0":
		return "not JSON-RPC 2.0"
	}
	result, fault := m.Result != nil, m.Error != nil
	if m.Method != "" {
		if result || fault {
			return "a method and an answer in one"
		}
		return ""
	}
	if result == fault {
		return "neither request nor answer"
	}
	c := a.asked[string(m.ID)]
	switch {
	case c == nil && string(m.ID) == "null" && fault:
		return "" // a line of ours that could not be read; tests look for it
	case c == nil:
		return "an answer to a question never asked"
	case c.done:
		return "a second answer"
	}
	c.done = true
	c.answer <- *m
	return ""
}

// end closes stdin and demands a clean exit and a clean record. A bridge that
// would wait for answers that never come is told to go.
func (a *agent) end() {
	a.in.Close()
	if a.alive() && a.waits() {
		a.bySignal = true
		a.cmd.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-a.exited:
	case <-time.After(patience):
		a.cmd.Process.Kill()
		<-a.exited
		a.t.Errorf("the bridge did not exit within %v of the end of its stdin", patience)
	}
	if !a.cmd.ProcessState.Success() && !a.bySignal {
		a.t.Errorf("the bridge: %v", a.cmd.ProcessState)
	}
	if strings.Contains(a.stderr.String(), "DATA RACE") {
		a.t.Error("the bridge met a data race")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.faults {
		a.t.Errorf("from the bridge: %s", f)
	}
	if a.t.Failed() && a.stderr.String() != "" {
		a.t.Logf("stderr of the bridge:\n%s", a.stderr)
	}
}

// waits reports whether a request has no answer yet.
func (a *agent) waits() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.asked {
		if !c.done {
			return true
		}
	}
	return false
}

// alive reports whether the bridge still runs.
func (a *agent) alive() bool {
	select {
	case <-a.exited:
		return false
	default:
		return true
	}
}

// send writes one raw line.
func (a *agent) send(line string) {
	a.t.Helper()
	a.writing.Lock()
	defer a.writing.Unlock()
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		a.t.Errorf("write to the bridge: %v", err)
	}
}

// beginAs sends a request with an id and params as spelled.
func (a *agent) beginAs(id, method, params string) *call {
	a.t.Helper()
	c := &call{a: a, id: id, sent: time.Now(), answer: make(chan message, 1)}
	a.mu.Lock()
	if a.asked[id] != nil {
		a.t.Fatalf("the test uses id %s twice", id)
	}
	a.asked[id] = c
	a.mu.Unlock()
	a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return c
}

// begin sends a request with the next id. params is marshalled, or raw when
// it is a json.RawMessage.
func (a *agent) begin(method string, params any) *call {
	a.t.Helper()
	a.mu.Lock()
	a.nextID++
	id := fmt.Sprint(a.nextID)
	a.mu.Unlock()
	return a.beginAs(id, method, marshal(a.t, params))
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	if v == nil {
		return "{}"
	}
	if raw, ok := v.(json.RawMessage); ok {
		return string(raw)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wait is the answer, which has to come within patience.
func (c *call) wait() message {
	c.a.t.Helper()
	return c.waitIn(patience)
}

// waitIn is wait with a bound of the caller's, counted from when the request
// was sent.
func (c *call) waitIn(limit time.Duration) message {
	c.a.t.Helper()
	select {
	case m := <-c.answer:
		if took := m.at.Sub(c.sent); took > limit {
			c.a.t.Errorf("id %s was answered after %v, not within %v", c.id, took, limit)
		}
		return m
	case <-time.After(time.Until(c.sent.Add(max(limit, patience)))):
		c.a.t.Fatalf("id %s was not answered within %v", c.id, max(limit, patience))
	case <-c.a.exited:
		c.a.t.Fatalf("id %s: the bridge exited: %s", c.id, c.a.stderr)
	}
	return message{}
}

// ask is a request and its answer.
func (a *agent) ask(method string, params any) message {
	a.t.Helper()
	return a.begin(method, params).wait()
}

// notify sends a notification.
func (a *agent) notify(method string, params any) {
	a.t.Helper()
	a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, marshal(a.t, params)))
}

// initialize shakes hands at a revision and returns the answer.
func (a *agent) initialize(revision string) message {
	a.t.Helper()
	return a.ask("initialize", map[string]any{
		"protocolVersion": revision, "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "integration", "version": "1"},
	})
}

func (a *agent) initialized() { a.t.Helper(); a.notify("notifications/initialized", nil) }

// tool is one entry of tools/list.
type tool struct {
	Name string
	raw  json.RawMessage
}

// tools lists the tools. More than one page is a fault.
func (a *agent) tools() []tool {
	a.t.Helper()
	var list struct {
		Tools      []json.RawMessage
		NextCursor *string
	}
	m := a.ask("tools/list", nil)
	if m.Error != nil || json.Unmarshal(m.Result, &list) != nil || list.NextCursor != nil {
		a.t.Fatalf("tools/list: %.500s", m.raw)
	}
	var tools []tool
	for _, raw := range list.Tools {
		one := tool{raw: raw}
		if err := json.Unmarshal(raw, &one); err != nil {
			a.t.Fatal(err)
		}
		tools = append(tools, one)
	}
	return tools
}

// toolNames lists the names of the tools, sorted as served.
func (a *agent) toolNames() []string {
	a.t.Helper()
	var names []string
	for _, t := range a.tools() {
		if strings.Contains(t.Name, "__") {
			names = append(names, t.Name)
		}
	}
	return names
}

// ownTools are the daemon's own tools that the session sees.
func (a *agent) ownTools() []string {
	a.t.Helper()
	var names []string
	for _, t := range a.tools() {
		if !strings.Contains(t.Name, "__") {
			names = append(names, t.Name)
		}
	}
	return names
}

// sees reports whether a tool is listed.
func (a *agent) sees(name string) bool {
	a.t.Helper()
	return slices.Contains(a.toolNames(), name)
}

// beginCall sends a tools/call.
func (a *agent) beginCall(tool string, args any) *call {
	a.t.Helper()
	return a.begin("tools/call", json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, marshal(a.t, args))))
}

// result is the answer to a tools/call.
type result struct {
	Content []struct{ Type, Text string }
	IsError bool
	Meta    struct {
		Harness map[string]any `json:"harness/error"`
		// Upstream is whose failure it was.
		Upstream any `json:"harness/upstream"`
	} `json:"_meta"`
	StructuredContent json.RawMessage
	raw               []byte // the line
	err               *rpcError
}

// text is the first text of a result.
func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// code is the code of an error that harness made, "" of any other answer.
func (r result) code() string {
	code, _ := r.Meta.Harness["code"].(string)
	return code
}

// ok reports that the call succeeded.
func (r result) ok() bool { return r.err == nil && !r.IsError }

func (r result) String() string { return fmt.Sprintf("%.1000s", r.raw) }

// resultOf reads the answer to a tools/call. It also holds every error that
// harness made to the form all of them have.
func resultOf(t testing.TB, m message) result {
	t.Helper()
	r := result{raw: m.raw, err: m.Error}
	if m.Error != nil {
		return r
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatalf("result: %v: %.500s", err, m.raw)
	}
	if code := r.code(); code != "" {
		if text, _ := r.Meta.Harness["message"].(string); !r.IsError || text == "" || !strings.HasPrefix(r.text(), "["+code+"] ") {
			t.Errorf("an error without its form: %s", m.raw)
		}
	}
	return r
}

// result waits for the answer to a tools/call.
func (c *call) result() result { c.a.t.Helper(); return resultOf(c.a.t, c.wait()) }

// call calls a tool and waits for its result.
func (a *agent) call(tool string, args any) result {
	a.t.Helper()
	return a.beginCall(tool, args).result()
}

// must calls a tool that has to succeed and returns its text.
func (a *agent) must(tool string, args any) string {
	a.t.Helper()
	r := a.call(tool, args)
	if !r.ok() {
		a.t.Fatalf("%s: %s", tool, r)
	}
	return r.text()
}

// eventuallyCalls calls a tool until it succeeds, and returns its text.
func (a *agent) eventuallyCalls(tool string, args any) string {
	a.t.Helper()
	var r result
	eventually(a.t, "a call of "+tool, func() bool {
		r = a.call(tool, args)
		return r.ok()
	})
	return r.text()
}

// well demands that an upstream still answers this agent.
func (a *agent) well(key string) {
	a.t.Helper()
	if got := a.must(key+"__echo", map[string]any{"text": "still here"}); got != "still here" {
		a.t.Errorf("%s says %q", key, got)
	}
}

// The notifications that tell of another list.
const (
	toolsChanged   = "notifications/tools/list_changed"
	promptsChanged = "notifications/prompts/list_changed"
)

// notes are the notifications of a method so far.
func (a *agent) notes(method string) []message {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []message
	for _, m := range a.lines {
		if m.Method == method {
			all = append(all, m)
		}
	}
	return all
}

// count is how many notifications of a method came so far.
func (a *agent) count(method string) int { return len(a.notes(method)) }

// awaitCount waits until n notifications of a method have come.
func (a *agent) awaitCount(method string, n int) {
	a.t.Helper()
	deadline := time.After(patience)
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if a.count(method) >= n {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			a.t.Fatalf("%d of %s, not %d, within %v", a.count(method), method, n, patience)
		}
	}
}

// received is every line so far.
func (a *agent) received() []message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.lines)
}

// signal sends a signal to the bridge.
func (a *agent) signal(sig syscall.Signal) { a.t.Helper(); signal(a.t, a.cmd.Process.Pid, sig) }

// rawf is params or arguments as spelled.
func rawf(format string, args ...any) json.RawMessage {
	return fmt.Appendf(nil, format, args...)
}
