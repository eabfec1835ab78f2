package watch

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	ms          = time.Millisecond
	testSettle  = 50 * ms
	testLongest = 500 * ms
)

// world is a directory item and a settler over it, driven by hand: time passes
// only in run.
type world struct {
	settler settler
	files   map[string]string // name to content; absent names are gone
	known   map[string][sha256.Size]byte

	start, now time.Time
	signals    []time.Duration
	looks      []time.Duration
}

func newWorld(files map[string]string) *world {
	start := time.Unix(1e9, 0)
	w := &world{
		settler: settler{settle: testSettle, longest: testLongest, grace: goneGrace, items: map[id]*track{}},
		files:   maps.Clone(files),
		start:   start,
		now:     start,
	}
	return w
}

func content(text string) reading { return reading{regular, sha256.Sum256([]byte(text))} }

// look makes the settler look at the world as it is.
func (w *world) look() {
	v := view{item: id{"/d", true}, known: w.known, files: []sighting{{"/d", reading{kind: directory}}}}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		v.files = append(v.files, sighting{"/d/" + name, content(w.files[name])})
	}
	w.looks = append(w.looks, w.now.Sub(w.start))
	if w.settler.observe(w.now, []view{v}) {
		w.signals = append(w.signals, w.now.Sub(w.start))
	}
}

// run lets time pass up to at, looking whenever the settler wants to.
func (w *world) run(at time.Duration) {
	end := w.start.Add(at)
	for due := w.settler.due(); !due.IsZero() && due.Before(end); due = w.settler.due() {
		w.now = latest(w.now, due)
		w.look()
	}
	w.now = end
}

// act is what happens to the world at one time.
type act struct {
	at time.Duration
	do func(*world)
}

func write(name, text string) func(*world) {
	return func(w *world) { w.files[name] = text; w.settler.event(w.now) }
}

func remove(name string) func(*world) {
	return func(w *world) { delete(w.files, name); w.settler.event(w.now) }
}

// silently changes a file without an event.
func silently(name, text string) func(*world) {
	return func(w *world) { w.files[name] = text }
}

func touch(w *world) { w.settler.event(w.now) }
func noise(w *world) { w.settler.noise(w.now) }
func poll(w *world)  { w.look() }

// every repeats what happens until a time, excluded.
func every(step, until time.Duration, do func(i int) func(*world)) []act {
	var all []act
	for i := 0; time.Duration(i)*step < until; i++ {
		all = append(all, act{time.Duration(i) * step, do(i)})
	}
	return all
}

// rewrite writes another content each time.
func rewrite(name string) func(int) func(*world) {
	return func(i int) func(*world) { return write(name, fmt.Sprint("part ", i)) }
}

func same(do func(*world)) func(int) func(*world) { return func(int) func(*world) { return do } }

func TestSettler_SignalsEachChangeOnceAtItsTime(t *testing.T) {
	tests := []struct {
		name string
		acts []act
		want []time.Duration
	}{
		{
			"a plain edit, when its last event is Settle old",
			[]act{{0, write("a", "")}, {1 * ms, write("a", "two")}},
			[]time.Duration{51 * ms},
		},
		{
			"truncated and written in parts, once",
			[]act{{0, write("a", "")}, {30 * ms, write("a", "t")}, {60 * ms, write("a", "two")}},
			[]time.Duration{110 * ms},
		},
		{
			"two files within the quiet time, once",
			[]act{{0, write("a", "two")}, {40 * ms, write("b", "two")}},
			[]time.Duration{90 * ms},
		},
		{
			"two edits further apart, twice",
			[]act{{0, write("a", "two")}, {60 * ms, write("a", "three")}},
			[]time.Duration{50 * ms, 110 * ms},
		},
		{
			"an event without a change, never",
			[]act{{0, touch}, {10 * ms, touch}},
			nil,
		},
		{
			"written with what it held, never",
			[]act{{0, write("a", "")}, {5 * ms, write("a", "one")}},
			nil,
		},
		{
			"changed and changed back within the quiet time, never",
			[]act{{0, write("a", "two")}, {45 * ms, write("a", "one")}},
			nil,
		},
		{
			"replaced by removing it first, once",
			[]act{{0, remove("a")}, {1 * ms, write("a", "two")}},
			[]time.Duration{51 * ms},
		},
		{
			"away for less than the grace and back the same, never",
			[]act{{0, remove("a")}, {300 * ms, write("a", "one")}},
			nil,
		},
		{
			"away for less than the grace and back changed, once",
			[]act{{0, remove("a")}, {200 * ms, write("a", "two")}},
			[]time.Duration{250 * ms},
		},
		{
			"removed, a grace after the first look that missed it",
			[]act{{0, remove("a")}},
			[]time.Duration{325 * ms},
		},
		{
			"removed and later made again, twice",
			[]act{{0, remove("a")}, {400 * ms, write("a", "one")}},
			[]time.Duration{325 * ms, 450 * ms},
		},
		{
			"renamed within the directory, once",
			[]act{{0, func(w *world) { remove("a")(w); write("c", "one")(w) }}},
			[]time.Duration{50 * ms},
		},
		{
			"removed, then another changed before the grace is over, once",
			[]act{{0, remove("a")}, {100 * ms, write("b", "two")}},
			[]time.Duration{150 * ms},
		},
		{
			"a new file, once",
			[]act{{0, write("c", "one")}},
			[]time.Duration{50 * ms},
		},
		{
			"a change no event told of, a quiet time after the poll that finds it",
			[]act{{0, silently("a", "two")}, {100 * ms, poll}},
			[]time.Duration{150 * ms},
		},
		{
			"a change no event told of between the two reads, a quiet time after it was found",
			[]act{{0, write("a", "two")}, {30 * ms, silently("a", "three")}},
			[]time.Duration{100 * ms},
		},
		{
			"a change found while looking because of noise",
			[]act{{0, silently("a", "two")}, {0, noise}},
			[]time.Duration{550 * ms},
		}, // the baseline look was at 0, and noise gets one look in 500 ms
		{
			"noise does not prolong the quiet time",
			append(every(3*ms, 100*ms, same(noise)), act{100 * ms, write("a", "two")}, act{110 * ms, noise}, act{120 * ms, noise}),
			[]time.Duration{150 * ms},
		},
		{
			"a burst that never quietens, after Longest",
			append([]act{{0, write("a", "two")}}, every(10*ms, 700*ms, same(touch))...),
			[]time.Duration{500 * ms},
		},
		{
			"a file written to all the time, when that has ended",
			every(10*ms, 2*time.Second, rewrite("a")),
			[]time.Duration{1990*ms + testSettle},
		},
		{
			"another file beside one written to all the time, after Longest",
			append([]act{{0, write("b", "two")}}, every(10*ms, 900*ms, rewrite("a"))...),
			[]time.Duration{500 * ms, 890*ms + testSettle},
		},
		{
			"a removal in a burst, a grace after the first look",
			append([]act{{0, remove("a")}}, every(10*ms, 700*ms, same(touch))...),
			[]time.Duration{775 * ms},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(map[string]string{"a": "one", "b": "one"})
			w.look()
			slices.SortStableFunc(tt.acts, func(a, b act) int { return int(a.at - b.at) })
			for _, a := range tt.acts {
				w.run(a.at)
				a.do(w)
			}
			w.run(10 * time.Second)
			if d := cmp.Diff(tt.want, w.signals); d != "" {
				t.Errorf("signals (-want +got):\n%s\nlooks: %v", d, w.looks)
			}
			if due := w.settler.due(); !due.IsZero() {
				t.Errorf("looks again at %v although all is quiet", due.Sub(w.start))
			}
		})
	}
}

func TestSettler_NoiseCostsAtMostOneLookInLongest(t *testing.T) {
	w := newWorld(map[string]string{"a": "one"})
	w.look()
	for _, a := range every(ms, 10*time.Second, same(noise)) {
		w.run(a.at)
		a.do(w)
	}
	w.run(20 * time.Second)
	if got := len(w.looks); got > 22 {
		t.Errorf("%d looks in 10 s of noise, want about 20", got)
	}
}

func TestSettler_LooksAtMostFourTimesInLongestWhileABurstLasts(t *testing.T) {
	w := newWorld(map[string]string{"a": "one"})
	w.look()
	for _, a := range every(ms, 10*time.Second, rewrite("a")) {
		w.run(a.at)
		a.do(w)
	}
	if got := len(w.looks); got > 80 {
		t.Errorf("%d looks in 10 s of writing, want about 40", got)
	}
	if len(w.signals) > 0 {
		t.Errorf("signalled a file still being written at %v", w.signals)
	}
}

func TestSettler_StartsFromWhatTheOwnerKnows(t *testing.T) {
	one, two := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	tests := []struct {
		name  string
		known map[string][sha256.Size]byte
		want  []time.Duration
	}{
		{"nothing said", nil, nil},
		{"the same", map[string][sha256.Size]byte{"/d/a": one}, nil},
		{"another content", map[string][sha256.Size]byte{"/d/a": two}, []time.Duration{testSettle}},
		{"absent then", map[string][sha256.Size]byte{}, []time.Duration{testSettle}},
		{"gone since", map[string][sha256.Size]byte{"/d/a": one, "/d/b": one}, []time.Duration{goneGrace}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(map[string]string{"a": "one"})
			w.known = tt.known
			w.look()
			w.run(5 * time.Second)
			if d := cmp.Diff(tt.want, w.signals); d != "" {
				t.Errorf("signals (-want +got):\n%s", d)
			}
			w.look()
			if w.run(10 * time.Second); len(w.signals) > len(tt.want) {
				t.Errorf("told again what is known: %v", w.signals)
			}
		})
	}
}

func TestSettler_NeverCallsADifferenceWhatItsOwnerCannotKnow(t *testing.T) {
	known := map[string][sha256.Size]byte{"/f": sha256.Sum256([]byte("all of it"))}
	for _, r := range []reading{{kind: large}, {kind: large, digest: [32]byte{1}}} {
		if got := baseline(known, sighting{"/f", r}); got != r {
			t.Errorf("baseline of %v = %v", r, got)
		}
	}
	if got, want := baseline(map[string][sha256.Size]byte{}, sighting{"/f", reading{kind: failed}}), (reading{kind: failed}); got != want {
		t.Errorf("an unreadable file nobody has read counts as a difference from %v", got)
	}
}

func TestSettler_ForgetsItemsThatLeaveAndFilesThatAreGone(t *testing.T) {
	w := newWorld(map[string]string{"a": "one", "b": "one"})
	w.look()
	remove("a")(w)
	w.run(time.Second)
	w.look()
	if got := len(w.settler.items[id{"/d", true}].files); got != 2 {
		t.Errorf("%d paths are kept for a directory with one file, want 2", got)
	}
	w.settler.observe(w.now, nil)
	if len(w.settler.items) != 0 || len(w.settler.contents()) != 0 {
		t.Error("an item outlives the set")
	}
}

// Whatever happens to the files: in the end what is settled is what is there,
// nothing is signalled before its quiet time, and what did not change is not
// signalled.
func TestSettler_EndsWithWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(map[string]string{"a": "one", "b": "one"})
		w.look()
		var at, lastEvent time.Duration
		for range rapid.IntRange(1, 30).Draw(t, "acts") {
			at += time.Duration(rapid.IntRange(0, 80).Draw(t, "pause")) * ms
			before := len(w.signals)
			w.run(at)
			checkQuiet(t, w.signals[before:], lastEvent)
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			switch rapid.IntRange(0, 4).Draw(t, "act") {
			case 0:
				remove(name)(w)
				lastEvent = at
			case 1:
				touch(w)
				lastEvent = at
			case 2:
				noise(w)
			default:
				write(name, rapid.SampledFrom([]string{"one", "two", "three"}).Draw(t, "text"))(w)
				lastEvent = at
			}
		}
		w.run(at + time.Minute)
		checkSettled(t, w)
	})
}

// checkQuiet fails on a signal less than the quiet time after an event, other
// than one of a burst that has lasted.
func checkQuiet(t *rapid.T, signals []time.Duration, lastEvent time.Duration) {
	for _, s := range signals {
		if s < lastEvent+testSettle && s < testLongest {
			t.Fatalf("signal at %v, %v after the last event", s, s-lastEvent)
		}
	}
}

func checkSettled(t *rapid.T, w *world) {
	want := map[string][sha256.Size]byte{}
	for name, text := range w.files {
		want["/d/"+name] = sha256.Sum256([]byte(text))
	}
	if d := cmp.Diff(want, w.settler.contents()); d != "" {
		t.Fatalf("settled on something else (-want +got):\n%s", d)
	}
	start := map[string]string{"a": "one", "b": "one"}
	if len(w.signals) == 0 && !maps.Equal(start, w.files) {
		t.Fatalf("no signal, and %v has become %v", start, w.files)
	}
	if !w.settler.due().IsZero() {
		t.Fatal("looks again although all is quiet")
	}
}
