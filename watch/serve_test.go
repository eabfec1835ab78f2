package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

// fake is a Notifier that tells what the test tells it.
type fake struct {
	events chan fsnotify.Event
	errs   chan error

	mu     sync.Mutex
	dirs   map[string]bool
	refuse func(dir string) error
	closed bool
}

func newFake() *fake {
	return &fake{events: make(chan fsnotify.Event), errs: make(chan error), dirs: map[string]bool{}}
}

func (f *fake) Add(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(dir); err != nil {
			return err
		}
	}
	f.dirs[dir] = true
	return nil
}

func (f *fake) Remove(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.dirs, dir)
	return nil
}

func (f *fake) Events() <-chan fsnotify.Event { return f.events }
func (f *fake) Errors() <-chan error          { return f.errs }

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *fake) watched() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.dirs))
}

func (f *fake) refuseWith(refuse func(dir string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

// write tells of a write to a file.
func (f *fake) write(path string) { f.events <- fsnotify.Event{Name: path, Op: fsnotify.Write} }

// bench is a Watcher over one file in a bubble, with a notifier of its own.
type bench struct {
	t    *testing.T
	dir  string
	file string
	log  bytes.Buffer
	*Watcher

	mu    sync.Mutex
	fake  *fake   // what the next opening of a notifier gives
	opens []error // instead, an error for each that is not nil
}

// inBubble runs test over a watched file "one" in a synctest bubble. prepare
// may change the bench before Serve starts.
func inBubble(t *testing.T, prepare, test func(*bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, dir: t.TempDir(), fake: newFake()}
		b.file = filepath.Join(b.dir, "one")
		b.put("one", "first")
		b.Watcher = New(Options{NewNotifier: b.open, Logger: slog.New(slog.NewTextHandler(&b.log, nil))})
		b.Set([]Item{{Path: b.file}})
		if prepare != nil {
			prepare(b)
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		done := make(chan error)
		go func() { done <- b.Serve(ctx) }()
		synctest.Wait()
		test(b)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.t.Errorf("Serve = %v", err)
		}
	})
}

func (b *bench) open() (Notifier, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.opens) > 0 {
		err := b.opens[0]
		b.opens = b.opens[1:]
		if err != nil {
			return nil, err
		}
	}
	return b.fake, nil
}

// replace makes the next opening give another notifier, and returns the last.
func (b *bench) replace() *fake {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.fake
	b.fake = newFake()
	return was
}

// put writes a file of the directory, as a new one so that its identity
// changes even where time stands still.
func (b *bench) put(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		b.t.Fatal(err)
	}
}

// signalled waits for one signal and checks when it comes, and that no other
// follows in the next ten seconds.
func (b *bench) signalled(after time.Duration) {
	b.t.Helper()
	start := time.Now()
	select {
	case <-b.Dirty():
		if got := time.Since(start); got != after {
			b.t.Errorf("signal after %v, want %v", got, after)
		}
	case <-time.After(time.Hour):
		b.t.Fatal("no signal")
	}
	b.silent(10 * time.Second)
}

// silent checks that no signal comes for d.
func (b *bench) silent(d time.Duration) {
	b.t.Helper()
	start := time.Now()
	select {
	case <-b.Dirty():
		b.t.Errorf("signal after %v, want none", time.Since(start))
	case <-time.After(d):
	}
}

func (b *bench) mode(want Mode) {
	b.t.Helper()
	synctest.Wait()
	if got := b.Mode(); got != want {
		b.t.Errorf("mode %q, want %q", got, want)
	}
}

func TestWatcher_SignalsAnEditSettleAfterItsLastEvent(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.silent(time.Second)
		b.put("one", "second")
		b.fake.write(b.file)
		b.signalled(50 * ms)
		b.mode(Inotify)
	})
}

func TestWatcher_SetSettleAppliesToTheNextEditWithinItsLimits(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: ms, 200 * ms: 200 * ms, 2 * time.Second: 500 * ms,
	} {
		inBubble(t, nil, func(b *bench) {
			b.SetSettle(d)
			synctest.Wait()
			b.put("one", "second")
			b.fake.write(b.file)
			b.signalled(want)
		})
	}
}

func TestWatcher_EventsBesideTheFileDoNotDelayItsEdit(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		noise := func() {
			for range 4 {
				b.fake.write(b.file + ".swp")
				time.Sleep(5 * ms)
			}
		}
		noise()
		b.put("one", "second")
		b.fake.write(b.file)
		noise()
		b.signalled(30 * ms)
	})
}

func TestWatcher_FindsALostEventByTheSlowPoll(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("one", "second")
		b.signalled(30*time.Second + 50*ms)
		b.mode(Inotify)
	})
}

func TestWatcher_OverflowReadsEverythingAtOnceAndPollsForAWhile(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("one", "second")
		b.fake.errs <- fsnotify.ErrEventOverflow
		start := time.Now()
		<-b.Dirty()
		if got := time.Since(start); got != 50*ms {
			b.t.Errorf("signal after %v, want 50ms", got)
		}
		b.mode(Polling)
		b.put("one", "third one")
		<-b.Dirty()
		if got := time.Since(start); got != 2*time.Second+50*ms {
			b.t.Errorf("polled after %v, want 2.05s", got)
		}
		time.Sleep(30 * time.Second)
		b.mode(Inotify)
		if b.fake.closed {
			b.t.Error("an overflow cost the notifier its life")
		}
	})
}

func TestWatcher_PollsWithoutANotifierAndComesBack(t *testing.T) {
	broke := func(b *bench) { b.opens = []error{syscall.EMFILE, syscall.EMFILE} }
	inBubble(t, broke, func(b *bench) {
		b.mode(Polling)
		b.put("one", "second")
		b.signalled(2*time.Second + 50*ms)
		time.Sleep(20 * time.Second)
		b.mode(Polling) // 32 s: the second try failed as well
		time.Sleep(30 * time.Second)
		b.mode(Inotify)
		b.put("one", "third one")
		b.fake.write(b.file)
		b.signalled(50 * ms)
		for _, want := range []string{"watching files by polling", syscall.EMFILE.Error(), "by notification again"} {
			if n := strings.Count(b.log.String(), want); n != 1 {
				b.t.Errorf("%q is logged %d times:\n%s", want, n, b.log.String())
			}
		}
	})
}

func TestWatcher_PollsWhereADirectoryCannotBeAdded(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.fake.refuseWith(func(dir string) error { return &os.PathError{Op: "add", Path: dir, Err: syscall.ENOSPC} })
		b.Set([]Item{{Path: b.file}})
		b.mode(Polling)
		b.put("one", "second")
		b.signalled(2*time.Second + 50*ms)
		b.fake.refuseWith(nil)
		time.Sleep(2 * time.Second)
		b.mode(Inotify)
	})
}

func TestWatcher_DoesNotPollForAParentItMayNotRead(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.fake.refuseWith(func(dir string) error {
			if dir == filepath.Dir(b.dir) {
				return syscall.EACCES
			}
			return nil
		})
	}, func(b *bench) { b.mode(Inotify) })
}

func TestWatcher_PollsForADirectoryItMayNotRead(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.fake.refuseWith(func(dir string) error {
			if dir == b.dir {
				return syscall.EACCES
			}
			return nil
		})
	}, func(b *bench) { b.mode(Polling) })
}

func TestWatcher_SurveysAgainWhatMayHaveChangedBeforeItWasWatched(t *testing.T) {
	inBubble(t, func(b *bench) {
		later := filepath.Join(b.dir, "later")
		b.Set([]Item{{Path: filepath.Join(later, "file")}})
		b.fake.refuseWith(func(dir string) error {
			if dir == b.dir { // made after the survey and before the watch: no event tells
				return os.MkdirAll(later, 0o700)
			}
			return nil
		})
	}, func(b *bench) {
		if later := filepath.Join(b.dir, "later"); !slices.Contains(b.fake.watched(), later) {
			b.t.Errorf("%q is not watched, only %q", later, b.fake.watched())
		}
	})
}

func TestWatcher_PollsADirectoryThatIsGoneBeforeItIsAdded(t *testing.T) {
	inBubble(t, func(b *bench) {
		tries := 0
		b.fake.refuseWith(func(string) error {
			if tries++; tries < 20 {
				return syscall.ENOENT
			}
			return nil
		})
	}, func(b *bench) {
		b.mode(Polling)
		time.Sleep(5 * time.Second)
		b.mode(Inotify)
	})
}

func TestWatcher_PollsFileSystemsThatDoNotNotify(t *testing.T) {
	inBubble(t, func(b *bench) { b.remote = func(string) bool { return true } }, func(b *bench) {
		b.mode(Polling)
		b.put("one", "second")
		b.signalled(2*time.Second + 50*ms)
		b.put("one", "third one")
		b.fake.write(b.file)
		b.signalled(50 * ms) // what this machine does is still notified
	})
}

func TestWatcher_ReplacesABrokenNotifierOnceBetweenSlowPolls(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		broken := b.replace()
		b.put("one", "second")
		broken.errs <- errors.New("read: bad file descriptor")
		b.signalled(50 * ms)
		if !broken.closed {
			b.t.Error("the broken notifier is still open")
		}
		second := b.fake
		close(second.events)
		b.mode(Polling)
		b.put("one", "third one")
		b.signalled(2*time.Second + 50*ms)
		b.replace()
		time.Sleep(30 * time.Second)
		b.mode(Inotify)
		b.put("one", "fourth time")
		b.fake.write(b.file)
		b.signalled(50 * ms)
	})
}

func TestWatcher_EndsWithAClosedErrorChannelByPolling(t *testing.T) {
	inBubble(t, func(b *bench) { b.opens = []error{nil, syscall.EMFILE} }, func(b *bench) {
		close(b.fake.errs)
		b.mode(Polling)
		b.put("one", "second")
		b.signalled(2*time.Second + 50*ms)
	})
}

func TestWatcher_SetWatchesTheWayToEachItem(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		if err := os.MkdirAll(filepath.Join(b.dir, "far", "away"), 0o700); err != nil {
			b.t.Fatal(err)
		}
		if err := os.Symlink("far/away/file", filepath.Join(b.dir, "link")); err != nil {
			b.t.Fatal(err)
		}
		b.Set([]Item{{Path: filepath.Join(b.dir, "link")}})
		synctest.Wait()
		want := []string{filepath.Dir(b.dir), b.dir, b.dir + "/far", b.dir + "/far/away"}
		if d := cmp.Diff(want, b.fake.watched()); d != "" {
			b.t.Errorf("watched (-want +got):\n%s", d)
		}
		b.Set(nil)
		synctest.Wait()
		if got := b.fake.watched(); len(got) > 0 {
			b.t.Errorf("still watched with an empty set: %q", got)
		}
		b.silent(time.Minute)
	})
}

func TestWatcher_SetTakesTheFirstReadForKnown(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("two", "first")
		b.Set([]Item{{Path: b.file}, {Path: filepath.Join(b.dir, "two")}})
		b.silent(time.Minute)
	})
}

func TestWatcher_SetFindsAnEditOlderThanItselfByWhatIsKnown(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		two := filepath.Join(b.dir, "two")
		known := map[string][sha256.Size]byte{two: sha256.Sum256([]byte("first"))}
		b.put("two", "second")
		b.Set([]Item{{Path: b.file}, {Path: two, Known: known}})
		b.signalled(50 * ms)
		b.Set([]Item{{Path: b.file}, {Path: two, Known: known}})
		b.silent(time.Minute) // known counts when an item is new, and only then
	})
}

func TestWatcher_SetKeepsWhatItKnowsOfItemsThatStay(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		b.put("one", "second")
		b.Set([]Item{{Path: b.file}, {Path: b.dir, Dir: true, Match: func(string) bool { return false }}})
		b.signalled(50 * ms)
	})
}

func TestWatcher_SeenIsWhatWasSettledOn(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		first, second := sha256.Sum256([]byte("first")), sha256.Sum256([]byte("second"))
		check := func(path string, want [sha256.Size]byte, there bool) {
			b.t.Helper()
			if got, ok := b.Seen(path); got != want || ok != there {
				b.t.Errorf("Seen(%q) = %x, %v", path, got, ok)
			}
		}
		check(b.file, first, true)
		b.put("one", "second")
		b.fake.write(b.file)
		time.Sleep(40 * ms)
		check(b.file, first, true)
		b.signalled(10 * ms)
		check(b.file, second, true)
		check(b.file+"x", [sha256.Size]byte{}, false)
		if err := os.Remove(b.file); err != nil {
			b.t.Fatal(err)
		}
		b.fake.write(b.file)
		b.signalled(325 * ms)
		check(b.file, [sha256.Size]byte{}, false)
	})
}

func TestWatcher_SignalsNobodyTakesAreOne(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for _, text := range []string{"second", "third one"} {
			b.put("one", text)
			b.fake.write(b.file)
			time.Sleep(time.Second)
		}
		b.signalled(0)
	})
}

func TestWatcher_ServeAgainGoesOnFromWhatWasSettled(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		// A second life of the same Watcher, after the one of the bench ended.
		ctx, cancel := context.WithCancel(b.t.Context())
		w := New(Options{NewNotifier: func() (Notifier, error) { return newFake(), nil }})
		w.Set([]Item{{Path: b.file}})
		done := make(chan error)
		go func() { done <- w.Serve(ctx) }()
		synctest.Wait()
		cancel()
		<-done
		b.put("one", "changed between lives")
		ctx, cancel = context.WithCancel(b.t.Context())
		defer func() { cancel(); <-done }()
		go func() { done <- w.Serve(ctx) }()
		start := time.Now()
		<-w.Dirty()
		if got := time.Since(start); got != 50*ms {
			b.t.Errorf("signal after %v, want 50ms", got)
		}
	})
}

func TestWatcher_C65_FileTimesFarFromTheClockDoNotMatter(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		for i, at := range []time.Time{{}, time.Unix(0, 0), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)} {
			b.put("one", strings.Repeat("x", i+10))
			if err := os.Chtimes(b.file, at, at); err != nil {
				b.t.Fatal(err)
			}
			b.fake.write(b.file)
			b.signalled(50 * ms)
		}
	})
}
