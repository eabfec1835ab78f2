package integration

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"harness/pkg/contract"
	"harness/pkg/ledger"
)

// TestHelpContracts_ItsExampleRuns types what the page says.
func TestHelpContracts_ItsExampleRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../cmd/harness/help/contracts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```toml\n")
	text, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "```console\n")
	session, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	h := newHome(t).in("work")
	h.write("work/contract.toml", text)
	var said []string
	for line := range strings.Lines(session) {
		said = append(said, h.must(strings.Fields(strings.TrimPrefix(line, "$ harness "))...))
	}
	if !strings.Contains(said[1], "verdict   pass") || !strings.Contains(said[4], "verdict: pass") {
		t.Errorf("%q", said)
	}
}

// TestContract_AKilledRunnerTakesItsStepWithIt asks for nothing after the kill:
// what the step began ends all the same, wherever it put itself.
func TestContract_AKilledRunnerTakesItsStepWithIt(t *testing.T) {
	t.Parallel()
	const script = "sleep 600 & setsid sleep 600 & (sleep 600 </dev/null >/dev/null 2>&1 &); trap '' TERM; wait; sleep 600"
	for name, step := range map[string]string{
		"check": "[[check]]\nname='a'\ncmd='sh'\n",
		"work":  "[[check]]\nname='a'\ncmd='true'\n[work]\ncmd='sh'\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write("home/c.toml", oneCheck(step+fmt.Sprintf("args=['-c', %q]\n", script)))
			cmd := h.command(t.Context(), "harness", "contract", "run", "c.toml", "--session", "s", "--standalone")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the step to begin", func() bool { return countSleeps(t, h) == 3 })
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			eventually(t, "its processes to end", func() bool { return countSleeps(t, h) == 0 })
		})
	}
}

// TestContract_GoesOnWhenTheClockWasSet has a session interrupted by a process
// whose clock is two days ahead, or behind: the next one goes on with it, and
// repeats nothing that is recorded.
func TestContract_GoesOnWhenTheClockWasSet(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"back": 48 * time.Hour, "forward": -48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			text := "[contract]\nname='x'\nenv=['PATH']\n"
			for i := range 3 {
				text += fmt.Sprintf("[[check]]\nname='c%d'\ncmd='sh'\nargs=['-c', 'echo %d >> ran; test %d != 1 || test -e go || { touch wait; sleep 600; }']\n", i, i, i)
			}
			h.write("home/c.toml", text)
			host, closeHost, err := contract.OpenHost(t.Context(), h.path("hosts"), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer closeHost()
			clock := func() time.Time { return time.Now().Add(ahead) }
			r := &contract.Runner{
				Engine: &contract.Engine{Host: host, Lookup: os.LookupEnv, Log: slog.New(slog.DiscardHandler)},
				Ledger: ledger.Open(h.path("state/harness/ledger")).At(clock), Principal: contract.Local(),
			}
			if _, err := r.Run(t.Context(), contract.Request{Session: "s", Name: "c.toml", Text: []byte(text), Root: h.path("home")}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the second check to begin", func() bool { return exists(h.path("home/wait")) })
			r.Stop()
			h.write("home/go", "")
			h.must("contract", "run", "c.toml", "--session", "s")
			// What was under way is done again; what is recorded is not.
			if data, err := os.ReadFile(h.path("home/ran")); string(data) != "0\n1\n1\n2\n" {
				t.Errorf("ran %q, %v", data, err)
			}
			b, err := ledger.Verify([]byte(h.must("ledger", "export", "s")), nil)
			if err != nil {
				t.Fatal(err)
			}
			first, last := b.Entries[0], b.Entries[len(b.Entries)-1]
			if at, end := entryTime(t, first), entryTime(t, last); at.After(end) != (ahead > 0) {
				t.Errorf("the clock was not set: %v, %v", at, end)
			}
			if out := h.must("contract", "status", "s"); !strings.Contains(out, "pass") {
				t.Error(out)
			}
		})
	}
}

func entryTime(t *testing.T, e ledger.Entry) time.Time {
	t.Helper()
	head, err := e.Head()
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, head.At)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
