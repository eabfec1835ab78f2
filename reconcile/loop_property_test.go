package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/config"
)

// move is one thing that happens to a fleet, after a pause.
type move struct {
	pause time.Duration
	key   string
	do    func(f *fleet, file map[string]config.Launch, key string)
}

func moves() *rapid.Generator[[]move] {
	does := []func(*fleet, map[string]config.Launch, string){
		func(f *fleet, file map[string]config.Launch, key string) {
			file[key] = table(key)
			f.edit(slices.Collect(maps.Values(file))...)
		},
		func(f *fleet, file map[string]config.Launch, key string) {
			file[key] = table(key, changedLaunch)
			f.edit(slices.Collect(maps.Values(file))...)
		},
		func(f *fleet, file map[string]config.Launch, key string) {
			file[key] = table(key, otherLaunch, replacing)
			f.edit(slices.Collect(maps.Values(file))...)
		},
		func(f *fleet, file map[string]config.Launch, key string) {
			delete(file, key)
			f.edit(slices.Collect(maps.Values(file))...)
		},
		func(f *fleet, _ map[string]config.Launch, key string) {
			if slices.Contains(f.keys(), key) {
				f.answer(key, time.Since(f.begun).String())
			}
		},
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) move {
		return move{
			pause: time.Duration(rapid.IntRange(0, 900).Draw(t, "pause")) * time.Millisecond,
			key:   names().Draw(t, "key"),
			do:    rapid.SampledFrom(does).Draw(t, "do"),
		}
	}), 1, 25)
}

// TestLoop_KeepsItsOrderWhateverHappens checks what no sequence of edits and
// answers may break: nothing is stopped while it is published, no publish is
// put off for longer than plans may put each other off, and in the end what
// runs and what is published are what the file says.
func TestLoop_KeepsItsOrderWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := moves().Draw(rt, "moves")
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			file := map[string]config.Launch{}
			f.start()
			for _, m := range all {
				wait(m.pause)
				m.do(f, file, m.key)
			}
			wait(publishAnyway)
			for _, key := range f.keys() {
				f.answer(key, "end")
			}
			wait(2 * publishEvery)
			checkTrace(rt, f.traced())
			checkEnd(rt, f, file)
		})
	})
}

// checkTrace demands that each stop follows a publish without what it stops.
func checkTrace(t *rapid.T, trace []string) {
	var shown string
	for _, line := range trace {
		_, what, _ := strings.Cut(line, " ")
		verb, rest, _ := strings.Cut(what, " ")
		switch verb {
		case "publish":
			shown = rest
		case "stop":
			if strings.Contains(shown, " "+rest+"=") || strings.Contains(shown, "["+rest+"=") {
				t.Errorf("%s was stopped while published: %q", rest, trace)
			}
		}
	}
}

func checkEnd(t *rapid.T, f *fleet, file map[string]config.Launch) {
	want, got := map[string]string{}, map[string]string{}
	for key, l := range file {
		want[key] = fmt.Sprint(l.Args)
	}
	for key := range f.shown {
		got[key] = fmt.Sprint(f.units[key].launch.Args)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("published in the end (-want +got):\n%s", diff)
	}
	if s := f.loop.State(); s.Shown != s.Pass || len(s.Waiting) != 0 || len(f.units) != len(file) {
		t.Errorf("state in the end: %+v", s)
	}
}
