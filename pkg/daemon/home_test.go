package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"harness/pkg/control"
)

// patience is how long anything may take that has to happen.
const patience = 20 * time.Second

// home is a place for daemons, which run in this process.
type home struct {
	t     *testing.T
	dir   string
	paths control.Paths
	log   *reader // of all daemons
	json  bool    // how they write it
}

func newHome(t *testing.T) *home {
	t.Helper()
	//nolint:usetesting // the names of tests are long, and a socket's path may have 107 bytes
	dir, err := os.MkdirTemp("", "hd")
	if err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, dir: dir, log: &reader{}, paths: control.Paths{
		Config: filepath.Join(dir, "harness.toml"), State: filepath.Join(dir, "state"),
		Socket: filepath.Join(dir, "s"), Pointer: filepath.Join(dir, "state", "socket"),
	}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", h.log.read())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	write(t, filepath.Join(dir, "mcp.sh"), mcpServer)
	return h
}

// quickServer are settings for tests.
const quickServer = "[server]\nsettle = \"10ms\"\nstop_grace = \"2s\"\n"

// table declares an upstream with these tools, separated by commas, and
// perhaps a manner. more are further lines of its table.
func (h *home) table(key, tools string, more ...string) string {
	tools, manner, _ := strings.Cut(tools, " ")
	return fmt.Sprintf("[mcp.%s]\ncmd = \"sh\"\nargs = [%q, %q, %q]\nrestart_delay = \"50ms\"\n%s\n",
		key, filepath.Join(h.dir, "mcp.sh"), tools, manner, strings.Join(more, "\n"))
}

// write replaces the config, as an editor does.
func (h *home) write(tables ...string) {
	h.t.Helper()
	write(h.t, h.paths.Config+".new", quickServer+strings.Join(tables, ""))
	if err := os.Rename(h.paths.Config+".new", h.paths.Config); err != nil {
		h.t.Fatal(err)
	}
}

// running is one daemon.
type running struct {
	*home
	client *control.Client
	ask    context.CancelFunc // asks it to stop
	kill   chan struct{}      // once closed, tells it to hurry
	done   chan error         // what Run returned
}

// launch starts a daemon and waits for nothing.
func (h *home) launch() (r *running, ready chan struct{}) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	r = &running{home: h, ask: cancel, kill: make(chan struct{}), done: make(chan error, 1)}
	ready = make(chan struct{})
	go func() {
		r.done <- Run(ctx, Options{Paths: h.paths, Version: "v1", Home: h.dir, Log: h.log, JSONLog: h.json, Ready: func() { close(ready) }, Kill: r.kill})
	}()
	return r, ready
}

// start starts a daemon and waits until it serves.
func (h *home) start() *running {
	h.t.Helper()
	r, ready := h.launch()
	select {
	case <-ready:
	case err := <-r.done:
		h.t.Fatalf("the daemon ended: %v\n%s", err, h.log.read())
	case <-time.After(patience):
		h.t.Fatalf("the daemon does not serve\n%s", h.log.read())
	}
	client, err := control.Dial(h.t.Context(), h.paths.Socket)
	if err != nil {
		h.t.Fatal(err)
	}
	r.client = client
	return r
}

// settled waits until these upstreams run and are published.
func (r *running) settled(keys ...string) {
	r.t.Helper()
	until(r.t, fmt.Sprint(keys, " run"), func() bool {
		for _, key := range keys {
			if r.find(key).State != "running" {
				return false
			}
		}
		return true
	})
	a := r.connect()
	defer a.close()
	until(r.t, fmt.Sprint(keys, " are published"), func() bool {
		names := " " + a.names("tools")
		for _, key := range keys {
			if !strings.Contains(names, " "+key+"__") {
				return false
			}
		}
		return true
	})
}

// stop stops the daemon and returns how long that took.
func (r *running) stop() time.Duration {
	r.t.Helper()
	if r.client != nil {
		r.client.Close()
	}
	begun := time.Now()
	r.ask()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("Run returned %v", err)
		}
	case <-time.After(patience):
		r.t.Fatalf("the daemon does not stop\n%s", r.log.read())
	}
	return time.Since(begun)
}

func (r *running) status() *control.Status {
	r.t.Helper()
	s, err := r.client.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// find returns the status of one upstream, the zero value if there is none.
func (r *running) find(key string) control.UpstreamStatus {
	r.t.Helper()
	for _, u := range r.status().Upstreams {
		if u.Name == key {
			return u
		}
	}
	return control.UpstreamStatus{}
}

func (r *running) reload() *control.ReloadResult {
	r.t.Helper()
	res, err := r.client.Reload(r.t.Context(), control.ReloadRequest{WaitMS: patience.Milliseconds()})
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// until waits until ok holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// session is one MCP session.
type session struct {
	t    *testing.T
	conn *net.UnixConn
	last int

	mu      sync.Mutex
	waiting map[int]chan answer
	changed map[string]int // list_changed notifications, by kind
	ended   chan struct{}
}

// answer is what came for one request; neither field is set when the session
// ended instead.
type answer struct {
	Result json.RawMessage
	Error  json.RawMessage
}

// connect opens a session and greets.
func (r *running) connect() *session {
	r.t.Helper()
	conn, err := control.DialSession(r.t.Context(), r.paths.Socket, "")
	if err != nil {
		r.t.Fatal(err)
	}
	a := &session{t: r.t, conn: conn, waiting: map[int]chan answer{}, changed: map[string]int{}, ended: make(chan struct{})}
	go a.read()
	r.t.Cleanup(a.close)
	a.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

// close ends the session.
func (a *session) close() {
	_ = a.conn.Close()
	<-a.ended
}

// read takes in what the daemon says, until the session ends.
func (a *session) read() {
	defer close(a.ended)
	in := bufio.NewScanner(a.conn)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     int
			Method string
			answer
		}
		if err := json.Unmarshal(bytes.Clone(in.Bytes()), &m); err != nil {
			a.t.Errorf("an agent heard %q: %v", in.Bytes(), err)
			continue
		}
		a.mu.Lock()
		if m.Method != "" {
			a.changed[strings.TrimSuffix(strings.TrimPrefix(m.Method, "notifications/"), "/list_changed")]++
		} else if c := a.waiting[m.ID]; c != nil {
			delete(a.waiting, m.ID)
			c <- m.answer
		}
		a.mu.Unlock()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.waiting {
		c <- answer{}
	}
	a.waiting = nil
}

// ask sends a request and waits for its answer.
func (a *session) ask(method, params string) answer {
	c := make(chan answer, 1)
	a.mu.Lock()
	if a.waiting == nil {
		a.mu.Unlock()
		return answer{}
	}
	a.last++
	id := a.last
	a.waiting[id] = c
	a.mu.Unlock()
	fmt.Fprintf(a.conn, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	return <-c
}

// call calls a tool with a text and returns the text of the result, or how it
// failed.
func (a *session) call(tool, text string) string {
	r := a.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"text":%q}}`, tool, text))
	var result struct {
		Content []struct{ Text string }
	}
	if json.Unmarshal(r.Result, &result) != nil || len(result.Content) == 0 {
		return "no result: " + string(r.Error)
	}
	return result.Content[0].Text
}

// names lists tools or prompts.
func (a *session) names(kind string) string {
	a.t.Helper()
	var list map[string][]struct{ Name string }
	if err := json.Unmarshal(a.ask(kind+"/list", "{}").Result, &list); err != nil {
		a.t.Fatal(err)
	}
	var names []string
	for _, x := range list[kind] {
		if kind != "tools" || strings.Contains(x.Name, "__") { // the daemon's own are always there
			names = append(names, x.Name)
		}
	}
	return strings.Join(names, " ")
}

// heard is how many notifications of a kind came so far.
func (a *session) heard(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed[kind]
}
