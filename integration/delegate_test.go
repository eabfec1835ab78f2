package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"harness/pkg/ledger"
)

// outsider is an agent outside the fleet: the official SDK's client on a server
// of its own.
type outsider struct {
	*mcp.ClientSession
	h   *home
	cmd *exec.Cmd

	mu    sync.Mutex
	notes []string
}

func (h *home) outsider() *outsider {
	h.t.Helper()
	o := &outsider{h: h, cmd: h.command(context.Background(), "harness", "serve-mcp", "--principal-tenant", "acme", "--principal-user", "ann")}
	o.cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "outsider", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.notes = append(o.notes, fmt.Sprintf("%v %v/%v %s", r.Params.ProgressToken, r.Params.Progress, r.Params.Total, r.Params.Message))
		},
	})
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	s, err := client.Connect(ctx, &mcp.CommandTransport{Command: o.cmd}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	o.ClientSession = s
	h.t.Cleanup(func() { s.Close() })
	return o
}

// delegated is the answer of three of the tools.
type delegated struct {
	Session  string          `json:"session"`
	Status   string          `json:"status"`
	Verdict  *ledger.Verdict `json:"verdict"`
	HeadHash string          `json:"head_hash"`
}

func (o *outsider) raw(ctx context.Context, tool string, arguments map[string]any, token any) (json.RawMessage, error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	if token != nil {
		params.SetProgressToken(token)
	}
	res, err := o.CallTool(ctx, params)
	if err != nil {
		return nil, err
	}
	if res.IsError {
		return nil, fmt.Errorf("%s", res.Content[0].(*mcp.TextContent).Text)
	}
	return json.Marshal(res.StructuredContent)
}

func (o *outsider) ask(tool string, arguments map[string]any) delegated {
	o.h.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*patience)
	defer stop()
	raw, err := o.raw(ctx, tool, arguments, nil)
	if err != nil {
		o.h.t.Fatal(err)
	}
	var d delegated
	if err := json.Unmarshal(raw, &d); err != nil {
		o.h.t.Fatal(err)
	}
	return d
}

func oneCheck(more string) string { return "[contract]\nname='x'\nenv=['PATH']\n" + more }

func TestDelegate_AnOutsiderGetsAVerdictOfEveryKind(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	o := h.outsider()
	ctx := t.Context()
	list, err := o.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff([]string{"harness_contract_status", "harness_ledger_export", "harness_ledger_verdict", "harness_run_contract"}, names); diff != "" {
		t.Error(diff)
	}
	for outcome, text := range map[string]string{
		"pass":    oneCheck("[[check]]\nname='a'\ncmd='true'\n"),
		"fail":    oneCheck("[[check]]\nname='a'\ncmd='false'\n"),
		"error":   oneCheck("[[check]]\nname='a'\ncmd='no-such-command'\n"),
		"timeout": oneCheck("timeout='200ms'\n[[check]]\nname='a'\ncmd='sleep'\nargs=['60']\n"),
	} {
		d := o.ask("harness_run_contract", map[string]any{"contract": text, "session": outcome})
		if d.Status != "done" || d.Verdict.Outcome != outcome {
			t.Errorf("%s: %+v", outcome, d)
		}
		if diff := cmp.Diff(d, o.ask("harness_ledger_verdict", map[string]any{"session": outcome})); diff != "" {
			t.Error(diff)
		}
		var cli delegated
		if err := json.Unmarshal([]byte(h.must("ledger", "verdict", outcome, "--json")), &cli); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, cli); diff != "" {
			t.Errorf("by the command line: %s", diff)
		}
		// What the tool exports and what the command does both verify, and are one.
		raw, err := o.raw(ctx, "harness_ledger_export", map[string]any{"session": outcome}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.write("home/tool.json", string(raw))
		h.write("home/cli.json", h.must("ledger", "export", outcome))
		for _, file := range []string{"tool.json", "cli.json"} {
			var got struct {
				OK                      bool
				Error                   *string
				Session, Outcome, Trust string
			}
			text := h.must("ledger", "verify", file, "--json")
			if err := json.Unmarshal([]byte(text), &got); err != nil || !got.OK || got.Error != nil || got.Session != outcome || got.Outcome != outcome || got.Trust != "own" {
				t.Errorf("%s: %s, %v", file, text, err)
			}
		}
		if a, b := canonicalFile(t, h.path("home/tool.json")), canonicalFile(t, h.path("home/cli.json")); a != b {
			t.Errorf("two bundles:\n%s\n%s", a, b)
		}
	}
	for _, name := range []string{"harness_list", "harness_start", "list_trajectories", "sh"} {
		r, err := o.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{}})
		if err != nil || !r.IsError {
			t.Errorf("%s was called: %+v, %v", name, r, err)
			continue
		}
		if text, ok := r.Content[0].(*mcp.TextContent); !ok || !strings.HasPrefix(text.Text, "[unknown_tool] ") {
			t.Errorf("%s: %+v", name, r.Content[0])
		}
	}
	if _, err := o.ListPrompts(ctx, nil); err == nil {
		t.Error("prompts were listed")
	}
}

func canonicalFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := ledger.Canonical(json.RawMessage(data))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestDelegate_TheCommandLineComesToTheSame runs one contract both ways: but
// for names, times and principal the evidence is equal.
func TestDelegate_TheCommandLineComesToTheSame(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	text := oneCheck("[work]\ncmd='sh'\nargs=['-c', 'echo x > made']\n[[check]]\nname='a'\ncmd='cat'\nargs=['made']\nstdout='x'\n[[check]]\nname='b'\nfile='made'\n")
	h.write("home/c.toml", text)
	h.must("contract", "run", "c.toml", "--session", "cli")
	h.outsider().ask("harness_run_contract", map[string]any{"contract": "c.toml", "session": "tool"})
	shape := func(session string) string {
		b, err := ledger.Verify([]byte(h.must("ledger", "export", session)), nil)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, e := range b.Entries {
			var body map[string]any
			if err := json.Unmarshal(e.Body, &body); err != nil {
				t.Fatal(err)
			}
			for _, own := range []string{"session", "at", "principal", "duration_ms", "evidence_sha256", "verdict"} {
				delete(body, own)
			}
			lines = append(lines, fmt.Sprint(e.N, e.Type, body))
		}
		lines = append(lines, b.Contract, b.Verdict.Outcome, b.Verdict.Sandbox, b.Verdict.ContractSHA256)
		for _, c := range b.Verdict.Checks {
			lines = append(lines, c.Name, c.Outcome)
		}
		return strings.Join(lines, "\n")
	}
	if diff := cmp.Diff(shape("cli"), shape("tool")); diff != "" {
		t.Error(diff)
	}
}

func TestDelegate_ProgressAndCancellation(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	o := h.outsider()
	if _, err := o.raw(t.Context(), "harness_run_contract", map[string]any{"contract": oneCheck("[[check]]\nname='a'\ncmd='true'\n")}, "tok"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both notes", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.notes) == 2 && o.notes[1] == "tok 2/2 a: pass"
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := o.raw(ctx, "harness_run_contract", map[string]any{"contract": oneCheck("[[check]]\nname='a'\ncmd='sh'\nargs=['-c','touch begun; sleep 60']\n"), "session": "c"}, nil)
		ended <- err
	}()
	eventually(t, "the check to begin", func() bool { return exists(h.path("home/begun")) })
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was answered")
	}
	eventually(t, "the verdict", func() bool {
		d := o.ask("harness_contract_status", map[string]any{"session": "c"})
		return d.Verdict != nil && d.Verdict.Outcome == "cancelled"
	})
}

// TestDelegate_NothingRunsTwiceOverACrash kills the server during each of the
// steps in turn: what was recorded is not run again, and the one that was under
// way is, once somebody asks for it.
func TestDelegate_NothingRunsTwiceOverACrash(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const steps = 4
	text := oneCheck("")
	for i := range steps {
		text += fmt.Sprintf("[[check]]\nname='c%d'\ncmd='sh'\nargs=['-c','echo %d >> ran; test -e go%d || { touch at%d; sleep 60 & sleep 60; }']\n", i, i, i, i)
	}
	h.write("home/c.toml", text)
	o := h.outsider()
	run := map[string]any{"contract": "c.toml", "session": "s", "async": true}
	if d := o.ask("harness_run_contract", run); d.Status != "running" || d.Verdict != nil {
		t.Errorf("%+v", d)
	}
	for i := range steps {
		eventually(t, "a step to begin", func() bool { return exists(h.path("home/at" + strconv.Itoa(i))) })
		if err := o.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		o = h.outsider()
		eventually(t, "the crash to show", func() bool {
			return o.ask("harness_contract_status", map[string]any{"session": "s"}).Status == "interrupted"
		})
		eventually(t, "its processes to end", func() bool { return countSleeps(t, h) == 0 })
		h.write("home/go"+strconv.Itoa(i), "")
		o.ask("harness_run_contract", run)
	}
	d := o.ask("harness_run_contract", map[string]any{"contract": "c.toml", "session": "s"})
	if d.Verdict == nil || d.Verdict.Outcome != "pass" {
		t.Errorf("%+v", d)
	}
	ran, err := os.ReadFile(h.path("home/ran"))
	if diff := cmp.Diff("0\n0\n1\n1\n2\n2\n3\n3\n", string(ran)); err != nil || diff != "" {
		t.Errorf("each step once before its crash and once after: %v\n%s", err, diff)
	}
	h.write("home/b.json", h.must("ledger", "export", "s"))
	h.must("ledger", "verify", "b.json")
}

// TestDelegate_AClientThatGoesAwayLosesNothing closes the connection while a
// session runs that nobody waits for: it is finished, once.
func TestDelegate_AClientThatGoesAwayLosesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	o := h.outsider()
	text := oneCheck("[[check]]\nname='a'\ncmd='sh'\nargs=['-c','echo x >> ran; while [ ! -e go ]; do sleep 0.02; done']\n")
	o.ask("harness_run_contract", map[string]any{"contract": text, "session": "s", "async": true})
	eventually(t, "the check to begin", func() bool { return exists(h.path("home/ran")) })
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		o.Close()
	}()
	other := h.outsider()
	if d := other.ask("harness_contract_status", map[string]any{"session": "s"}); d.Status != "running" {
		t.Errorf("%+v", d)
	}
	h.write("home/go", "")
	d := other.ask("harness_run_contract", map[string]any{"contract": text, "session": "s"}) // joins it
	if d.Verdict == nil || d.Verdict.Outcome != "pass" {
		t.Errorf("%+v", d)
	}
	<-gone
	if ran, err := os.ReadFile(h.path("home/ran")); err != nil || string(ran) != "x\n" {
		t.Errorf("ran %q, %v", ran, err)
	}
}

// countSleeps counts what steps of this home left behind.
func countSleeps(t *testing.T, h *home) int {
	t.Helper()
	n := 0
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "comm"))
		if dir, err := os.Readlink(link); err == nil && dir == h.path("home") && strings.TrimSpace(string(name)) == "sleep" {
			n++
		}
	}
	return n
}

func TestDelegate_BothFramings(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cmd := h.command(t.Context(), "harness", "serve-mcp", "--standalone")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	contract, _ := json.Marshal(oneCheck("[[check]]\nname='a'\ncmd='true'\n"))
	for i, framed := range []bool{true, false, true} {
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"harness_run_contract","arguments":{"contract":%s}}}`, i, contract)
		if framed {
			message = fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(message), message)
		} else {
			message += "\n"
		}
		if _, err := io.WriteString(in, message); err != nil {
			t.Fatal(err)
		}
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		size, got := strings.CutPrefix(line, "Content-Length: ")
		if got != framed {
			t.Errorf("framed %v: %q", framed, line)
		}
		if got {
			n, err := strconv.Atoi(strings.TrimSpace(size))
			if err != nil {
				t.Fatal(err)
			}
			body := make([]byte, n+2)
			if _, err := io.ReadFull(out, body); err != nil {
				t.Fatal(err)
			}
			line = string(body)
		}
		if !strings.Contains(line, `"outcome":"pass"`) {
			t.Errorf("%s", line)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
