package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
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
