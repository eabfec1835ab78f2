package inprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harness/integration/fakeup"
	"harness/pkg/bridge"
	"harness/pkg/control"
	"harness/pkg/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	upstreams = 12
	sessions  = 4
	edits     = 40
	patience  = 60 * time.Second
)

// fleet is the config of the test: the first third of its upstreams moves.
type fleet struct {
	path, cmd string
	tables    [upstreams]string
}

func (f *fleet) reset(i int) {
	f.tables[i] = fmt.Sprintf("[mcp.u%d]\ncmd = %q\nrestart_delay = \"50ms\"\n", i, f.cmd)
}

// save replaces the config by a rename.
func (f *fleet) save(t *testing.T, more string) {
	t.Helper()
	text := "[server]\nsettle = \"20ms\"\nstop_grace = \"1s\"\ndrain = \"1s\"\n" + strings.Join(f.tables[:], "") + more
	if err := os.WriteFile(f.path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		t.Fatal(err)
	}
}

// edit makes one change, every third of them broken.
func (f *fleet) edit(t *testing.T, n int) {
	t.Helper()
	i := rand.IntN(upstreams / 3)
	switch n % 6 {
	case 0, 3:
		f.save(t, "[mcp.broken]\ncmd = \n")
		return
	case 1:
		f.reset(i)
	case 2:
		f.tables[i] += fmt.Sprintf("env = { N = \"%d\" }\n", n)
	case 4:
		f.tables[i] = ""
	case 5:
		f.reset(i)
		f.tables[i] += fmt.Sprintf("update = \"replace\"\nargs = [\"-count\", \"%d\"]\n", n)
	}
	f.save(t, "")
	f.reset(i)
}

// client is an agent that asks one thing at a time.
type client struct {
	in  io.Writer
	out *bufio.Reader
	id  int
}

// ask sends a request and returns its answer; notifications are passed over.
func (c *client) ask(method, params string) (json.RawMessage, error) {
	c.id++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params); err != nil {
		return nil, err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var m struct {
			ID     int
			Result json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		if m.ID == c.id {
			return m.Result, nil
		}
	}
}

// call calls the echo of one upstream and reports whether it answered.
func (c *client) call(upstream int) (bool, error) {
	result, err := c.ask("tools/call", fmt.Sprintf(`{"name":"u%d__echo","arguments":{"text":"hello"}}`, upstream))
	return bytes.Contains(result, []byte(`"hello"`)), err
}

// connect runs a bridge on pipes until stdin is closed, which stop does. It
// does not return before the bridge has.
func connect(t *testing.T, socket string) (c *client, stop func()) {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	done := make(chan error)
	go func() {
		err := bridge.Run(context.Background(), bridge.Options{
			In: in, Out: out, Version: func() string { return "test" }, MaxMessage: 64 << 20, StopGrace: 5 * time.Second,
			Say:  func(string) {},
			Dial: func(ctx context.Context) (net.Conn, error) { return control.DialSession(ctx, socket, "") },
		})
		out.Close()
		done <- err
	}()
	stop = func() {
		stdin.Close()
		if _, err := io.Copy(io.Discard, stdout); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("bridge: %v", err)
		}
	}
	c = &client{in: stdin, out: bufio.NewReader(stdout)}
	if _, err := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c, stop
}

// serve runs a daemon over a directory until stop is called.
func serve(t *testing.T, paths control.Paths) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	var log bytes.Buffer
	go func() {
		done <- daemon.Run(ctx, daemon.Options{Paths: paths, Version: "test", Home: "/", Log: &log, Ready: sync.OnceFunc(func() { close(ready) })})
	}()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("daemon: %v", err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	}
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("daemon: %v\n%s", err, log.String())
	}
	return stop
}

func TestDaemonAndBridges_LeaveNoGoroutineAndNoDescriptor(t *testing.T) {
	cmd, err := fakeup.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "h") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	paths := control.Find(control.Env{Get: func(string) string { return "" }, Home: dir, Cwd: dir},
		control.Flags{Config: filepath.Join(dir, "harness.toml"), Socket: filepath.Join(dir, "run", "s")})
	f := &fleet{path: paths.Config, cmd: cmd}
	for i := range f.tables {
		f.reset(i)
	}
	f.save(t, "")

	soak(t, f, paths, 1) // what a process opens once and keeps is open from here on
	before := descriptors(t)
	soak(t, f, paths, edits)
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, there were %d", after, before)
	}
}

// soak runs a daemon and sessions that never stop calling, makes edits, and
// ends all of it.
func soak(t *testing.T, f *fleet, paths control.Paths, edits int) {
	t.Helper()
	stop := serve(t, paths)
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	var calls [sessions]int
	for s := range sessions {
		c, disconnect := connect(t, paths.Socket)
		calling.Go(func() {
			defer disconnect()
			for ; ctx.Err() == nil; calls[s]++ {
				i := rand.IntN(upstreams)
				if ok, err := c.call(i); err != nil || !ok && i >= upstreams/3 {
					t.Errorf("u%d: answered: %v, %v", i, ok, err)
					return
				}
			}
		})
	}
	watcher, disconnect := connect(t, paths.Socket)
	for n := range edits {
		f.edit(t, n)
		<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond) // a person types
	}
	f.save(t, "")
	deadline := time.Now().Add(patience)
	for i := 0; i < upstreams; {
		ok, err := watcher.call(i)
		if err != nil || time.Now().After(deadline) {
			t.Errorf("u%d does not serve at the end: %v", i, err)
			break
		}
		if ok {
			i++
		}
	}
	cancel()
	calling.Wait()
	disconnect()
	t.Logf("%v calls during %d edits", calls, edits)
}

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
