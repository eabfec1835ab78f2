package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// expect compares what happened since the last call with lines.
func (f *fleet) expect(lines ...string) {
	f.t.Helper()
	if diff := cmp.Diff(lines, f.traced(), cmpopts.EquateEmpty()); diff != "" {
		f.t.Errorf("what happened (-want +got):\n%s", diff)
	}
}

// wait lets time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// running is a fleet in which these tables are up and published, at a time of
// 10 s.
func running(t *testing.T, tables ...config.Launch) *fleet {
	t.Helper()
	f := newFleet(t)
	f.write(tables...)
	f.start()
	for _, key := range f.keys() {
		f.answer(key, "1")
	}
	wait(10*time.Second - time.Since(f.begun))
	f.traced()
	return f
}

func TestLoop_PublishesOnceWhenAllThatWasStartedHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.edit(table("a"), table("b"), table("c"))
		wait(100 * time.Millisecond)
		f.answer("c", "1")
		wait(100 * time.Millisecond)
		f.answer("b", "1")
		wait(5 * time.Second)
		f.expect("10s start b", "10s start c", "10.2s publish 2 [a=1 b=1 c=1]")
	})
}

func TestLoop_CountsAFailedFirstTryAsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.edit(table("a"), table("b"))
		wait(100 * time.Millisecond)
		f.fail("b")
		f.expect("10s start b", "10.1s publish 2 [a=1]")
	})
}

func TestLoop_PublishesAfterHalfASecondWithoutTheSlowAndThenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.edit(table("a"), table("b"), table("c"), table("d"))
		wait(3 * time.Second)
		f.expect("10s start b", "10s start c", "10s start d", "10.5s publish 2 [a=1]")
		f.answer("b", "1")
		f.answer("c", "1")
		f.answer("a", "2") // changed its own list
		wait(300 * time.Millisecond)
		f.answer("d", "1")
		wait(5 * time.Second)
		f.expect("13s publish 2 [a=1 b=1]", "14s publish 2 [a=2 b=1 c=1 d=1]")
	})
}

func TestLoop_RemovesWithThePublishAndStopsAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("b"))
		f.edit(table("a"))
		f.expect("10s publish 2 [a=1]", "10s stop b")

		f.edit(table("c"))
		wait(200 * time.Millisecond)
		f.answer("c", "1")
		f.expect("10s start c", "10.2s publish 3 [c=1]", "10.2s stop a")
	})
}

func TestLoop_SwitchesASwapAtThePublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("b"))
		f.edit(table("a", changedLaunch), table("b", changedLaunch, replacing))
		wait(50 * time.Millisecond)
		f.answer("a", "2")
		wait(2 * time.Second)
		f.expect("10s swap a", "10s replace b", "10.5s publish 2 [a=2 b=1]")
		f.answer("b", "2")
		f.expect("12.05s publish 2 [a=2 b=2]")
	})
}

func TestLoop_DoesNothingForAnEditWithoutMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		before, commits := f.loop.State(), len(f.commits)
		f.edit(table("a", func(l *config.Launch) { l.Line = 99 }))
		wait(5 * time.Second)
		f.expect()
		after := f.loop.State()
		if after.Generation != before.Generation || after.Digest != before.Digest || after.Published != before.Published {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if len(f.commits) != commits {
			t.Error("the state was written again")
		}
		if after.At.Equal(before.At) {
			t.Error("the time of the last reading did not move")
		}
	})
}

func TestLoop_MakesOnePublishOfPlansThatOvertakeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("gone"))
		f.edit(table("a"), table("b"))
		wait(300 * time.Millisecond)
		f.edit(table("a"), table("b"), table("c"))
		f.touch() // nothing new: puts nothing off
		wait(5 * time.Second)
		f.expect("10s start b", "10.3s start c", "10.8s publish 3 [a=1]", "10.8s stop gone")
	})
}

func TestLoop_DoesNotPutAPublishOffForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("gone"))
		f.edit(table("a"), table("b"))
		for i := range 20 {
			wait(300 * time.Millisecond)
			f.edit(table("a"), table("b", func(l *config.Launch) { l.Args = []string{time.Duration(i).String()} }))
		}
		if trace := f.traced(); !slices.Contains(trace, "12s stop gone") {
			t.Errorf("it was not removed 2 s after the edit: %q", trace)
		}
	})
}

func TestLoop_ForgetsAStopThatALaterEditTookBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("b"))
		f.edit(table("a"), table("c"))
		wait(100 * time.Millisecond)
		f.edit(table("a"), table("b"), table("c"))
		wait(5 * time.Second)
		f.expect("10s start c", "10.5s publish 2 [a=1 b=1]")
	})
}

func TestLoop_DropsTheResultOfASwapThatWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.edit(table("a", changedLaunch))
		wait(100 * time.Millisecond)
		f.edit(table("a", otherLaunch))
		wait(100 * time.Millisecond)
		f.answer("a", "3")
		wait(100 * time.Millisecond)
		f.edit(table("a", changedLaunch))
		f.edit(table("a", otherLaunch)) // changed back: nobody was to know
		wait(5 * time.Second)
		f.expect("10s swap a", "10.1s swap a", "10.2s publish 3 [a=3]", "10.3s swap a", "10.3s update a", "10.3s publish 5 [a=3]")
	})
}

func TestLoop_PublishesKeptListsAtOnceWhenItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.write(table("new"), table("old"))
		f.kept = map[string]string{"old": "kept"}
		f.start()
		if s := f.loop.State(); s.Published != 1 || s.Shown != 0 {
			t.Errorf("state: %+v", s)
		}
		wait(100 * time.Millisecond)
		f.answer("new", "1") // of old a list is known, so nobody waits for it
		wait(time.Second)
		f.answer("old", "2")
		f.expect("0s start new", "0s start old", "0s publish 1 [old=kept]", "100ms publish 1 [new=1 old=kept]", "1.1s publish 1 [new=1 old=2]")
	})
}

func TestLoop_IsSettledAtOnceWhereKeptListsSayItAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.write(table("old"))
		f.kept = map[string]string{"old": "kept"}
		f.start()
		s := f.loop.State()
		if s.Shown != s.Pass || s.Published == 0 || len(s.Waiting) != 1 {
			t.Errorf("state: %+v", s)
		}
	})
}

func TestLoop_KeepsRemovalsWhereThereCanBeNoPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("b"))
		f.with(func() { f.lame = true })
		f.edit(table("a"))
		wait(1500 * time.Millisecond)
		f.with(func() { f.lame = false })
		wait(5 * time.Second)
		f.expect("10s no publish", "11s no publish", "12s publish 2 [a=1]", "12s stop b")
	})
}

func TestLoop_NumbersGenerationsByTheirPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.start()
		generation := func(want uint64) {
			t.Helper()
			if got := f.loop.State().Generation; got != want {
				t.Errorf("generation %d, want %d", got, want)
			}
		}
		generation(1) // an empty file is a good one
		f.edit(table("a"))
		generation(2)
		f.edit(table("a", changedLaunch))
		f.touch()
		generation(3)
		f.with(func() { f.file.Desired.Prompts = []prompt.Prompt{promptOf("p", "", "x")} })
		f.touch()
		generation(4)
		f.touch() // its publish still waits for a, and the plan for nothing
		generation(4)
		if plan := f.reports[len(f.reports)-1].Plan; len(plan) != 0 {
			t.Errorf("a second plan for the same: %s", plan)
		}
		f.edit()
		generation(5)
	})
}

func TestLoop_GoesOnWithTheNumberOfItsPredecessor(t *testing.T) {
	kept := func(t *testing.T, before Kept, tables ...config.Launch) (after Kept) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.loop = NewLoop(f, f.dirty, before)
			f.write(tables...)
			f.start()
			if s := f.loop.State(); s.Digest == "" || len(f.commits) > 0 && s.Generation != f.commits[0].Generation {
				t.Errorf("state %+v, kept %+v", s, f.commits)
			}
			after = before
			if len(f.commits) > 0 {
				after = f.commits[len(f.commits)-1]
			}
		})
		return after
	}
	first := kept(t, Kept{}, table("a"))
	if first.Generation != 1 {
		t.Errorf("the first generation is %d", first.Generation)
	}
	if again := kept(t, first, table("a")); again.Generation != 1 {
		t.Errorf("the same state again is generation %d", again.Generation)
	}
	other := kept(t, first, table("a", changedLaunch))
	if other.Generation != 2 {
		t.Errorf("another state is generation %d", other.Generation)
	}
	if none := kept(t, other); none.Generation != 3 {
		t.Errorf("a state with nothing to start is generation %d", none.Generation)
	}
}

func TestLoop_KeepsTheDigestOfWhatHasNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"), table("off", disabled))
		before := f.loop.State()
		f.edit(table("a"), table("off", disabled, changedLaunch))
		after := f.loop.State()
		if after.Generation != before.Generation || after.Digest == before.Digest || after.Digest != after.Desired.Digest() {
			t.Errorf("generation %d %s became %d %s", before.Generation, before.Digest, after.Generation, after.Digest)
		}
		if kept := f.commits[len(f.commits)-1]; kept.Digest != after.Digest || kept.Generation != after.Generation {
			t.Errorf("kept: %+v", kept)
		}
	})
}

func TestLoop_PutsNothingInForceWithoutAFileThatWasEverGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		before := Kept{Generation: 7, Digest: "d", Intents: Intents{"mcp.a": {File: true}}}
		f.loop = NewLoop(f, f.dirty, before)
		broken := []config.Fault{{Line: 3, Message: "no"}}
		f.file.File, f.file.Faults = nil, broken
		f.start()
		s := f.loop.State()
		if s.OK || s.Generation != 0 || s.Digest != "" || s.Shown != s.Pass || cmp.Diff(broken, s.Faults) != "" || len(f.commits) != 0 {
			t.Errorf("state %+v, kept %+v", s, f.commits)
		}
		f.edit(table("a"), table("b")) // the intent of a was stopped, and survived
		f.expect("0s publish 0 []", "0s start b")
		if s := f.loop.State(); s.Generation != 8 || !s.OK {
			t.Errorf("state %+v", s)
		}
	})
}

func TestLoop_FollowsTheRestWhileAnEditIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running(t, table("a"))
		f.with(func() { f.file.Faults = []config.Fault{{Line: 3, Message: "no"}} })
		f.touch()
		f.expect()
		if s := f.loop.State(); s.OK || len(s.Faults) != 1 || s.Generation != 1 {
			t.Errorf("state %+v", s)
		}
		f.with(func() { f.file.Desired.Prompts = []prompt.Prompt{promptOf("p", "", "x")} })
		f.touch()
		f.expect("10s publish 2 [a=1 p.md]")
		f.edit(table("a"))
		if s := f.loop.State(); !s.OK || len(s.Faults) != 0 || s.Generation != 2 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestLoop_ReadsNothingIntoForceAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.reading = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.loop.Serve(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve returned %v", err)
		}
		if f.adopted != 0 || f.loop.State().Pass != 0 {
			t.Error("what was read while it was stopped was put in force")
		}
	})
}

func TestLoop_GoesOnAfterAPanic(t *testing.T) {
	for _, method := range []string{"Load", "Do", "Publish"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := running(t, table("a"), table("gone"))
				f.with(func() { f.panics = method })
				f.edit(table("a"), table("b"))
				wait(100 * time.Millisecond)
				f.answer("b", "1")
				wait(5 * time.Second)
				if diff := cmp.Diff(map[string]string{"a": "1", "b": "1"}, f.shown); diff != "" {
					t.Errorf("published (-want +got):\n%s", diff)
				}
				if _, there := f.units["gone"]; there {
					t.Error("what was removed was not stopped")
				}
			})
		})
	}
}
