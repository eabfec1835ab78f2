package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"harness/pkg/control"
	"harness/pkg/run"
)

func TestRun_FollowsItsFileFromStartToStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	h.write(h.table("up", "echo"))
	d := h.start()
	d.settled("up")
	a := d.connect()
	if got := a.names("tools"); got != "up__echo" {
		t.Errorf("the first list: %q", got)
	}
	if got := a.call("up__echo", "hello"); got != "hello" {
		t.Errorf("a call: %s", got)
	}
	pid := *d.find("up").PID

	h.write(h.table("up", "echo"), h.table("two", "echo"))
	until(t, "the added one", func() bool { return a.heard("tools") == 1 })
	until(t, "its tools", func() bool { return a.names("tools") == "two__echo up__echo" })

	h.write(h.table("up", "echo"), h.table("two", "echo,more"), "[mcp.prompts]\npaths = [\"prompts\"]\n")
	write(t, filepath.Join(h.dir, "prompts", "p.md"), "text\n")
	until(t, "the changed one and a prompt", func() bool { return a.names("tools")+" "+a.names("prompts") == "two__echo two__more up__echo p" })

	before := d.status()
	h.write("[mcp.up]\ncmd = \"\"\n")
	until(t, "the broken one", func() bool { return !d.status().LastReload.OK })
	s := d.status()
	if e := s.LastReload.Errors; len(e) != 1 || *e[0].Key != "mcp.up.cmd" && *e[0].Key != "mcp.up" || s.Generation != before.Generation {
		t.Errorf("broken: %s", shape(t, s))
	}
	if got := a.call("two__more", "still"); got != "still" {
		t.Errorf("a call while it is broken: %s", got)
	}
	h.write(h.table("up", "echo"))
	until(t, "the fixed one", func() bool { return d.status().LastReload.OK && a.heard("tools") == 3 })
	if n := a.heard("prompts"); n != 2 {
		t.Errorf("%d notifications of prompts", n)
	}
	if got := a.names("tools"); got != "up__echo" {
		t.Errorf("fixed: %q", got)
	}
	if now := *d.find("up").PID; now != pid {
		t.Errorf("what nobody touched is process %d, was %d", now, pid)
	}
	if took := d.stop(); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	<-a.ended
	for _, left := range []string{h.paths.Socket, h.paths.Pointer} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("it left %s: %v", left, err)
		}
	}
	if log := h.log.read(); strings.Contains(log, "level=ERROR") && strings.Count(log, "level=ERROR") != strings.Count(log, "config refused") {
		t.Errorf("log:\n%s", log)
	}
}

func TestRun_GoesOnWhereItsPredecessorStopped(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	h.write(h.table("up", "echo"), h.table("off", "echo"))
	d := h.start()
	d.settled("up", "off")
	if units, err := d.client.Stop(t.Context(), "mcp.off"); err != nil || units[0].State != "stopped" {
		t.Errorf("stop: %+v, %v", units, err)
	}
	before := d.status()
	d.stop()

	write(t, h.paths.Config, "[mcp.up")
	d = h.start()
	a := d.connect()
	if got := a.names("tools"); got != "up__echo" {
		t.Errorf("over a broken file: %q", got)
	}
	if got := a.call("up__echo", "waited for"); got != "waited for" {
		t.Errorf("a call: %s", got)
	}
	after := d.status()
	if after.LastReload.OK || after.Generation != before.Generation || *after.Digest != *before.Digest || d.find("off").State != "stopped" {
		t.Errorf("before %s\nafter %s", shape(t, before), shape(t, after))
	}
	d.stop()

	// A fleet of one that is slow, whose list is known: nobody waits for it.
	h.write(h.table("up", "echo slow"))
	begun := time.Now()
	d = h.start()
	if took := time.Since(begun); took > publishWait+2*time.Second {
		t.Errorf("the start took %v", took)
	}
	d.stop()
}

// publishWait is what a plan waits for upstreams at most.
const publishWait = 500 * time.Millisecond

func TestRun_RefusesASecondDaemon(t *testing.T) {
	h := newHome(t)
	d := h.start()
	defer d.stop()
	pid := fmt.Sprintf("pid %d", os.Getpid())
	elsewhere := *h
	elsewhere.paths.Socket = filepath.Join(h.dir, "s2")
	sameSocket := *h
	sameSocket.paths.State = filepath.Join(h.dir, "state2")
	for _, second := range []*home{h, &elsewhere, &sameSocket} {
		begun := time.Now()
		err := Run(t.Context(), Options{Paths: second.paths, Version: "v1", Log: h.log})
		if err == nil || !strings.Contains(err.Error(), pid) {
			t.Errorf("the second: %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
	}
	if s := d.status(); s.PID != os.Getpid() {
		t.Errorf("the first: %s", shape(t, s))
	}
}

func TestRun_IsStoppedWhileItStarts(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	var tables []string
	for i := range 5 {
		tables = append(tables, h.table(fmt.Sprintf("u%d", i), "echo mute"))
	}
	h.write(tables...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, Options{Paths: h.paths, Log: h.log}); err != nil {
		t.Errorf("stopped before it began: %v", err)
	}
	d, ready := h.launch()
	until(t, "the upstreams are being started", func() bool {
		logs, _ := filepath.Glob(filepath.Join(h.paths.State, "logs", "*"))
		return len(logs) == len(tables)
	})
	d.stop()
	select {
	case <-ready:
		t.Error("it served although it was to stop")
	default:
	}
}

func TestRun_StopsWhileAnOrderWaits(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	h.write(h.table("up", "echo mute"))
	d := h.start()
	failed := make(chan error, 1)
	go func() {
		_, err := d.client.Restart(t.Context(), "mcp.up")
		failed <- err
	}()
	until(t, "the order", func() bool { return d.find("up").State == "starting" && d.status().Generation == 2 })
	d.ask()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the daemon is stopping") {
		t.Errorf("the order: %v", err)
	}
	d.stop()
}

func TestRun_WatchesForItsFirstFile(t *testing.T) {
	h := newHome(t)
	d := h.start()
	defer d.stop()
	if s := d.status(); s.Generation != 0 || s.Digest != nil || s.LastReload.OK || !strings.Contains(s.LastReload.Errors[0].Message, "harness init") {
		t.Errorf("status: %s", shape(t, s))
	}
	a := d.connect()
	if got := a.names("tools"); got != "" {
		t.Errorf("tools: %q", got)
	}
	h.write(h.table("up", "echo"))
	until(t, "the file", func() bool { return a.heard("tools") == 1 })
	if s := d.status(); s.Generation != 1 || !s.LastReload.OK {
		t.Errorf("status: %s", shape(t, s))
	}
}

func TestRun_KeepsTheOrderOfEachName(t *testing.T) {
	h := newHome(t)
	h.write(h.table("keep", "echo"), h.table("gone", "echo"), h.table("port", "echo", `update = "replace"`), h.table("swap", "echo"))
	d := h.start()
	defer d.stop()
	d.settled("keep", "gone", "port", "swap")
	var mu sync.Mutex
	var order []string
	ctx, cancel := context.WithCancel(t.Context())
	subscribed, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for e, err := range d.client.Events(ctx, func() { close(subscribed) }) {
			if err != nil {
				t.Errorf("events: %v", err)
				return
			}
			if e.Message == "" {
				t.Errorf("an event without a message: %+v", e)
			}
			mu.Lock()
			switch e.Kind {
			case "publish":
				order = append(order, "publish")
			case "state":
				order = append(order, *e.Name+" "+e.Message)
			}
			mu.Unlock()
		}
	}()
	<-subscribed
	h.write(h.table("keep", "echo"), h.table("port", "echo,x", `update = "replace"`), h.table("swap", "echo,x"), h.table("new", "echo"))
	a := d.connect()
	until(t, "everything is as the file says", func() bool {
		return a.names("tools") == "keep__echo new__echo port__echo port__x swap__echo swap__x" && d.find("gone").Name == "" && d.find("swap").Instances == 1
	})
	at := func(prefix string) int {
		return slices.IndexFunc(order, func(s string) bool { return strings.HasPrefix(s, prefix) })
	}
	until(t, "the last event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		added, replaced := at("mcp.new running"), at("mcp.port running")
		return added > 0 && replaced > 0 && slices.Contains(order[max(added, replaced):], "publish")
	})
	cancel()
	<-ended
	if at("publish") < 0 || at("mcp.gone stopping") < at("publish") || at("mcp.port stopping") > at("mcp.port starting") || at("mcp.port starting") > at("mcp.port running") {
		t.Errorf("order: %q", order)
	}
	if i := slices.IndexFunc(order, func(s string) bool { return strings.HasPrefix(s, "mcp.keep") }); i >= 0 {
		t.Errorf("what nobody touched: %s", order[i])
	}
}

func TestRun_ShowsItsStateOnlyToItsUser(t *testing.T) {
	h := newHome(t)
	secret := filepath.Join(h.dir, "secrets.env")
	write(t, secret, "TOKEN=canary-5f3a\n")
	h.write(h.table("up", "echo,die", fmt.Sprintf("env_file = %q", secret)))
	d := h.start()
	a := d.connect()
	if got := a.call("up__echo", "$TOKEN"); got != "canary-5f3a" {
		t.Errorf("the upstream has %q", got)
	}
	if got := a.call("up__die", ""); !strings.Contains(got, "upstream_unavailable") {
		t.Errorf("a crash: %s", got)
	}
	status, err := json.Marshal(d.status())
	if err != nil {
		t.Fatal(err)
	}
	d.stop()
	text := string(status) + h.log.read()
	err = filepath.WalkDir(h.paths.State, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else if data, err := os.ReadFile(path); err == nil {
			text += string(data)
		}
		if got := mode(t, path); got != want {
			t.Errorf("%s has mode %o", path, got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "canary") {
		t.Errorf("a secret is in\n%s", text)
	}
}

func TestRun_EndsEverythingAtOnceWhenItHasTo(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	write(t, h.paths.Config, "[server]\nstop_grace = \"1h\"\n"+h.table("up", "echo deaf"))
	d := h.start()
	d.settled("up")
	pid := *d.find("up").PID
	d.ask()
	until(t, "it stops", func() bool { return strings.Contains(h.log.read(), "state=stopping") })
	close(d.kill)
	d.stop()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

func TestRun_ShowsTheLogOfAnUpstreamAsItIsWritten(t *testing.T) {
	h := newHome(t)
	h.json = true
	h.write(h.table("up", "echo"))
	d := h.start()
	defer d.stop()
	d.settled("up")
	serving := func(r *reader, n int) {
		t.Helper()
		text := ""
		until(t, "its log", func() bool { text += r.read(); return strings.Count(text, "serving echo\n") == n })
	}
	all, followed := &reader{}, &reader{}
	if err := d.client.Logs(t.Context(), control.LogsRequest{Name: "mcp.up", Lines: 10}, all); err != nil {
		t.Fatal(err)
	}
	serving(all, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- d.client.Logs(ctx, control.LogsRequest{Name: "mcp.up", Lines: 1, Follow: true}, followed)
	}()
	serving(followed, 1)
	if _, err := d.client.Restart(t.Context(), "mcp.up"); err != nil {
		t.Fatal(err)
	}
	serving(followed, 1)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("the end of following: %v", err)
	}
	for line := range strings.Lines(h.log.read()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of its own log: %s", line)
		}
	}
}

func TestRun_ReloadsByTheControlInterface(t *testing.T) {
	h := newHome(t)
	h.write(h.table("up", "echo"))
	d := h.start()
	defer d.stop()
	h.write(h.table("up", "echo"), h.table("bad", "echo exit"))
	r := d.reload()
	var got []string
	for _, c := range r.Changed {
		got = append(got, fmt.Sprintf("%s %s", c.Action, c.Name))
	}
	for _, w := range r.Warnings {
		got = append(got, *w.Key+": "+w.Message)
	}
	want := []string{"start bad", "mcp.bad: exited (code 1) before it answered initialize"}
	if len(r.Changed) == 0 { // the watcher was first, and what came of it may not be known yet
		want = want[1 : 1+min(len(got), 1)]
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("reload (-want +got):\n%s", diff)
	}
	if !r.OK || r.Generation != 2 {
		t.Errorf("reload: %s", shape(t, r))
	}
}

// A daemon that is asked to stop while what it keeps is being opened stops, and
// ends what it started meanwhile; nothing that is kept has begun.
func TestRun_StopsWhileTheArchiveOpens(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	h.write(h.table("up", "echo"), "[harness.a]\ncmd = \"touch\"\nargs = ["+strconv.Quote(filepath.Join(h.dir, "began"))+"]\nenabled = true\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Paths: h.paths, Version: "v1", Home: h.dir, Log: h.log, Commands: func() (run.Catalog, error) {
			<-gate
			return run.Catalog{}, nil
		}})
	}()
	until(t, "the server runs", func() bool { return strings.Contains(h.log.read(), "upstream=up state=running") })
	cancel()
	until(t, "the server is stopped", func() bool { return strings.Contains(h.log.read(), "upstream=up state=stopped") })
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "began")); err == nil {
		t.Error("a harness began")
	}
}

// A launch takes a long prompt from a contract, and nothing else that is long.
func TestReadLaunch_OnlyAContractsPromptIsLong(t *testing.T) {
	long := strings.Repeat("x", maxArguments)
	for _, c := range []struct {
		name     string
		a        map[string]any
		operator bool
		ok       bool
	}{
		{"a contract's prompt", map[string]any{"name": "a", "contract": "s", "prompt": long}, true, true},
		{"a contract's prompt without end", map[string]any{"name": "a", "contract": "s", "prompt": strings.Repeat("x", maxPrompt+1)}, true, false},
		{"an agent's", map[string]any{"name": "a", "contract": "s", "prompt": long}, false, false},
		{"without a contract", map[string]any{"name": "a", "prompt": long}, true, false},
		{"arguments of a contract's", map[string]any{"name": "a", "contract": "s", "prompt": "p", "args": []string{long}}, true, false},
		{"the name of a contract", map[string]any{"name": "a", "contract": long, "prompt": "p"}, true, false},
	} {
		raw, err := json.Marshal(c.a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readLaunch(raw, petitioner{operator: c.operator}); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
