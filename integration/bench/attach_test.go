package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/creack/pty"
)

// BenchmarkAttach takes the time from a key that is typed at an attached
// terminal to its echo there.
func BenchmarkAttach(b *testing.B) { benchmark(b, attachParts()) }

func attachParts() []part { return []part{{"attach", "echo", attachEcho}} }

// typist is somebody at a terminal of their own, on which a program shows
// another one's.
type typist struct {
	tb    testing.TB
	tty   *os.File
	typed int
	buf   []byte
}

// columns is the width of the terminals: no line of a run is as long.
const columns = 500

// sit runs a program on a terminal and waits until it has drawn something: from
// then on it is the program that echoes, and not the terminal.
func (h *home) sit(name string, args ...string) *typist {
	h.tb.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = append(slices.Clone(h.env), "TERM=xterm-256color", "LANG=C.UTF-8", "TMUX_TMPDIR="+h.dir), h.dir
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() {
		_ = tty.Close() // the program sees its terminal go
		_ = cmd.Wait()
	})
	t := &typist{tb: h.tb, tty: tty, buf: make([]byte, 64<<10)}
	t.await(func([]byte) bool { return true })
	t.key() // what it draws at the start is behind this
	return t
}

// await reads until something is seen.
func (t *typist) await(seen func([]byte) bool) {
	t.tb.Helper()
	late := time.AfterFunc(patience, func() { _ = t.tty.Close() })
	defer late.Stop()
	for {
		n, err := t.tty.Read(t.buf)
		if seen(t.buf[:n]) {
			return
		}
		if err != nil {
			t.tb.Fatalf("nothing came of key %d: %v", t.typed, err)
		}
	}
}

// key types a key and returns when its echo was there. The keys are such that no
// sequence which moves a cursor has one in it.
func (t *typist) key() time.Duration {
	t.tb.Helper()
	key := []byte{"#%&"[t.typed%3]}
	t.typed++
	begun := time.Now()
	if _, err := t.tty.Write(key); err != nil {
		t.tb.Fatal(err)
	}
	t.await(func(p []byte) bool { return bytes.Contains(p, key) })
	return time.Since(begun)
}

// attachEcho types at `cat` through harness and through tmux, in turns.
func attachEcho(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	h.start("[harness.cat]\ncmd = \"cat\"\nenabled = true\n")
	contestants := []*typist{h.sit(harness(tb), "attach", "cat")}
	tmux, err := exec.LookPath("tmux")
	if err == nil {
		h.save("tmux.conf", "set -g status off\nset -s escape-time 0\n")
		tb.Cleanup(func() {
			kill := exec.Command(tmux, "-L", "bench", "kill-server")
			kill.Env = append(slices.Clone(h.env), "TMUX_TMPDIR="+h.dir)
			if out, err := kill.CombinedOutput(); err != nil {
				tb.Errorf("end tmux: %v: %s", err, out)
			}
		})
		contestants = append(contestants, h.sit(tmux, "-L", "bench", "-f", h.path("tmux.conf"), "new-session", "cat"))
	}
	took := make([][]float64, len(contestants))
	for range min(s.rounds*s.reps, columns/2) {
		for i, t := range contestants {
			pause(10 * time.Millisecond) // a person types
			took[i] = append(took[i], millis(t.key()))
		}
	}
	return attachFigures(took)
}

// attachFigures holds our echo to that of the other, where there is one.
func attachFigures(took [][]float64) []figure {
	f := figure{what: fmt.Sprintf("key to its echo, %d times", len(took[0])), unit: "ms-p50", value: quantile(took[0], 0.5)}
	worst := figure{what: f.what, unit: "ms-p99", value: quantile(took[0], 0.99)}
	if len(took) == 1 {
		f.what += "; there is no tmux to compare it with"
		return []figure{f, worst}
	}
	f.than, f.base = "tmux", quantile(took[1], 0.5)
	f.bound = bound{f.base + 2, false, "tmux + 2 ms"}
	worst.than, worst.base = "tmux", quantile(took[1], 0.99)
	return []figure{f, worst}
}

func TestAttach_IsHeldToTheOtherWhereThereIsOne(t *testing.T) {
	t.Parallel()
	alone := attachFigures([][]float64{{1, 2, 3}})
	if bounded, _ := alone[0].holds(); bounded || alone[0].value != 2 || alone[1].value != 3 {
		t.Errorf("alone: %+v", alone)
	}
	for _, c := range []struct {
		ours float64
		ok   bool
	}{{3.9, true}, {4.1, false}} {
		both := attachFigures([][]float64{{c.ours}, {2}})
		if bounded, ok := both[0].holds(); !bounded || ok != c.ok || both[0].base != 2 {
			t.Errorf("%v beside 2: %+v", c.ours, both)
		}
	}
}
