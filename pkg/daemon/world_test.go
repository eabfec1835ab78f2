package daemon

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/upstream"
	"harness/reconcile"
)

func TestWorld_AppliesASettingEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", "[server]\nlog_level = \"error\"\nstop_grace = \"90s\"\nmax_message = \"1KiB\"\n")
		o.open()
		if diff := cmp.Diff([]string{"limits 1m30s"}, o.pool.heard()); diff != "" {
			t.Errorf("the pool was told (-want +got):\n%s", diff)
		}
		lim := o.ops.limits
		if o.world.level.Level() != slog.LevelError || lim.stopGrace() != 90*time.Second || lim.session().MaxMessage != 1024 {
			t.Errorf("level %v, limits %+v", o.world.level, lim.server)
		}
		o.edit("[server]\nstop_grace = \"1s\"\n")
		if lim.stopGrace() != time.Second || lim.longestStop() != 90*time.Second {
			t.Errorf("stop_grace %v, the longest %v", lim.stopGrace(), lim.longestStop())
		}
	})
}

func TestWorld_OrdersWhatAStepSays(t *testing.T) {
	launch := config.Launch{Upstream: config.Upstream{Key: "up"}}
	d := &reconcile.Desired{Upstreams: map[string]reconcile.Upstream{"up": {Launch: launch, Nonce: 3}}}
	tests := map[string]struct {
		step reconcile.Step
		want []string
	}{
		"start":   {reconcile.Step{Op: reconcile.OpStart}, []string{"start up"}},
		"replace": {reconcile.Step{Op: reconcile.OpReplace}, []string{"start up"}},
		"swap":    {reconcile.Step{Op: reconcile.OpSwap}, []string{"swap up"}},
		"update":  {reconcile.Step{Op: reconcile.OpUpdate}, []string{"update up"}},
		"cancel":  {reconcile.Step{Op: reconcile.OpUpdate, Cancel: true}, []string{"cancel up", "update up"}},
		"stop":    {reconcile.Step{Op: reconcile.OpStop}, []string{"stop up"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			tt.step.Kind, tt.step.Name = reconcile.KindUpstream, "up"
			o.world.Do(tt.step, d)
			if diff := cmp.Diff(tt.want, o.pool.heard()); diff != "" {
				t.Errorf("the pool was told (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorld_IsStaleWhileAnythingElseIsOnOffer(t *testing.T) {
	o := newOffice(t)
	d := &reconcile.Desired{Upstreams: map[string]reconcile.Upstream{}}
	add := func(key string, change func(*upstream.Status)) {
		d.Upstreams[key] = reconcile.Upstream{Enabled: true}
		o.pool.set(key, func(s *upstream.Status) { s.Key, s.Enabled = key, true; change(s) })
	}
	stale := func(want bool, when string) {
		t.Helper()
		if got := o.world.Progress().Stale; got != want {
			t.Errorf("%s: stale is %v", when, got)
		}
		o.world.Publish(d, 1)
		if o.world.Progress().Stale {
			t.Errorf("%s: stale after a publish", when)
		}
	}
	stale(false, "nothing")
	add("up", func(*upstream.Status) {})
	stale(false, "one of which nothing is known")
	add("up", runs("echo"))
	stale(true, "one that came up")
	add("up", func(s *upstream.Status) { s.State, s.Answered = upstream.Restarting, true })
	stale(false, "a crash")
	add("up", runs("echo", "more"))
	stale(true, "another list")
	add("up", func(s *upstream.Status) { s.Offer = nil })
	stale(true, "an offer that is gone")
	add("up", runs("echo"))
	o.world.Publish(d, 1)
	o.pool.set("up", func(s *upstream.Status) { s.Pending, s.PendingReady = &config.Launch{}, true })
	stale(true, "a swap that is ready")
	delete(d.Upstreams, "up")
	o.world.Publish(d, 2)
	o.pool.Stop("up")
	if o.world.Progress().Stale {
		t.Error("stale because of one on its way out")
	}
}

func TestWorld_TellsWhoHasNotAnswered(t *testing.T) {
	o := newOffice(t)
	for key, s := range map[string]upstream.Status{
		"new":  {Enabled: true},
		"kept": {Enabled: true, Offer: offer("echo")},
		"up":   {Enabled: true, Answered: true},
		"out":  {},
	} {
		s.Key = key
		o.pool.all[key] = s
	}
	p := o.world.Progress()
	if diff := cmp.Diff(map[string]bool{"new": true, "kept": true}, p.Unanswered); diff != "" {
		t.Errorf("unanswered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"new": true}, p.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}

func TestWorld_KeepsRemovalsWhereNoCatalogCanBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		var lame atomic.Bool
		o.world.merge = func(c broker.Content) (*broker.Fleet, error) {
			if lame.Load() {
				return nil, errors.New("no")
			}
			return broker.Merge(c)
		}
		o.write("harness.toml", oneUpstream+"[mcp.gone]\ncmd = \"sh\"\n")
		o.open()
		o.becomes("up", runs("echo"))
		o.becomes("gone", runs("echo"))
		if n := o.broker.View(broker.Unattributed()).Tools(); n != 2 {
			t.Fatalf("%d tools", n)
		}
		lame.Store(true)
		o.edit(oneUpstream)
		if n := o.broker.View(broker.Unattributed()).Tools(); n != 2 || slices.Contains(o.pool.heard(), "stop gone") {
			t.Errorf("%d tools, told %v", n, o.pool.heard())
		}
		lame.Store(false)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := o.broker.View(broker.Unattributed()).Tools(); n != 1 || !slices.Contains(o.pool.heard(), "stop gone") {
			t.Errorf("%d tools, told %v", n, o.pool.heard())
		}
	})
}

func TestWorld_ReportsEachThingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		expect := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, o.told(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		file := o.loader.global.path
		o.open()
		missing := file + ": no such file; write one with `harness init`"
		expect("at first", "refused||"+missing)
		if log := o.logged(); !strings.Contains(log, "no such file") || !strings.Contains(log, "no config was ever good") {
			t.Errorf("log: %s", log)
		}
		o.edit(oneUpstream)
		expect("the first good one", "load||the files are in force", "plan||1 step", "step|up|start upstream up: added")
		o.becomes("up", runs("echo"))
		expect("it came up", "publish||tools changed")
		o.logged()
		o.edit("[mcp.up]\ncmd = 5\n")
		refused := file + ":2: mcp.up.cmd: "
		if got := o.told(); len(got) != 1 || !strings.HasPrefix(got[0], "refused||"+refused) {
			t.Errorf("a broken one: %q", got)
		}
		if log := o.logged(); strings.Count(log, "config refused") != 1 || !strings.Contains(log, `msg="the last good config stays in force" generation=1`) {
			t.Errorf("log: %s", log)
		}
		o.edit("[mcp.up]\ncmd = 5 # still\n")
		expect("broken all the same")
		if log := o.logged(); log != "" {
			t.Errorf("log: %s", log)
		}
		o.edit(oneUpstream)
		expect("as before", "load||the files are in force")
		o.edit(oneUpstream + "# nothing\n")
		expect("no meaning")
		o.edit(oneUpstream + "[harness.a]\ncmd = \"sh\"\nmcp = [\"pu\"]\n")
		if got := o.told(); len(got) != 4 || !strings.HasPrefix(got[0], "warning||") || got[1] != "load||the files are in force" || got[3] != "step|a|publish harness a: added" {
			t.Errorf("with a warning: %q", got)
		}
		o.edit(oneUpstream + "[harness.a]\ncmd = \"sh\"\nmcp = [\"pu\"]\n# nothing\n")
		expect("the same warning")
	})
}

func TestWorld_NotifiesOfNoPromptThatOnlyMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("one/p.md", "text\n")
		o.write("two/q.md", "text\n")
		paths := func(list string) string { return "[mcp.prompts]\npaths = [" + list + "]\n" }
		o.write("harness.toml", paths(`"one", "two"`))
		o.open()
		o.told()
		o.write("two/p.md", "text\n")
		o.remove("one/p.md")
		o.edit(paths(`"one", "two"`) + "# touched\n")
		if got := o.told(); len(got) == 0 || strings.Contains(strings.Join(got, "\n"), "publish||") {
			t.Errorf("events: %q", got)
		}
		o.write("two/p.md", "other\n")
		o.edit(paths(`"one", "two"`))
		if got := o.told(); !slices.Contains(got, "publish||prompts changed") {
			t.Errorf("events of another body: %q", got)
		}
	})
}

func TestTell_LeavesOutWhatThereIsNotToSay(t *testing.T) {
	o := newOffice(t)
	tell(o.world.log, o.world.emit, turn{kind: "upstream", name: "up", state: "starting"}, "mcp.up")
	tell(o.world.log, o.world.emit, turn{"upstream", "up", "restarting", 3, "exited (code 1)"}, "mcp.up")
	if diff := cmp.Diff([]string{"state|mcp.up|starting", "state|mcp.up|restarting: exited (code 1)"}, o.told()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	log := o.logged()
	if strings.Contains(log, `message=""`) || strings.Contains(log, "pid=0") || !strings.Contains(log, `state=restarting pid=3 message="exited (code 1)"`) {
		t.Errorf("log: %s", log)
	}
}
