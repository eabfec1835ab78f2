package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"harness/integration/fakemodel"
)

// appServer is Codex without a model: its program for editors, run by the
// daemon, which calls the tools it is told to.
type appServer struct {
	t   *testing.T
	in  *os.File
	out *bufio.Reader
	n   int
}

// ask sends a request and returns the result. Whatever comes before it is of
// no interest.
func (a *appServer) ask(method string, params any, result any) {
	a.t.Helper()
	a.n++
	a.send(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, a.n, method, marshal(a.t, params)))
	for {
		line, err := a.out.ReadBytes('\n')
		if err != nil {
			a.t.Fatalf("%s: %v", method, err)
		}
		var m struct {
			ID            int
			Method        string
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			a.t.Fatalf("%s: %s: %v", method, line, err)
		}
		if m.Method != "" || m.ID != a.n {
			continue
		}
		if m.Error != nil {
			a.t.Fatalf("%s: %s", method, m.Error)
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			a.t.Fatal(err)
		}
		return
	}
}

func (a *appServer) send(line string) {
	a.t.Helper()
	if _, err := a.in.WriteString(line + "\n"); err != nil {
		a.t.Fatal(err)
	}
}

// Codex reads the tools of a server once in a session. It can call what it has
// not read all the same, and what it may is asked at each call.
func TestAgentCLI_CodexCallsWhatItNeverListed(t *testing.T) {
	forEachCLI(t, func(c fakemodel.Client) bool { return c.Program == "codex" }, func(t *testing.T, path string) {
		s := &shift{t: t, allow: `["read"]`}
		s.desk = newDesk(t, path)
		s.awkward()
		in, out := s.home.path("in"), s.home.path("out")
		for _, p := range []string{in, out} {
			if err := syscall.Mkfifo(p, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// The shell passes on what the adapter adds.
		s.path = "sh"
		s.args = []string{"-c", "exec " + strconv.Quote(path) + ` "$@" <` + in + " >" + out, "codex", "app-server"}
		s.more = "adapter = \"codex\"\n"
		s.edit(s.tables()...)
		s.start()
		a := &appServer{t: t}
		var err error
		if a.in, err = os.OpenFile(in, os.O_WRONLY, 0); err != nil {
			t.Fatal(err)
		}
		defer a.in.Close()
		answers, err := os.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer answers.Close()
		a.out = bufio.NewReader(answers)
		var began struct{ Thread struct{ ID string } }
		a.ask("initialize", map[string]any{"clientInfo": map[string]string{"name": "test", "version": "1"}}, &struct{}{})
		a.send(`{"method":"initialized"}`)
		a.ask("thread/start", map[string]any{"ephemeral": true}, &began)
		call := func(tool, args string) result {
			t.Helper()
			var r result
			a.ask("mcpServer/tool/call", map[string]any{"threadId": began.Thread.ID, "server": "harness", "tool": tool, "arguments": json.RawMessage(args)}, &r)
			return r
		}
		if r := call("up__echo", `{"text":"first"}`); r.text() != "first" {
			t.Errorf("up: %+v", r)
		}
		s.attributed()
		s.late = s.upstream("late")
		s.reload()
		if r := call("late__echo", `{"text":"new"}`); r.text() != "new" {
			t.Errorf("late: %+v", r)
		}
		if r := call("harness_stop", `{"name":"victim"}`); !strings.Contains(r.text(), "permission_denied") {
			t.Errorf("by default: %+v", r)
		}
		s.victimIs("running")
		s.permit(true)()
		if r := call("harness_stop", `{"name":"victim"}`); r.IsError {
			t.Errorf("with the right: %+v", r)
		}
		s.victimIs("stopped")
		s.must("stop", "worker")
	})
}
