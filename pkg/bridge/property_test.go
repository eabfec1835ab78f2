package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// deed is one thing that an agent or a daemon does in a run.
type deed struct {
	What string // see world.do
	N    int    // what exactly: a pause in ms, an id, a version
}

func genDeeds() *rapid.Generator[[]deed] {
	what := rapid.SampledFrom([]string{"call", "call", "get", "list", "level", "notify", "cancel", "flush", "pause", "pause", "up", "up", "kill", "half"})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
		d := deed{What: what.Draw(t, "what")}
		switch d.What {
		case "pause":
			d.N = rapid.SampledFrom([]int{0, 1, 10, 30, 300, 1000, 2500}).Draw(t, "ms")
		case "cancel":
			d.N = rapid.IntRange(1, 5).Draw(t, "back")
		case "up":
			d.N = rapid.IntRange(0, 2).Draw(t, "version")
		}
		return d
	}), 1, 60)
}

// world is an agent and its daemons, and what they have seen.
type world struct {
	unit    time.Duration // a millisecond of a run
	connect func() (daemon, bridge net.Conn)

	in      *io.PipeWriter
	batch   []string // of the agent, not yet written
	greets  bool
	asked   []int
	methods map[int]string
	undone  map[int]bool // cancelled

	serving sync.WaitGroup

	mu       sync.Mutex
	version  int // of the daemon that runs; -1 for none
	sessions []*served
	got      []string // by the agent
}

// served is one session of one daemon.
type served struct {
	w       *world
	version int
	conn    net.Conn
	writing sync.Mutex

	// Under w.mu.
	heard     []string
	delivered map[string]bool // answers that the bridge took whole
}

func (w *world) dial(context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version < 0 {
		return nil, os.ErrNotExist
	}
	here, there := w.connect()
	s := &served{w: w, version: w.version, conn: here, delivered: map[string]bool{}}
	w.sessions = append(w.sessions, s)
	w.serving.Go(s.run)
	return there, nil
}

// run answers each request after a time of its own, so that answers overtake
// each other; one that was cancelled gets none.
func (s *served) run() {
	lines := bufio.NewReader(s.conn)
	cancelled := map[string]chan struct{}{}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ RequestID json.RawMessage }
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			panic(err)
		}
		s.w.mu.Lock()
		s.heard = append(s.heard, line)
		s.w.mu.Unlock()
		if stop := cancelled[string(m.Params.RequestID)]; stop != nil && m.Method == "notifications/cancelled" {
			close(stop)
			delete(cancelled, string(m.Params.RequestID))
		}
		if m.ID != nil {
			stop := make(chan struct{})
			cancelled[string(m.ID)] = stop
			if m.Method == "initialize" { // nothing is answered before that
				s.answer(string(m.ID), m.Method, stop)
				continue
			}
			s.w.serving.Go(func() { s.answer(string(m.ID), m.Method, stop) })
		}
	}
}

func (s *served) answer(id, method string, stop <-chan struct{}) {
	delay := time.Duration(0)
	if method == "tools/call" || method == "prompts/get" {
		n, _ := strconv.Atoi(id) // the agent's, which are numbers
		delay = []time.Duration{0, 1, 40, 1000, 3000}[n%5] * s.w.unit
	}
	select {
	case <-time.After(delay):
	case <-stop:
		return
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"version":%d}}`, id, s.version)
	s.writing.Lock()
	_, err := io.WriteString(s.conn, line+"\n")
	s.writing.Unlock()
	if err == nil {
		s.w.mu.Lock()
		s.delivered[id] = true
		s.w.mu.Unlock()
	}
}

// kill ends the daemon, in the middle of a line if half says so.
func (w *world) kill(half bool) {
	w.mu.Lock()
	w.version = -1
	last := w.sessions
	w.mu.Unlock()
	for _, s := range last {
		if half && s.writing.TryLock() {
			_ = s.conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(s.conn, `{"jsonrpc":"2.0","id":1,"result":{"half":`)
			s.writing.Unlock()
		}
		s.conn.Close()
	}
}

func (w *world) ask(method string) {
	id := len(w.asked) + 1
	w.asked, w.methods[id] = append(w.asked, id), method
	w.batch = append(w.batch, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{}}`, id, method))
}

func (w *world) do(d deed) {
	switch d.What {
	case "call":
		w.ask("tools/call")
	case "get":
		w.ask("prompts/get")
	case "list":
		w.ask("tools/list")
	case "level":
		w.ask("logging/setLevel")
	case "notify":
		w.batch = append(w.batch, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	case "cancel":
		if id := len(w.asked) - d.N; id > 0 && w.methods[id] != "initialize" {
			w.undone[id] = true
			w.batch = append(w.batch, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
		}
	case "flush":
		w.flush()
	case "pause":
		w.flush()
		time.Sleep(time.Duration(d.N) * w.unit)
	case "up":
		w.mu.Lock()
		if w.version < 0 {
			w.version = d.N
		}
		w.mu.Unlock()
	case "kill", "half":
		w.kill(d.What == "half")
	}
}

func (w *world) flush() {
	if len(w.batch) > 0 {
		if _, err := io.WriteString(w.in, strings.Join(w.batch, "\n")+"\n"); err != nil {
			panic(err)
		}
	}
	w.batch = nil
}

// live runs a schedule to its end.
func (w *world) live(t *testing.T, deeds []deed) {
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	w.in = in
	var over sync.WaitGroup
	over.Go(func() {
		opt := Options{In: stdin, Out: stdout, Version: one, MaxMessage: 1 << 20, StopGrace: time.Minute, Say: func(string) {}, Dial: w.dial}
		b := newBridge(opt)
		b.session.waits = waits{2000 * w.unit, 700 * w.unit}
		if err := b.run(t.Context()); err != nil {
			t.Error(err)
		}
		stdout.Close()
	})
	over.Go(func() {
		lines := make(chan string)
		go read(out, lines)
		for line := range lines {
			w.mu.Lock()
			w.got = append(w.got, line)
			w.mu.Unlock()
		}
	})
	if w.greets {
		w.ask("initialize")
		w.batch = append(w.batch, ready)
	}
	for _, d := range deeds {
		w.do(d)
	}
	w.flush()
	in.Close()
	over.Wait()
	w.kill(false)
	w.serving.Wait() // in a bubble nothing may be left asleep
}

// inMemory is a world for a synctest bubble.
func inMemory(greets bool) *world {
	return &world{
		unit: time.Millisecond, connect: net.Pipe,
		greets: greets, version: -1, methods: map[int]string{}, undone: map[int]bool{},
	}
}

// onSockets is a world for real time, of which it takes a fiftieth.
func onSockets(t *testing.T, greets bool) *world {
	w := inMemory(greets)
	w.unit /= 50
	w.connect = func() (daemon, bridge net.Conn) { return socketPair(t) }
	return w
}

// socketPair returns two ends of a real socket, which hold what is written
// until it is read.
func socketPair(t testing.TB) (one, other net.Conn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Error(err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	return conns[0], conns[1]
}

// faults checks what every run must keep to.
func (w *world) faults() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	answers := map[string][]string{}
	for _, line := range w.got {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		switch err := json.Unmarshal([]byte(line), &m); {
		case err != nil || !strings.HasSuffix(line, "\n"):
			fault("the agent read %q", line)
		case m.ID != nil:
			answers[string(m.ID)] = append(answers[string(m.ID)], line)
		case m.Method != "notifications/tools/list_changed":
			fault("the agent was told %q", line)
		}
	}
	sent := map[string]int{}
	delivered := map[string]bool{}
	for _, s := range w.sessions {
		s.check(sent, fault)
		for id := range s.delivered {
			delivered[id] = true
		}
	}
	for _, n := range w.asked {
		id := fmt.Sprint(n)
		got := answers[id]
		delete(answers, id)
		if len(got) != 1 && !(len(got) == 0 && w.undone[n]) {
			fault("request %s (%s) has %d answers: %q", id, w.methods[n], len(got), got)
		}
		if delivered[id] && len(got) == 1 && !strings.Contains(got[0], `"version":`) {
			fault("request %s was answered, but the agent read %q", id, got)
		}
		if sent[id] > 1 && w.methods[n] != "initialize" {
			fault("request %s was sent %d times", id, sent[id])
		}
	}
	for id, got := range answers {
		fault("nobody asked %s: %q", id, got)
	}
	return faults
}

// check looks at one session: a handshake first, then requests as they were
// asked.
func (s *served) check(sent map[string]int, fault func(string, ...any)) {
	last, greeted, initialized := 0, 0, 0
	for _, line := range s.heard {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			fault("a daemon read %q", line)
			continue
		}
		var n int
		if json.Unmarshal(m.ID, &n) == nil && n > 0 {
			if sent[string(m.ID)]++; n <= last {
				fault("request %d was sent after %d", n, last)
			}
			last = n
		}
		switch m.Method {
		case "initialize":
			greeted++
		case "notifications/initialized":
			if initialized++; greeted == 0 {
				fault("initialized before initialize")
			}
		default:
			if s.w.greets && greeted == 0 {
				fault("%s before initialize", m.Method)
			}
		}
	}
	if greeted > 1 || initialized > 1 {
		fault("%d times initialize, %d times initialized", greeted, initialized)
	}
}

func TestRun_AnswersEachRequestOnceWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := inMemory(rapid.IntRange(0, 4).Draw(rt, "greets") > 0)
		deeds := genDeeds().Draw(rt, "deeds")
		synctest.Test(t, func(t *testing.T) { w.live(t, deeds) })
		if faults := w.faults(); len(faults) > 0 {
			rt.Fatal(strings.Join(faults, "\n"))
		}
	})
}

func TestRun_AnswersEachRequestOnceOnRealSockets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := onSockets(t, rapid.IntRange(0, 4).Draw(rt, "greets") > 0)
		w.live(t, genDeeds().Draw(rt, "deeds"))
		if faults := w.faults(); len(faults) > 0 {
			rt.Fatal(strings.Join(faults, "\n"))
		}
	})
}

func TestRun_TheAgentLearnsOfTheLastList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := inMemory(true)
		deeds := genDeeds().Draw(rt, "deeds")
		version := rapid.IntRange(0, 2).Draw(rt, "last version")
		deeds = append(deeds, deed{"kill", 0}, deed{"up", version}, deed{"pause", 60_000})
		synctest.Test(t, func(t *testing.T) { w.live(t, deeds) })
		shown, told := "", false
		for _, line := range w.got {
			var m struct {
				ID     int
				Result struct{ Version *int }
			}
			// A request of another method has no version that counts.
			_ = json.Unmarshal([]byte(line), &m)
			switch {
			case strings.Contains(line, "list_changed"):
				told = true
			case w.methods[m.ID] == "tools/list" && m.Result.Version != nil:
				shown, told = fmt.Sprint(*m.Result.Version), false
			case w.methods[m.ID] == "tools/list" && strings.Contains(line, `"tools":[]`):
				shown, told = "empty", false
			}
		}
		if shown != "" && shown != fmt.Sprint(version) && !told {
			rt.Fatalf("the agent was shown %s, the list is %d, and it was not told", shown, version)
		}
	})
}
