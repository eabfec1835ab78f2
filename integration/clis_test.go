package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"harness/integration/fakemodel"
	"harness/pkg/adapter"
)

// forEachCLI runs a test with the real agent CLIs that this machine has: those
// in the directory that HARNESS_AGENT_CLIS names, Claude Code at least, which
// .ci/run installs. which picks some of them.
func forEachCLI(t *testing.T, which func(fakemodel.Client) bool, test func(t *testing.T, path string)) {
	t.Parallel()
	dir := os.Getenv("HARNESS_AGENT_CLIS")
	if dir == "" {
		return // as it is with the servers of npm
	}
	for _, c := range fakemodel.Clients("") {
		path := filepath.Join(dir, c.Program)
		if c.Program != "claude" && !exists(path) || !which(c) {
			continue
		}
		t.Run(c.Program, func(t *testing.T) {
			t.Parallel()
			test(t, path)
		})
	}
}

func every(fakemodel.Client) bool { return true }

// desk is a home with one real CLI and the model that it asks.
type desk struct {
	*home
	cli   fakemodel.Client
	path  string // of the CLI
	model *fakemodel.Model
	// errands are what the model waits for. The goroutine of the test does
	// them: no other may end it.
	errands chan func()
	// pending is tried until it succeeds, while the model talks on; nil for
	// nothing.
	pending func() bool
}

func newDesk(t *testing.T, path string, plan ...fakemodel.Call) *desk {
	t.Helper()
	k := &desk{home: newHome(t), path: path, errands: make(chan func())}
	all := fakemodel.Clients("")
	which := slices.IndexFunc(all, func(c fakemodel.Client) bool { return c.Program == filepath.Base(path) })
	for i := range plan {
		if i == 0 {
			plan[i].Until = all[which].Own // not all wait for a server before they begin
		}
		if do := plan[i].Before; do != nil {
			plan[i].Before = func() { k.errand(do) }
		}
	}
	k.model = fakemodel.New(plan...)
	server := httptest.NewServer(k.model)
	t.Cleanup(server.Close)
	k.cli = fakemodel.Clients(server.URL)[which]
	for name, text := range k.cli.Home {
		k.write("home/"+name, text)
	}
	// It has its settings below its home, wherever the daemon has its own.
	k.cli.Env = append(k.cli.Env, "XDG_CONFIG_HOME="+k.home.path("home/.config"))
	return k
}

// errand has the test do something, and returns when it is done.
func (k *desk) errand(do func()) {
	done := make(chan struct{})
	select {
	case k.errands <- func() { defer close(done); do() }:
		<-done
	case <-k.t.Context().Done():
	}
}

// work does the model's errands until its plan is over. Where the agent has
// ended before, it says what the agent printed.
func (k *desk) work(ended <-chan struct{}, printed func() string) {
	k.t.Helper()
	late := time.After(5 * patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case do := <-k.errands:
			do()
			continue
		case <-tick.C:
			if k.pending != nil && k.pending() {
				k.pending = nil
			}
			continue
		case <-k.model.Over():
		case <-ended:
		case <-late:
		}
		if err := k.model.Err(); err != nil {
			k.t.Fatalf("%v; results %+v; strays %q; it printed:\n%s", err, k.model.Results(), k.model.Strays(), printed())
		}
		return
	}
}

// worker is the CLI as a harness that is started once.
func (k *desk) worker(args []string, more string) string {
	var env, words []string
	for _, v := range k.cli.Env {
		key, value, _ := strings.Cut(v, "=")
		env = append(env, key+" = "+strconv.Quote(value))
	}
	for _, a := range args {
		words = append(words, strconv.Quote(a))
	}
	return fmt.Sprintf("[harness.worker]\ncmd = %q\nargs = [%s]\nenv = { %s }\nenabled = true\nrestart_delay = \"10m\"\n%s\n",
		k.path, strings.Join(words, ", "), strings.Join(env, ", "), more)
}

// copied has the agent's bridge copy, so that the agent hears nothing while the
// bridge stands still: where the size of files is limited, nothing is handed
// over. An agent may give its bridge another environment, but no other limits.
func (k *desk) copied() {
	k.t.Helper()
	program := k.write(filepath.Join("copied", k.cli.Program), "#!/bin/sh\nulimit -f 1000000\nexec "+strconv.Quote(k.path)+" \"$@\"\n")
	if err := os.Chmod(program, 0o700); err != nil {
		k.t.Fatal(err)
	}
	k.path = program
}

// awkward puts the state directory and the program of the daemon where a
// wiring has to quote every path.
func (k *desk) awkward() {
	k.t.Helper()
	name := `a "b" 'c' d`
	k.env["XDG_STATE_HOME"] = k.home.path(name)
	if k.cli.Program == "gemini" {
		k.ofRoot(name)
	}
	program := k.home.path("bin "+name, "harness")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Link(filepath.Join(bin(k.t), "harness"), program); err != nil {
		k.t.Fatal(err)
	}
	k.wrap = []string{"sh", "-c", `shift && exec "$0" "$@"`, program}
}

// ofRoot puts the state directory where Gemini reads settings of ours: where
// nobody but root can write, which is not so in the temporary directory. Whoever
// is not root gives it the endpoint by hand.
func (k *desk) ofRoot(name string) {
	k.t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		k.t.Fatal(err)
	}
	if !adapter.RootOnly(cache) {
		k.pasted()
		return
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		k.t.Fatal(err)
	}
	state, err := os.MkdirTemp(cache, name)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { os.RemoveAll(state) })
	k.env["XDG_STATE_HOME"] = state
}

// supervise runs the daemon with the CLI as one of its harnesses, until the
// plan is over and the agent has ended well.
func (k *desk) supervise(tables func() []string) {
	k.t.Helper()
	k.awkward()
	k.edit(tables()...)
	k.start()
	k.work(nil, func() string { return k.must("logs", "worker") })
	if w := k.awaitHarness("worker", "restarting"); w.LastExit == nil || w.LastExit.Code == nil || *w.LastExit.Code != 0 {
		k.t.Errorf("it ended as %+v", w)
	}
}

// sessions are the ids of the sessions of a harness, or of nobody's.
func (k *desk) sessions(name string) []string {
	k.t.Helper()
	var ids []string
	for _, s := range k.status().Sessions {
		if deref(s.Harness) == name {
			ids = append(ids, *s.ID)
		}
	}
	return ids
}

// bridge is the process that connects the agent with the daemon.
func (k *desk) bridge() process {
	k.t.Helper()
	all := mentioning(k.t, "harness mcp --socket "+k.socket())
	if len(all) != 1 {
		k.t.Fatalf("%d bridges: %v", len(all), all)
	}
	return all[0]
}

// cut ends the connection of a bridge under it.
func (k *desk) cut(bridge process) {
	k.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", bridge.pid))
	if err != nil {
		k.t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			k.t.Fatal(err)
		}
		fd := k.descriptor(bridge, number)
		defer unix.Close(fd)
		peer, err := unix.Getpeername(fd)
		if at, ok := peer.(*unix.SockaddrUnix); err != nil || !ok || at.Name != k.socket() {
			continue
		}
		n++
		if err := unix.Shutdown(fd, unix.SHUT_RDWR); err != nil {
			k.t.Fatal(err)
		}
	}
	if n != 1 {
		k.t.Errorf("a bridge with %d connections", n)
	}
}

// descriptor is a copy of one that a process has.
func (k *desk) descriptor(p process, number int) int {
	k.t.Helper()
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	return fd
}

// echo is a call that answers with its text.
func echo(tool, text string, before func()) fakemodel.Call {
	return fakemodel.Call{Tool: tool, Args: fmt.Sprintf(`{"text":%q}`, text), Before: before}
}

// A real agent under the daemon, wired by its adapter, in one turn: it reaches a
// server, is known as its harness, sees a tool that an edit adds, may what the
// file says at each call, and outlives its connection.
func TestAgentCLI_WorksUnderTheDaemon(t *testing.T) {
	forEachCLI(t, every, func(t *testing.T, path string) {
		s := &shift{t: t, allow: `["read"]`}
		s.calls = s.plan()
		if filepath.Base(path) == "codex" {
			s.allow = `["read", "write"]`
			s.calls = s.planOfOneList()
		}
		s.desk = newDesk(t, path, s.calls...)
		s.copied()
		s.args = s.cli.Say("go on")
		s.supervise(s.tables)
		s.judge()
	})
}

// shift is one supervised turn of an agent, beside another harness.
type shift struct {
	*desk
	t     *testing.T
	allow string // what the agent may do
	late  string // the table of a server that is added
	calls []fakemodel.Call
	// How it is started: as the CLI says, and with these lines in its table.
	args []string
	more string
}

func (s *shift) tables() []string {
	return []string{
		s.upstream("up"), s.late, harnessTable("victim", stays, "enabled = true"),
		s.worker(s.args, "mcp_allow = "+s.allow+"\n"+s.more),
	}
}

// reload puts the tables in force as they are now.
func (s *shift) reload() {
	s.t.Helper()
	s.edit(s.tables()...)
	s.mustReload()
}

// plan is what an agent does that reads lists again.
func (s *shift) plan() []fakemodel.Call {
	calls := []fakemodel.Call{
		echo("up__echo", "first ü", s.attributed),
		echo("up__echo", "second", func() { s.late = s.upstream("late"); s.reload() }),
		echo("late__echo", "new", nil),
		// By default it is not even shown.
		s.stop(nil),
		echo("up__echo", "third", func() { s.victimIs("running"); s.permit(true)() }),
		s.stop(s.forbid),
		echo("up__echo", "fourth", func() { s.victimIs("running"); s.permit(true)() }),
		s.stop(nil),
		echo("up__echo", "fifth", func() { s.victimIs("stopped"); s.reconnect() }),
	}
	for _, i := range []int{2, 5, 6, 7} {
		calls[i].Until = "up__echo"
	}
	calls[3].Like, calls[6].Gone = "up__echo", "harness_stop"
	return calls
}

// planOfOneList is what an agent does that reads lists once.
func (s *shift) planOfOneList() []fakemodel.Call {
	return []fakemodel.Call{
		echo("up__echo", "first ü", func() {
			s.attributed()
			if strings.Contains(environOf(s.t, s.bridge().pid), "HARNESS_MCP_TOKEN=") {
				s.t.Error("its bridge has a token, so this shows nothing of one without")
			}
		}),
		s.stop(s.forbid),
		echo("up__echo", "second", func() { s.victimIs("running"); s.permit(true)() }),
		s.stop(nil),
		echo("up__echo", "third", func() { s.victimIs("stopped"); s.reconnect() }),
	}
}

// judge looks at what the agent was told of each call.
func (s *shift) judge() {
	s.t.Helper()
	var stops []string
	for i, r := range s.model.Results() {
		if s.calls[i].Tool == "harness_stop" {
			stops = append(stops, r.Text)
		} else {
			echoed(s.t, r, s.calls[i])
		}
	}
	last := len(stops) - 1
	if !strings.Contains(stops[last], `"state":"stopped"`) {
		s.t.Errorf("with the right: %s", stops[last])
	}
	if !strings.Contains(stops[last-1], "permission_denied") {
		s.t.Errorf("without the right: %s", stops[last-1])
	}
	for _, name := range s.model.Turns()[0].Tools {
		if strings.HasSuffix(name, "harness_stop") && s.calls[3].Like != "" {
			s.t.Errorf("by default it is shown %s", name)
		}
	}
}

// echoed checks the result of an echo, whatever the agent puts around it.
func echoed(t *testing.T, r fakemodel.Result, c fakemodel.Call) {
	t.Helper()
	var args struct{ Text string }
	if err := json.Unmarshal([]byte(c.Args), &args); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(r.Tool, c.Tool) || !slices.Contains(strings.Split(r.Text, "\n"), args.Text) {
		t.Errorf("%s of %q: %s", r.Tool, args.Text, r.Text)
	}
}

func (s *shift) stop(before func()) fakemodel.Call {
	return fakemodel.Call{Tool: "harness_stop", Args: `{"name":"victim"}`, Before: before}
}

// permit returns what grants or takes back the right to stop others.
func (s *shift) permit(write bool) func() {
	return func() {
		s.t.Helper()
		s.allow = map[bool]string{true: `["read", "write"]`, false: `["read"]`}[write]
		s.reload()
	}
}

// forbid takes the right back in a way that the agent cannot hear of before it
// has called: else it would refuse by itself.
func (s *shift) forbid() {
	s.t.Helper()
	bridge := s.bridge()
	eventually(s.t, "the bridge has read all and stands still", func() bool {
		signal(s.t, bridge.pid, syscall.SIGSTOP)
		if !s.unread(bridge) {
			return true
		}
		signal(s.t, bridge.pid, syscall.SIGCONT)
		return false
	})
	s.permit(false)()
	s.pending = func() bool {
		if !s.unread(bridge) {
			return false
		}
		signal(s.t, bridge.pid, syscall.SIGCONT)
		return true
	}
}

// unread reports whether the agent has written something that its bridge has
// not read.
func (s *shift) unread(bridge process) bool {
	s.t.Helper()
	stdin := s.descriptor(bridge, 0)
	defer unix.Close(stdin)
	n, err := unix.IoctlGetInt(stdin, unix.TIOCINQ)
	if err != nil {
		s.t.Fatal(err)
	}
	return n > 0
}

func (s *shift) victimIs(state string) {
	s.t.Helper()
	if v := s.list()["victim"]; v.State != state {
		s.t.Errorf("the other harness is %s, not %s", v.State, state)
	}
}

func (s *shift) attributed() {
	s.t.Helper()
	if mine, all := s.sessions("worker"), s.status().Sessions; len(mine) != 1 || len(all) != 1 {
		s.t.Errorf("sessions: %s", marshal(s.t, all))
	}
}

// reconnect cuts the connection and waits until it is made again.
func (s *shift) reconnect() {
	s.t.Helper()
	before := s.sessions("worker")
	s.cut(s.bridge())
	eventually(s.t, "another session", func() bool {
		now := s.sessions("worker")
		return len(now) == 1 && !slices.Equal(now, before)
	})
}

// A prompt file is a command of the agents that have commands of servers.
func TestAgentCLI_HasThePromptFiles(t *testing.T) {
	forEachCLI(t, func(c fakemodel.Client) bool { return c.Prompt != nil }, func(t *testing.T, path string) {
		k := newDesk(t, path)
		k.write("prompts/greet.md", "---\ndescription: greets\narguments:\n  - name: who\n    required: true\n---\nGood day to {{who}}, says the file.\n")
		k.supervise(func() []string {
			return []string{"[mcp.prompts]\npaths = [\"" + k.home.path("prompts") + "\"]\n", k.worker(k.cli.Prompt("greet", "bob"), "")}
		})
		if first := k.model.Turns()[0]; !bytes.Contains(first.Body, []byte("Good day to bob, says the file.")) {
			t.Errorf("the model was asked:\n%s", first.Body)
		}
	})
}

// An agent that a user starts, with the endpoint in its own settings, goes on
// when the daemon is killed and comes back, and is nobody's.
func TestAgentCLI_StartedByHandOutlivesTheDaemon(t *testing.T) {
	forEachCLI(t, every, func(t *testing.T, path string) {
		var k *desk
		var d *daemon
		calls := []fakemodel.Call{
			echo("up__echo", "first", func() {
				if s := k.status().Sessions; len(s) != 1 || s[0].Harness != nil {
					t.Errorf("sessions: %s", marshal(t, s))
				}
			}),
			echo("up__echo", "second", func() {
				d.kill()
				d = k.start()
				eventually(t, "the session is back", func() bool { return len(k.sessions("")) == 1 })
			}),
			{Tool: "harness_list"},
		}
		k = newDesk(t, path, calls...)
		// The bridge of one that clears its environment finds the socket in the
		// state directory, where that is when nobody says.
		delete(k.env, "XDG_STATE_HOME")
		d = k.run(k.upstream("up"))
		args := k.pasted()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cmd := k.command(ctx, path, args...)
		cmd.Env = append(cmd.Env, k.cli.Env...)
		var out buffer
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		k.work(ended, out.String)
		<-ended
		if !cmd.ProcessState.Success() {
			t.Errorf("it ended as %v:\n%s", cmd.ProcessState, out.String())
		}
		r := k.model.Results()
		echoed(t, r[0], calls[0])
		echoed(t, r[1], calls[1])
		if !strings.Contains(r[2].Text, "harnesses") {
			t.Errorf("harness_list: %s", r[2].Text)
		}
	})
}

// pasted puts the endpoint into the settings of the CLI as a user would, with
// leave to call its tools, and returns the arguments that start it.
func (k *desk) pasted() []string {
	k.t.Helper()
	args := k.cli.Say("go on")
	switch k.cli.Program {
	case "claude":
		cmd := k.command(k.t.Context(), k.path, "mcp", "add", "-s", "user", "harness", "--", "harness", "mcp")
		if out, err := cmd.CombinedOutput(); err != nil {
			k.t.Fatalf("%v: %s", err, out)
		}
		return append([]string{"--allowedTools=mcp__harness"}, args...)
	case "codex":
		k.write("home/.codex/config.toml", "[mcp_servers.harness]\ncommand = \"harness\"\nargs = [\"mcp\"]\nrequired = true\ndefault_tools_approval_mode = \"approve\"\n")
	case "opencode":
		k.merge(".config/opencode/opencode.json", `"mcp":{"harness":{"type":"local","command":["harness","mcp"]}}`)
	case "gemini":
		k.merge(".gemini/settings.json", fmt.Sprintf(`"mcpServers":{"harness":{"command":"harness","args":["mcp","--socket",%q],"trust":true}}`, k.socket()))
	}
	return args
}

// merge adds a member to the settings that a CLI begins with.
func (k *desk) merge(name, member string) {
	k.t.Helper()
	k.write("home/"+name, "{"+member+","+strings.TrimPrefix(k.cli.Home[name], "{"))
}
