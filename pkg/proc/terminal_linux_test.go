package proc

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// onTerminal starts a shell script on a terminal of 91 by 33.
func onTerminal(t *testing.T, h *Host, script string) (*Proc, *bufio.Reader) {
	t.Helper()
	p, err := h.Start(Spec{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Name: "harness.test",
		TTY: &Size{Cols: 91, Rows: 33},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); p.TTY.Close() })
	if err := p.TTY.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return p, bufio.NewReader(p.TTY)
}

// until reads lines to one that is want, and returns all before it.
func until(t *testing.T, in *bufio.Reader, want string) (before []string) {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("no %q, but %q and %v", want, before, err)
		}
		if line = strings.TrimRight(line, "\r\n"); line == want {
			return before
		}
		before = append(before, line)
	}
}

func TestTTY_ControlsTheSessionAndHasASize(t *testing.T) {
	p, in := onTerminal(t, newHost(t), `stty size; test -t 0 && test -t 1 && test -t 2 && echo all; echo hello >/dev/tty; trap 'stty size; exit 3' WINCH; echo wait; while :; do sleep 0.05; done`)
	until(t, in, "33 91")
	until(t, in, "all")
	until(t, in, "hello")
	until(t, in, "wait")
	if err := p.Resize(Size{Cols: 40, Rows: 10}); err != nil {
		t.Fatal(err)
	}
	until(t, in, "10 40")
	if got := waitExit(t, p); got.String() != "code 3" {
		t.Errorf("exit %s", got)
	}
	if _, err := io.ReadAll(in); !errors.Is(err, syscall.EIO) {
		t.Errorf("after the last process reading gives %v", err)
	}
	if p.Stdin != nil || p.StartTime() == 0 {
		t.Errorf("stdin %v, start time %d", p.Stdin, p.StartTime())
	}
}

func TestTTY_TakesInputAndInterrupts(t *testing.T) {
	p, in := onTerminal(t, newHost(t), `trap 'echo interrupted; exit 4' INT; echo up; read line; echo "got $line"; while :; do sleep 0.05; done`)
	until(t, in, "up")
	// It waits for input, also when there is none yet.
	select {
	case <-p.Exited():
		t.Fatalf("it exited with %s before anybody typed", p.Exit())
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := p.TTY.WriteString("typed\n"); err != nil {
		t.Fatal(err)
	}
	until(t, in, "typed") // the echo
	until(t, in, "got typed")
	if _, err := p.TTY.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	until(t, in, "^Cinterrupted")
	if got := waitExit(t, p); got.String() != "code 4" {
		t.Errorf("exit %s", got)
	}
}

func TestTTY_StopSendsTERMAndHUPAtOnce(t *testing.T) {
	for name, tc := range map[string]struct{ script, says, exit string }{
		"it takes SIGTERM":                  {`trap 'echo term; exit 5' TERM; trap '' HUP; echo up; while :; do sleep 0.05; done`, "term", "code 5"},
		"it ignores SIGTERM, takes SIGHUP":  {`trap '' TERM; trap 'echo hup; exit 6' HUP; echo up; while :; do sleep 0.05; done`, "hup", "code 6"},
		"an interactive shell on a command": {`exec sh -i -c 'echo up; sleep 1000'`, "", "SIGTERM"},
	} {
		t.Run(name, func(t *testing.T) {
			p, in := onTerminal(t, newHost(t), tc.script)
			until(t, in, "up")
			began := time.Now()
			done := make(chan struct{})
			go func() { defer close(done); p.Stop(time.Minute) }()
			if tc.says != "" {
				until(t, in, tc.says)
			}
			<-done
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v of a minute", took)
			}
			if got := waitExit(t, p); tc.says != "" && got.String() != tc.exit {
				t.Errorf("exit %s", got)
			}
		})
	}
}

func TestTTY_KillsAtTheEndOfGraceAndWhatLeftTheSession(t *testing.T) {
	p, in := onTerminal(t, newHost(t), `trap '' TERM HUP; setsid sh -c 'trap "" TERM HUP; while :; do sleep 0.05; done' & echo up; while :; do sleep 0.05; done`)
	until(t, in, "up")
	began := time.Now()
	p.Stop(400 * time.Millisecond)
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	if got := waitExit(t, p); got.Signal != "SIGKILL" {
		t.Errorf("exit %s", got)
	}
	if left := zombies(t); len(left) > 0 {
		t.Errorf("zombies %v", left)
	}
}

func TestTTY_KeepsDeadlinesInBothDirections(t *testing.T) {
	p, in := onTerminal(t, newHost(t), `stty raw -echo; echo up; sleep 1000`)
	until(t, in, "up")
	if err := p.Resize(Size{Cols: 20, Rows: 5}); err != nil {
		t.Fatal(err)
	}
	if err := p.TTY.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.TTY.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading what is not printed gives %v", err)
	}
	// Nobody reads it, and a terminal holds a few thousand bytes.
	if _, err := p.TTY.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing what is not read gives %v", err)
	}
}

func TestTTY_EndsADaemonThatKeptTheTerminal(t *testing.T) {
	h := newHost(t)
	onTerminal(t, h, `sleep 1000`) // an orphan could be of this one too
	// It forks and makes its session between two looks: its parent is gone.
	p, in := onTerminal(t, h, `trap '' HUP TERM; setsid -f sh -c 'trap "" HUP TERM; echo $$; echo up; while :; do sleep 0.05; done'; read line`)
	before := until(t, in, "up")
	heir, err := strconv.Atoi(before[len(before)-1])
	if err != nil || !alive(heir) {
		t.Fatalf("no daemon: %q", before)
	}
	p.Stop(300 * time.Millisecond)
	if alive(heir) {
		t.Error("the daemon survived")
	}
	for _, g := range h.account() {
		if len(g.Pipes) > 0 {
			t.Errorf("a terminal is recorded: %+v", g)
		}
	}
}

// TestTTY_HasJobControl proves that the terminal is the session's own: a shell
// without one cannot move jobs between foreground and background.
func TestTTY_HasJobControl(t *testing.T) {
	p, in := onTerminal(t, newHost(t), `stty -echo; PS1= exec sh -i`)
	types := func(text string) {
		if _, err := p.TTY.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	types("tty; sleep 1000 & jobs; kill %1; echo known\n")
	said := strings.Join(until(t, in, "known"), "\n")
	if !strings.Contains(said, "/dev/pts/") || !strings.Contains(said, "Running") || strings.Contains(said, "job control turned off") {
		t.Errorf("the shell said %q", said)
	}
	// The key stops the foreground job, and not the shell.
	types("cat\nin front\n")
	until(t, in, "in front")
	types("\x1a")
	for line := ""; !strings.Contains(line, "Stopped"); { // what is typed before that may be dropped
		var err error
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	types("jobs; echo back\n")
	if said := strings.Join(until(t, in, "back"), "\n"); !strings.Contains(said, "Stopped") {
		t.Errorf("after the key: %q", said)
	}
}

func TestTTY_ExitIsSeenThoughAHeirHoldsTheTerminal(t *testing.T) {
	p, in := onTerminal(t, newHost(t), `trap '' HUP; (trap '' HUP TERM; echo heir; sleep 1000) & sleep 0.3; exit 9`)
	until(t, in, "heir")
	began := time.Now()
	if got := waitExit(t, p); got.String() != "code 9" {
		t.Errorf("exit %s", got)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("seen after %v", took)
	}
	p.Kill()
	if _, err := io.ReadAll(in); !errors.Is(err, syscall.EIO) {
		t.Errorf("the heir still holds the terminal: %v", err)
	}
}
