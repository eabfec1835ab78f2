package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"harness/pkg/control"

	"harness/integration/bench/baseline"
)

// home is a machine of its own for one daemon, and an environment that has
// nothing of ours in it.
type home struct {
	tb  testing.TB
	dir string
	env []string
}

// shortDir is a directory for sockets, whose paths have to fit in 108 bytes.
func shortDir(tb testing.TB) string {
	tb.Helper()
	//nolint:usetesting // the names of tests are long
	dir, err := os.MkdirTemp("", "hb")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

func newHome(tb testing.TB) *home {
	tb.Helper()
	h := &home{tb: tb, dir: shortDir(tb)}
	for _, d := range []string{"config/harness", "prompts", "state", "run"} {
		if err := os.MkdirAll(h.path(d), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	h.env = []string{
		"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + h.dir, "GORACE=atexit_sleep_ms=0",
		"XDG_CONFIG_HOME=" + h.path("config"), "XDG_STATE_HOME=" + h.path("state"), "XDG_RUNTIME_DIR=" + h.path("run"),
	}
	return h
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

func (h *home) socket() string { return h.path("run/harness/harness.sock") }

// save replaces a file as a careful editor does, and returns when the new one
// was in place to be read.
func (h *home) save(name, text string) time.Time {
	h.tb.Helper()
	path := h.path(name)
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		h.tb.Fatal(err)
	}
	at := time.Now()
	if err := os.Rename(path+"~", path); err != nil {
		h.tb.Fatal(err)
	}
	return at
}

func (h *home) configure(text string) time.Time {
	h.tb.Helper()
	return h.save("config/harness/harness.toml", text)
}

// server is the [server] table of every daemon that is measured: the bounds
// are for this quiet time.
const server = "[server]\nsettle = \"50ms\"\n"

// upstream is the table of one echo server. Further lines may follow it.
func (h *home) upstream(key string, args ...string) string {
	h.tb.Helper()
	argv := direct(h.tb, args...)
	var quoted []string
	for _, a := range argv[1:] {
		quoted = append(quoted, strconv.Quote(a))
	}
	return fmt.Sprintf("[mcp.%s]\ncmd = %q\nargs = [%s]\n", key, argv[0], strings.Join(quoted, ", "))
}

// fleet is n upstreams named u000 and so on, a table each.
func (h *home) fleet(n int, args ...string) []string {
	h.tb.Helper()
	tables := make([]string, n)
	for i := range tables {
		tables[i] = h.upstream(fmt.Sprintf("u%03d", i), args...)
	}
	return tables
}

// configText joins the [server] table and others.
func configText(tables ...string) string { return server + strings.Join(tables, "") }

// daemon is a running `harness daemon`.
type daemon struct {
	*home
	cmd     *exec.Cmd
	exited  chan struct{}
	control *control.Client
}

// start runs a daemon over tables and returns when all of its upstreams run
// and agents see all of their tools.
func (h *home) start(tables ...string) *daemon {
	h.tb.Helper()
	h.configure(configText(tables...))
	d := h.launch()
	d.dial()
	d.reload()
	d.allRun()
	d.allListed()
	return d
}

// launch starts a daemon and waits for nothing.
func (h *home) launch() *daemon {
	h.tb.Helper()
	log, err := os.Create(h.path("daemon.log"))
	if err != nil {
		h.tb.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(harness(h.tb), "daemon")
	cmd.Env, cmd.Dir, cmd.Stderr = h.env, h.dir, log
	if err := cmd.Start(); err != nil {
		h.tb.Fatal(err)
	}
	d := &daemon{home: h, cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // stop looks at how it exited
		close(d.exited)
	}()
	h.tb.Cleanup(d.stop)
	return d
}

// stop ends the daemon and everything it runs.
func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have been stopped already
	select {
	case <-d.exited:
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.exited
		d.tb.Error("the daemon did not stop")
	}
	if d.control != nil {
		d.control.Close()
	}
	if !d.cmd.ProcessState.Success() {
		d.tb.Errorf("the daemon: %v", d.cmd.ProcessState)
	}
	if d.tb.Failed() {
		log, _ := os.ReadFile(d.path("daemon.log"))
		d.tb.Logf("log of the daemon:\n%s", log)
	}
}

// dial connects to the control side of the daemon as soon as it listens.
func (d *daemon) dial() {
	d.tb.Helper()
	d.poll("the daemon listens", func() bool {
		c, err := control.Dial(context.Background(), d.socket())
		if err != nil && !errors.Is(err, control.ErrUnreachable) {
			d.tb.Fatal(err)
		}
		d.control = c
		return err == nil
	})
}

// poll waits until ok holds. It is for what nobody is told of.
func (d *daemon) poll(what string, ok func() bool) {
	d.tb.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			d.tb.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// reload asks for a pass, which has to be taken.
func (d *daemon) reload() {
	d.tb.Helper()
	r, err := d.control.Reload(context.Background(), control.ReloadRequest{WaitMS: patience.Milliseconds()})
	if err != nil {
		d.tb.Fatal(err)
	}
	if !r.OK {
		d.tb.Fatalf("refused: %+v", r.Errors)
	}
}

func (d *daemon) status() *control.Status {
	d.tb.Helper()
	s, err := d.control.Status(context.Background())
	if err != nil {
		d.tb.Fatal(err)
	}
	return s
}

// allRun waits until every upstream runs, in one process, and has told its
// tools.
func (d *daemon) allRun() {
	d.tb.Helper()
	d.poll("all upstreams run", func() bool {
		return !slices.ContainsFunc(d.status().Upstreams, func(u control.UpstreamStatus) bool {
			return u.State != "running" || u.Instances != 1 || u.Tools == 0
		})
	})
}

// allListed waits until what the upstreams offer is what sessions see.
func (d *daemon) allListed() {
	d.tb.Helper()
	c, err := overSocket(d)
	if err != nil {
		d.tb.Fatal(err)
	}
	defer c.close()
	offered := 0
	for _, u := range d.status().Upstreams {
		offered += u.Tools
	}
	d.poll("all tools are listed", func() bool {
		names, err := c.tools()
		if err != nil {
			d.tb.Fatal(err)
		}
		return len(names) == offered
	})
}

// bridge is the command that an agent of this home runs.
func (h *home) bridge() []string { h.tb.Helper(); return []string{harness(h.tb), "mcp"} }

// agent is a session through a bridge of its own.
func (h *home) agent() *client {
	h.tb.Helper()
	return agent(h.tb, h.env, h.bridge()...)
}

// agent launches a client that has to work and is closed at the end.
func agent(tb testing.TB, env []string, argv ...string) *client {
	tb.Helper()
	c, err := launch(context.Background(), 1, env, argv...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.close)
	return c
}

// agents launches several.
func agents(tb testing.TB, n int, env []string, argv ...string) []*client {
	tb.Helper()
	all := make([]*client, n)
	for i := range all {
		all[i] = agent(tb, env, argv...)
	}
	return all
}

// direct is the command of an echo server with nobody in between.
func direct(tb testing.TB, args ...string) []string {
	tb.Helper()
	return against(tb, baseline.EchoServer, args...)
}
