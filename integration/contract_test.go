package integration

import (
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
