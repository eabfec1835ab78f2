package run

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func newStore(t *testing.T, keep int) *Store {
	t.Helper()
	return NewStore(filepath.Join(t.TempDir(), "runs"), func() int { return keep }, slog.New(slog.NewTextHandler(t.Output(), nil)))
}

func begin(t *testing.T, s *Store, harness string) *Run {
	t.Helper()
	r, err := s.Begin(harness, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r
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
	r.End(time.Now(), 3, "")
	r.End(time.Now(), 4, "")
	r.Write([]byte("late"))
	again := NewStore(s.dir, s.keep, s.log)
	i, err := again.Info(r.ID())
	if err != nil || i.State != Exited || i.EndedAt == nil || *i.ExitCode != 3 || i.Signal != nil || i.Bytes != 8 {
		t.Errorf("over: %+v, %v", i, err)
	}
	text, next, err := again.Transcript(r.ID(), 4)
	if err != nil || string(text) != "two\n" || next != 0 {
		t.Errorf("%q, %d, %v", text, next, err)
	}
	info, err := os.Stat(filepath.Join(s.dir, r.ID(), outputFile))
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	killed := begin(t, s, "a")
	killed.End(time.Now(), -1, "SIGKILL")
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
	r.End(time.Now(), 0, "")
	if i, _ := s.Info(r.ID()); i.Bytes != limit {
		t.Errorf("%d bytes", i.Bytes)
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
	r.End(time.Now(), 0, "")
	text, _, err := s.Transcript(r.ID(), 0)
	if i, _ := s.Info(r.ID()); err != nil || !bytes.Equal(text, want) || i.Bytes != int64(len(want)) {
		t.Errorf("%d bytes, %v, %+v", len(text), err, i)
	}
}

func TestWrite_NothingFollowsAHole(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	r.Write([]byte("one"))
	r.output.settle(0)
	r.file.Close() // the disk is full
	r.Write([]byte("two"))
	r.output.settle(0)
	r.Write([]byte("three"))
	r.End(time.Now(), 0, "")
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
		r.End(time.Now(), 0, "")
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

func TestBegin_KeepsTheNewestAndEveryLiveOne(t *testing.T) {
	t.Parallel()
	s := newStore(t, 2)
	live := begin(t, s, "a")
	other := begin(t, s, "b")
	other.End(time.Now(), 0, "")
	var last string
	for range 5 {
		r := begin(t, s, "a")
		r.End(time.Now(), 0, "")
		last = r.ID()
	}
	page, _ := ids(t, s, "a", "", 10)
	if len(page) != 2 && len(page) != 3 || page[0] != last || page[len(page)-1] != live.ID() {
		t.Errorf("kept %v", page)
	}
	if page, _ := ids(t, s, "b", "", 10); len(page) != 1 {
		t.Errorf("of another: %v", page)
	}
	live.End(time.Now(), 0, "")
}

func TestBegin_KeepsTheNewestAlsoOfAnEarlierDaemon(t *testing.T) {
	t.Parallel()
	s := newStore(t, 3)
	for range 3 {
		begin(t, s, "a").End(time.Now(), 0, "")
	}
	begin(t, s, "b").End(time.Now(), 0, "")
	s = NewStore(s.dir, s.keep, s.log)
	newest := begin(t, s, "a")
	newest.End(time.Now(), 0, "")
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
			s = NewStore(s.dir, s.keep, s.log)
		}
		r, err := s.Begin("a", at)
		if err != nil {
			t.Fatal(err)
		}
		r.End(at, 0, "")
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
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin("a", time.Now()); err == nil || len(s.live) != 0 {
		t.Errorf("%v, %v", err, s.live)
	}
	if err := os.Remove(s.dir); err != nil {
		t.Fatal(err)
	}
	r := begin(t, s, "a")
	if page, _ := ids(t, s, "a", "", 10); len(page) != 1 || page[0] != r.ID() {
		t.Errorf("%v", page)
	}
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

func TestInfo_OfADaemonThatWasKilledSaysNothingOfTheEnd(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	r.Write([]byte("half"))
	r.output.settle(0)
	again := NewStore(s.dir, s.keep, s.log)
	i, err := again.Info(r.ID())
	if err != nil || i.State != Exited || i.EndedAt != nil || i.ExitCode != nil || i.Signal != nil || i.Bytes != 4 {
		t.Errorf("%+v, %v", i, err)
	}
	if runs, _, err := again.List("", "", 5); err != nil || len(runs) != 1 || runs[0].State != Exited {
		t.Errorf("%+v, %v", runs, err)
	}
}

func TestBegin_RemovesWhatNeverBegan(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	torn := filepath.Join(s.dir, "20200101T000000.000000-00000000")
	if err := os.Mkdir(torn, 0o700); err != nil {
		t.Fatal(err)
	}
	s = NewStore(s.dir, s.keep, s.log)
	begin(t, s, "b")
	if _, err := os.Stat(torn); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := s.Info(r.ID()); err != nil {
		t.Error(err)
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
