package reconcile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

// reload begins a reload. What it returns says when that returned, since the
// beginning, and with what.
func (f *fleet) reload(wait time.Duration) (result func() (time.Duration, Passed)) {
	f.t.Helper()
	var at time.Duration
	var passed Passed
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		passed, err = f.loop.Reload(f.t.Context(), time.Time{}, wait)
		if err != nil {
			f.t.Errorf("reload: %v", err)
		}
		at = time.Since(f.begun)
	}()
	synctest.Wait()
	return func() (time.Duration, Passed) {
		<-done
		return at, passed
	}
}

func TestReload_ReturnsWhenItsOwnPassIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.write(table("a"), table("b"))
		result := f.reload(5 * time.Second)
		wait(200 * time.Millisecond)
		f.answer("b", "1")
		if at, p := result(); at != 10200*time.Millisecond || p.Plan.String() != "start upstream b: added" || p.State.Generation != 2 {
			t.Errorf("at %v: %+v", at, p)
		}
		if at, p := f.reload(5 * time.Second)(); at != 10200*time.Millisecond || len(p.Plan) != 0 || p.State.Generation != 2 {
			t.Errorf("one without news, at %v: %+v", at, p)
		}
	})
}

func TestReload_WaitsForWhatComesUpLateUntilThatIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.write(table("a"), table("b"))
		result := f.reload(5 * time.Second)
		wait(700 * time.Millisecond)
		f.answer("a", "2") // 10.7s: a publish nobody asked for
		wait(100 * time.Millisecond)
		f.answer("b", "1")
		if at, _ := result(); at != 11700*time.Millisecond || f.shown["b"] != "1" {
			t.Errorf("at %v, published %v", at, f.shown)
		}
	})
}

func TestReload_ReturnsAfterItsWaitWithUpstreamsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.write(table("a"), table("b"))
		if at, _ := f.reload(2 * time.Second)(); at != 12*time.Second {
			t.Errorf("it returned at %v", at)
		}
		// Who hangs delays no other reload.
		f.write(table("a", liveLaunch), table("b"))
		if at, p := f.reload(5 * time.Second)(); at != 12*time.Second || len(p.Plan) != 1 {
			t.Errorf("at %v: %+v", at, p)
		}
	})
}

func TestReload_WaitsForWhatTheWatcherWasFasterWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.edit(table("a"), table("b"))
		result := f.reload(5 * time.Second)
		wait(2 * time.Second)
		f.answer("b", "1")
		if at, p := result(); at != 12*time.Second || len(p.Plan) != 0 || cmp.Diff([]string{"b"}, p.Started) != "" {
			t.Errorf("at %v: %+v", at, p)
		}
	})
}

func TestReload_DuringAPassIsAnsweredByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.with(func() { f.reading = time.Second })
		f.edit(table("a"), table("b")) // its reading ends at 11 s
		first, second := f.reload(time.Minute), f.reload(time.Minute)
		wait(1500 * time.Millisecond)
		f.write(table("a"), table("b"), table("c"))
		wait(time.Second)
		f.answer("b", "1")
		f.answer("c", "1")
		_, p := first()
		_, q := second()
		if p.Plan.String() != "start upstream c: added" || cmp.Diff(p.Plan, q.Plan) != "" {
			t.Errorf("plans: %s and %s", p.Plan, q.Plan)
		}
		if f.loads != 3 { // the start, the edit, and one for both
			t.Errorf("%d readings", f.loads)
		}
	})
}

func TestReload_SaysWhyAFileWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.with(func() { f.file.Faults, f.file.Refused = []config.Fault{{Line: 3, Message: "no"}}, true })
		at, p := f.reload(5 * time.Second)()
		if at != 10*time.Second || p.State.OK || len(p.State.Faults) != 1 || p.State.Generation != 1 {
			t.Errorf("at %v: %+v", at, p)
		}
	})
}

func TestPlan_ChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("b"))
		before, adopted, commits, reports := f.loop.State(), f.adopted, len(f.commits), len(f.reports)
		f.write(table("a", disabled), table("c"))
		p, err := f.loop.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := "start upstream c: added\nstop upstream a: enabled = false\nstop upstream b: removed"
		if diff := cmp.Diff(want, p.Plan.String()); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
		if p.State.Generation != before.Generation || !p.State.OK {
			t.Errorf("state of the plan: %+v", p.State)
		}
		wait(5 * time.Second)
		f.expect()
		if f.adopted != adopted || len(f.commits) != commits || len(f.reports) != reports {
			t.Error("something was kept of it")
		}
		after := f.loop.State()
		if after.Pass != before.Pass || after.Desired != before.Desired || !after.At.Equal(before.At) {
			t.Errorf("before %+v, after %+v", before, after)
		}
		// The intents are those from before too: a stays stopped by hand though
		// the dry run saw its `enabled` change.
		f.write(table("a"), table("b"))
		f.order(Intents.Stop, "a")
		f.touch()
		f.expect("15s publish 2 [b=1]", "15s stop a")
	})
}

// order gives a word of the command line about upstreams.
func (f *fleet) order(word func(Intents, string) (Intents, bool), keys ...string) Passed {
	f.t.Helper()
	p, err := f.loop.Order(f.t.Context(), func(in Intents) Intents {
		for _, key := range keys {
			in, _ = word(in, UpstreamName(key))
		}
		return in
	})
	if err != nil {
		f.t.Errorf("order: %v", err)
	}
	return p
}

func TestOrder_IsAnIntentUntilTheFileChangesItsMind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("b"))
		at := f.loop.State().At
		p := f.order(Intents.Stop, "a", "b")
		f.expect("10s publish 2 []", "10s stop a", "10s stop b")
		if p.State.Generation != 2 || p.State.Shown != p.State.Pass || !p.State.At.Equal(at) {
			t.Errorf("passed: %+v", p)
		}
		if f.reports[len(f.reports)-1].Read {
			t.Error("it is reported as a reading of the files")
		}
		if kept := f.commits[len(f.commits)-1]; kept.Intents["mcp.a"] != (Intent{File: true}) || kept.Generation != 2 {
			t.Errorf("kept: %+v", kept)
		}
		f.edit(table("a", liveLaunch), table("b", liveLaunch)) // says nothing new about it
		f.expect()
		f.order(Intents.Start, "a")
		f.answer("a", "1")
		f.expect("10s start a", "10s publish 3 [a=1]")
		f.order(Intents.Restart, "a")
		f.answer("a", "2")
		f.expect("10s replace a", "10s publish 4 [a=2]")
		f.edit(table("a", disabled), table("b", disabled))
		f.edit(table("a", disabled), table("b"))
		f.expect("10s publish 5 []", "10s stop a", "10s start b")
	})
}

func TestRequest_EndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t) // a loop that is not served
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.loop.Reload(ctx, time.Time{}, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reload: %v", err)
		}
		f.write(table("a"))
		f.start()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f.edit(table("b"))
		f.write(table("c"))
		if _, err := f.loop.Reload(ctx, time.Time{}, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reload: %v", err)
		}
	})
}

func TestRequest_ThatMeetsAPanicIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.with(func() { f.panics = "Load" })
		if _, err := f.loop.Reload(t.Context(), time.Time{}, time.Minute); !errors.Is(err, errUnanswered) {
			t.Errorf("reload: %v", err)
		}
		if _, err := f.loop.Reload(t.Context(), time.Time{}, time.Minute); err != nil {
			t.Errorf("the next one: %v", err)
		}
	})
}

func TestReload_ListsWhatTheWatcherDidSinceItWasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.edit(table("a"), table("b"))
		f.answer("b", "1")
		wait(time.Second)
		asked := time.Now()
		f.edit(table("a"), table("c"))
		f.answer("c", "1")
		wait(100 * time.Millisecond)
		for _, c := range []struct {
			asked time.Time
			want  string
		}{
			{time.Time{}, "nothing to do"},
			{time.Now(), "nothing to do"},
			{asked, "start upstream c: added\nstop upstream b: removed"},
			{f.begun, "start upstream c: added\nstop upstream b: removed"},
		} {
			p, err := f.loop.Reload(t.Context(), c.asked, time.Minute)
			if err != nil || p.Plan.String() != c.want {
				t.Errorf("asked at %v: %q, %v; want %q", c.asked, p.Plan.String(), err, c.want)
			}
		}
		wait(trailed)
		f.edit(table("a", liveLaunch), table("c"))
		p, err := f.loop.Reload(t.Context(), f.begun, time.Minute)
		if err != nil || len(p.Plan) != 1 || p.Plan[0].Name != "a" {
			t.Errorf("what is long past is listed: %v, %v", p.Plan, err)
		}
		f.with(func() { f.file.Faults, f.file.Refused = []config.Fault{{Line: 3, Message: "no"}}, true })
		if p, err = f.loop.Reload(t.Context(), f.begun, time.Minute); err != nil || len(p.Plan) != 0 {
			t.Errorf("a refused one lists %v, %v", p.Plan, err)
		}
	})
}

func TestAmend_ChangesWhatIsFollowedBeforeTheReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		p, err := f.loop.Amend(t.Context(), func() error {
			f.write(table("a"), table("b"))
			return nil
		})
		if err != nil || p.Plan.String() != "start upstream b: added" {
			t.Errorf("%+v, %v", p, err)
		}
		loads, refused := f.loads, errors.New("refused")
		p, err = f.loop.Amend(t.Context(), func() error { return refused })
		if !errors.Is(err, refused) || len(p.Plan) != 0 || f.loads != loads {
			t.Errorf("%+v, %v after %d readings", p, err, f.loads-loads)
		}
	})
}
