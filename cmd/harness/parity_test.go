package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/control"
	"harness/pkg/daemon"
	"harness/pkg/jsonrpc"
)

var (
	paritySeed   = flag.Uint64("parity-seed", 1, "seed of the fleets that the tools and the command line are compared over")
	parityFleets = flag.Int("parity-fleets", 4, "how many of them")
)

// patience is how long anything may take that has to happen.
const patience = 30 * time.Second

// twin is a daemon in this process that is asked everything twice: with the
// command line, and with the tools of a session that may do everything.
type twin struct {
	t      *testing.T
	dir    string
	rnd    *rand.Rand
	fleet  map[string]kind // what each harness is, but the boss
	boss   *agent
	states map[string]int // that were compared, for the log
}

// kind is a way to be a harness.
type kind struct {
	steady bool // a word about it always ends alike
	table  string
}

// kinds are a table each, and what is printed by it is no text for a terminal.
var kinds = []kind{
	{true, `cmd = "sh"` + "\n" + `args = ["-c", 'printf "up\033[1m\r\n<b>\t\303\251\n"; while read line; do echo $line; done']`},
	{true, `cmd = "sh"` + "\n" + `args = ["-c", "trap '' TERM HUP; while :; do sleep 1000; done"]`},
	{true, `cmd = "no-such-program"` + "\n" + `restart_delay = "1h"`},
	{false, `cmd = "sh"` + "\n" + `args = ["-c", "echo bye; exit 3"]` + "\n" + `restart_delay = "1h"`},
	{false, `cmd = "true"` + "\n" + `restart_delay = "10ms"`},
	{false, `cmd = "sh"` + "\n" + `args = ["-c", "kill -9 $$"]` + "\n" + `restart_delay = "200ms"`},
}

// newTwin starts the daemon with a boss, and a session of that one's.
func newTwin(t *testing.T) *twin {
	t.Helper()
	dir, err := os.MkdirTemp("", "hp") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, dir)
	}
	w := &twin{t: t, dir: dir, rnd: rand.New(rand.NewPCG(*paritySeed, 0)), fleet: map[string]kind{}, states: map[string]int{}}
	w.write("prompts/plain.md", "Say it.")
	w.write("prompts/asks.md", "---\ntitle: Asks\ndescription: of <b>\narguments:\n  - {name: who, required: true}\n  - {name: how}\n---\nAsk {{who}} {{how}}.")
	w.edit()
	w.serve()
	w.boss = w.session(w.bossToken())
	return w
}

// write puts text into a file of the home, in place of what it held.
func (w *twin) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+"~", []byte(text), 0o600), os.Rename(path+"~", path)); err != nil {
		w.t.Fatal(err)
	}
}

// serve runs the daemon until the test ends.
func (w *twin) serve() {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var log bytes.Buffer
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Options{Paths: (&globals{}).paths(), Version: programVersion(), Home: w.dir, Log: &log, Ready: func() { close(ready) }})
	}()
	w.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			w.t.Logf("log of the daemon:\n%s", log.String())
		}
	})
	select {
	case <-ready:
	case <-time.After(patience):
		w.t.Fatal("the daemon does not serve")
	}
}

// bossToken is what the boss has written down of its environment.
func (w *twin) bossToken() (token string) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); token == ""; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("the boss does not start")
		}
		text, _ := os.ReadFile(filepath.Join(w.dir, "token"))
		token, _, _ = strings.Cut(string(text), "\n")
	}
	return token
}

// session is an agent that presents a token.
func (w *twin) session(token string) *agent {
	w.t.Helper()
	conn, err := dialSession(w.t.Context(), (&globals{}).paths(), token)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	a := &agent{conn: conn, in: jsonrpc.NewReader(conn, 64<<10, largestAnswer)}
	if _, err := a.request("initialize", []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"twin","version":"1"}}`)); err != nil {
		w.t.Fatal(err)
	}
	return a
}

// edit writes a config of what the fleet is now.
func (w *twin) edit() {
	w.t.Helper()
	var text strings.Builder
	text.WriteString("[server]\nsettle = \"10ms\"\nstop_grace = \"300ms\"\n[mcp.prompts]\npaths = [\"prompts\"]\n")
	fmt.Fprintf(&text, "[harness.boss]\ncmd = \"sh\"\nargs = [\"-c\", \"echo $HARNESS_MCP_TOKEN > %s; while read line; do :; done\"]\nenabled = true\nmcp_allow = [\"write\"]\n", filepath.Join(w.dir, "token"))
	var members []string
	for _, name := range w.names() {
		fmt.Fprintf(&text, "[harness.%s]\n%s\nenabled = %v\ndescription = %q\nenv = { N%d = \"x\" }\n", name, w.fleet[name].table,
			w.rnd.IntN(3) > 0, []string{"", "plain", "a <b> & \u2028 é"}[w.rnd.IntN(3)], w.rnd.IntN(2))
		if w.rnd.IntN(2) == 0 {
			members = append(members, fmt.Sprintf("%q", name))
		}
	}
	fmt.Fprintf(&text, "[profile.some]\nmembers = [%s]\n", strings.Join(members, ", "))
	w.write("harness/harness.toml", text.String())
}

func (w *twin) names() []string {
	var names []string
	for name := range w.fleet {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// change makes another fleet: some come, some go, some become another, and some
// are told to start and stop.
func (w *twin) change() {
	w.t.Helper()
	for i := range 9 {
		name := fmt.Sprintf("h%d", i)
		switch n := w.rnd.IntN(4); {
		case n == 0:
			delete(w.fleet, name)
		case n < 3 || w.fleet[name].table == "":
			w.fleet[name] = kinds[w.rnd.IntN(len(kinds))]
		}
	}
	w.edit()
	w.cli("reload")
	for range 4 {
		w.cli([]string{"start", "stop", "restart"}[w.rnd.IntN(3)], w.any())
	}
	if w.rnd.IntN(2) == 0 {
		w.cli("use", "some")
	}
}

// any is the name of a harness, sometimes of none.
func (w *twin) any() string {
	names := append(w.names(), "nobody")
	return names[w.rnd.IntN(len(names))]
}

// cli runs a command line.
func (w *twin) cli(args ...string) outcome {
	w.t.Helper()
	var out, errOut bytes.Buffer
	root := newRoot(streams{strings.NewReader(""), &out, &errOut}, nil)
	root.SetArgs(args)
	code := report(&errOut, root.ExecuteContext(w.t.Context()))
	return outcome{code, out.String(), errOut.String()}
}

// answer is what one side says: a value without its uptimes, or why there is
// none.
type answer struct {
	Value any
	Why   string
}

// asked is the command line's answer.
func (w *twin) asked(args ...string) answer {
	w.t.Helper()
	o := w.cli(append(args, "--json")...)
	if o.out == "" {
		return answer{Why: strings.TrimPrefix(strings.TrimSpace(o.err), "harness: ")}
	}
	return answer{Value: w.decode([]byte(o.out))}
}

// called is the answer of a tool.
func (w *twin) called(tool string, arguments map[string]any) answer {
	w.t.Helper()
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		w.t.Fatal(err)
	}
	raw, err := w.boss.request("tools/call", params)
	if err != nil {
		w.t.Fatal(err)
	}
	var r struct {
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		w.t.Fatalf("%s: %s", tool, raw)
	}
	if r.IsError {
		_, why, _ := strings.Cut(r.Content[0].Text, "] ")
		return answer{Why: why}
	}
	if diff := cmp.Diff(w.decode(r.StructuredContent), w.decode([]byte(r.Content[0].Text))); diff != "" {
		w.t.Errorf("%s: its text is not its structure:\n%s", tool, diff)
	}
	return answer{Value: w.decode(r.StructuredContent)}
}

// decode reads a value and leaves out what goes on by itself.
func (w *twin) decode(raw []byte) (v any) {
	w.t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		w.t.Fatalf("%v in %s", err, raw)
	}
	return timeless(v)
}

func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, there := v["uptime_ms"]; there {
			v["uptime_ms"] = "aside"
		}
		for key := range v {
			v[key] = timeless(v[key])
		}
	case []any:
		for i := range v {
			v[i] = timeless(v[i])
		}
	}
	return v
}

// same demands that a tool answers what a command line does. Both are asked in
// one instant: the command line says the same before and after.
func (w *twin) same(tool string, arguments map[string]any, ask func() answer) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		before := ask()
		got := w.called(tool, arguments)
		if cmp.Equal(before, ask()) {
			if diff := cmp.Diff(before, got); diff != "" {
				w.t.Errorf("%s %v (-command line +tool):\n%s", tool, arguments, diff)
			}
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s %v: no instant in %v", tool, arguments, patience)
		}
	}
}

// asJSON is a command line as something to ask.
func (w *twin) asJSON(args ...string) func() answer {
	return func() answer { return w.asked(args...) }
}

// byCall is what `harness call` shows of a tool that has no other command.
func (w *twin) byCall(tool string, arguments map[string]any) func() answer {
	return func() answer {
		text, err := json.Marshal(arguments)
		if err != nil {
			w.t.Fatal(err)
		}
		result, _ := w.asked("call", tool, string(text)).Value.(map[string]any)
		return answer{Value: result["structuredContent"]}
	}
}

// word demands that a tool that changes something says of a harness what the
// command line says when it asks for the same again.
func (w *twin) word(tool, name string) {
	w.t.Helper()
	got := w.called(tool, map[string]any{"name": name})
	verb := map[string]string{"harness_start": "start", "harness_stop": "stop", "harness_restart": "start"}[tool]
	want := w.asked(verb, name)
	if o := w.cli(verb, name); o.code != exitDone && want.Value != nil {
		why, _, _ := strings.Cut(strings.TrimPrefix(o.err, "harness: "), "; see `harness logs")
		want = answer{Why: why}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s %s (-command line +tool):\n%s", tool, name, diff)
	}
}

// newestRun is the id of the newest run.
func (w *twin) newestRun() string {
	w.t.Helper()
	v, _ := w.called("list_trajectories", map[string]any{"limit": 1}).Value.(map[string]any)
	runs, _ := v["runs"].([]any)
	if len(runs) != 1 {
		w.t.Fatalf("no run in %v", v)
	}
	id, _ := runs[0].(map[string]any)["id"].(string)
	return id
}

// compare asks with every tool there is.
func (w *twin) compare(tool string) {
	w.t.Helper()
	one := func(name string) map[string]any { return map[string]any{"name": name} }
	switch tool {
	case "harness_list":
		w.same(tool, nil, w.asJSON("list"))
	case "harness_describe":
		for _, name := range append(w.names(), "boss", "nobody") {
			w.same(tool, one(name), w.asJSON("describe", name))
		}
	case "harness_logs":
		for _, name := range append(w.names(), "boss") {
			n := 1 + w.rnd.IntN(50)
			w.same(tool, map[string]any{"name": name, "lines": n}, w.asJSON("logs", name, "-n", fmt.Sprint(n)))
		}
	case "harness_prompts":
		w.same(tool, nil, w.asJSON("prompts"))
	case "list_trajectories":
		for _, arguments := range []map[string]any{{}, {"limit": 3}, one(w.any())} {
			w.same(tool, arguments, w.byCall(tool, arguments))
		}
	case "get_trajectory":
		arguments := map[string]any{"id": w.newestRun()}
		w.same(tool, arguments, w.byCall(tool, arguments))
	case "harness_start", "harness_stop", "harness_restart":
		for _, name := range w.names() {
			if w.fleet[name].steady {
				w.word(tool, name)
			}
		}
	default:
		w.t.Errorf("%s has no command line that it is held to", tool)
	}
}

// tools are those of the endpoint itself, in a random order.
func (w *twin) tools() []string {
	w.t.Helper()
	raw, err := w.boss.request("tools/list", []byte("{}"))
	var list struct{ Tools []struct{ Name string } }
	if err != nil || json.Unmarshal(raw, &list) != nil || len(list.Tools) < 9 {
		w.t.Fatalf("%s, %v", raw, err)
	}
	var names []string
	for _, t := range list.Tools {
		// The operations whose arguments are their own are the same method for
		// both, whatever the state of the fleet.
		of := func(word string) bool { return strings.HasPrefix(t.Name, "harness_"+word+"_") }
		if !of("run") && !of("message") && !of("pack") && !of("worktree") && !of("workflow") {
			names = append(names, t.Name)
		}
	}
	w.rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// TestTools_SayWhatTheCommandLineSays compares every tool with the command line
// over fleets at random (WHO-3).
func TestTools_SayWhatTheCommandLineSays(t *testing.T) {
	w := newTwin(t)
	for range *parityFleets {
		w.change()
		for _, tool := range w.tools() {
			w.compare(tool)
		}
		w.count()
	}
	t.Logf("seed %d, states %v", *paritySeed, w.states)
	for _, state := range []string{"running", "stopped", "restarting"} {
		if w.states[state] == 0 {
			t.Errorf("nothing was %s while it was looked at", state)
		}
	}
}

// count notes which states there are.
func (w *twin) count() {
	w.t.Helper()
	var list control.HarnessList
	if err := json.Unmarshal([]byte(w.cli("list", "--json").out), &list); err != nil {
		w.t.Fatal(err)
	}
	for _, h := range list.Harnesses {
		w.states[h.State]++
	}
}
