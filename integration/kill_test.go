package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"harness/integration/fakeup"
)

// The size of the test of kills. The default is what every run can afford.
var (
	killPoints = flag.Int("kills", 0, "points at which the daemon is killed under load; 0 for as many as there is time for")
	killSeed   = flag.Uint64("kill-seed", 1, "seed of where the daemon is killed")
)

// killTime is how long the daemon is killed where no number is given.
const killTime = 8 * time.Second

// habit is how an agent of the test of kills behaves.
type habit struct {
	name    string
	lanes   int  // calls in flight
	sockets bool // its ends are sockets, and not pipes
	tiny    bool // its ends hold next to nothing
	slow    bool // it reads little at a time, with pauses
	blob    int  // bytes of each answer, 0 for an echo
	text    int  // bytes of each request beyond the least
	rude    bool // it sends what is no request in between
}

func habits() []habit {
	return []habit{
		{name: "small", lanes: 8},
		{name: "small over sockets", lanes: 8, sockets: true, rude: true},
		{name: "one by one", lanes: 1, rude: true},
		{name: "large answers", lanes: 1, blob: 3 << 20},
		{name: "large answers over sockets", lanes: 1, blob: 3 << 20, sockets: true},
		{name: "large requests", lanes: 2, text: 300 << 10},
		{name: "slow reader", lanes: 16, slow: true, text: 700},
		{name: "full pipes", lanes: 60, tiny: true, slow: true, text: 100},
		{name: "full sockets", lanes: 60, sockets: true, tiny: true, slow: true, text: 100},
	}
}

// victim is one agent of the test of kills: it checks each line by itself.
type victim struct {
	habit
	t      *testing.T
	number int
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	stop   chan struct{} // closed when nothing more is to be asked
	free   chan struct{} // one for each call that may be sent
	told   chan struct{} // closed when nothing more is asked
	read   chan struct{} // closed at the end of what it reads

	mu      sync.Mutex
	waiting map[int]int // requests without an answer, and how long the text is
	asked   int
	good    int // answers of the upstream
	failed  int // answers in its place
	faults  []string
}

func (v *victim) fault(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.faults) < 10 {
		v.faults = append(v.faults, fmt.Sprintf(format, args...))
	}
}

// victim starts an agent of a habit, whose bridge gets one more variable.
func (h *home) victim(t *testing.T, number int, is habit, env string) *victim {
	t.Helper()
	v := &victim{
		habit: is, t: t, number: number, waiting: map[int]int{},
		stop: make(chan struct{}), free: make(chan struct{}, is.lanes), read: make(chan struct{}), told: make(chan struct{}),
		cmd: h.command(context.Background(), "harness", "mcp"),
	}
	for range is.lanes {
		v.free <- struct{}{}
	}
	stdin, in := v.channel(false)
	out, stdout := v.channel(true)
	v.in, v.out = in, out
	v.cmd.Stdin, v.cmd.Stdout, v.cmd.Stderr = stdin, stdout, os.Stderr
	v.cmd.Env = append(v.cmd.Env, env)
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	go v.listen()
	go v.talk()
	return v
}

// channel is what a process reads from and what the other one writes to.
func (v *victim) channel(isOut bool) (r, w *os.File) {
	v.t.Helper()
	if !v.sockets {
		r, w, err := os.Pipe()
		if err != nil {
			v.t.Fatal(err)
		}
		if v.tiny {
			raw, err := w.SyscallConn()
			if err != nil {
				v.t.Fatal(err)
			}
			raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096) })
		}
		return r, w
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	if v.tiny {
		for _, fd := range fds {
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
		}
	}
	// The agent's own end is polled; its bridge gets one that blocks, as most do.
	own := 1
	if isOut {
		own = 0
	}
	unix.SetNonblock(fds[own], true)
	return os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
}

// mark is what is in the text of one call and of no other.
func (v *victim) mark(n int) string { return fmt.Sprintf("<%d.%d>", v.number, n) }

// text is the text of call n.
func (v *victim) words(n int) string { return v.mark(n) + strings.Repeat("y", v.text) }

// talk calls until it is told to stop.
func (v *victim) talk() {
	defer close(v.told)
	v.write(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"victim","version":"1"}}}`)
	v.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for n := 0; ; n++ {
		select {
		case <-v.stop:
			return
		case <-v.free:
		}
		select {
		case <-v.stop:
			return
		default:
		}
		v.mu.Lock()
		v.waiting[n] = v.blob
		v.asked++
		v.mu.Unlock()
		tool, arguments := "echo", fmt.Sprintf(`{"text":%q}`, v.words(n))
		if v.blob > 0 {
			tool, arguments = "blob", fmt.Sprintf(`{"bytes":%d,"text":%q}`, v.blob, v.mark(n))
		}
		if v.rude && n%7 == 0 {
			v.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody's"}}`)
		}
		v.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"up__%s","arguments":%s}}`, n, tool, arguments))
	}
}

func (v *victim) write(line string) {
	if _, err := io.WriteString(v.in, line+"\n"); err != nil {
		v.fault("write: %v", err)
	}
}

// listen checks what comes.
func (v *victim) listen() {
	defer close(v.read)
	var from io.Reader = v.out
	if v.slow {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		from = &slowReader{v.out, tick}
	}
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				v.fault("a line without its end: %.200s", line)
			}
			return
		}
		v.check(bytes.TrimSuffix(line, []byte("\n")))
	}
}

// slowReader reads a few lines and then does something else.
type slowReader struct {
	from io.Reader
	tick *time.Ticker
}

func (r *slowReader) Read(p []byte) (int, error) {
	<-r.tick.C
	return r.from.Read(p[:min(len(p), 2000)])
}

// check takes one line. What it has to be is known, byte for byte, but for
// failures.
func (v *victim) check(line []byte) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"jsonrpc":"2.0","id":`))
	if !ok {
		if !bytes.HasPrefix(line, []byte(`{"jsonrpc":"2.0","method":"notifications/`)) || !json.Valid(line) {
			v.fault("a broken line: %.200s … %.100s", line, line[max(0, len(line)-100):])
		}
		return
	}
	id, rest, _ := bytes.Cut(rest, []byte(","))
	if string(id) == `"hello"` {
		return
	}
	n, err := strconv.Atoi(string(id))
	v.mu.Lock()
	size, waits := v.waiting[n]
	delete(v.waiting, n)
	v.mu.Unlock()
	if err != nil || !waits {
		v.fault("an answer that nobody waits for: %.200s", line)
		return
	}
	text := v.words(n)
	if size > 0 {
		text = strings.Repeat("x", size)
	}
	switch {
	case string(rest) == `"result":{"content":[{"type":"text","text":"`+text+`"}]}}`:
		v.count(&v.good)
	case json.Valid(line) && (bytes.Contains(rest, []byte(`"code":"daemon_unavailable"`)) || bytes.Contains(rest, []byte(`"code":"upstream_unavailable"`))):
		v.count(&v.failed)
	default:
		v.fault("a broken answer: %.200s … %.100s", line, line[max(0, len(line)-100):])
	}
	v.free <- struct{}{}
}

func (v *victim) count(n *int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	*n++
}

// end asks nothing more and checks that all was answered, and that the bridge
// ends as it should.
func (v *victim) end() {
	close(v.stop)
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for v.busy() && time.Now().Before(deadline) {
		<-tick.C
	}
	v.in.Close()
	select {
	case <-v.read:
	case <-time.After(patience):
		v.fault("it does not end")
		v.cmd.Process.Signal(syscall.SIGQUIT)
	}
	if err := v.cmd.Wait(); err != nil {
		v.fault("the bridge: %v", err)
	}
	v.out.Close()
}

// busy reports whether there is something to wait for.
func (v *victim) busy() bool {
	select {
	case <-v.told:
	default:
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.waiting) > 0 && len(v.faults) == 0
}

func (v *victim) faultsNow() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.faults
}

// answered is how often the upstream answered the agent so far.
func (v *victim) answered() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.good
}

// handed is how many sessions a process has been handed over.
func handed(t *testing.T, pid int) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "/memfd:harness-session") {
			n++
		}
	}
	return n
}

// The daemon is killed under load at random points. Every request has to be
// answered once, no line may be lost, doubled or broken, and nothing may reach an
// upstream twice (MCP-1); with the agent's descriptors handed over to the daemon,
// and with a bridge that copies.

func TestKill_HandedOverEveryRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	killUnderLoad(t, "HARNESS_MCP_COPY=", len(habits()))
}

func TestKill_CopiedEveryRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	killUnderLoad(t, "HARNESS_MCP_COPY=1", 0)
}

func killUnderLoad(t *testing.T, env string, handedOver int) {
	t.Helper()
	h := newHome(t)
	d := h.run(h.upstream("up"))
	rnd := rand.New(rand.NewPCG(*killSeed, 0))
	var all []*victim
	for i, is := range habits() {
		all = append(all, h.victim(t, i, is, env))
	}
	eventually(t, "what can be handed over is", func() bool { return handed(t, d.pid()) == handedOver })
	start, kills := time.Now(), 0
	for *killPoints == 0 && time.Since(start) < killTime || kills < *killPoints {
		// Mostly in the middle of the work, at times while it begins.
		if one := all[rnd.IntN(len(all))]; rnd.IntN(4) > 0 {
			before := one.answered()
			eventually(t, "an agent is answered", func() bool { return one.answered() > before || len(one.faultsNow()) > 0 })
		}
		time.Sleep(time.Duration(rnd.Int64N(int64(100 * time.Millisecond))))
		d.kill()
		d = h.start()
		kills++
		for _, v := range all {
			if f := v.faultsNow(); len(f) > 0 {
				t.Fatalf("after %d kills: %s: %s", kills, v.name, strings.Join(f, "\n"))
			}
		}
	}
	for _, v := range all {
		before := v.answered()
		eventually(t, v.name+" goes on", func() bool { return v.answered() > before || len(v.faultsNow()) > 0 })
	}
	var wg sync.WaitGroup
	for _, v := range all {
		wg.Go(v.end)
	}
	wg.Wait()
	asked := 0
	for _, v := range all {
		for _, f := range v.faultsNow() {
			t.Errorf("%s (%d): %s", v.name, v.number, f)
		}
		if len(v.waiting) > 0 {
			t.Errorf("%s (%d): %d without an answer", v.name, v.number, len(v.waiting))
		}
		t.Logf("%s (%d): %d asked, %d answered, %d failed", v.name, v.number, v.asked, v.good, v.failed)
		asked += v.asked
	}
	t.Logf("%d kills, %d requests, seed %d", kills, asked, *killSeed)
	h.checkSentOnce()
}

// checkSentOnce checks that no call of a victim reached the upstream twice.
func (h *home) checkSentOnce() {
	h.t.Helper()
	seen := map[string]bool{}
	for _, e := range h.record("up") {
		_, rest, ok := strings.Cut(e.Text, `"text":"<`)
		if e.What != fakeup.Received || !ok {
			continue
		}
		mark, _, _ := strings.Cut(rest, ">")
		if seen[mark] {
			h.t.Errorf("sent twice: %s", mark)
		}
		seen[mark] = true
	}
}
