package integration

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"harness/integration/fakeup"
	"harness/pkg/control"
)

// home is a machine of its own for one test: a home directory, the XDG
// directories, and an environment that has nothing of the test's.
type home struct {
	t   testing.TB
	dir string // short: a socket's path has to fit in 108 bytes
	env map[string]string
	// wrap is a command that the daemon is started through; nil for none. It
	// has to become the daemon.
	wrap []string
	cwd  string // where commands run, "" for the home directory
}

// in is the same home for commands that are typed in another directory of it,
// which is made.
func (h *home) in(dir string) *home {
	h.t.Helper()
	there := *h
	there.cwd = h.path(dir)
	if err := os.MkdirAll(there.cwd, 0o700); err != nil {
		h.t.Fatal(err)
	}
	return &there
}

// newHome makes an empty home. It is removed when the test ends.
func newHome(t testing.TB) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "h") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &home{t: t, dir: dir, env: environment(bin(t), dir)}
	t.Cleanup(h.sweep)
	for _, d := range []string{"config/harness", "state", "run", "home", "tmp"} {
		if err := os.MkdirAll(h.path(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// sweep ends what a killed daemon left and no successor found.
func (h *home) sweep() {
	for _, p := range mentioning(h.t, h.dir+"/record-") {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// environment is all that a process in a home sees.
func environment(bin, dir string) map[string]string {
	env := map[string]string{
		"HOME":            filepath.Join(dir, "home"),
		"PATH":            bin + ":" + os.Getenv("PATH"),
		"LANG":            "C.UTF-8",
		"NO_COLOR":        "1",
		"TMPDIR":          filepath.Join(dir, "tmp"),
		"XDG_CONFIG_HOME": filepath.Join(dir, "config"),
		"XDG_STATE_HOME":  filepath.Join(dir, "state"),
		"XDG_RUNTIME_DIR": filepath.Join(dir, "run"),
		// The race detector waits a second at exit for what other
		// goroutines may still report; commands here end by the dozen.
		"GORACE": "atexit_sleep_ms=0",
	}
	if d := os.Getenv("GOCOVERDIR"); d != "" {
		env["GOCOVERDIR"] = d
	}
	return env
}

// path is a file in this home.
func (h *home) path(elem ...string) string {
	return filepath.Join(append([]string{h.dir}, elem...)...)
}

// config is where the global config is.
func (h *home) config() string { return h.path("config/harness/harness.toml") }

// socket is where the daemon listens.
func (h *home) socket() string { return h.path("run/harness/harness.sock") }

// environ is the environment as a process gets it.
func (h *home) environ() []string {
	var env []string
	for _, k := range slices.Sorted(maps.Keys(h.env)) {
		env = append(env, k+"="+h.env[k])
	}
	return env
}

// write puts text into a file of this home the way a careful editor does:
// beside it, then a rename.
func (h *home) write(name, text string) string {
	h.t.Helper()
	path := name
	if !filepath.IsAbs(name) {
		path = h.path(name)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	aside := path + ".new~"
	if err := os.WriteFile(aside, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(aside, path); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// remove deletes a file of this home.
func (h *home) remove(name string) {
	h.t.Helper()
	if err := os.Remove(h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

// configure replaces harness.toml by the joined parts.
func (h *home) configure(parts ...string) {
	h.t.Helper()
	h.write(h.config(), strings.Join(parts, "\n"))
}

// command is a program of this home, not started.
func (h *home) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if !strings.Contains(name, "/") {
		if p := filepath.Join(bin(h.t), name); exists(p) {
			name = p
		}
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = h.environ(), cmp.Or(h.cwd, h.path("home"))
	return cmd
}

// outcome is how a command ended.
type outcome struct {
	args           []string
	stdout, stderr string
	code           int
	took           time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("harness %s: exit %d after %v\nstdout: %s\nstderr: %s",
		strings.Join(o.args, " "), o.code, o.took, o.stdout, o.stderr)
}

// harness runs one command to its end, whatever that is.
func (h *home) harness(args ...string) outcome {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := h.command(ctx, "harness", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || ok && exit.ExitCode() < 0 {
		h.t.Fatalf("harness %v: %v\n%s", args, err, stderr.String())
	}
	if strings.Contains(stderr.String(), "DATA RACE") {
		h.t.Errorf("harness %v: %s", args, stderr.String())
	}
	return outcome{args, stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), time.Since(start)}
}

// must runs a command that has to succeed and returns its stdout.
func (h *home) must(args ...string) string {
	h.t.Helper()
	o := h.harness(args...)
	if o.code != 0 {
		h.t.Fatal(o)
	}
	return o.stdout
}

// upstream is the TOML of one fake upstream that records into the home.
func (h *home) upstream(key string, flags ...string) string {
	return h.table(key, "fake-upstream", append([]string{"-record", h.recordFile(key)}, flags...))
}

// table is the TOML of one upstream; further keys may follow it.
func (h *home) table(key, cmd string, args []string) string {
	var quoted []string
	for _, a := range args {
		quoted = append(quoted, strconv.Quote(a))
	}
	return fmt.Sprintf("[mcp.%s]\ncmd = %q\nargs = [%s]\nrestart_delay = \"50ms\"\n", key, cmd, strings.Join(quoted, ", "))
}

// quick is a [server] table for a test that does not care to wait.
const quick = "[server]\nsettle = \"20ms\"\nstop_grace = \"1500ms\"\n"

// set gives a key of one table another value, or one to begin with.
func set(table, key, value string) string {
	line := key + " = " + value + "\n"
	if old := regexp.MustCompile(`(?m)^` + key + ` = .*\n`); old.MatchString(table) {
		return old.ReplaceAllLiteralString(table, line)
	}
	return table + line
}

func (h *home) recordFile(key string) string { return h.path("record-" + key) }

// record is what the fake upstream of a key recorded so far.
func (h *home) record(key string) []fakeup.Entry {
	h.t.Helper()
	entries, err := fakeup.Record(h.recordFile(key))
	if err != nil {
		h.t.Fatal(err)
	}
	return entries
}

// starts counts the processes a fake upstream has had.
func (h *home) starts(key string) int {
	h.t.Helper()
	n := 0
	for _, e := range h.record(key) {
		if e.What == fakeup.Started && !strings.Contains(e.Text, "-linger") {
			n++
		}
	}
	return n
}

// status is `status --json`.
type status struct {
	Version    string
	PID        int
	UptimeMS   *int64 `json:"uptime_ms"`
	Config     string
	Generation int
	Digest     string
	Watch      string
	LastReload struct {
		At       *time.Time
		OK       bool
		Errors   []fault
		Warnings []fault
	} `json:"last_reload"`
	Upstreams []upstreamStatus
	Harnesses int
	Sessions  []struct{ ID, Harness, Client, Since *string }
	Prompts   int
}

// fault is one error or warning of a file.
type fault struct {
	File    string
	Line    int
	Key     string
	Message string
}

type upstreamStatus struct {
	Name        string
	State       string
	Enabled     bool
	PID         *int
	Restarts    int
	Tools       int
	Error       *string
	Pending     json.RawMessage
	NextRetryMS *int64 `json:"next_retry_ms"`
	Instances   int
}

func (u upstreamStatus) String() string {
	return fmt.Sprintf("%s %s, %d restarts, %d instances, error %q, pending %s", u.Name, u.State, u.Restarts, u.Instances, deref(u.Error), u.Pending)
}

// isPending reports whether a definition waits to be swapped in.
func (u upstreamStatus) isPending() bool {
	s := string(u.Pending)
	return s != "" && s != "null" && s != "false"
}

// control asks the daemon something and reads the answer into out. Tests ask
// what they poll here and not through the command, whose start costs more than
// the answer; the shapes are the same, and a script holds the command to them.
func (h *home) control(ask func(context.Context, *control.Client) (any, error), out any) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	c, err := control.Dial(ctx, h.socket())
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	answer, err := ask(ctx, c)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(marshal(h.t, answer)), out); err != nil {
		h.t.Fatal(err)
	}
}

// status asks the daemon how it is.
func (h *home) status() status {
	h.t.Helper()
	var s status
	h.control(func(ctx context.Context, c *control.Client) (any, error) { return c.Status(ctx) }, &s)
	return s
}

// up is the status of one upstream, which has to be there.
func (s status) up(t testing.TB, name string) upstreamStatus {
	t.Helper()
	u, ok := s.find(name)
	if !ok {
		t.Fatalf("no upstream %s in status: %+v", name, s.Upstreams)
	}
	return u
}

func (s status) find(name string) (upstreamStatus, bool) {
	i := slices.IndexFunc(s.Upstreams, func(u upstreamStatus) bool { return u.Name == name })
	if i < 0 {
		return upstreamStatus{}, false
	}
	return s.Upstreams[i], true
}

// awaitState waits until an upstream is in a state, and returns its status.
func (h *home) awaitState(name, state string) upstreamStatus {
	h.t.Helper()
	var u upstreamStatus
	var ok bool
	eventually(h.t, name+" is "+state, func() bool {
		u, ok = h.status().find(name)
		return ok && u.State == state
	})
	return u
}

// reloaded is `reload --json`.
type reloaded struct {
	OK         bool
	Generation int
	Changed    []change
	Errors     []fault
	Warnings   []fault
}

type change struct{ Kind, Name, Action, Reason, State string }

// actions are the changes as "action kind name", without the reasons.
func (r reloaded) actions() []string {
	var all []string
	for _, c := range r.Changed {
		all = append(all, c.Action+" "+c.Kind+" "+c.Name)
	}
	return all
}

// reload makes the daemon read its files now.
func (h *home) reload(req control.ReloadRequest) reloaded {
	h.t.Helper()
	var r reloaded
	h.control(func(ctx context.Context, c *control.Client) (any, error) { return c.Reload(ctx, req) }, &r)
	return r
}

// mustReload is a reload that has to be taken. It waits for what starts as
// long as `harness reload` does, or as long as it is told.
func (h *home) mustReload(wait ...time.Duration) reloaded {
	h.t.Helper()
	limit := 5 * time.Second
	if len(wait) > 0 {
		limit = wait[0]
	}
	r := h.reload(control.ReloadRequest{WaitMS: limit.Milliseconds()})
	if !r.OK {
		h.t.Fatalf("reload: %+v", r)
	}
	return r
}

// buffer collects what a process writes while others read it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
