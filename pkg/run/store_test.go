package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/evidence"
)

// self is the actor of a test's daemon.
func self() Actor { return Named(Instance, "test") }

func knowledge(t testing.TB) *Knowledge {
	t.Helper()
	k, err := NewKnowledge(Catalog{Version: "1", Commands: []Command{{Path: "harness runs", Summary: "List", Roles: Roles(), Effect: Read, Aliases: []string{}, Flags: []Flag{}}}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// newStore opens the runs of a new state directory.
func newStore(t testing.TB, keep int) *Store {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return openStore(t, dir, keep)
}

func openStore(t testing.TB, path string, keep int) *Store {
	t.Helper()
	state, err := evidence.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(state, time.Now(), Options{
		Keep: func() int { return keep }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Knowledge: knowledge(t), Self: self(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		state.Close()
	})
	return s
}

// again opens the same directory as the next daemon does.
func again(t testing.TB, s *Store) *Store {
	t.Helper()
	s.removals.Wait()
	return openStore(t, s.state.Name(), s.opt.Keep())
}

func begin(t testing.TB, s *Store, harness string) *Run {
	t.Helper()
	return beginAt(t, s, harness, time.Now())
}

func beginAt(t testing.TB, s *Store, harness string, at time.Time) *Run {
	t.Helper()
	r, err := s.Begin(Launch{Harness: harness, Argv: []string{"sh"}, Definition: "d", Actor: ByOperator(7), At: at})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Started(at); err != nil {
		t.Fatal(err)
	}
	return r
}

// ended ends a run as one that exited, or was ended by a signal.
func ended(r *Run, code int, signal string) {
	r.End(End{At: time.Now(), State: Exited, Code: code, Signal: signal})
}

func ids(t *testing.T, s *Store, harness, after string, n int) (all []string, next string) {
	t.Helper()
	runs, next, err := s.List(harness, after, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		all = append(all, r.ID)
	}
	return all, next
}

func TestRun_KeepsWhatWasPrintedAndHowItEnded(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "shop/a")
	for _, text := range []string{"one\n", "two\n"} {
		if n, err := r.Write([]byte(text)); n != len(text) || err != nil {
			t.Error(n, err)
		}
	}
	if i, err := s.Info(r.ID()); err != nil || i.State != Running || i.EndedAt != nil || i.Bytes != 8 || i.Harness != "shop/a" {
		t.Errorf("under way: %+v, %v", i, err)
	}
	ended(r, 3, "")
	ended(r, 4, "")
	r.Write([]byte("late"))
	s = again(t, s)
	i, err := s.Info(r.ID())
	if err != nil || i.State != Exited || i.EndedAt == nil || *i.ExitCode != 3 || i.Signal != nil || i.Bytes != 8 {
		t.Errorf("over: %+v, %v", i, err)
	}
	text, next, err := s.Transcript(r.ID(), 4)
	if err != nil || string(text) != "two\n" || next != 0 {
		t.Errorf("%q, %d, %v", text, next, err)
	}
	info, err := os.Stat(filepath.Join(s.dir.Name(), r.ID(), outputFile))
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	killed := begin(t, s, "a")
	ended(killed, -1, "SIGKILL")
	if i, _ := s.Info(killed.ID()); i.ExitCode != nil || *i.Signal != "SIGKILL" {
		t.Errorf("killed: %+v", i)
	}
}

func TestRun_OutputIsBounded(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	line := bytes.Repeat([]byte("x"), 1<<20)
	for range 6 {
		r.Write(line)
	}
	ended(r, 0, "")
	// What is shown on the disk is as it was before that was shown.
	status, err := os.ReadFile(filepath.Join(s.dir.Name(), r.ID(), statusFile))
	if i, _ := s.Info(r.ID()); i.Bytes != limit || !i.Truncated || err != nil || strings.Contains(string(status), "truncated") {
		t.Errorf("%+v, %s, %v", i, status, err)
	}
	var total int
	for offset := int64(0); ; {
		text, next, err := s.Transcript(r.ID(), offset)
		if err != nil || len(text) > Page {
			t.Fatal(len(text), err)
		}
		total += len(text)
		if next == 0 {
			break
		}
		offset = next
	}
	if total != limit {
		t.Errorf("pages of %d bytes in all", total)
	}
}

// gate is a disk that hangs until it is opened.
type gate struct {
	open chan struct{}
	to   io.Writer
}

func (g gate) Write(p []byte) (int, error) {
	<-g.open
	return g.to.Write(p)
}

func TestWrite_NeverWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	g := gate{make(chan struct{}), r.output.to}
	r.output.to = g
	want := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	for part := range slices.Chunk(want, 16) {
		r.Write(part)
	}
	if i, err := s.Info(r.ID()); err != nil || i.Bytes != int64(len(want)) {
		t.Errorf("while the disk hangs: %+v, %v", i, err)
	}
	close(g.open)
	ended(r, 0, "")
	text, _, err := s.Transcript(r.ID(), 0)
	if i, _ := s.Info(r.ID()); err != nil || !bytes.Equal(text, want) || i.Bytes != int64(len(want)) {
		t.Errorf("%d bytes, %v, %+v", len(text), err, i)
	}
}

// noRoom is a disk that is full.
type noRoom struct{}

func (noRoom) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWrite_NothingFollowsAHole(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	r.Write([]byte("one"))
	r.output.settle(0)
	disk := r.output.to
	r.output.to = noRoom{}
	r.Write([]byte("two"))
	r.output.settle(0)
	r.output.to = disk
	r.Write([]byte("three"))
	ended(r, 0, "")
	if text, _, err := s.Transcript(r.ID(), 0); err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
	if i, err := s.Info(r.ID()); err != nil || i.Bytes != 3 {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestList_IsNewestFirstByPage(t *testing.T) {
	t.Parallel()
	s := newStore(t, 100)
	var all []string
	for i := range 7 {
		r := begin(t, s, []string{"a", "b"}[i%2])
		ended(r, 0, "")
		all = append([]string{r.ID()}, all...)
	}
	var got []string
	for after := ""; ; {
		page, next := ids(t, s, "", after, 3)
		got = append(got, page...)
		if next == "" {
			break
		}
		after = next
	}
	if strings.Join(got, " ") != strings.Join(all, " ") {
		t.Errorf("%v, want %v", got, all)
	}
	if page, next := ids(t, s, "b", "", 10); len(page) != 3 || next != "" {
		t.Errorf("of b: %v, %q", page, next)
	}
}

// One run whose evidence was changed is in the way of its page alone: what is
// said of it leads to all the others.
func TestList_GoesOnBehindARunThatIsNotValid(t *testing.T) {
	t.Parallel()
	s := newStore(t, 100)
	var all []string
	for range 5 {
		r := begin(t, s, "a")
		ended(r, 0, "")
		all = append([]string{r.ID()}, all...)
	}
	if err := os.Chmod(filepath.Join(s.dir.Name(), all[2], outputFile), 0o600); err != nil {
		t.Fatal(err)
	}
	var u *Unfit
	if list, _, err := s.List("", "", 100); !errors.As(err, &u) || list != nil || u.Run != all[2] || !strings.Contains(u.Error(), "runs/"+all[2]+"/"+outputFile) {
		t.Fatalf("%v, %v", list, err)
	}
	newer, next := ids(t, s, "", "", u.Newer)
	older, _ := ids(t, s, "", u.Run, 100)
	if got := append(newer, older...); !slices.Equal(got, slices.Delete(slices.Clone(all), 2, 3)) || next != all[1] {
		t.Errorf("%v of %v, %s", got, all, next)
	}
}

func TestBegin_KeepsTheNewestAndEveryLiveOne(t *testing.T) {
	t.Parallel()
	s := newStore(t, 2)
	live := begin(t, s, "a")
	other := begin(t, s, "b")
	ended(other, 0, "")
	var last string
	for range 5 {
		r := begin(t, s, "a")
		ended(r, 0, "")
		last = r.ID()
	}
	s.removals.Wait()
	page, _ := ids(t, s, "a", "", 10)
	if len(page) != 2 && len(page) != 3 || page[0] != last || page[len(page)-1] != live.ID() {
		t.Errorf("kept %v", page)
	}
	if page, _ := ids(t, s, "b", "", 10); len(page) != 1 {
		t.Errorf("of another: %v", page)
	}
	ended(live, 0, "")
}

// Whoever waits for a run hears how it ended, also when it is not kept.
func TestWait_OfARunThatIsNotKept(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1)
	old := begin(t, s, "a")
	ended(old, 3, "")
	sealed, err := s.Info(old.ID())
	if err != nil {
		t.Fatal(err)
	}
	ended(begin(t, s, "a"), 0, "")
	s.removals.Wait()
	if _, err := s.Info(old.ID()); !errors.Is(err, ErrUnknown) {
		t.Errorf("it is kept: %v", err)
	}
	got, err := old.Wait(t.Context())
	if diff := cmp.Diff(sealed, got); diff != "" || err != nil || *got.ExitCode != 3 {
		t.Errorf("%v, sealed and waited for: %s", err, diff)
	}
	live := begin(t, s, "a")
	defer ended(live, 0, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := live.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestBegin_KeepsTheNewestAlsoOfAnEarlierDaemon(t *testing.T) {
	t.Parallel()
	s := newStore(t, 3)
	for range 3 {
		ended(begin(t, s, "a"), 0, "")
	}
	ended(begin(t, s, "b"), 0, "")
	s = again(t, s)
	newest := begin(t, s, "a")
	ended(newest, 0, "")
	s.removals.Wait()
	if page, _ := ids(t, s, "a", "", 10); len(page) != 3 || page[0] != newest.ID() {
		t.Errorf("kept %v", page)
	}
	if page, _ := ids(t, s, "b", "", 10); len(page) != 1 {
		t.Errorf("of another: %v", page)
	}
}

// However far the clock is set back, a run comes at once and after those before
// it, in this daemon and in the next.
func TestBegin_IsInOrderWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	now := time.Now()
	var want []string
	for i, at := range []time.Time{now, now.AddDate(-3, 0, 0), now.Add(time.Hour), now, now} {
		if i == 4 {
			s = again(t, s)
		}
		r := beginAt(t, s, "a", at)
		r.End(End{At: at, State: Exited})
		if i, err := s.Info(r.ID()); err != nil || !i.StartedAt.Equal(at) {
			t.Errorf("%+v, %v", i, err)
		}
		want = append([]string{r.ID()}, want...)
	}
	if page, _ := ids(t, s, "a", "", 10); strings.Join(page, " ") != strings.Join(want, " ") {
		t.Errorf("%v, want %v", page, want)
	}
}

func TestBegin_ThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	if err := os.Chmod(s.dir.Name(), 0o500); err != nil {
		t.Fatal(err)
	}
	// To root a mode is no hindrance; what has the run's name is to everybody.
	l := Launch{ID: s.NewID(time.Now()), Harness: "a", At: time.Now()}
	if err := os.WriteFile(filepath.Join(s.dir.Name(), l.ID), nil, 0o600); err != nil && os.Geteuid() == 0 {
		t.Fatal(err)
	}
	if _, err := s.Begin(l); err == nil || len(s.live) != 0 || len(s.all) != 0 {
		t.Errorf("%v, %v, %v", err, s.live, s.all)
	}
	if err := os.Chmod(s.dir.Name(), 0o700); err != nil {
		t.Fatal(err)
	}
	r := begin(t, s, "a")
	if page, _ := ids(t, s, "a", "", 10); len(page) != 1 || page[0] != r.ID() {
		t.Errorf("%v", page)
	}
}

// Whoever lists the runs while others begin and end sees each as a whole.
func TestList_WhileRunsBeginAndEnd(t *testing.T) {
	t.Parallel()
	s := newStore(t, 3)
	over := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				if _, _, err := s.List("", "", 100); err != nil {
					t.Error(err)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	var runs sync.WaitGroup
	for _, harness := range []string{"a", "b", "c"} {
		runs.Go(func() {
			for range 10 {
				r := begin(t, s, harness)
				r.Write([]byte("x"))
				ended(r, 0, "")
			}
		})
	}
	runs.Wait()
	close(over)
	readers.Wait()
}

func TestStore_RefusesIDsThatAreNone(t *testing.T) {
	t.Parallel()
	s := newStore(t, 2)
	for _, id := range []string{"", "..", "../x", "20260101T000000.000000-0000000g", "20260101T000000.000000-00000000/..", "20260101T000000.000000-00000000"} {
		if _, err := s.Info(id); !errors.Is(err, ErrUnknown) {
			t.Errorf("info of %q: %v", id, err)
		}
		if _, _, err := s.Transcript(id, 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("transcript of %q: %v", id, err)
		}
	}
	if page, next := ids(t, s, "", "", 5); len(page) != 0 || next != "" {
		t.Errorf("of nothing: %v", page)
	}
}

func TestTranscript_CutsNoCharacterInTwo(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	for name, want := range map[string][]byte{
		"characters":       []byte("x" + strings.Repeat("é€𝄞", 20_000)),
		"no characters":    bytes.Repeat([]byte{0x80}, 3*Page),
		"always the first": bytes.Repeat([]byte{0xf0}, 3*Page+1),
	} {
		r := begin(t, s, "a")
		r.Write(want)
		var got []byte
		for offset := int64(0); ; {
			text, next, err := s.Transcript(r.ID(), offset)
			if err != nil || name == "characters" && !utf8.Valid(text) {
				t.Fatal(name, offset, err)
			}
			got = append(got, text...)
			if next == 0 {
				break
			}
			if next <= offset {
				t.Fatal(name, "does not go on")
			}
			offset = next
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
}
