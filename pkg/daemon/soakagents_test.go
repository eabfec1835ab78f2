package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"harness/pkg/control"
)

// The size of the soak of harnesses. The defaults are what every run of the
// tests can afford; `just soak` gives the full size.
var (
	soakAgents  = flag.Int("agents", 30, "harnesses of the soak")
	soakClients = flag.Int("clients", 5, "clients of the soak, which never stop asking")
	soakFor     = flag.Duration("for", 60*time.Second, "how long the soak of harnesses goes on")
	soakSeed    = flag.Uint64("seed", 1, "seed of what the clients of the soak ask for")
)

const (
	// soakGrace is stop_grace of the soak, and soakMargin what an operation may
	// need beside it: a restart waits for the stop of another one first.
	soakGrace  = 500 * time.Millisecond
	soakMargin = 30 * time.Second
)

// manners are the ways to be a harness that the soak has, each a script. None
// prints much: to draw that takes seconds under the race detector.
var manners = []string{
	"cat",                  // what is typed comes back
	"exit 7",               // flaps
	"sleep 0.$(($$ % 9)) ", // exits by and by
	"kill -SEGV $$",        // crashes
	"exec sleep 1000",      // hangs
	"trap '' TERM HUP; while :; do sleep 1000; done",       // does not go
	"trap '' TERM HUP; (sleep 1000 & sleep 1000) & read x", // leaves children that do not go
	"setsid sleep 1000 & exec sleep 1000",                  // leaves one that has left the group
	"exec sleep 1000 <&- >&- 2>&-",                         // closes its terminal
	"head -c 8000 /dev/zero | tr '\\0' x; cat",             // prints at once what takes long to draw
	"printf '\\033[?1049h\\033[2J\\033[6n'; cat",           // fills the screen, and asks it
}

// crowd is the config of the soak: by name, the table, "" for none.
type crowd struct {
	h *home

	mu     sync.Mutex
	tables []string
}

func crowdName(i int) string { return fmt.Sprintf("h%02d", i) }

// crowdTable is harness i with the manner n.
func crowdTable(i, n int, rnd *rand.Rand) string {
	return fmt.Sprintf("[harness.%s]\ncmd = \"sh\"\nargs = [\"-c\", %q]\nrestart_delay = \"%dms\"\nenv = { N = \"%d\" }\n",
		crowdName(i), manners[n%len(manners)], 10+rnd.IntN(50), rnd.IntN(3))
}

// writeLocked writes the config that the tables make.
func (c *crowd) writeLocked() {
	text := fmt.Sprintf("[server]\nsettle = \"10ms\"\nstop_grace = \"%dms\"\nkeep_runs = 1\n", soakGrace.Milliseconds()) + strings.Join(c.tables, "")
	write(c.h.t, c.h.paths.Config+".new", text)
	if err := os.Rename(c.h.paths.Config+".new", c.h.paths.Config); err != nil {
		c.h.t.Error(err)
	}
}

// edit changes one harness in the file.
func (c *crowd) edit(rnd *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := rnd.IntN(len(c.tables))
	switch n := rnd.IntN(10); {
	case n < 2:
		c.tables[i] = ""
	case n < 7:
		c.tables[i] = crowdTable(i, rnd.IntN(len(manners)), rnd) + fmt.Sprintf("enabled = %v\n", rnd.IntN(3) > 0)
	default:
		c.tables[i] = crowdTable(i, i, rnd) + fmt.Sprintf("enabled = true\ndescription = \"%d\"\n", rnd.Int())
	}
	c.writeLocked()
}

// reset puts a list of tables in force.
func (c *crowd) reset(tables []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tables = slices.Clone(tables)
	c.writeLocked()
}

// legal are the states that may follow each state of a harness: the machine's
// own, seen from outside.
var legal = map[string][]string{
	"stopped":    {"starting"},
	"starting":   {"starting", "running", "restarting", "degraded", "failed", "stopping"},
	"running":    {"restarting", "degraded", "failed", "stopping"},
	"restarting": {"starting", "stopping", "stopped"},
	"degraded":   {"starting", "stopping", "stopped"},
	"failed":     {"starting", "stopping", "stopped"},
	"stopping":   {"stopped", "starting"},
}

// observer follows the events and holds each harness to the legal states.
type observer struct {
	t     *testing.T
	last  map[string]string
	turns map[string]int // how often one state followed another
	ended chan struct{}
}

// observe follows the events until ctx ends. No harness has been started yet.
func (r *running) observe(ctx context.Context) *observer {
	r.t.Helper()
	o := &observer{t: r.t, last: map[string]string{}, turns: map[string]int{}, ended: make(chan struct{})}
	client := r.another()
	subscribed := make(chan struct{})
	go func() {
		defer close(o.ended)
		defer client.Close()
		for e, err := range client.Events(ctx, func() { close(subscribed) }) {
			switch {
			case ctx.Err() != nil:
				return
			case err != nil || e.Kind == control.KindLagged:
				r.t.Errorf("the events ended: %+v, %v", e, err)
				return
			case e.Kind == "state":
				o.turn(*e.Name, e.Message)
			}
		}
	}()
	<-subscribed
	return o
}

// turn takes one event.
func (o *observer) turn(name, message string) {
	state, _, _ := strings.Cut(message, ":")
	before, known := o.last[name]
	if !known {
		before = "stopped"
	}
	if !slices.Contains(legal[before], state) {
		o.t.Errorf("%s was %s and is %s", name, before, message)
	}
	o.turns[before+"→"+state]++
	o.last[name] = state
}

// another is a client beside the one the daemon has.
func (r *running) another() *control.Client {
	r.t.Helper()
	client, err := control.Dial(r.t.Context(), r.paths.Socket)
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

// asker is one client of the soak.
type asker struct {
	d      *running
	crowd  *crowd
	client *control.Client
	rnd    *rand.Rand
	longest
}

// longest is how long the slowest of each operation took, of all askers.
type longest map[string]*atomic.Int64

// timed does an operation and demands that it is over in time. A harness that
// an edit has taken out is no fault.
func (a *asker) timed(what string, do func() error) {
	begun := time.Now()
	err := do()
	took := time.Since(begun)
	for most := a.longest[what]; ; {
		old := most.Load()
		if int64(took) <= old || most.CompareAndSwap(old, int64(took)) {
			break
		}
	}
	var p *control.Problem
	if err != nil && !errors.As(err, &p) {
		a.d.t.Errorf("%s: %v", what, err)
	}
	if took > soakGrace+soakMargin {
		a.d.t.Errorf("%s took %v", what, took)
	}
}

// ask asks for things at random until ctx ends.
func (a *asker) ask(ctx context.Context) {
	alive := a.d.t.Context()
	for ctx.Err() == nil && !a.d.t.Failed() {
		name := crowdName(a.rnd.IntN(len(a.crowd.tables)))
		switch n := a.rnd.IntN(100); {
		case n < 25:
			a.timed("start", func() error { return a.word(a.client.Start(alive, name)) })
		case n < 40:
			a.timed("stop", func() error { return a.word(a.client.Stop(alive, name)) })
		case n < 60:
			a.timed("restart", func() error { return a.word(a.client.Restart(alive, name)) })
		case n < 70:
			a.crowd.edit(a.rnd)
		case n < 73:
			a.timed("reload", func() error {
				_, err := a.client.Reload(alive, control.ReloadRequest{WaitMS: 1000})
				return err
			})
		case n < 80:
			a.timed("list", func() error { return a.list() })
		case n < 85:
			a.timed("logs", func() error {
				return a.client.Logs(alive, control.LogsRequest{Name: name, Lines: 10}, io.Discard)
			})
		default:
			a.timed("attach", func() error { return a.attach(name) })
		}
	}
}

// word looks at what became of a start, stop or restart.
func (a *asker) word(units []control.UnitState, err error) error {
	for _, u := range units {
		a.known(u.Name, u.State)
	}
	return err
}

// known demands that a state is one of the seven.
func (a *asker) known(name, state string) {
	if _, ok := legal[state]; !ok {
		a.d.t.Errorf("%s is %q", name, state)
	}
}

func (a *asker) list() error {
	list, err := a.client.List(a.d.t.Context(), "")
	for _, h := range list {
		a.known(h.Name, h.State)
		if runs := h.State == "running" || h.State == "stopping"; h.PID != nil && !runs || h.PID == nil && h.State == "running" {
			a.d.t.Errorf("%s is %s and its process %v", h.Name, h.State, h.PID)
		}
	}
	return err
}

// attach looks at a harness for a moment, types, and has its terminal another
// size. Sometimes it does not read.
func (a *asker) attach(name string) error {
	size := func() uint16 { return uint16(20 + a.rnd.IntN(60)) }
	term, err := control.DialAttach(a.d.t.Context(), a.d.paths.Socket, control.AttachRequest{Name: name, Cols: size(), Rows: size(), ReadOnly: a.rnd.IntN(4) == 0})
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	if a.rnd.IntN(4) > 0 {
		reading.Go(func() { _, _ = io.Copy(io.Discard, term) })
	}
	for range a.rnd.IntN(5) {
		if a.rnd.IntN(3) == 0 {
			term.Resize(size(), size())
		}
		_, _ = fmt.Fprintf(term, "line %d\r", a.rnd.Int()) // it may be over
		pause(time.Duration(a.rnd.IntN(30)) * time.Millisecond)
	}
	_ = term.Close()
	reading.Wait()
	return nil
}

// holdings is what this process holds.
type holdings struct{ Goroutines, Descriptors, Terminals, Processes int }

func holds(t *testing.T) (h holdings) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		h.Descriptors++
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.Contains(to, "ptmx") || strings.Contains(to, "/pts/") {
			h.Terminals++
		}
	}
	h.Processes = len(below(t, os.Getpid()))
	h.Goroutines = runtime.NumGoroutine()
	return h
}

// below are the processes that descend from one.
func below(t *testing.T, root int) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, dir := range dirs {
		stat, _ := os.ReadFile(dir) // gone by now
		if f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(f) > 1 {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
			parent, _ := strconv.Atoi(f[1])
			children[parent] = append(children[parent], pid)
		}
	}
	for next := []int{root}; len(next) > 0; next = next[1:] {
		pids = append(pids, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return pids
}

// rest puts the first tables in force and stops every harness of them. All have
// run: a harness that was started keeps its terminal.
func (r *running) rest(c *crowd, first []string) {
	r.t.Helper()
	c.reset(first)
	r.reload()
	names := make([]string, len(first))
	for i := range first {
		names[i] = crowdName(i)
	}
	for _, word := range []func(context.Context, ...string) ([]control.UnitState, error){r.client.Restart, r.client.Stop} {
		if _, err := word(r.t.Context(), names...); err != nil {
			r.t.Fatal(err)
		}
	}
	list, err := r.client.List(r.t.Context(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range list {
		if h.State != "stopped" || h.PID != nil {
			r.t.Errorf("%s was stopped and is %s", h.Name, h.State)
		}
	}
}

// settle waits until what this process holds stays the same.
func (r *running) settle() (now holdings) {
	r.t.Helper()
	const looks = 20 // this many, 5 ms apart, are alike
	alike := 0
	for deadline := time.Now().Add(patience); alike < looks; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("it does not come to rest: %+v", now)
		}
		before := now
		if now = holds(r.t); now != before || now.Processes > 0 {
			alike = 0
		}
		alike++
	}
	return now
}

// holdsAgain waits until there is as much as before.
func (r *running) holdsAgain(when string, before holdings) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); holds(r.t) != before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 4<<20)
			r.t.Fatalf("%s (-before +now):\n%s\n%s", when, cmp.Diff(before, holds(r.t)), buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestSoak_HarnessesThatMisbehaveStayInOrder has clients start, stop, restart,
// edit and attach at random, while the harnesses flap, exit, hang and ignore
// what they are told. Their states stay legal, every operation answers in time,
// and nothing is left.
func TestSoak_HarnessesThatMisbehaveStayInOrder(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	rnd := rand.New(rand.NewPCG(*soakSeed, 0))
	c := &crowd{h: h}
	c.reset([]string{"# none\n"})
	d := h.start()
	defer d.stop()
	watching, unwatch := context.WithCancel(t.Context())
	seen := d.observe(watching)
	first := make([]string, *soakAgents)
	for i := range first {
		first[i] = crowdTable(i, i, rnd)
	}
	// From the first run that is removed on, the daemon keeps open what it records
	// that in.
	d.rest(c, first)
	c.reset([]string{"# none\n"})
	d.reload()
	empty := d.settle()

	d.rest(c, first)
	before := d.settle()
	d.soak(c)
	d.rest(c, first)
	d.holdsAgain("with all harnesses at rest", before)
	c.reset([]string{"# none\n"})
	d.reload()
	d.holdsAgain("without harnesses", empty)
	unwatch()
	<-seen.ended
	t.Logf("turns: %v", seen.turns)
}

// soak has the clients ask until the time is over.
func (r *running) soak(c *crowd) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), *soakFor)
	defer cancel()
	times := longest{}
	for _, what := range []string{"start", "stop", "restart", "reload", "list", "logs", "attach"} {
		times[what] = new(atomic.Int64)
	}
	var asking sync.WaitGroup
	for i := range *soakClients {
		a := &asker{d: r, crowd: c, client: r.another(), rnd: rand.New(rand.NewPCG(*soakSeed, uint64(1+i))), longest: times}
		asking.Go(func() {
			defer a.client.Close()
			a.ask(ctx)
		})
	}
	asking.Wait()
	for what, most := range times {
		r.t.Logf("the slowest %s took %v", what, time.Duration(most.Load()).Round(time.Millisecond))
	}
}
