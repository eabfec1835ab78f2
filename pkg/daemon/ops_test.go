package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/upstream"
	"harness/pkg/wire"
)

// shape is v as a client gets it.
func shape(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (o *office) status() *control.Status {
	o.t.Helper()
	s, err := o.ops.Status(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

// reload is a reload that the daemon answers at once.
func (o *office) reload(req control.ReloadRequest) *control.ReloadResult {
	o.t.Helper()
	r, err := o.ops.Reload(o.t.Context(), req)
	if err != nil {
		o.t.Fatal(err)
	}
	return r
}

func TestStatus_ShowsWhatRunsWhileAnEditIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		if s := o.status(); s.Generation != 0 || s.Digest != nil || s.LastReload != nil {
			t.Errorf("before anything: %s", shape(t, s))
		}
		o.write("harness.toml", oneUpstream+"[mcp.off]\ncmd = \"sh\"\nenabled = false\n")
		o.open()
		o.becomes("up", runs("echo", "more"))
		before := o.status()
		o.edit(oneUpstream + "[mcp.off]\ncmd = 5\n")
		s := o.status()
		if s.Generation != 1 || s.Digest == nil || *s.Digest != *before.Digest || s.Watch != "inotify" || s.PID != os.Getpid() {
			t.Errorf("status: %s", shape(t, s))
		}
		if r := s.LastReload; r == nil || r.OK || len(r.Errors) != 1 || *r.Errors[0].Line != 4 || *r.Errors[0].Key != "mcp.off.cmd" || r.Warnings == nil && shape(t, r.Warnings) != "[]" {
			t.Errorf("last reload: %s", shape(t, s.LastReload))
		}
		want := `[{"name":"off","state":"stopped","enabled":false,"pid":null,"restarts":0,"tools":0,"error":null,"pending":null,"next_retry_ms":null,"instances":0},` +
			`{"name":"up","state":"running","enabled":true,"pid":7,"restarts":0,"tools":2,"error":null,"pending":null,"next_retry_ms":null,"instances":1}]`
		if diff := cmp.Diff(want, shape(t, s.Upstreams)); diff != "" {
			t.Errorf("upstreams (-want +got):\n%s", diff)
		}
		if got := shape(t, s.Sessions); got != "[]" {
			t.Errorf("sessions: %s", got)
		}
	})
}

func TestStatus_SaysWhatIsWrongWithAnUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream)
		o.open()
		o.becomes("up", func(s *upstream.Status) {
			s.State, s.Error, s.Restarts, s.NextRetry = upstream.Degraded, "exited (code 1)", 6, time.Now().Add(1500*time.Millisecond)
			s.Pending = &s.Launch
		})
		want := `[{"name":"up","state":"degraded","enabled":true,"pid":null,"restarts":6,"tools":0,"error":"exited (code 1)","pending":"the changed definition is starting","next_retry_ms":1500,"instances":0}]`
		if diff := cmp.Diff(want, shape(t, o.status().Upstreams)); diff != "" {
			t.Errorf("upstreams (-want +got):\n%s", diff)
		}
		o.becomes("up", func(s *upstream.Status) { s.PendingErr = "exited (code 2)" })
		if got := o.status().Upstreams[0].Pending; got == nil || *got != "exited (code 2)" {
			t.Errorf("pending: %s", shape(t, got))
		}
	})
}

func TestReload_SaysWhatItChangedAndWhatBecameOfThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream+"[mcp.two]\ncmd = \"sh\"\n[mcp.gone]\ncmd = \"sh\"\n")
		o.open()
		for _, key := range []string{"up", "two", "gone"} {
			o.becomes(key, runs("echo"))
		}
		o.write("prompts/p.md", "text\n")
		o.write("harness.toml", "[mcp.up]\ncmd = \"sh\"\nargs = [\"s3cr3t\"]\n[mcp.two]\ncmd = \"sh\"\ncall_timeout = \"9s\"\n[mcp.bad]\ncmd = \"sh\"\n"+
			"[mcp.prompts]\npaths = [\"prompts\"]\n")
		plan := o.reload(control.ReloadRequest{DryRun: true})
		if plan.Generation != 1 || len(plan.Changed) != 6 || plan.Changed[1].State != nil || len(o.pool.heard()) != 3 {
			t.Errorf("a dry run: %s", shape(t, plan))
		}
		go func() {
			time.Sleep(100 * time.Millisecond)
			o.pool.set("up", func(s *upstream.Status) { s.PendingErr, s.Answered = "exited (code 1); the running one stays", true })
			o.pool.set("bad", func(s *upstream.Status) {
				s.State, s.Error, s.Answered = upstream.Restarting, "not found", true
			})
			o.loop.Wake()
		}()
		r := o.reload(control.ReloadRequest{WaitMS: 5000})
		want := `{"ok":true,"generation":2,"changed":[` +
			`{"kind":"server","name":"server","action":"update","reason":"mcp.prompts.paths changed","state":null},` +
			`{"kind":"upstream","name":"bad","action":"start","reason":"added","state":"restarting"},` +
			`{"kind":"upstream","name":"two","action":"update","reason":"call_timeout changed","state":"running"},` +
			`{"kind":"upstream","name":"up","action":"pending","reason":"args changed","state":"running"},` +
			`{"kind":"prompt","name":"p","action":"publish","reason":"added","state":null},` +
			`{"kind":"upstream","name":"gone","action":"stop","reason":"removed","state":"stopping"}],"errors":[],"warnings":[` +
			`{"file":"FILE","line":7,"key":"mcp.bad","message":"not found"},` +
			`{"file":"FILE","line":1,"key":"mcp.up","message":"exited (code 1); the running one stays"}]}`
		if diff := cmp.Diff(strings.ReplaceAll(want, "FILE", o.loader.global.path), shape(t, r)); diff != "" {
			t.Errorf("reload (-want +got):\n%s", diff)
		}
		o.gone("gone")
		again := o.reload(control.ReloadRequest{})
		if len(again.Changed) != 0 || again.Generation != 2 || cmp.Diff(r.Warnings, again.Warnings) != "" {
			t.Errorf("while they are still down: %s", shape(t, again))
		}
		o.becomes("up", func(s *upstream.Status) { s.Launch, s.Pending, s.PendingErr = *s.Pending, nil, "" })
		o.becomes("bad", runs("echo"))
		if again := o.reload(control.ReloadRequest{}); shape(t, again) != `{"ok":true,"generation":2,"changed":[],"errors":[],"warnings":[]}` {
			t.Errorf("once they are up: %s", shape(t, again))
		}
	})
}

func TestReload_NamesWhatItWaitedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream)
		o.open()
		o.becomes("up", runs("echo"))
		o.edit("[mcp.up]\ncmd = \"sh\"\nargs = [\"other\"]\n") // read before anybody asks
		begun := time.Now()
		r := o.reload(control.ReloadRequest{WaitMS: 3000})
		if took := time.Since(begun); took != 3*time.Second || len(r.Changed) != 0 || len(r.Warnings) != 1 || *r.Warnings[0].Key != "mcp.up" || !strings.HasPrefix(r.Warnings[0].Message, "still starting") {
			t.Errorf("after %v: %s", took, shape(t, r))
		}
		o.becomes("up", func(s *upstream.Status) { s.Launch, s.Pending, s.Answered = *s.Pending, nil, true })
		if r := o.reload(control.ReloadRequest{WaitMS: 3000}); len(r.Warnings) != 0 {
			t.Errorf("once it is up: %s", shape(t, r))
		}
	})
}

func TestReload_NamesTheFileOfAProjectWhoseServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream)
		if err := os.Mkdir(o.path("shop"), 0o700); err != nil {
			t.Fatal(err)
		}
		o.write("shop/harness.toml", "\n[mcp.own]\ncmd = \"sh\"\n")
		f, _ := newFollowed(o.path("shop/harness.toml"), config.Project, nil, o.loader.global.env)
		o.loader.projects = []project{{followed: f}}
		o.open()
		o.becomes("up", runs("echo"))
		o.becomes("shop/own", func(s *upstream.Status) { s.State, s.Error, s.Answered = upstream.Restarting, "not found", true })
		r := o.reload(control.ReloadRequest{})
		if got := shape(t, r.Warnings); got != `[{"file":"`+f.path+`","line":2,"key":"mcp.shop/own","message":"not found"}]` {
			t.Errorf("warnings: %s", got)
		}
	})
}

func TestReload_CarriesTheFaultsOfFilesAndTheWarningsOfPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("prompts/p.md", "---\nnever closed\n")
		text := "[mcp.prompts]\npaths = [\"prompts\"]\n"
		o.write("harness.toml", text)
		o.open()
		r := o.reload(control.ReloadRequest{})
		if !r.OK || len(r.Errors) != 0 || len(r.Warnings) != 1 || !strings.HasSuffix(r.Warnings[0].File, "p.md") || *r.Warnings[0].Line != 1 {
			t.Errorf("reload: %s", shape(t, r))
		}
		o.write("harness.toml", text+"[mcp.up]\n")
		for _, dry := range []bool{true, false} {
			r := o.reload(control.ReloadRequest{DryRun: dry})
			if r.OK || r.Generation != 1 || len(r.Errors) != 1 || *r.Errors[0].Line != 3 || len(r.Changed) != 0 {
				t.Errorf("refused, dry %v: %s", dry, shape(t, r))
			}
		}
	})
}

func TestPrompts_AreListedAsTheyAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("prompts/a b.md", "---\ndescription: what\narguments:\n  - name: x\n    required: true\n---\n{{x}}\n")
		o.write("harness.toml", "[mcp.prompts]\npaths = [\"prompts\"]\n")
		o.open()
		list, err := o.ops.Prompts(t.Context(), "")
		if err != nil || len(list) != 1 {
			t.Fatalf("prompts: %s, %v", shape(t, list), err)
		}
		p := list[0]
		if !strings.HasPrefix(p.Name, "a_b_") || p.Title != nil || *p.Description != "what" || !p.Arguments[0].Required || p.File != o.path("prompts/a b.md") {
			t.Errorf("prompt: %s", shape(t, p))
		}
		if o.status().Prompts != 1 {
			t.Error("status does not count it")
		}
		if list, err := o.ops.Prompts(t.Context(), "nope"); err == nil || list != nil || !strings.Contains(err.Error(), `no project "nope" is up`) {
			t.Errorf("of a project that is not up: %s, %v", shape(t, list), err)
		}
	})
}

// word begins a start, stop or restart. result says when it returned and with
// what.
func (o *office) word(do func(context.Context, []string) ([]control.UnitState, error), names ...string) (result func() (time.Duration, string, error)) {
	begun := time.Now()
	var took time.Duration
	var states []control.UnitState
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		states, err = do(o.t.Context(), names)
		took = time.Since(begun)
	}()
	synctest.Wait()
	return func() (time.Duration, string, error) {
		<-done
		var text []string
		for _, s := range states {
			line := s.Name + " " + s.State
			if s.Error != nil {
				line += ": " + *s.Error
			}
			text = append(text, line)
		}
		return took, strings.Join(text, ", "), err
	}
}

func (o *office) expect(result func() (time.Duration, string, error), took time.Duration, states string) {
	o.t.Helper()
	gotTook, got, err := result()
	if gotTook != took || got != states || err != nil {
		o.t.Errorf("after %v %q, %v, want after %v %q", gotTook, got, err, took, states)
	}
}

func TestUnits_ReturnWhenTheyAreThereOrTheFirstTryFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream+"[mcp.two]\ncmd = \"sh\"\nenabled = false\n")
		o.open()
		o.becomes("up", runs("echo"))
		o.expect(o.word(o.ops.Start, "mcp.up"), 0, "mcp.up running")

		both := o.word(o.ops.Start, "mcp.up", "mcp.two")
		twice := o.word(o.ops.Start, "mcp.two") // it is on its way
		time.Sleep(3 * time.Second)
		o.becomes("two", func(s *upstream.Status) { s.State, s.Error, s.Answered = upstream.Restarting, "exited", true })
		o.expect(both, 3*time.Second, "mcp.up running, mcp.two restarting: exited")
		o.expect(twice, 3*time.Second, "mcp.two restarting: exited")

		restart := o.word(o.ops.Restart, "mcp.up")
		time.Sleep(time.Second)
		o.becomes("up", func(s *upstream.Status) { s.State = upstream.Running }) // its list may take for ever
		o.expect(restart, time.Second, "mcp.up running")

		stop := o.word(o.ops.Stop, "mcp.up")
		time.Sleep(2 * time.Second)
		o.gone("up")
		o.expect(stop, 2*time.Second, "mcp.up stopped")
		o.expect(o.word(o.ops.Stop, "mcp.up"), 0, "mcp.up stopped")
		want := []string{"start up", "start two", "start up", "stop up"}
		if diff := cmp.Diff(want, o.pool.heard()); diff != "" {
			t.Errorf("the pool was told (-want +got):\n%s", diff)
		}
	})
}

func TestUnits_EndTheirWaitWhenSomebodyElseDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream)
		o.open()
		o.becomes("up", runs("echo"))
		restart := o.word(o.ops.Restart, "mcp.up")
		time.Sleep(time.Second)
		stop := o.word(o.ops.Stop, "mcp.up")
		o.expect(restart, time.Second, "mcp.up stopping: it was stopped meanwhile, by hand or by an edit")
		time.Sleep(time.Second)
		start := o.word(o.ops.Start, "mcp.up")
		o.expect(stop, time.Second, "mcp.up starting: it was started again meanwhile, by hand or by an edit")
		o.edit("# none\n")
		o.expect(start, 0, "mcp.up stopping: it was stopped meanwhile, by hand or by an edit")
	})
}

func TestUnits_AreKeptBeforeTheyAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream)
		o.open()
		o.becomes("up", runs("echo"))
		disk := make(chan struct{})
		o.ops.saved = func(context.Context) { <-disk }
		stop := o.word(o.ops.Stop, "mcp.up")
		o.gone("up")
		time.Sleep(time.Second)
		close(disk)
		o.expect(stop, time.Second, "mcp.up stopped")
		if f, _ := o.saved[stateFile].(fleetState); f.Intents["mcp.up"].Enabled || f.Config != o.loader.global.path || f.Generation != 2 {
			t.Errorf("kept: %+v", f)
		}
	})
}

func TestUnits_SayThatTheDaemonStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream)
		o.open()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := o.ops.Restart(ctx, []string{"mcp.up"})
			failed <- err
			_, err = o.ops.Reload(ctx, control.ReloadRequest{})
			failed <- err
		}()
		synctest.Wait()
		cancel()
		for range 2 {
			var p *control.Problem
			if err := <-failed; !errors.As(err, &p) || p.Code != wire.DaemonUnavailable || p.Message != "the daemon is stopping" {
				t.Errorf("it says %v", err)
			}
		}
	})
}

func TestUnits_RefuseNamesThatAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", oneUpstream+"[harness.rev]\ncmd = \"sh\"\n")
		o.open()
		o.becomes("up", runs("echo"))
		tests := map[string]struct {
			code wire.Code
			hint string
		}{
			"up":       {wire.UnknownHarness, "did you mean mcp.up?"},
			"mcp.nope": {wire.UnknownHarness, "declared: rev, mcp.up"},
			"re":       {wire.UnknownHarness, "declared: rev, mcp.up"},
		}
		for name, tt := range tests {
			_, err := o.ops.Stop(t.Context(), []string{"mcp.up", name})
			var p *control.Problem
			if !errors.As(err, &p) || p.Code != tt.code || !strings.Contains(p.Hint, tt.hint) {
				t.Errorf("%s: %+v", name, err)
			}
			if err := o.ops.Logs(t.Context(), control.LogsRequest{Name: name}, &bytes.Buffer{}); !errors.As(err, &p) {
				t.Errorf("logs of %s: %v", name, err)
			}
		}
		if diff := cmp.Diff([]string{"start up"}, o.pool.heard()); diff != "" {
			t.Errorf("the pool was told (-want +got):\n%s", diff)
		}
		o.edit("# none\n")
		var p *control.Problem
		if _, err := o.ops.Start(t.Context(), []string{"mcp.up"}); !errors.As(err, &p) || !strings.Contains(p.Hint, "nothing is declared") {
			t.Errorf("in an empty fleet: %+v", err)
		}
	})
}
