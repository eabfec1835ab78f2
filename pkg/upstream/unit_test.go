package upstream

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/jsonrpc"
)

// inBubble runs a test with processes in memory and time that passes by
// itself.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newRig(t)) })
}

func (r *rig) start(s script) *Unit {
	r.pool.Start(r.launch("up", s), 1)
	synctest.Wait()
	return r.pool.Unit("up")
}

func TestPool_StartsAnUpstreamAndLearnsItsTools(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.start(script{Tools: []string{"b", "a"}, Instructions: "use it"})
		s := r.status("up")
		if s.State != Running || !s.Answered || s.PID != 1 || s.Instances != 1 || s.Nonce != 1 || s.Offer.Kept {
			t.Errorf("status: %+v", s)
		}
		if got := tools(s.Offer); got != "echo b a" || s.Offer.Instructions != "use it" {
			t.Errorf("offer: %s, %q", got, s.Offer.Instructions)
		}
	})
}

func TestPool_EndsAProcessThatClosedItsOutput(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{IgnoreEOF: true}), newAgent()
		if got := a.call(u, "close", "{}").wait(t); !strings.Contains(got, "closed its output") {
			t.Errorf("told: %s", got)
		}
		time.Sleep(time.Minute)
		if s := r.status("up"); s.State != Running || s.Instances != 1 || s.PID != 2 {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestPool_SwapsWithoutLosingACall(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		held := a.call(u, "sleep", "60000")
		r.pool.Swap(r.launch("up", script{Tools: []string{"new"}}))
		synctest.Wait()
		s := r.status("up")
		if !s.PendingReady || !s.Answered || s.Instances != 2 || tools(s.Offer) != "echo" {
			t.Errorf("before the switch: %+v", s)
		}
		if diff := cmp.Diff([]string{"up"}, r.pool.Promote()); diff != "" {
			t.Error(diff)
		}
		s = r.status("up")
		if s.Pending != nil || s.PID != 2 || tools(s.Offer) != "echo new" {
			t.Errorf("after the switch: %+v", s)
		}
		if got := a.call(u, "lists", "{}").wait(t); !strings.Contains(got, `"1"`) {
			t.Errorf("the new process has listed its tools %s", got)
		}
		if got := held.wait(t); !strings.Contains(got, "slept") {
			t.Errorf("the call in flight: %s", got)
		}
		time.Sleep(time.Second)
		if s := r.status("up"); s.Instances != 1 {
			t.Errorf("afterwards: %+v", s)
		}
		a.once(t)
	})
}

func TestPool_LetsOldCallsEndWithinDrain(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		held := a.call(u, "hold", "{}")
		r.pool.Swap(r.launch("up", script{Tools: []string{"new"}}))
		synctest.Wait()
		r.pool.Promote()
		begun := time.Now()
		if got := held.wait(t); time.Since(begun) != 10*time.Minute || held.err == nil {
			t.Errorf("after %s: %s", time.Since(begun), got)
		}
		a.once(t)
	})
}

func TestPool_KeepsTheOldProcessWhileTheNewOneFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		one := 1
		u, a := r.start(script{}), newAgent()
		r.pool.Swap(r.launch("up", script{Exit: &one}))
		time.Sleep(3500 * time.Millisecond)
		s := r.status("up")
		if s.State != Running || s.PID != 1 || s.Pending == nil || !strings.Contains(s.PendingErr, `update = "replace"`) {
			t.Errorf("status: %+v", s)
		}
		if got := len(r.mem.children()); got != 5 {
			t.Errorf("%d processes were started, want 5", got)
		}
		if got := a.call(u, "echo", "1").wait(t); !strings.Contains(got, "result") {
			t.Errorf("told: %s", got)
		}
		r.pool.Cancel("up")
		time.Sleep(time.Hour)
		if got := len(r.mem.children()); got != 5 {
			t.Errorf("%d processes were started after the cancel", got-5)
		}
	})
}

func TestPool_ReplacesOneAfterTheOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{IgnoreEOF: true}), newAgent()
		held, short := a.call(u, "hold", "{}"), a.call(u, "sleep", "1000")
		begun := time.Now()
		r.pool.Start(r.launch("up", script{Tools: []string{"new"}}), r.status("up").Nonce)
		waits := a.call(u, "echo", "1")
		if got := short.wait(t); !strings.Contains(got, "slept") {
			t.Errorf("a short call: %s", got)
		}
		if got := held.wait(t); time.Since(begun) != 5*time.Second || !strings.Contains(got, "its process was stopped before it answered") {
			t.Errorf("a long call after %s: %s", time.Since(begun), got)
		}
		if got := waits.wait(t); !strings.Contains(got, "result") {
			t.Errorf("a call that came meanwhile: %s", got)
		}
		children := r.mem.children()
		if len(children) != 2 || children[1].begun.Before(children[0].exit.At) {
			t.Errorf("the processes overlapped")
		}
		a.once(t)
	})
}

func TestPool_StopsAndStartsInAnyOrder(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{IgnoreEOF: true, IgnoreTerm: true}), newAgent()
		held := a.call(u, "hold", "{}")
		r.pool.Stop("up")
		if s := r.status("up"); s.Enabled || s.State != Stopping || s.Offer != nil {
			t.Errorf("status: %+v", s)
		}
		if got := a.call(u, "echo", "1").wait(t); !strings.Contains(got, "is stopping") {
			t.Errorf("a call after stop: %s", got)
		}
		r.pool.Start(r.launch("up", script{}), 2)
		begun := time.Now()
		if got := held.wait(t); time.Since(begun) != 5*time.Second {
			t.Errorf("after %s: %s", time.Since(begun), got)
		}
		time.Sleep(6 * time.Second)
		if s := r.status("up"); s.State != Running || s.PID != 2 || s.Nonce != 2 || s.Instances != 1 {
			t.Errorf("status: %+v", s)
		}
		r.pool.Stop("up")
		time.Sleep(6 * time.Second)
		if got := r.pool.Snapshot(); len(got) != 0 || r.pool.Unit("up") != nil {
			t.Errorf("left: %+v", got)
		}
		if got := a.call(u, "echo", "1").wait(t); !strings.Contains(got, "is stopped") {
			t.Errorf("a call to what is gone: %s", got)
		}
		r.pool.Start(r.launch("up", script{}), 3)
		time.Sleep(time.Second)
		if s := r.status("up"); s.State != Running || s.PID != 3 {
			t.Errorf("status: %+v", s)
		}
		children := r.mem.children()
		for i := range children[1:] {
			if children[i+1].begun.Before(children[i].exit.At) {
				t.Errorf("process %d overlapped the one before", i+2)
			}
		}
		a.once(t)
	})
}

func TestPool_RestartsWhatExitsAtOnceWithoutSpinning(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		zero := 0
		r.start(script{Exit: &zero})
		s := r.status("up")
		if s.State != Restarting || !s.Answered || s.Error != "exited (code 0) before it answered initialize" {
			t.Errorf("status: %+v", s)
		}
		time.Sleep(10 * time.Second)
		if got := len(r.mem.children()); got > 11 {
			t.Errorf("%d starts in 10 seconds", got)
		}
		time.Sleep(20 * time.Minute)
		if s := r.status("up"); s.State != Failed || s.NextRetry.IsZero() {
			t.Errorf("status: %+v", s)
		}
		n := len(r.mem.children())
		r.pool.Start(r.status("up").Launch, 2)
		synctest.Wait()
		if got := len(r.mem.children()); got != n+1 {
			t.Errorf("a manual start started %d processes", got-n)
		}
		if s := r.status("up"); s.State != Restarting || s.Nonce != 2 {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestPool_FollowsPagesAndEmptyCursors(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		names := make([]string, 100)
		for i := range names {
			names[i] = "t" + strings.Repeat("x", i)
		}
		r.start(script{Tools: names, PageSize: 50, EmptyCursor: true})
		if got := len(r.status("up").Offer.Tools); got != 101 {
			t.Errorf("%d tools, want 101", got)
		}
	})
}

func TestPool_ReportsAListThatCannotBeHad(t *testing.T) {
	for name, tc := range map[string]struct {
		script script
		want   string
	}{
		"repeated cursor": {script{Tools: []string{"a", "b", "c"}, PageSize: 1, RepeatCursor: true}, "a cursor came twice"},
		"refused":         {script{ListError: "not today"}, "tools/list was refused: not today"},
		"silent":          {script{ListSilent: true}, "no answer to tools/list within 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				t := r.t
				u := r.start(tc.script)
				time.Sleep(time.Minute)
				synctest.Wait()
				s := r.status("up")
				if s.State != Running || !s.Answered || !strings.Contains(s.Error, tc.want) {
					t.Errorf("status: %+v", s)
				}
				if got := newAgent().call(u, "echo", "1").wait(t); !strings.Contains(got, "result") {
					t.Errorf("calls: %s", got)
				}
			})
		})
	}
}

func TestPool_OffersWhatCanBeHadOfItsLists(t *testing.T) {
	for name, tc := range map[string]struct {
		script                script
		tools, prompts, fault string
		within                time.Duration
	}{
		"all":                   {script{Prompts: "p"}, "echo", "p", "", 0},
		"prompts refused":       {script{Prompts: "refused"}, "echo", "", "prompts/list was refused: not today", 0},
		"prompts not there":     {script{Prompts: "missing"}, "echo", "", "", 0},
		"prompts silent":        {script{Prompts: "silent"}, "echo", "", "", 2 * time.Second},
		"prompts never":         {script{Prompts: "silent"}, "echo", "", "no answer to prompts/list within 1m0s", 2 * time.Minute},
		"tools refused":         {script{Prompts: "p", ListError: "not today"}, "", "p", "tools/list was refused: not today", 0},
		"tools silent":          {script{Prompts: "p", ListSilent: true}, "", "p", "", 2 * time.Second},
		"the good pages":        {script{Tools: []string{"a", "b"}, PageSize: 2, RepeatCursor: true}, "echo a", "", "tools/list: a cursor came twice", 0},
		"nothing that is there": {script{Prompts: "refused", ListError: "not today"}, "", "", "tools/list was refused: not today; prompts/list was refused: not today", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				t := r.t
				u := r.start(tc.script)
				time.Sleep(tc.within)
				synctest.Wait()
				s := r.status("up")
				if s.State != Running || s.Error != tc.fault || s.Offer == nil {
					t.Fatalf("status: %+v", s)
				}
				var prompts []string
				for _, p := range s.Offer.Prompts {
					prompts = append(prompts, p.Name)
				}
				if got := tools(s.Offer); got != tc.tools || strings.Join(prompts, " ") != tc.prompts {
					t.Errorf("tools %q, prompts %q", got, prompts)
				}
				if got := newAgent().call(u, "echo", "1").wait(t); !strings.Contains(got, "result") {
					t.Errorf("calls: %s", got)
				}
			})
		})
	}
}

func TestSurvey_LeavesWhatWasOfferedWhereAListCannotBeHad(t *testing.T) {
	earlier := &Offer{Tools: []Item{{Name: "old"}}, Prompts: []Item{{Name: "p"}}, Resources: []Item{{Name: "not announced any more"}}}
	s := newSurvey(greeting{announced: map[string]bool{"tools": true, "prompts": true}}, earlier, time.Minute, 1<<20)
	s.inquiries[0].items = []Item{{Name: "new"}}
	s.inquiries[1].items, s.inquiries[1].err = []Item{{Name: "half"}}, errors.New("torn")
	f := s.findings()
	if got := tools(f.offer); got != "new" || len(f.offer.Prompts) != 1 || f.offer.Prompts[0].Name != "p" || f.offer.Resources != nil || f.failure != "torn" || !f.tools || !f.over {
		t.Errorf("%+v of %+v", f.offer, f)
	}
	s.inquiries[0].id = `"h1"` // asked for, and not answered
	f = s.findings()
	if got := tools(f.offer); got != "old" || f.tools || f.over || f.failure != "" {
		t.Errorf("%+v of %+v", f.offer, f)
	}
}

func TestPool_TriesDiscoverOnlyWhereInitializeIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		script script
		want   string
	}{
		"neither":   {script{InitError: "go away"}, "initialize was refused: go away"},
		"stateless": {script{InitError: "unsupported", Discover: `{"supportedVersions":["2026-07-28"]}`}, "only stateless revisions of MCP (2026-07-28), which are not relayed yet"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				t := r.t
				r.start(tc.script)
				if s := r.status("up"); s.State == Running || !strings.Contains(s.Error, tc.want) {
					t.Errorf("status: %+v", s)
				}
			})
		})
	}
}

// lists returns how often the upstream was asked for its tools.
func (a *agent) lists(tb testing.TB, u *Unit) int {
	tb.Helper()
	_, text, _ := strings.Cut(a.call(u, "lists", "{}").wait(tb), `"text":"`)
	n, err := strconv.Atoi(strings.TrimRight(text, `"}]`))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestPool_ListsAgainAtMostOnceASecond(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		a.call(u, "burst", "{}").wait(t)
		time.Sleep(10 * time.Second)
		if got := a.lists(t, u); got < 2 || got > 3 {
			t.Errorf("%d lists after a burst", got)
		}
	})
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{ChangeOnList: true}), newAgent()
		changed := r.changed.Load()
		time.Sleep(10 * time.Second)
		if got := a.lists(t, u); got < 10 || got > 12 {
			t.Errorf("%d lists in 10 seconds", got)
		}
		if got := r.changed.Load(); got != changed {
			t.Errorf("%d changes were reported, though the list is the same", got-changed)
		}
		r.pool.Stop("up")
		synctest.Wait()
		if got := r.pool.Snapshot(); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

func TestPool_OffersWhatChanged(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u := r.start(script{})
		changed := r.changed.Load()
		newAgent().call(u, "add", "{}").wait(t)
		synctest.Wait()
		if got := tools(r.status("up").Offer); got != "echo added" || r.changed.Load() == changed {
			t.Errorf("offer: %s, changes: %d", got, r.changed.Load()-changed)
		}
	})
}

func TestPool_AsksNothingOfAServerWithoutTools(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.start(script{NoTools: true, ListSilent: true, Instructions: "words alone"})
		if s := r.status("up"); !s.Answered || len(s.Offer.Tools) != 0 || s.Offer.Instructions != "words alone" {
			t.Errorf("status: %+v", s)
		}
	})
}

func TestPool_OffersTheKeptListBeforeTheProcessIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t)
		first.start(script{Tools: []string{"kept"}, InitDelay: time.Second})
		time.Sleep(2 * time.Second)
		l := first.status("up").Launch
		first.cancel()

		second := newRig(t)
		second.pool.manifests.dir = first.pool.manifests.dir
		second.pool.Start(l, 1)
		if s := second.status("up"); s.State != Starting || tools(s.Offer) != "echo kept" || !s.Offer.Kept {
			t.Errorf("at the start: %+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := second.status("up"); s.State != Running || s.Offer.Kept {
			t.Errorf("later: %+v", s)
		}
	})
}

func TestPool_OffersTheKeptListUnderAnotherWordForTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t)
		l := first.launch("up", script{Tools: []string{"kept"}, InitDelay: time.Second})
		first.pool.Start(l, 1)
		time.Sleep(2 * time.Second)
		respelled := first.status("up").Launch
		respelled.Cmd = filepath.Dir(l.Cmd) + "/./" + filepath.Base(l.Cmd)
		first.pool.Update(respelled)
		first.cancel()
		if got := len(first.mem.children()); got != 1 {
			t.Errorf("%d processes", got)
		}

		second := newRig(t)
		second.pool.manifests.dir = first.pool.manifests.dir
		second.pool.Start(respelled, 1)
		if s := second.status("up"); tools(s.Offer) != "echo kept" || !s.Offer.Kept {
			t.Errorf("at the start: %+v", s)
		}
	})
}

func TestPool_StartsALazyUpstreamAtItsFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t)
		l := first.launch("up", script{})
		l.Prestart = false
		first.pool.Start(l, 1)
		synctest.Wait()
		if got := len(first.mem.children()); got != 1 {
			t.Fatalf("%d processes to learn the list", got)
		}
		first.cancel()

		second := newRig(t)
		second.pool.manifests.dir = first.pool.manifests.dir
		second.pool.Start(l, 1)
		time.Sleep(time.Hour)
		if s := second.status("up"); s.State != Stopped || !s.Answered || tools(s.Offer) != "echo" || len(second.mem.children()) != 0 {
			t.Errorf("before its first use: %+v", s)
		}
		if got := newAgent().call(second.pool.Unit("up"), "echo", "1").wait(t); !strings.Contains(got, "result") {
			t.Errorf("first use: %s", got)
		}
	})
}

func TestPool_TakesWordsBeforeItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := &memory{}
		r := makeRig(t, func(o Options) *Pool {
			p := newPool(o, mem)
			return p
		})
		p := newPool(r.pool.opt, mem)
		p.Start(r.launch("up", script{}), 1)
		p.Swap(r.launch("up", script{Tools: []string{"b"}}))
		p.Stop("up")
		p.Start(r.launch("up", script{Tools: []string{"c"}}), 1)
		if got := p.Snapshot(); len(got) != 1 || got[0].State != Stopping && got[0].State != Starting {
			t.Errorf("snapshot: %+v", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Serve(ctx) }()
		time.Sleep(time.Second)
		if s := p.Snapshot()[0]; s.State != Running || tools(s.Offer) != "echo c" {
			t.Errorf("status: %+v", s)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the pool ended: %v", err)
		}
	})
}

func TestPool_EndsEveryProcessWithTheDaemon(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		a := newAgent()
		for _, key := range []string{"a", "b", "c"} {
			r.pool.Start(r.launch(key, script{IgnoreEOF: true, IgnoreTerm: true}), 1)
		}
		synctest.Wait()
		held := a.call(r.pool.Unit("a"), "hold", "{}")
		begun := time.Now()
		r.cancel()
		if got := time.Since(begun); got != 5*time.Second {
			t.Errorf("three stubborn processes took %s to end", got)
		}
		if held.open() {
			t.Error("a call has no outcome")
		}
		for _, c := range r.mem.children() {
			if c.exit.Signal != "SIGKILL" {
				t.Errorf("process %d: %+v", c.pid, c.exit)
			}
		}
	})
}

func TestPool_OneBadUpstreamDelaysNoOther(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		bad := r.launch("bad", script{})
		bad.Cmd, bad.Exe = "no-such-tool", ""
		r.base = []string{"PATH=/usr/bin"}
		r.pool.Start(bad, 1)
		r.pool.Start(r.launch("silent", script{InitSilent: true}), 1)
		r.pool.Start(r.launch("ok", script{}), 1)
		synctest.Wait()
		if s := r.status("ok"); s.State != Running {
			t.Errorf("ok: %+v", s)
		}
		if s := r.status("bad"); s.State != Restarting || s.Error != `executable not found: "no-such-tool" (PATH searched: /usr/bin)` {
			t.Errorf("bad: %+v", s)
		}
	})
}

func TestPool_TellsWhatHappens(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u := r.start(script{})
		newAgent().call(u, "die", "{}").wait(t)
		time.Sleep(2 * time.Second)
		r.pool.Stop("up")
		time.Sleep(time.Second)
		want := []string{
			"starting: ", "running: initialize was answered", "restarting: exited (code 3)", "starting: ",
			"running: initialize was answered", "stopping: ", "stopped: ",
		}
		if diff := cmp.Diff(want, r.messages()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestUnit_SurvivesABugInWhoeverHearsOfACall holds a life to its promise that
// a panic under it costs one process and not the daemon.
func TestUnit_SurvivesABugInWhoeverHearsOfACall(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		held := a.call(u, "hold", "{}")
		buggy := newAgent()
		buggy.calls = nil // settle will meet a nil outcome
		line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
		var m jsonrpc.Message
		if err := jsonrpc.Peek(line, &m); err != nil {
			t.Fatal(err)
		}
		if e := u.Relay(jsonrpc.NewCall(buggy, []byte("1"), nil), line, &m, &buggy.batch); e != nil {
			t.Fatal(e)
		}
		buggy.batch.Flush()
		if got := held.wait(t); !strings.Contains(got, "internal error") && !strings.Contains(got, "closed its output") {
			t.Errorf("a neighbour was told: %s", got)
		}
		time.Sleep(time.Minute)
		if s := r.status("up"); s.State != Running || s.PID != 2 {
			t.Errorf("status: %+v", s)
		}
		a.once(t)
	})
}

func TestUnit_EndsALifeThatPanics(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.start(script{})
		read := r.pool.opt.ReadFile
		r.pool.opt.ReadFile = func(string) ([]byte, error) { panic("bug") }
		l := r.launch("bad", script{})
		l.EnvFile = "/x"
		r.pool.Start(l, 1)
		synctest.Wait()
		if s := r.status("bad"); s.State != Restarting || !strings.Contains(s.Error, "internal error") {
			t.Errorf("bad: %+v", s)
		}
		if s := r.status("up"); s.State != Running {
			t.Errorf("up: %+v", s)
		}
		r.pool.opt.ReadFile = read
		r.pool.Stop("bad")
		synctest.Wait()
		if got := len(r.pool.Snapshot()); got != 1 {
			t.Errorf("%d upstreams are left", got)
		}
	})
}

func TestPool_AppliesLiveKeysInPlace(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		u, a := r.start(script{}), newAgent()
		l := r.launch("up", script{})
		l.CallTimeout, l.Description = time.Second, "new"
		r.pool.Update(l)
		if got := a.call(u, "hold", "{}").wait(t); !strings.Contains(got, "[timeout]") {
			t.Errorf("told: %s", got)
		}
		if s := r.status("up"); s.PID != 1 || s.Launch.Description != "new" {
			t.Errorf("status: %+v", s)
		}
		r.pool.Update(r.launch("nobody", script{}))
		r.pool.Promote()
		if got := len(r.pool.Snapshot()); got != 1 {
			t.Errorf("%d upstreams", got)
		}
	})
}

func TestPool_ReplacesWhenStartedWithAnotherDefinition(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.start(script{})
		r.pool.Start(r.launch("up", script{Tools: []string{"new"}}), 2)
		synctest.Wait()
		if s := r.status("up"); s.PID != 2 || s.Nonce != 2 || tools(s.Offer) != "echo new" {
			t.Errorf("status: %+v", s)
		}
		r.pool.Start(r.launch("up", script{Tools: []string{"new"}}), 2)
		synctest.Wait()
		if s := r.status("up"); s.PID != 2 {
			t.Errorf("the same again: %+v", s)
		}
		r.pool.Start(r.launch("up", script{Tools: []string{"new"}}), 3)
		synctest.Wait()
		if s := r.status("up"); s.PID != 3 || s.Restarts != 0 {
			t.Errorf("a manual restart: %+v", s)
		}
	})
}

func TestPool_StartsWithoutAKeptListThatIsTorn(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		path := r.pool.manifests.path("up")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"schema":`), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start(script{})
		if s := r.status("up"); s.State != Running || s.Offer.Kept {
			t.Errorf("status: %+v", s)
		}
		if _, err := os.Stat(path + ".bad"); err != nil {
			t.Error(err)
		}
	})
}

func TestPool_WarnsOfOddToolsAndOffersTheRest(t *testing.T) {
	inBubble(t, func(r *rig) {
		t := r.t
		r.start(script{Tools: []string{"echo", "echo", "echo", "echo", "echo", "echo", "echo", "b"}})
		if got := tools(r.status("up").Offer); got != "echo b" {
			t.Errorf("offer: %s", got)
		}
	})
}
