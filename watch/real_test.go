package watch

import (
	"strings"
	"testing"
	"time"
)

func isMarkdown(name string) bool {
	return strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, ".")
}

func TestWatcher_SignalsEachWayOfSavingOnce(t *testing.T) {
	for _, group := range [][]scenario{fileScenarios(), linkScenarios(), treeScenarios(), promptScenarios()} {
		for _, sc := range group {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				play(t, sc)
			})
		}
	}
}

// play does what the scenario does and counts the signals, then edits once more
// to see that nothing it depends on has fallen out of the watch set.
func play(t *testing.T, sc scenario) {
	d := disk{t, t.TempDir()}
	d.mkdir("conf")
	d.create(conf, "one")
	d.mkdir("prompts")
	d.create("prompts/a.md", "one")
	d.create("prompts/b.md", "one")
	if sc.setup != nil {
		sc.setup(d)
	}
	w := watched(t, d, Item{Path: d.path(conf)}, Item{Path: d.path("prompts"), Dir: true, Match: isMarkdown})
	sc.do(d)
	expect(t, w, sc.want)
	if sc.after != "-" {
		after := conf
		if sc.after != "" {
			after = sc.after
		}
		d.write(after, "one more edit")
		expect(t, w, 1)
	}
	if got := w.Mode(); got != Inotify {
		t.Errorf("mode %q, want %q", got, Inotify)
	}
}

// No event tells of a write through a hard link in a directory that is not
// watched.
func TestWatcher_SlowPollFindsWhatNoEventTells(t *testing.T) {
	d := disk{t, t.TempDir()}
	d.mkdir("conf")
	d.mkdir("other")
	d.create(conf, "one")
	d.link(conf, "other/link")
	d.create("sentinel", "")
	w := start(t, d, Options{Settle: realSettle, Longest: realLongest, Slow: 300 * ms, Poll: realNever}, Item{Path: d.path(conf)})
	d.write("other/link", "two")
	expect(t, w, 1)
}

func TestWatcher_SeesEditsInQuickSuccessionToTheLast(t *testing.T) {
	d := disk{t, t.TempDir()}
	d.mkdir("conf")
	d.create(conf, "one")
	w := watched(t, d, Item{Path: d.path(conf)})
	for i := range 200 {
		vim(d, strings.Repeat("x", i))
	}
	d.write(conf, "the last")
	for limit := time.Now().Add(realLimit); ; {
		select {
		case <-w.Dirty():
		case <-time.After(time.Until(limit)):
			t.Fatal("the last edit is not signalled")
		}
		if got, ok := w.Seen(d.path(conf)); ok && got == content("the last").digest {
			return
		}
	}
}
