package proc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays the children too: called with "helper" and a role, it
// is one.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		play(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // helpers are not to linger at their exit
	goleak.VerifyTestMain(m)
}

func play(role string, args []string) {
	switch role {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		os.Exit(code)
	case "echo":
		io.Copy(os.Stdout, os.Stdin)
	case "sleeper":
		say("ready")
		select {}
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		say("ready")
		select {}
	case "polite":
		terms := make(chan os.Signal, 9)
		signal.Notify(terms, syscall.SIGTERM)
		say("ready")
		<-terms
		say("term")
		os.Exit(7)
	case "parent": // stays until its standard input ends
		say(startHelper(args))
		io.Copy(io.Discard, os.Stdin)
	case "leaver": // leaves at once
		say(startHelper(args))
		os.Exit(3)
	case "daemon": // a sleeper that is nobody's child and holds nothing of ours
		out, _ := exec.Command(self(), "helper", "leaver", "setsid,null", "sleeper").Output()
		say(strings.TrimSpace(string(out)))
		io.Copy(io.Discard, os.Stdin)
	case "env":
		for _, v := range os.Environ() {
			say(v)
		}
	case "args":
		dir, _ := os.Getwd()
		say(fmt.Sprintf("%q in %s", os.Args, dir))
	case "fds":
		fds, _ := os.ReadDir("/proc/self/fd")
		for _, fd := range fds {
			link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
			say(fd.Name() + " " + link)
		}
	case "host":
		playHost(args[0])
	case "daemon with a tree":
		playTree(args[0])
	}
}

func say(line string) { fmt.Println(line) }

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// startHelper starts a helper as its arguments say: flags, role, arguments of
// the role. It returns its pid.
func startHelper(args []string) string {
	cmd := exec.Command(self(), append([]string{"helper"}, args[1:]...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	for flag := range strings.SplitSeq(args[0], ",") {
		switch flag {
		case "setsid":
			cmd.SysProcAttr.Setsid = true
		case "sibling":
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_PARENT
		case "null":
			cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, nil, nil
		}
	}
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	return strconv.Itoa(cmd.Process.Pid)
}

// playHost is a daemon with one child of each kind. It says the pids of the
// children and of what they started, then stays.
func playHost(dir string) {
	h, err := NewHost(dir, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		say(err.Error())
		os.Exit(1)
	}
	for _, args := range [][]string{
		{"sleeper"},
		{"parent", "", "deaf"},
		{"parent", "setsid", "sleeper"},
		{"parent", "setsid,null", "sleeper"},
		{"daemon"},
	} {
		p, err := h.Start(helperSpec(args...))
		if err != nil {
			say(err.Error())
			os.Exit(1)
		}
		line, _ := bufio.NewReader(p.Stdout).ReadString('\n')
		say(fmt.Sprintf("%d %s", p.PID(), strings.TrimSpace(line)))
	}
	say("done")
	select {}
}

// playTree is a daemon with one upstream, as npx makes them: a shell that
// waits for a shell that waits for the server, which ignores the end of stdin.
func playTree(dir string) {
	h, err := NewHost(dir, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err == nil {
		_, err = h.Reap(context.Background())
	}
	if err != nil {
		say(err.Error())
		os.Exit(1)
	}
	p, err := h.Start(Spec{Path: "/bin/sh", Args: []string{"-c", "/bin/sh -c 'sleep 1000; exit'; exit"}, Env: os.Environ(), Name: "mcp.up"})
	if err != nil {
		say(err.Error())
		os.Exit(1)
	}
	say(strconv.Itoa(p.PID()))
	select {}
}

func helperSpec(args ...string) Spec {
	return Spec{Path: self(), Args: append([]string{"helper"}, args...), Env: os.Environ(), Name: "mcp.test"}
}

// newHost makes a Host for one test; tests with one do not run in parallel,
// since orphans belong to the process.
func newHost(t *testing.T) *Host {
	t.Helper()
	h, err := NewHost(t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// start starts a helper that is killed and closed at the end of the test.
func start(t *testing.T, h *Host, args ...string) *Proc {
	t.Helper()
	p, err := h.Start(helperSpec(args...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		p.Stdout.Close()
		p.Stderr.Close()
	})
	return p
}

// line reads one line of f, within a deadline.
func line(t *testing.T, f *os.File) string {
	t.Helper()
	if err := f.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for b := make([]byte, 1); ; {
		if _, err := f.Read(b); err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		if b[0] == '\n' {
			return string(text)
		}
		text = append(text, b[0])
	}
}

// pidLine reads a line that is a pid.
func pidLine(t *testing.T, f *os.File) int {
	t.Helper()
	pid, err := strconv.Atoi(line(t, f))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// eventually waits until ok, and fails the test if that takes too long.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// within fails the test if f takes longer than d.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > d {
		t.Errorf("took %s, more than %s", took, d)
	}
}

func alive(pid int) bool {
	e, err := readEntry(pid)
	return err == nil && !e.dead
}

// zombies lists the zombies among the children of this process.
func zombies(t *testing.T) []int {
	t.Helper()
	table, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for pid, e := range table {
		if e.dead && e.parent == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}
