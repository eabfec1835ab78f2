package proc

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// drained returns what Drain makes of a stream, without times.
func drained(t *testing.T, r io.Reader) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	l := openLog(t, path, 16<<20, 1)
	Drain(r, l, "mcp.up")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return untimed(t, files(t, path)["log"])
}

// untimed takes the times off lines, and checks that they are some.
func untimed(t *testing.T, text string) []string {
	t.Helper()
	var lines []string
	for l := range strings.Lines(text) {
		at, rest, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
		if _, err := time.Parse(timestamp, at); err != nil {
			t.Errorf("line %q: %v", l, err)
		}
		lines = append(lines, rest)
	}
	return lines
}

func TestDrain_WritesLinesAsTheyCame(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"lines", "one\ntwo\r\n\nlast", []string{"mcp.up: one", "mcp.up: two", "mcp.up: ", "mcp.up: last"}},
		{"what acts", "\x1b[2Jgone\a\u202e\n", []string{"mcp.up: \x1b[2Jgone\a\u202e"}},
		{"a carriage return within", "10%\r20%\n", []string{"mcp.up: 10%\r20%"}},
		{
			"a long line", strings.Repeat("x", lineLimit+3) + "\n",
			[]string{"mcp.up: " + strings.Repeat("x", lineLimit), "mcp.up: xxx"},
		},
		{
			"a line of just the limit", strings.Repeat("x", lineLimit) + "\ny\n",
			[]string{"mcp.up: " + strings.Repeat("x", lineLimit), "mcp.up: y"},
		},
		{
			"a long line, broken between runes", strings.Repeat("x", lineLimit-1) + "é!\n",
			[]string{"mcp.up: " + strings.Repeat("x", lineLimit-1), "mcp.up: é!"},
		},
		{
			"a long line of broken runes", strings.Repeat("\xa9", lineLimit+1),
			[]string{"mcp.up: " + strings.Repeat("\xa9", lineLimit), "mcp.up: \xa9"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, drained(t, strings.NewReader(tc.in))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.want, drained(t, iotest.OneByteReader(strings.NewReader(tc.in)))); diff != "" {
				t.Errorf("byte by byte: %s", diff)
			}
		})
	}
}

// endless is a stream of one letter.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestDrain_BoundsAFlood_C51(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := openLog(t, path, 5<<20, 1)
	flood := io.MultiReader(
		strings.NewReader(strings.Repeat(strings.Repeat("a", 63)+"\n", 16<<10)), // 1 MiB in lines
		io.LimitReader(endless('x'), 100<<20),
		strings.NewReader("\nfatal: the reason\n"),
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	Drain(flood, l, "mcp.up")
	runtime.ReadMemStats(&after)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes allocated", used)
	}
	text := files(t, path)
	if size := len(text["log"]) + len(text["log.1"]); size > drainBurst+1<<20 {
		t.Errorf("%d bytes logged", size)
	}
	lines := untimed(t, text["log.1"]+text["log"])
	if n := strings.Count(strings.Join(lines, "\n"), strings.Repeat("a", 63)); n != 16<<10 {
		t.Errorf("%d of %d lines before the flood", n, 16<<10)
	}
	if diff := cmp.Diff("mcp.up: fatal: the reason", lines[len(lines)-1]); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(strings.Join(lines, "\n"), " bytes left out") {
		t.Error("nothing says that something was left out")
	}
}

func TestDrain_ShowsWhatIsHeldBackWhenItIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		l := openLog(t, path, 16<<20, 1)
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			Drain(ours, l, "mcp.up")
		}()
		last := func() string {
			synctest.Wait()
			for wait := true; wait; { // for the log's own goroutine
				l.mu.Lock()
				idle := l.idle
				l.mu.Unlock()
				if wait = idle != nil; wait {
					<-idle
				}
			}
			lines, err := Tail(path, 1)
			if err != nil || len(lines) == 0 {
				return ""
			}
			return untimed(t, lines[0])[0]
		}
		fmt.Fprint(theirs, "Password: ")
		if got := last(); got != "" {
			t.Errorf("at once: %q", got)
		}
		time.Sleep(drainHush)
		if diff := cmp.Diff("mcp.up: Password: ", last()); diff != "" {
			t.Error(diff)
		}
		fmt.Fprintln(theirs, "thanks")
		if diff := cmp.Diff("mcp.up: thanks", last()); diff != "" {
			t.Error(diff)
		}
		for range 4 {
			fmt.Fprintln(theirs, strings.Repeat("x", drainBurst/2))
		}
		fmt.Fprintln(theirs, "the end of the flood")
		time.Sleep(drainHush)
		if diff := cmp.Diff("mcp.up: the end of the flood", last()); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Minute)
		fmt.Fprintln(theirs, "back to normal")
		if diff := cmp.Diff("mcp.up: back to normal", last()); diff != "" {
			t.Error(diff)
		}
		theirs.Close()
		<-done
	})
}

func TestDrain_LogsALittleOfALongFlood(t *testing.T) {
	d := drain{log: io.Discard, bucket: bucket{tokens: drainBurst, at: time.Unix(0, 0)}}
	var logged counter
	d.log = &logged
	for second := range 600 {
		for range 100 {
			d.take([]byte(strings.Repeat("x", 1000)+"\n"), time.Unix(int64(second), 0))
		}
	}
	if most := int64(drainBurst + 600*drainRate + 1<<20); int64(logged) > most || int64(logged) < most/2 {
		t.Errorf("%d bytes logged, at most %d", logged, most)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func TestDrain_EndsWithAProcess(t *testing.T) {
	h := newHost(t)
	p := start(t, h, "leaver", "no such", "nobody") // says its pid on stdout
	path := filepath.Join(t.TempDir(), "log")
	l := openLog(t, path, 1<<20, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		Drain(p.Stderr, l, "mcp.up")
	}()
	<-p.Exited()
	p.Kill()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Error("Drain goes on")
	}
	if err := p.Stderr.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzDrain(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\xff\x1b"), 3)
	f.Add([]byte(strings.Repeat("é", lineLimit)), 1000)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		var out strings.Builder
		d := drain{log: &out, prefix: "up", bucket: bucket{tokens: drainBurst, at: time.Unix(0, 0)}}
		for rest := stream; len(rest) > 0; {
			n := min(max(piece, 1), len(rest))
			d.take(rest[:n], time.Unix(0, 0))
			rest = rest[n:]
		}
		d.release(time.Unix(0, 0))
		if text := out.String(); text != "" && !strings.HasSuffix(text, "\n") {
			t.Errorf("%q", text)
		}
		if cap(d.line) > 4*lineLimit || cap(d.tail) > 8*drainHold+2*lineLimit {
			t.Errorf("holds %d and %d", cap(d.line), cap(d.tail))
		}
	})
}
