package integration

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// What everything uses: one table where nobody watches, one that is drawn again
// and again on a terminal, which is left as it was.
func TestTop_ShowsWhatEverybodyUses(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure("[mcp.up]\ncmd = \"fake-upstream\"\n", "[harness.parent]\ncmd = \"sh\"\nargs = [\"-c\", \"sleep 1000 & exec cat\"]\nenabled = true\n", "[harness.off]\ncmd = \"cat\"\n")
	d := h.start()
	eventually(t, "all of it runs", func() bool {
		out := h.must("top", "--sort", "name")
		return strings.Contains(out, "\nmcp.up  running") && strings.Contains(out, "\nparent  running")
	})
	lines := map[string][]string{}
	for line := range strings.Lines(h.must("top")) {
		fields := strings.Fields(line)
		lines[fields[0]] = fields
	}
	for unit, processes := range map[string]string{"daemon": "1", "mcp.up": "1", "parent": "2", "off": "-"} {
		if got := lines[unit]; len(got) < 4 || got[3] != processes {
			t.Errorf("%s: %q, not %s processes", unit, got, processes)
		}
	}
	if o := h.harness("top", "--sort", "age"); o.code != 2 || !strings.Contains(o.stderr, "cpu, memory or name") {
		t.Error(o)
	}
	if o := h.harness("top", "-d", "1ms"); o.code != 2 || !strings.Contains(o.stderr, "100ms") {
		t.Error(o)
	}

	cmd := h.command(t.Context(), "harness", "top", "-d", "100ms")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	seen := &screenful{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(seen, tty) // ends with the program
	}()
	eventually(t, "it is drawn again, and knows how busy everybody is", func() bool {
		return seen.has("\x1b[?1049h", "UNIT", "CPU TIME", "% ", "mcp.up", "q quits")
	})
	if _, err := tty.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("it does not end at q")
	}
	if err := cmd.Wait(); err != nil || !seen.has("\x1b[?25h\x1b[?1049l") {
		t.Errorf("it ended with %v: %q", err, seen)
	}

	// One that watches a daemon that ends says so.
	cmd = h.command(t.Context(), "harness", "top", "-d", "100ms")
	var said bytes.Buffer
	cmd.Stderr = &said
	in, out, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd.Stdin, cmd.Stdout = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	seen = &screenful{}
	over = make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(seen, in)
	}()
	eventually(t, "it is drawn", func() bool { return seen.has("UNIT") })
	d.stop()
	<-over
	_ = cmd.Wait() // the code says it
	if code := cmd.ProcessState.ExitCode(); code != 3 || !strings.Contains(said.String(), "harness daemon") || !seen.has("\x1b[?1049l") {
		t.Errorf("code %d, %q", code, said.String())
	}
}

// screenful is what was drawn so far.
type screenful struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *screenful) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(p)
}

func (s *screenful) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

// has reports whether all of it was drawn, in this order.
func (s *screenful) has(parts ...string) bool {
	rest := s.String()
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			return false
		}
		rest = after
	}
	return true
}
