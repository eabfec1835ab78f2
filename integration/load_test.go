package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"harness/pkg/control"
)

// The size of the load tests. The defaults are what every run of the tests can
// afford; `just soak` gives the full size.
var (
	loadFor      = flag.Duration("load-for", time.Minute, "how long the load is kept up")
	loadSessions = flag.Int("load-sessions", 200, "sessions of the load")
	loadUps      = flag.Int("load-upstreams", 20, "upstreams of the load")
	loadBridges  = flag.Int("load-bridges", 3, "those of the sessions that have a bridge")
	loadPause    = flag.Duration("load-pause", time.Second, "longest pause of a session between two calls")
	swapSessions = flag.Int("swap-sessions", 64, "sessions that call through swaps and crashes")
	swapBridges  = flag.Int("swap-bridges", 4, "those of the sessions that have a bridge")
	swapEdits    = flag.Int("swap-edits", 50, "definitions that are changed meanwhile; a fifth of them cannot start")
	swapKills    = flag.Int("swap-kills", 8, "upstreams that are killed afterwards")
)

// talker is a session that has one call under way at most, and keeps nothing: a
// load has millions. It is as strict as an agent: whatever it reads is the answer
// to its one question, or a notification.
type talker struct {
	conn io.ReadWriter
	in   *bufio.Reader
	id   int
	// vanish ends it without a goodbye, close with one.
	vanish, close func() error
}

// dialled is a session without a bridge.
func (h *home) dialled() (*talker, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := control.DialSession(ctx, h.socket(), "")
	if err != nil {
		return nil, err
	}
	c := &talker{conn: conn, in: bufio.NewReader(conn), vanish: conn.Close, close: conn.Close}
	return c, c.greet()
}

// bridged is a session of a bridge.
func (h *home) bridged() (*talker, error) {
	cmd := h.command(context.Background(), "harness", "mcp")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &talker{
		conn: struct {
			io.Reader
			io.Writer
		}{out, in},
		in: bufio.NewReader(out),
		vanish: func() error {
			cmd.Process.Kill()
			cmd.Wait() // it was killed
			return nil
		},
		close: func() error {
			in.Close()
			return cmd.Wait()
		},
	}
	return c, c.greet()
}

// talkers are n sessions, some of them with a bridge.
func (h *home) talkers(n, bridges int) []*talker {
	h.t.Helper()
	all := make([]*talker, n)
	errs := make([]error, n)
	var starting sync.WaitGroup
	for i := range all {
		if i < bridges {
			starting.Go(func() { all[i], errs[i] = h.bridged() })
		} else {
			all[i], errs[i] = h.dialled()
		}
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		h.t.Fatal(err)
	}
	return all
}

func (c *talker) greet() error {
	if _, err := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}`); err != nil {
		return err
	}
	_, err := io.WriteString(c.conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return err
}

// send sends a request, whose answer is read or, by one that vanishes, is not.
func (c *talker) send(method, params string) error {
	c.id++
	_, err := fmt.Fprintf(c.conn, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params)
	return err
}

// ask sends a request and reads up to its answer.
func (c *talker) ask(method, params string) (message, error) {
	if err := c.send(method, params); err != nil {
		return message{}, err
	}
	if conn, ok := c.conn.(net.Conn); ok {
		_ = conn.SetReadDeadline(time.Now().Add(2 * patience))
	}
	for {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return message{}, fmt.Errorf("id %d has no answer: %w", c.id, err)
		}
		m := message{raw: bytes.TrimSpace(line)}
		if err := json.Unmarshal(line, &m); err != nil {
			return message{}, fmt.Errorf("%w: %.300s", err, line)
		}
		switch {
		case m.Method != "" && m.ID == nil:
		case string(m.ID) != fmt.Sprint(c.id):
			return message{}, fmt.Errorf("id %d waits, and this came: %.300s", c.id, line)
		default:
			return m, nil
		}
	}
}

// call calls a tool. code is that of an error that harness made, "" for a
// result that is as it should be.
func (c *talker) call(key, tool, args, want string) (code string, err error) {
	m, err := c.ask("tools/call", fmt.Sprintf(`{"name":"%s__%s","arguments":%s}`, key, tool, args))
	if err != nil {
		return "", err
	}
	var r result
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.code() == "" && (r.IsError || r.text() != want) {
		return "", fmt.Errorf("%s: %.500s", key, m.raw)
	}
	return r.code(), nil
}

// echo calls an upstream's echo, or one that takes a moment.
func (c *talker) echo(key string, rnd *rand.Rand) (code string, err error) {
	if rnd.IntN(4) == 0 {
		return c.call(key, "sleep", fmt.Sprintf(`{"ms":%d}`, rnd.IntN(30)), "slept")
	}
	text := fmt.Sprint(rnd.Int())
	return c.call(key, "echo", fmt.Sprintf(`{"text":%q}`, text), text)
}

// down is when an upstream that was killed may fail calls: those that were under
// way at some time between the kill and the end of the restart.
type down struct {
	mu      sync.Mutex
	windows map[string][][2]time.Time // an open one ends at zero
}

func (d *down) begin(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.windows[key] = append(d.windows[key], [2]time.Time{time.Now()})
}

func (d *down) end(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.windows[key][len(d.windows[key])-1][1] = time.Now()
}

func (d *down) during(key string, from, to time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.windows[key], func(w [2]time.Time) bool {
		return !to.Before(w[0]) && (w[1].IsZero() || !from.After(w[1]))
	})
}

// TestLoad_SwapsFailNoCallAndCrashesTheirOwn: no call fails while definitions
// are changed under it, also into such as cannot start (HOT-4); where upstreams
// are killed those calls fail that are under way there, or come while it is
// down, and no others (LIF-6). Each call is answered once.
func TestLoad_SwapsFailNoCallAndCrashesTheirOwn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	keys := make([]string, 8)
	tables := map[string]string{}
	for i := range keys {
		keys[i] = fmt.Sprintf("u%d", i)
		tables[keys[i]] = h.upstream(keys[i])
	}
	write := func() {
		parts := []string{"[server]\nsettle = \"20ms\"\nstop_grace = \"1500ms\"\n"}
		for _, key := range keys {
			parts = append(parts, tables[key])
		}
		h.configure(parts...)
	}
	write()
	d := h.start()
	d.mustReload(time.Minute)
	talkers := h.talkers(*swapSessions, *swapBridges)

	outages := &down{windows: map[string][][2]time.Time{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calling sync.WaitGroup
	var calls, failed atomic.Int64
	for i, c := range talkers {
		calling.Go(func() {
			rnd := rand.New(rand.NewPCG(*soakSeed, uint64(i)))
			for ctx.Err() == nil {
				key, from := keys[rnd.IntN(len(keys))], time.Now()
				code, err := c.echo(key, rnd)
				calls.Add(1)
				switch {
				case err != nil:
					t.Error(err)
					return
				case code == "":
				case code == "upstream_unavailable" && outages.during(key, from, time.Now()):
					failed.Add(1)
				default:
					t.Errorf("%s failed with %s after %d calls", key, code, calls.Load())
					return
				}
			}
		})
	}

	rnd := rand.New(rand.NewPCG(*soakSeed, 1<<32))
	begun := time.Now()
	for i := range *swapEdits {
		key := keys[rnd.IntN(len(keys))]
		good := set(h.upstream(key), "env", fmt.Sprintf(`{ N = "%d" }`, i))
		tables[key] = good
		if i%5 == 4 {
			tables[key] = set(h.upstream(key, "-exit-on", "initialize"), "env", fmt.Sprintf(`{ N = "%d" }`, i))
		}
		write()
		if rnd.IntN(2) == 0 { // else the next edit overtakes it
			d.mustReload(time.Second)
		}
		if i%5 == 4 {
			eventually(t, key+" waits for a definition that can start", func() bool { return d.status().up(t, key).isPending() })
			tables[key] = good
		}
	}
	write()
	d.mustReload(time.Minute)
	eventually(t, "every swap is over", func() bool {
		return !slices.ContainsFunc(d.status().Upstreams, func(u upstreamStatus) bool { return u.isPending() || u.State != "running" || u.Instances != 1 })
	})
	t.Logf("%d calls during %d edits in %v", calls.Load(), *swapEdits, time.Since(begun))

	before := calls.Load()
	begun = time.Now()
	watcher, err := h.dialled()
	if err != nil {
		t.Fatal(err)
	}
	turns := slices.Clone(keys)
	for i := range *swapKills {
		// In turns, in another order each: one that is killed fifteen times within a
		// minute is given up, as it should be (LIF-2).
		if i%len(turns) == 0 {
			rnd.Shuffle(len(turns), func(a, b int) { turns[a], turns[b] = turns[b], turns[a] })
		}
		key := turns[i%len(turns)]
		pid := *d.awaitState(key, "running").PID
		outages.begin(key)
		signal(t, pid, syscall.SIGKILL)
		eventually(t, key+" is another process", func() bool {
			u := d.status().up(t, key)
			return u.State == "running" && u.PID != nil && *u.PID != pid
		})
		if _, err := watcher.call(key, "echo", `{"text":"x"}`, "x"); err != nil {
			t.Error(err)
		}
		outages.end(key)
	}
	t.Logf("%d calls during %d kills in %v, %d of them failed", calls.Load()-before, *swapKills, time.Since(begun), failed.Load())
	if failed.Load() == 0 {
		t.Error("no call was under way where an upstream was killed, and the test proves nothing")
	}
	cancel()
	calling.Wait()
	for _, c := range append(talkers, watcher) {
		if err := c.close(); err != nil {
			t.Errorf("a bridge: %v", err)
		}
	}
	eventually(t, "every session is over", func() bool { return len(d.status().Sessions) == 0 })
}

// TestLoad_VanishingSessionsCostNothing keeps many sessions calling, of which
// one in a hundred vanishes each second with a call under way. No call of the
// others is lost, and what the daemon holds does not grow.
func TestLoad_VanishingSessionsCostNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	keys := make([]string, *loadUps)
	tables := []string{quick}
	for i := range keys {
		keys[i] = fmt.Sprintf("u%02d", i)
		tables = append(tables, h.table(keys[i], "fake-upstream", nil)) // a record would grow
	}
	h.configure(tables...)
	d := h.start()
	d.mustReload(time.Minute)
	talkers := h.talkers(*loadSessions, *loadBridges)

	ctx, cancel := context.WithTimeout(t.Context(), *loadFor)
	defer cancel()
	var calling sync.WaitGroup
	var calls, vanished atomic.Int64
	for i, c := range talkers {
		calling.Go(func() {
			rnd := rand.New(rand.NewPCG(*soakSeed, uint64(i)))
			lives := func() <-chan time.Time { // a hundredth of all end each second
				return time.After(time.Duration(rnd.ExpFloat64() * float64(100*time.Second)))
			}
			life := lives()
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(rnd.Int64N(int64(*loadPause) + 1))):
				case <-life:
					again := h.dialled
					if i < *loadBridges {
						again = h.bridged
					}
					err := errors.Join(c.send("tools/call", fmt.Sprintf(`{"name":"%s__hang","arguments":{}}`, keys[rnd.IntN(len(keys))])), c.vanish())
					if err == nil {
						c, err = again()
					}
					if err != nil {
						t.Errorf("another session: %v", err)
						return
					}
					talkers[i], life = c, lives()
					vanished.Add(1)
				}
				if code, err := c.echo(keys[rnd.IntN(len(keys))], rnd); err != nil || code != "" {
					t.Errorf("after %d calls: %s %v", calls.Load(), code, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	samples := d.sample(ctx, 20)
	calling.Wait()
	t.Logf("%d calls, %d sessions vanished, RssAnon in kB and descriptors: %v", calls.Load(), vanished.Load(), samples)

	// The second half is no larger than the first was, but for noise.
	half := len(samples) / 2
	for i, what := range []string{"kB", "descriptors"} {
		early, late := top(samples[1:half], i), top(samples[half:], i)
		if limit := early + early/5; late > limit {
			t.Errorf("%s: %d, and %d before", what, late, early)
		}
	}
	// A session that vanished is noticed, and its call with it.
	eventually(t, "as many sessions as there are", func() bool { return len(d.status().Sessions) == *loadSessions })
	if st := d.status(); slices.ContainsFunc(st.Upstreams, func(u upstreamStatus) bool { return u.Restarts != 0 }) {
		t.Errorf("an upstream was restarted: %v", st.Upstreams)
	}
	for _, c := range talkers {
		if err := c.close(); err != nil {
			t.Errorf("a bridge: %v", err)
		}
	}
	eventually(t, "no session", func() bool { return len(d.status().Sessions) == 0 })
}

// sample looks n times at what a daemon holds until ctx ends: anonymous memory
// in kB, and descriptors.
func (d *daemon) sample(ctx context.Context, n int) (samples [][2]int64) {
	d.t.Helper()
	tick := time.NewTicker(*loadFor / time.Duration(n))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return samples
		case <-tick.C:
			samples = append(samples, [2]int64{memoryOf(d.t, d.pid()) / 1024, int64(descriptorsOf(d.t, d.pid()))})
		}
	}
}

func top(samples [][2]int64, i int) (most int64) {
	for _, s := range samples {
		most = max(most, s[i])
	}
	return most
}
