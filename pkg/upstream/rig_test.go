package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harness/pkg/config"
	"harness/pkg/jsonrpc"
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(fakeVariable); ok {
		runFake(text)
	}
	goleak.VerifyTestMain(m)
}

// rig is a served pool and what it told.
type rig struct {
	t       testing.TB
	pool    *Pool
	mem     *memory // nil where processes are real
	dir     string
	changed atomic.Int64
	cancel  func()
	served  chan error

	mu     sync.Mutex
	events []Event
	base   []string // the daemon's environment
}

// newRig serves a pool of processes in memory.
func newRig(tb testing.TB) *rig {
	tb.Helper()
	mem := &memory{}
	r := makeRig(tb, func(o Options) *Pool { return newPool(o, mem) })
	r.mem = mem
	return r
}

// makeRig serves the pool that build makes, until the test ends.
func makeRig(tb testing.TB, build func(Options) *Pool) *rig {
	tb.Helper()
	r := &rig{t: tb, dir: tb.TempDir(), served: make(chan error, 1), base: []string{"PATH=" + os.Getenv("PATH")}}
	server := config.DefaultServer()
	server.MaxMessage = 4 << 20
	r.pool = build(Options{
		StateDir: r.dir, LogDir: r.dir, Env: func() []string { return r.base }, ReadFile: os.ReadFile,
		Logger: slog.New(slog.DiscardHandler), Changed: func() { r.changed.Add(1) }, Event: r.event,
		Version: "test", Server: server,
	})
	ctx, cancel := context.WithCancel(tb.Context())
	go func() { r.served <- r.pool.Serve(ctx) }()
	r.cancel = sync.OnceFunc(func() {
		cancel()
		if err := <-r.served; !errors.Is(err, context.Canceled) {
			tb.Errorf("the pool ended: %v", err)
		}
	})
	tb.Cleanup(r.cancel)
	return r
}

func (r *rig) event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// messages returns what the events said, for the key up.
func (r *rig) messages() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, e := range r.events {
		list = append(list, string(e.State)+": "+e.Message)
	}
	return list
}

// launch returns a definition of the upstream key that behaves like s.
func (r *rig) launch(key string, s script) config.Launch {
	text, err := json.Marshal(s)
	if err != nil {
		r.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	return config.Launch{Exe: exe, Upstream: config.Upstream{
		Key: key, Cmd: exe, Workdir: r.dir, Env: map[string]string{fakeVariable: string(text)},
		RestartDelay: time.Second, StartTimeout: time.Minute, Enabled: true, Prestart: true,
		Update: config.Swap, Isolation: config.IsolationShared,
	}}
}

// status returns the upstream key's status, or the zero value.
func (r *rig) status(key string) Status {
	if u := r.pool.Unit(key); u != nil {
		return *u.view.Load()
	}
	return Status{}
}

// log returns the log file of the upstream up.
func (r *rig) log() string {
	data, err := os.ReadFile(LogPath(r.dir, "up"))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// tools returns the names of an offer.
func tools(o *Offer) string {
	if o == nil {
		return "none"
	}
	var names []string
	for _, t := range o.Tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, " ")
}

// agent is a session as the relay sees one. Outcomes are counted for each
// call: a second one is the fault the tests look for.
type agent struct {
	mu       sync.Mutex
	batch    jsonrpc.Batch
	last     int
	calls    map[*jsonrpc.Call]*outcome
	progress []string
	flushed  int
}

// outcome is what became of one call.
type outcome struct {
	call  *jsonrpc.Call
	count int
	text  string // the answer's line, or the failure
	err   *jsonrpc.CallError
	done  chan struct{}
}

var _ jsonrpc.Owner = (*agent)(nil)

func newAgent() *agent { return &agent{calls: map[*jsonrpc.Call]*outcome{}} }

// Answer implements [jsonrpc.Owner].
func (a *agent) Answer(c *jsonrpc.Call, line []byte, m *jsonrpc.Message) {
	text := string(jsonrpc.Splice(nil, line, jsonrpc.Edit{At: m.ID, With: c.ID}))
	a.settle(c, text, nil)
}

// Fail implements [jsonrpc.Owner].
func (a *agent) Fail(c *jsonrpc.Call, e *jsonrpc.CallError) { a.settle(c, e.Error(), e) }

func (a *agent) settle(c *jsonrpc.Call, text string, e *jsonrpc.CallError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.calls[c]
	o.count++
	o.text, o.err = text, e
	if o.count == 1 {
		close(o.done)
	}
}

// Progress implements [jsonrpc.Owner].
func (a *agent) Progress(c *jsonrpc.Call, line []byte, m *jsonrpc.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = append(a.progress, string(jsonrpc.Splice(nil, line, jsonrpc.Edit{At: m.ParamsToken, With: c.Token})))
}

// Flush implements [jsonrpc.Owner].
func (a *agent) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flushed++
}

// call relays one tools/call with the raw arguments. An agent calls from one
// goroutine.
func (a *agent) call(u *Unit, tool, arguments string) *outcome {
	return a.send(u, tool, fmt.Sprintf(`{"name":"up__%s","arguments":%s}`, tool, arguments), nil)
}

// send relays one tools/call with the raw params and progress token.
func (a *agent) send(u *Unit, tool, params string, token []byte) *outcome {
	a.last++
	id := fmt.Sprintf("%q", fmt.Sprint("a", a.last))
	line := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":%s}`, id, params))
	var m jsonrpc.Message
	if err := jsonrpc.Peek(line, &m); err != nil {
		panic(err)
	}
	c := jsonrpc.NewCall(a, []byte(id), token)
	c.Name, c.Method, c.Key = jsonrpc.Edit{At: m.Name, With: fmt.Appendf(nil, "%q", tool)}, "tools/call", u.key
	o := &outcome{call: c, done: make(chan struct{})}
	a.mu.Lock()
	a.calls[c] = o
	a.mu.Unlock()
	if e := u.Relay(c, line, &m, &a.batch); e != nil {
		a.Fail(c, e)
	}
	a.batch.Flush()
	return o
}

// wait returns the outcome's text once it is there. In a bubble the limit
// passes in no time; outside of one the test's own limit is nearer.
func (o *outcome) wait(tb testing.TB) string {
	tb.Helper()
	select {
	case <-o.done:
		return o.text
	case <-time.After(time.Hour):
		tb.Fatal("a call has no outcome")
		return ""
	}
}

// open reports whether the call has no outcome yet.
func (o *outcome) open() bool {
	select {
	case <-o.done:
		return false
	default:
		return true
	}
}

// once fails the test unless every call had at most one outcome, and exactly
// one but for those cancelled.
func (a *agent) once(tb testing.TB, cancelled ...*outcome) {
	tb.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.calls {
		want := 1
		if slices.Contains(cancelled, o) {
			want = 0
		}
		if o.count != want {
			tb.Errorf("call %s had %d outcomes, want %d", o.call.ID, o.count, want)
		}
	}
}

// until waits for a condition on real processes.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatalf("%s did not happen", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// envFile writes an env_file and returns its path.
func (r *rig) envFile(text string) string {
	path := filepath.Join(r.dir, "secrets.env")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path
}
