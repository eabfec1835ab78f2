package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"harness/pkg/config"
	"harness/pkg/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait. It is spent only by a test that fails.
const patience = 20 * time.Second

// memory keeps runs in memory.
type memory struct {
	mu   sync.Mutex
	runs []*memoryRun
}

type memoryRun struct {
	mu   sync.Mutex
	id   string
	out  bytes.Buffer
	exit *proc.Exit
}

func (r *memory) Begin(l config.AgentLaunch, _ time.Time) (Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := &memoryRun{id: fmt.Sprintf("%s-%d", l.Name, len(r.runs))}
	r.runs = append(r.runs, run)
	return run, nil
}

func (r *memoryRun) ID() string { return r.id }

func (r *memoryRun) Started() {}

func (r *memoryRun) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out.Len() < 1<<20 {
		r.out.Write(p)
	}
	return len(p), nil
}

func (r *memoryRun) End(e proc.Exit, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exit != nil {
		panic("a run ended twice")
	}
	r.exit = &e
}

// house is a pool with real processes.
type house struct {
	t       *testing.T
	pool    *Pool
	dir     string
	runs    memory
	changed chan struct{}

	mu     sync.Mutex
	events []Event
	bound  map[string]int // live identities by run
}

func newHouse(t *testing.T) *house {
	t.Helper()
	x := &house{t: t, dir: t.TempDir(), changed: make(chan struct{}, 1), bound: map[string]int{}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	host, err := proc.NewHost(x.dir, log)
	if err != nil {
		t.Fatal(err)
	}
	server := config.DefaultServer()
	server.StopGrace = 2 * time.Second
	x.pool = NewPool(Options{
		Host: host, LogDir: filepath.Join(x.dir, "logs"), Logger: log, Runs: &x.runs, Server: server, ReadFile: os.ReadFile,
		Env: func() []string {
			return []string{"PATH=/usr/bin:/bin", "A=daemon", "B=daemon", "C=daemon", "D=daemon", "HARNESS_MCP_TOKEN=of another", "TERM=dumb"}
		},
		FindExe: func(cmd string) (string, error) { return cmd, nil },
		Prepare: func(l config.AgentLaunch, run string, _ []string) (Spawn, error) {
			x.mu.Lock()
			x.bound[run] = 0
			x.mu.Unlock()
			return Spawn{
				Args: l.Args, Env: map[string]string{"D": "identity", "HARNESS_RUN_ID": run},
				Bound: func(pid int, _ uint64) { x.mu.Lock(); defer x.mu.Unlock(); x.bound[run] = pid },
				Ended: func() { x.mu.Lock(); defer x.mu.Unlock(); delete(x.bound, run) },
			}, nil
		},
		Changed: func() {
			select {
			case x.changed <- struct{}{}:
			default:
			}
		},
		Event: func(e Event) { x.mu.Lock(); defer x.mu.Unlock(); x.events = append(x.events, e) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = x.pool.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(patience):
			t.Error("the pool does not end")
		}
		host.Close()
	})
	return x
}

// script is a harness that is a shell script.
func script(name, text string) config.AgentLaunch {
	return config.AgentLaunch{Agent: config.Agent{Name: name, Cmd: "/bin/sh", Args: []string{"-c", text}, Workdir: "/", RestartDelay: 20 * time.Millisecond}}
}

// await waits until the harness is as wanted.
func (x *house) await(name string, what string, ok func(Status) bool) Status {
	x.t.Helper()
	deadline := time.After(patience)
	for {
		s, _ := x.pool.Status(name)
		if ok(s) {
			return s
		}
		select {
		case <-x.changed:
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			x.t.Fatalf("%s is not %s: %+v", name, what, s)
		}
	}
}

// is waits until the harness "a" is in a state.
func (x *house) is(state State) Status {
	x.t.Helper()
	return x.await("a", string(state), func(s Status) bool { return s.State == state })
}

// stream reads an attachment to a text.
type stream struct {
	t    *testing.T
	a    *Attachment
	mu   sync.Mutex
	seen bytes.Buffer
	done chan struct{}
}

// attach has somebody look at the harness "a".
func (x *house) attach(v Viewer) *stream {
	x.t.Helper()
	a, err := x.pool.Attach("a", v)
	if err != nil {
		x.t.Fatal(err)
	}
	s := &stream{t: x.t, a: a, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		buf := make([]byte, 4096)
		for {
			n, err := a.Read(buf)
			s.mu.Lock()
			s.seen.Write(buf[:n])
			if s.seen.Len() > 128<<10 { // a flood is not kept
				s.seen.Next(s.seen.Len() - 64<<10)
			}
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	x.t.Cleanup(func() { a.Close(); <-s.done })
	return s
}

func (s *stream) sees(want string) {
	s.t.Helper()
	s.seesWithin(patience, want)
}

func (s *stream) seesWithin(limit time.Duration, want string) {
	s.t.Helper()
	for deadline := time.Now().Add(limit); ; {
		s.mu.Lock()
		found := bytes.Contains(s.seen.Bytes(), []byte(want))
		last := bytes.Clone(s.seen.Bytes()[max(0, s.seen.Len()-2000):])
		s.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("no %q within %v; last there was %q", want, limit, last)
			return
		}
		time.Sleep(2 * time.Millisecond) // until more has come
	}
}

func (s *stream) types(text string) {
	s.t.Helper()
	if _, err := s.a.Write([]byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func viewer(cols, rows uint16) Viewer { return Viewer{Size: proc.Size{Cols: cols, Rows: rows}} }

const waits = `while read line; do echo "got $line"; done`

func TestPool_RunsWithoutItsLog(t *testing.T) {
	x := newHouse(t)
	if err := os.MkdirAll(LogPath(filepath.Join(x.dir, "logs"), "a"), 0o700); err != nil { // in the log's place
		t.Fatal(err)
	}
	x.pool.Start(script("a", "echo hello; "+waits), 1)
	x.is(Running)
	x.attach(viewer(80, 24)).sees("hello")
	x.pool.Stop("a")
	x.is(Stopped)
}

func TestPool_RunsStopsAndForgets(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", "echo hello; "+waits), 1)
	// On a busy machine it may be up by now.
	if s, _ := x.pool.Status("a"); s.State != Starting && s.State != Running || !s.Enabled {
		t.Errorf("at once it is %+v", s)
	}
	s := x.is(Running)
	if s.PID == 0 || s.Started.IsZero() || !s.Answered || s.RunID != "a-0" || s.Spawned == nil {
		t.Errorf("running: %+v", s)
	}
	x.pool.Stop("a")
	s = x.is(Stopped)
	if s.Enabled || s.PID != 0 || s.LastExit == nil || s.LastExit.Signal != "SIGHUP" && s.LastExit.Signal != "SIGTERM" {
		t.Errorf("stopped: %+v", s)
	}
	x.mu.Lock()
	if len(x.bound) != 0 {
		t.Errorf("identities live on: %v", x.bound)
	}
	x.mu.Unlock()
	x.pool.Start(script("a", waits), 2)
	x.is(Running)
	look := x.attach(viewer(80, 24))
	x.pool.Remove("a")
	<-look.done
	x.await("a", "forgotten", func(s Status) bool { return s.Name == "" })
	if _, err := x.pool.Attach("a", viewer(80, 24)); !errors.Is(err, ErrUnknown) {
		t.Errorf("attach gives %v", err)
	}
}

func TestPool_RestartsWhatExitsAndGivesUp(t *testing.T) {
	x := newHouse(t)
	l := script("a", "exit 3")
	l.RestartDelay = 10 * time.Millisecond
	x.pool.Start(l, 1)
	s := x.is(Failed)
	if s.Restarts != 14 || s.LastExit.Code != 3 || !s.NextRetry.IsZero() || !s.Enabled {
		t.Errorf("failed: %+v", s)
	}
	states := func() (all []State) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, e := range x.events {
			all = append(all, e.State)
		}
		return all
	}
	// What is shown is told a moment later.
	x.await("a", "told of", func(Status) bool { return slices.Contains(states(), Failed) })
	for _, want := range []State{Starting, Running, Restarting, Degraded, Failed} {
		if !slices.Contains(states(), want) {
			t.Errorf("no %s in %v", want, states())
		}
	}
	x.pool.Start(script("a", waits), 2)
	if s := x.is(Running); s.Restarts != 0 || s.Error != "" {
		t.Errorf("started by hand: %+v", s)
	}
}

func TestPool_AChangedDefinitionWaitsForTheNextStart(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", "echo one; "+waits), 1)
	before := x.is(Running)
	x.pool.Update(script("a", "echo two; "+waits))
	s, _ := x.pool.Status("a")
	if s.PID != before.PID || s.Spawned.Args[1] == s.Next.Args[1] {
		t.Errorf("after the change: %+v", s)
	}
	x.pool.Start(script("a", "echo two; "+waits), 2)
	x.await("a", "another process", func(s Status) bool { return s.State == Running && s.PID != before.PID })
	x.attach(viewer(80, 24)).sees("two")
}

func TestPool_WhatCannotBeStartedSaysWhy(t *testing.T) {
	x := newHouse(t)
	l := script("a", "")
	l.Cmd = "/nowhere/agent"
	x.pool.Start(l, 1)
	s := x.await("a", "tried", func(s Status) bool { return s.Answered })
	if !strings.Contains(s.Error, "not found") || s.PID != 0 {
		t.Errorf("%+v", s)
	}
	bad := filepath.Join(x.dir, "bad.env")
	if err := os.WriteFile(bad, []byte("GOOD=xyzzy\nno xyzzy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l = script("b", "")
	l.EnvFile = bad
	x.pool.Start(l, 1)
	s = x.await("b", "tried", func(s Status) bool { return s.Answered })
	if !strings.Contains(s.Error, "bad.env:2:") || strings.Contains(s.Error, "xyzzy") {
		t.Errorf("%+v", s)
	}
}

func TestPool_OrdersTheEnvironment(t *testing.T) {
	x := newHouse(t)
	file := filepath.Join(x.dir, "a.env")
	if err := os.WriteFile(file, []byte("B=file\nC=file\nD=file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Not through a shell, which would tidy it up.
	l := script("a", "")
	l.Cmd, l.Args = "/usr/bin/env", nil
	l.EnvFile, l.Env, l.RestartDelay = file, map[string]string{"C": "table", "D": "table"}, time.Hour
	x.pool.Start(l, 1)
	x.is(Restarting)
	want := []string{"A=daemon", "B=file", "C=table", "D=identity", "HARNESS_RUN_ID=a-0", "PATH=/usr/bin:/bin", "TERM=xterm-256color"}
	// What was printed last is read after the exit was seen.
	var got []string
	x.await("a", "read to its end", func(Status) bool {
		lines, err := x.pool.Screen("a")
		if err != nil {
			t.Fatal(err)
		}
		got = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "=") })
		return len(got) >= len(want)
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment:\n%s", diff)
	}
}

func TestPool_SeesAnExitThoughAHeirHoldsTheTerminalAndEndsIt(t *testing.T) {
	x := newHouse(t)
	l := script("a", `if [ -e `+x.dir+`/second ]; then `+waits+`; fi; touch `+x.dir+`/second; (trap '' HUP TERM; while :; do sleep 0.05; done) & echo $! >`+x.dir+`/heir; exit 5`)
	began := time.Now()
	x.pool.Start(l, 1)
	x.await("a", "exited", func(s Status) bool { return s.LastExit != nil })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("seen after %v", took)
	}
	x.is(Running)
	data, err := os.ReadFile(filepath.Join(x.dir, "heir"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(data))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the heir lives beside the second process: %v", err)
	}
}

func TestAttach_ShowsTheScreenThenWhatIsPrintedAndTypes(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", `printf '\033[2J\033[5;10Hdrawn long ago\033[?2004h\n'; `+waits), 1)
	x.is(Running)
	first := x.attach(viewer(100, 30))
	first.sees("drawn long ago")
	first.types("one\n")
	first.sees("got one")
	second := x.attach(viewer(90, 40))
	second.sees("drawn long ago")
	second.sees("\x1b[?2004h")
	if got := x.pool.find("a").term.measure(); got != (proc.Size{Cols: 90, Rows: 30}) {
		t.Errorf("the smallest is %+v", got)
	}
	third := x.attach(Viewer{Size: proc.Size{Cols: 10, Rows: 5}, ReadOnly: true})
	third.sees("drawn long ago")
	if _, err := third.a.Write([]byte("x")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a read-only one may type: %v", err)
	}
	if got := x.pool.find("a").term.measure(); got != (proc.Size{Cols: 90, Rows: 30}) {
		t.Errorf("one that only looks counts: %+v", got)
	}
	second.a.Close()
	if got := x.pool.find("a").term.measure(); got != (proc.Size{Cols: 100, Rows: 30}) {
		t.Errorf("after the smaller left: %+v", got)
	}
	first.types("two\n")
	third.sees("got two")
	first.a.Resize(proc.Size{Cols: 50, Rows: 20})
	if got := x.pool.find("a").term.measure(); got != (proc.Size{Cols: 50, Rows: 20}) {
		t.Errorf("resized: %+v", got)
	}
	lines, err := x.pool.Screen("a")
	if err != nil || len(lines) != 20 {
		t.Errorf("the screen has %d lines, %v", len(lines), err)
	}
}

func TestAttach_SurvivesARestartAndSaysSo(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", `echo up; read line; exit 7`), 1)
	x.is(Running)
	look := x.attach(viewer(80, 24))
	look.sees("up")
	look.types("bye\n")
	look.sees("exited with code 7")
	x.await("a", "restarted", func(s Status) bool { return s.State == Running && s.Restarts == 1 })
	look.types("again\n")
	x.await("a", "restarted", func(s Status) bool { return s.Restarts == 2 })
	x.pool.Stop("a")
	look.sees("a is stopped")
}

func TestTerminal_AnswersWhileNobodyElseCan(t *testing.T) {
	x := newHouse(t)
	// It asks where the cursor is, as agents do at their start.
	ask := `stty raw -echo; printf '\033[3;4H\033[6n'; answer=$(dd bs=1 count=6 2>/dev/null | tr '\033' E); stty sane; echo "[$answer]"; ` + waits
	x.pool.Start(script("a", ask), 1)
	x.is(Running)
	x.attach(Viewer{Size: proc.Size{Cols: 80, Rows: 24}, ReadOnly: true}).sees("[E[3;4R]")
}

func TestFlood_GrowsNoMemoryAndStallsNobody(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", fmt.Sprintf(`read go; yes 'some line of the output of a program' | head -c %d; echo; echo flood is over; `, flood)+waits), 1)
	x.is(Running)
	reader := x.attach(viewer(80, 24))
	stuck, err := x.pool.Attach("a", viewer(80, 24)) // never reads
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	reader.types("go\n")
	over := make(chan struct{})
	go func() { defer close(over); reader.seesWithin(10*patience, "flood is over") }()
	most := before
	for flooding := true; flooding; {
		select {
		case <-over:
			flooding = false
		case <-time.After(50 * time.Millisecond):
		}
		most = max(most, heap())
	}
	if most > before+24<<20 {
		t.Errorf("the heap has grown from %d to %d", before, most)
	}
	reader.types("still there\n")
	reader.sees("got still there")
	// One that reads again has the screen, and not the flood.
	buf := make([]byte, 1<<20)
	n, err := stuck.Read(buf)
	if err != nil || n > 64<<10 || !bytes.Contains(buf[:n], []byte("flood is over")) {
		t.Errorf("it gets %d bytes, %v: %.200q", n, err, buf[:n])
	}
	path := LogPath(filepath.Join(x.dir, "logs"), "a")
	for i, file := range []string{path, path + ".1", path + ".2", path + ".3"} {
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, os.ErrNotExist) && (i > logKeep || flood < (i+1)*logSize):
		case err != nil || info.Size() > logSize || i > logKeep:
			t.Errorf("log %d: %v", i, err)
		}
	}
}

// TestFlood_OfQuestions proves that a program which asks and does not read the
// answers costs nothing, and that one that asks in order is answered in order.
func TestFlood_OfQuestions(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", `stty raw -echo; yes "$(printf '\033[6n\033[c')"`), 1)
	x.is(Running)
	before := runtime.NumGoroutine()
	x.await("a", "heard", func(Status) bool {
		lines, err := x.pool.Screen("a")
		return err == nil && len(lines) > 0 && len(x.pool.find("a").term.answers) == unread
	})
	if n := runtime.NumGoroutine(); n > before+10 {
		t.Errorf("%d goroutines have become %d", before, n)
	}
	began := time.Now()
	x.pool.Stop("a")
	x.is(Stopped)
	if took := time.Since(began); took > typing {
		t.Errorf("answers that nobody reads hold up its stop for %v", took)
	}
}

// TestTerminal_IsSilentWhileAViewerCanAnswer: two answers to one question would
// be typed at the program.
func TestTerminal_IsSilentWhileAViewerCanAnswer(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", `stty raw -echo; echo up; while read line; do printf 'ask\033[6n'; echo "[$(dd bs=1 count=6 2>/dev/null | tr '\033' E)]"; done`), 1)
	x.is(Running)
	look := x.attach(viewer(80, 24))
	look.sees("up")
	look.types("go\n")
	look.sees("ask\x1b[6n")
	if _, err := x.pool.Screen("a"); err != nil { // all of it is drawn now
		t.Fatal(err)
	}
	look.types("\x1b[7;7R")
	look.sees("[E[7;7R]")
}

func TestTerminal_IsFollowedWhereItWasClosedForAWhile(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", `echo one; exec </dev/null >/dev/null 2>&1; sleep 0.3; exec </dev/tty >/dev/tty; echo two; `+waits), 1)
	x.is(Running)
	x.attach(viewer(80, 24)).sees("two")
}

func TestAttach_BoundsAndIgnoresSizes(t *testing.T) {
	x := newHouse(t)
	x.pool.Start(script("a", waits), 1)
	x.is(Running)
	term := x.pool.find("a").term
	for _, tc := range []struct{ viewer, want proc.Size }{
		{proc.Size{}, firstSize()},
		{proc.Size{Cols: 0, Rows: 7}, firstSize()},
		{proc.Size{Cols: 65535, Rows: 65535}, proc.Size{Cols: widest, Rows: tallest}},
		{proc.Size{Cols: 1, Rows: 1}, proc.Size{Cols: 1, Rows: 1}},
		{proc.Size{Cols: 80, Rows: 24}, firstSize()},
	} {
		a, err := x.pool.Attach("a", Viewer{Size: tc.viewer})
		if err != nil {
			t.Fatal(err)
		}
		if got := term.measure(); got != tc.want {
			t.Errorf("a viewer of %+v makes it %+v", tc.viewer, got)
		}
		a.Close()
		if got := term.measure(); got != tc.want {
			t.Errorf("it does not keep %+v with nobody attached: %+v", tc.want, got)
		}
	}
}

func TestTerminal_KeepsTheLastOfWhatItCouldNotFollow(t *testing.T) {
	t.Parallel()
	term := newTerminal(io.Discard)
	defer term.close()
	term.draws.Lock() // as if it drew very slowly
	for i := range 20000 {
		term.show(fmt.Appendf(nil, "line %d\r\n", i))
	}
	if len(term.due) > lag {
		t.Errorf("%d bytes are due", len(term.due))
	}
	term.draws.Unlock()
	if diff := cmp.Diff([]string{"line 19998", "line 19999", ""}, term.text()[21:]); diff != "" {
		t.Errorf("screen:\n%s", diff)
	}
}

// TestScreen_SurvivesWhateverIsPrinted: the emulator panics at some of it, and
// takes long over some.
func TestScreen_SurvivesWhateverIsPrinted(t *testing.T) {
	t.Parallel()
	parts := []string{
		"\x1b[", "\x1b]", "\x1bP", "\x1b(0", "\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bc", "\x1b\\", "\a", "\x00", "\xff", "\x9b", "\x18",
		"\n", "\r", "\t", "\b", "世", "e\u0301", "👩‍👩‍👧", "a", "1", "25", "1049", "2147483647", ";", "?", "!p", " q",
		"h", "l", "m", "H", "J", "K", "r", "s", "u", "L", "M", "@", "P", "X", "b", "S", "T", "A", "B", "C", "D", "d", "G", "g", "c", "n", "W", "I", "Z",
	}
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.Custom(func(t *rapid.T) proc.Size {
			return proc.Size{Cols: rapid.Uint16Range(1, 12).Draw(t, "cols"), Rows: rapid.Uint16Range(1, 6).Draw(t, "rows")}
		})
		s := newScreen(sizes.Draw(t, "size"), func([]byte) {})
		defer s.close()
		for range 2 {
			s.draw([]byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 150).Draw(t, "printed"), "")))
			s.resize(sizes.Draw(t, "another size"))
			if len(s.paint()) == 0 || len(s.text()) == 0 {
				t.Fatal("nothing is painted")
			}
		}
		s.draw([]byte("\x18\x1bc\x1b[Hx"))
		if got := s.text()[0]; !strings.HasPrefix(got, "x") {
			t.Fatalf("it draws no more: %q", got)
		}
	})
}

func TestScreen_GoesOnAfterAPanicOfTheEmulator(t *testing.T) {
	t.Parallel()
	s := newScreen(proc.Size{Cols: 6, Rows: 3}, func([]byte) {})
	defer s.close()
	s.draw([]byte("\x1b[?1049h\x1b[?2004hlost"))
	was := s.emulator
	s.survive(func() { panic("as it does") })
	if s.emulator == was {
		t.Fatal("it goes on with what is broken")
	}
	s.draw([]byte("next"))
	painted := string(s.paint())
	if s.text()[0] != "next" || !strings.Contains(painted, "\x1b[?1049h") || !strings.Contains(painted, "\x1b[?2004h") {
		t.Errorf("%q, painted %q", s.text(), painted)
	}
}

func TestTerminal_SaysWhatHappenedBelowWhatWasPrinted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		printed string
		want    []string
	}{
		"lines":                       {"one\r\ntwo\x1b[2;20r\x1b[2;4H", []string{"one", "two", "[harness: it ended]", ""}},
		"a program that filled":       {"one\r\ntwo\x1b[?1049h\x1b[2J\x1b[9;9Hfull", []string{"one", "two", "[harness: it ended]", ""}},
		"in the middle of a sequence": {"one\r\ntwo\x1b]0;titl", []string{"one", "two", "[harness: it ended]", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			term := newTerminal(io.Discard)
			defer term.close()
			term.show([]byte(tc.printed))
			term.say("it ended")
			if diff := cmp.Diff(tc.want, term.text()[:4]); diff != "" {
				t.Errorf("screen:\n%s", diff)
			}
		})
	}
}

func TestScreen_RepeatsWithinALine(t *testing.T) {
	t.Parallel()
	s := newScreen(proc.Size{Cols: 10, Rows: 3}, func([]byte) {})
	defer s.close()
	s.draw([]byte("x\x1b[3b\r\ny\x1b[9999b"))
	if diff := cmp.Diff([]string{"xxxx", "yyyyyyyyyy", "y"}, s.text()); diff != "" {
		t.Errorf("screen:\n%s", diff)
	}
}

func TestScreen_PaintsTheSameOnAnother(t *testing.T) {
	t.Parallel()
	s := newScreen(proc.Size{Cols: 30, Rows: 6}, func([]byte) {})
	defer s.close()
	s.draw([]byte("\x1b[?1049h\x1b[2J\x1b[31mred\x1b[0m\x1b[3;7Hwört 世界\x1b[?1h\x1b[?25l\x1b[6;1Hlast\x1b[2;3H"))
	o := newScreen(proc.Size{Cols: 30, Rows: 6}, func([]byte) {})
	defer o.close()
	o.draw([]byte("something else\x1b[?2004h"))
	o.draw(s.paint())
	if diff := cmp.Diff(s.text(), o.text()); diff != "" {
		t.Errorf("another screen:\n%s", diff)
	}
	if diff := cmp.Diff(string(s.paint()), string(o.paint())); diff != "" {
		t.Errorf("painted again:\n%s", diff)
	}
}

var _ io.ReadWriteCloser = (*Attachment)(nil)
