package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkEdit takes the time from a saved file to the notification that an
// agent has of it.
func BenchmarkEdit(b *testing.B) { benchmark(b, editParts()) }

func editParts() []part {
	return []part{
		{"edit", "removal", editRemovals},
		{"edit", "prompt", editPrompts},
		{"edit", "comment", editComments},
	}
}

// within120 is the bound of an edit that spawns nothing.
func within120() bound { return bound{120, false, "PRF-2"} }

// spread makes figures of samples in milliseconds: the middle one, which is
// bounded, and nearly the worst.
func spread(what string, samples []float64, b bound) []figure {
	what = fmt.Sprintf("%s, %d times", what, len(samples))
	return []figure{
		{what: what, unit: "ms-p50", value: quantile(samples, 0.5), bound: b},
		{what: what, unit: "ms-p99", value: quantile(samples, 0.99)},
	}
}

// editRemovals removes the upstreams of a fleet one by one: nothing is spawned
// between two edits, and nothing is left to do.
func editRemovals(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	tables := h.fleet(s.reps + 1)
	d := h.start(tables...)
	a := h.agent()
	var took []float64
	for len(tables) > 1 {
		tables = tables[:len(tables)-1]
		saved := h.configure(configText(tables...))
		n, err := a.await(toolsChanged)
		if err != nil {
			tb.Fatal(err)
		}
		took = append(took, millis(n.at.Sub(saved)))
		names, err := a.tools()
		if err != nil {
			tb.Fatal(err)
		}
		if gone := fmt.Sprintf("u%03d__echo", len(tables)); slices.Contains(names, gone) || !slices.Contains(names, "u000__echo") {
			tb.Fatalf("after the removal of %s the list is %v", gone, names)
		}
		// Its process ends after the publish; the next edit waits for that.
		d.poll("the fleet is idle", func() bool { return len(d.status().Upstreams) == len(tables) })
	}
	return spread("save to tools/list_changed", took, within120())
}

// prompt is a prompt file whose body says n.
func prompt(n int) string {
	return fmt.Sprintf("---\ndescription: greets\n---\nHello, reader %d.\n", n)
}

// withPrompts is the table that declares the prompt directory of a home.
func (h *home) withPrompts() string {
	return fmt.Sprintf("[mcp.prompts]\npaths = [%q]\n", h.path("prompts"))
}

// editPrompts changes the body of a prompt file.
func editPrompts(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	h.save("prompts/greet.md", prompt(0))
	h.start(h.upstream("e"), h.withPrompts())
	a := h.agent()
	var took []float64
	for n := range s.reps {
		took = append(took, editPrompt(h, a, n+1))
	}
	return spread("save to prompts/list_changed", took, within120())
}

// editPrompt makes one edit, checks that it is served, and returns how long
// its notification took, in ms.
func editPrompt(h *home, a *client, n int) float64 {
	h.tb.Helper()
	saved := h.save("prompts/greet.md", prompt(n))
	told, err := a.await(promptsChanged)
	if err != nil {
		h.tb.Fatal(err)
	}
	served, err := a.request("prompts/get", `{"name":"greet"}`)
	if err != nil || !strings.Contains(string(served), fmt.Sprintf("reader %d.", n)) {
		h.tb.Fatalf("after edit %d the prompt is %s: %v", n, served, err)
	}
	return millis(told.at.Sub(saved))
}

// editComments saves what means nothing, and counts what came of it. An edit
// that does mean something ends the wait.
func editComments(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	h.save("prompts/greet.md", prompt(0))
	tables := []string{h.upstream("e"), h.withPrompts()}
	d := h.start(tables...)
	a := h.agent()
	before, err := a.call("e__pid", "{}")
	if err != nil {
		tb.Fatal(err)
	}
	generation := d.status().Generation
	saves := max(1, s.reps/2)
	for n := range saves {
		h.configure(configText(tables...) + fmt.Sprintf("# %d\n", n))
		pause(150 * time.Millisecond) // longer than it takes to follow it
	}
	told, changed := a.drain(), d.status().Generation-generation
	editPrompt(h, a, 1)
	after, err := a.call("e__pid", "{}")
	if err != nil {
		tb.Fatal(err)
	}
	what, restarted := fmt.Sprintf("%d saves of a comment", saves), 0.0
	if before != after {
		restarted = 1
	}
	return []figure{
		{what: what, unit: "notifications", value: float64(told), bound: bound{0, false, "PRF-2"}},
		{what: what, unit: "generations", value: float64(changed), bound: bound{0, false, "PRF-2"}},
		{what: what, unit: "restarts", value: restarted, bound: bound{0, false, "PRF-2"}},
	}
}
