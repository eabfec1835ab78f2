package watch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Times of the tests over the real notifier: Settle is long enough for a busy
// machine not to tear a save in two, and nothing but events can find a change.
const (
	realSettle  = 150 * ms
	realLongest = 1500 * ms
	realNever   = time.Hour
	realQuiet   = realSettle + goneGrace + 200*ms // no second signal can come later
	realLimit   = 20 * time.Second
)

// disk is a directory a scenario works in; every step fails the test on error.
type disk struct {
	t    testing.TB
	root string
}

func (d disk) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(d.root, name)
}

func (d disk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// open opens for writing and writes text if there is any.
func (d disk) open(name string, flags int, text string) {
	d.t.Helper()
	f, err := os.OpenFile(d.path(name), flags, 0o600)
	d.must(err)
	if text != "" {
		_, err = f.WriteString(text)
	}
	d.must(err)
	d.must(f.Close())
}

func (d disk) write(name, text string) {
	d.t.Helper()
	d.open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, text)
}

// create makes a file that must not be there.
func (d disk) create(name, text string) {
	d.t.Helper()
	d.open(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, text)
}

func (d disk) rename(from, to string)  { d.t.Helper(); d.must(os.Rename(d.path(from), d.path(to))) }
func (d disk) remove(name string)      { d.t.Helper(); d.must(os.Remove(d.path(name))) }
func (d disk) removeAll(name string)   { d.t.Helper(); d.must(os.RemoveAll(d.path(name))) }
func (d disk) mkdir(name string)       { d.t.Helper(); d.must(os.MkdirAll(d.path(name), 0o700)) }
func (d disk) symlink(to, name string) { d.t.Helper(); d.must(os.Symlink(to, d.path(name))) }
func (d disk) link(old, name string)   { d.t.Helper(); d.must(os.Link(d.path(old), d.path(name))) }
func (d disk) chmod(name string, m uint) {
	d.t.Helper()
	d.must(os.Chmod(d.path(name), os.FileMode(m)))
}

// touch gives a file another time and no other content.
func (d disk) touch(name string) {
	d.t.Helper()
	d.must(os.Chtimes(d.path(name), time.Unix(1e9, 0), time.Unix(1e9, 0)))
}

// pause is a writer that takes its time between two steps: that time passes, and
// nothing else, is what is tested.
func (d disk) pause(wait time.Duration) { <-time.After(wait) }

// watched starts a Watcher over items and waits until it has looked at them.
func watched(t testing.TB, d disk, items ...Item) *Watcher {
	t.Helper()
	d.write("sentinel", "")
	return start(t, d, Options{Settle: realSettle, Longest: realLongest, Slow: realNever, Poll: realNever}, items...)
}

// start is watched with options; the test has written the file "sentinel".
func start(t testing.TB, d disk, opt Options, items ...Item) *Watcher {
	t.Helper()
	w := New(opt)
	w.Set(append(items, Item{Path: d.path("sentinel")}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	tick := time.NewTicker(ms)
	defer tick.Stop()
	for limit := time.Now().Add(realLimit); ; <-tick.C {
		if _, ok := w.Seen(d.path("sentinel")); ok {
			return w
		}
		if time.Now().After(limit) {
			t.Fatal("the watcher does not look")
		}
	}
}

// expect waits for n signals, and for no more.
func expect(t testing.TB, w *Watcher, n int) {
	t.Helper()
	for i := range n {
		select {
		case <-w.Dirty():
		case <-time.After(realLimit):
			t.Fatalf("%d signals, want %d", i, n)
		}
	}
	select {
	case <-w.Dirty():
		t.Fatalf("%d signals, want %d", n+1, n)
	case <-time.After(realQuiet):
	}
}
