package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"harness/pkg/control"
)

// BenchmarkStart takes the time from exec to use: of the bridge, of the
// daemon, and of an upstream that crashed.
func BenchmarkStart(b *testing.B) { benchmark(b, startParts()) }

func startParts() []part {
	return []part{
		{"start", "bridge", startBridges},
		{"start", "init", traceInits},
		{"start", "daemon", startDaemons},
		{"start", "crash", recoverCrashes},
	}
}

// startBridges times exec to the answer of initialize, harness and floor in
// turns, with the daemons running.
func startBridges(tb testing.TB, s scale) []figure {
	tb.Helper()
	d := newHome(tb).start((&home{tb: tb}).upstream("e"))
	f := startFloor(tb)
	var ours, theirs []float64
	for range s.starts {
		theirs = append(theirs, greeting(tb, os.Environ(), f.bridge))
		ours = append(ours, greeting(tb, d.env, d.bridge()))
	}
	return []figure{
		{
			what: fmt.Sprintf("exec to first answer, %d starts", s.starts), unit: "ms-p50", value: quantile(ours, 0.5),
			than: "floor", base: quantile(theirs, 0.5), ratio: median(ratios(ours, theirs)), bound: bound{25, false, "PRF-3"},
		},
		{what: "the slowest", unit: "ms-max", value: quantile(ours, 1), than: "floor", base: quantile(theirs, 1)},
	}
}

// greeting launches a client, which ends with the answer of initialize, and
// returns how long that took, in ms.
func greeting(tb testing.TB, env, argv []string) float64 {
	tb.Helper()
	began := time.Now()
	c, err := launch(context.Background(), 1, env, argv...)
	took := millis(time.Since(began))
	if err != nil {
		tb.Fatal(err)
	}
	c.close()
	return took
}

// traceInits adds up what GODEBUG=inittrace=1 says of a bridge.
func traceInits(tb testing.TB, s scale) []figure {
	tb.Helper()
	d := newHome(tb).start((&home{tb: tb}).upstream("e"))
	var ms, mb []float64
	for range s.starts {
		cmd := exec.Command(harness(tb), "mcp")
		cmd.Env = append(d.env, "GODEBUG=inittrace=1")
		var trace bytes.Buffer
		cmd.Stderr = &trace
		if err := cmd.Run(); err != nil {
			tb.Fatalf("%v: %s", err, trace.String())
		}
		clock, size := inits(trace.String())
		if clock == 0 || size == 0 {
			tb.Fatalf("no trace: %s", trace.String())
		}
		ms, mb = append(ms, clock), append(mb, size/1e6)
	}
	return []figure{
		{what: "package inits of harness mcp", unit: "ms", value: median(ms), bound: bound{12, false, "PRF-3"}},
		{what: "allocated by them", unit: "MB", value: median(mb), bound: bound{2.5, false, "PRF-3"}},
	}
}

// inits sums the clock, in ms, and the bytes of a trace.
func inits(trace string) (ms, size float64) {
	line := regexp.MustCompile(`(?m)^init \S+ @\S+ ms, (\S+) ms clock, (\d+) bytes`)
	for _, m := range line.FindAllStringSubmatch(trace, -1) {
		clock, _ := strconv.ParseFloat(m[1], 64)
		n, _ := strconv.ParseFloat(m[2], 64)
		ms, size = ms+clock, size+n
	}
	return ms, size
}

func TestInits_AddUp(t *testing.T) {
	t.Parallel()
	ms, size := inits("init os @0.1 ms, 0.25 ms clock, 432 bytes, 3 allocs\nharness: nobody\n" +
		"init gopkg.in/yaml%2ev2 @1.2 ms, 1.5 ms clock, 27056 bytes, 20 allocs\n")
	if ms != 1.75 || size != 27488 {
		t.Errorf("the sums are %v ms and %v bytes", ms, size)
	}
}

// echoTools is how many tools an echo server offers by itself.
const echoTools = 5

// startDaemons times a daemon of an empty home from exec to the first list
// that has every tool of every upstream, for one upstream and for a crew.
func startDaemons(tb testing.TB, s scale) []figure {
	tb.Helper()
	one, crew := startsOf(tb, s, 1), startsOf(tb, s, s.crew)
	one[0].bound, crew[0].bound = bound{30, false, "PRF-4"}, bound{150, false, "PRF-4"}
	return append(one, crew...)
}

// startsOf compares the start of a daemon over n upstreams with starting and
// listing n echo servers by hand.
func startsOf(tb testing.TB, s scale, n int) []figure {
	tb.Helper()
	var socket, bridge, byHand []float64
	for range max(s.rounds, s.starts/2) {
		byHand = append(byHand, spawning(tb, n))
		socket = append(socket, startDaemon(tb, n, overSocket))
		bridge = append(bridge, startDaemon(tb, n, overBridge))
	}
	unit := fmt.Sprintf("ms-p50-%d", n)
	what := fmt.Sprintf("exec to all tools, %d upstreams", n)
	return []figure{
		{what: what, unit: unit, value: quantile(socket, 0.5), than: "direct", base: quantile(byHand, 0.5), ratio: median(ratios(socket, byHand))},
		{what: what + ", by a bridge", unit: unit + "-bridge", value: quantile(bridge, 0.5), than: "direct", base: quantile(byHand, 0.5), ratio: median(ratios(bridge, byHand))},
	}
}

// spawning starts n echo servers side by side and returns when the last has
// listed its tools, in ms.
func spawning(tb testing.TB, n int) float64 {
	tb.Helper()
	began := time.Now()
	done := make(chan *client, n)
	for range n {
		go func() {
			c, err := launch(context.Background(), 1, os.Environ(), direct(tb)...)
			if err == nil {
				_, err = c.tools()
			}
			if err != nil {
				tb.Error(err)
			}
			done <- c
		}()
	}
	var all []*client
	for range n {
		all = append(all, <-done)
	}
	took := millis(time.Since(began))
	for _, c := range all {
		if c != nil {
			c.close()
		}
	}
	return took
}

// reach opens a session with a daemon that may not listen yet.
type reach func(d *daemon) (*client, error)

// overSocket is a session without a bridge: what the daemon does, and no more.
func overSocket(d *daemon) (*client, error) {
	conn, err := control.DialSession(context.Background(), d.socket(), "")
	if err != nil {
		return nil, err
	}
	c := newClient(conn, conn, 1)
	return c, c.greet()
}

// overBridge is what an agent has that is started with the daemon.
func overBridge(d *daemon) (*client, error) {
	return launch(context.Background(), 1, d.env, d.bridge()...)
}

// startDaemon starts one daemon in an empty home, waits for the whole list in
// a session that is opened at once, and returns when it came, in ms.
func startDaemon(tb testing.TB, n int, open reach) float64 {
	tb.Helper()
	h := newHome(tb)
	h.configure(configText(h.fleet(n)...))
	began := time.Now()
	d := h.launch()
	var c *client
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for c == nil {
		var err error
		if c, err = open(d); err != nil {
			if time.Since(began) > patience {
				tb.Fatal(err)
			}
			c = nil
			<-tick.C
		}
	}
	defer c.close()
	for {
		names, err := c.tools()
		if err != nil {
			tb.Fatal(err)
		}
		if len(names) == n*echoTools {
			took := millis(time.Since(began))
			d.stop()
			return took
		}
		// It is asked for again when some list is said to be another.
		if _, err := c.next(); err != nil {
			tb.Fatalf("%d tools: %v", len(names), err)
		}
	}
}

// recoverCrashes crashes each upstream of a crew once, and times from the call
// that did it to the first that is answered again. What is waited for on
// purpose does not count.
func recoverCrashes(tb testing.TB, s scale) []figure {
	tb.Helper()
	const delay = 100 * time.Millisecond
	h := newHome(tb)
	tables := h.fleet(s.crew)
	for i := range tables {
		tables[i] += fmt.Sprintf("restart_delay = %q\n", delay)
	}
	h.start(tables...)
	a := h.agent()
	var took, byHand []float64
	for i := range s.crew {
		byHand = append(byHand, spawning(tb, 1))
		took = append(took, crash(tb, a, fmt.Sprintf("u%03d", i))-millis(delay))
	}
	return []figure{{
		what: fmt.Sprintf("crash to working, less restart_delay, %d times", len(took)), unit: "ms-p50", value: quantile(took, 0.5),
		than: "direct", base: quantile(byHand, 0.5), ratio: median(ratios(took, byHand)), bound: bound{30, false, "PRF-4"},
	}}
}

// crash makes an upstream exit during a call and returns how long it took
// until another one was answered, in ms.
func crash(tb testing.TB, a *client, key string) float64 {
	tb.Helper()
	began := time.Now()
	if text, err := a.call(key+"__crash", "{}"); err == nil {
		tb.Fatalf("%s survived: %s", key, text)
	}
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for {
		if text, err := a.call(key+"__echo", `{"text":"again"}`); err == nil && text == "again" {
			return millis(time.Since(began))
		}
		if time.Since(began) > patience {
			tb.Fatalf("%s does not work again", key)
		}
		<-tick.C
	}
}
