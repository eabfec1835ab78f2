package run

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"harness/pkg/evidence"
)

// full makes a run with everything that one can have, up to its end.
func full(t testing.TB, s *Store) *Run {
	t.Helper()
	r := begin(t, s, "a")
	r.Write([]byte("hello\nworld\n"))
	for i, n := range []Note{{ID: "m1", Type: Progress, Body: "half", CorrelationID: "c1"}, {ID: "m2", Type: Steer, Body: "left, not right", CorrelationID: "c2"}, {ID: "m3", Type: Ack, CorrelationID: "c2"}} {
		n.Actor = ByOperator(i)
		if _, err := r.Message(n, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// fileList lists the files of a run, by path.
func fileList(t interface{ Fatal(...any) }, dir string) []string {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestRun_LeavesEvidenceThatVerifies(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := full(t, s)
	if _, err := s.Verify(r.ID()); err != nil {
		t.Errorf("under way: %v", err)
	}
	if i, err := s.Info(r.ID()); err != nil || i.State != Running || i.FinalReceiptSHA256 != nil || *i.Actor.UID != 7 {
		t.Errorf("%+v, %v", i, err)
	}
	ended(r, 3, "")
	dir := filepath.Join(s.dir.Name(), r.ID())
	for _, s := range []*Store{s, again(t, s)} {
		n, err := s.Verify(r.ID())
		if want := len(fileList(t, dir)); err != nil || n != want {
			t.Errorf("%d entries of %d: %v", n, want, err)
		}
		i, err := s.Info(r.ID())
		if err != nil || i.State != Exited || *i.ExitCode != 3 || i.EndedAt == nil || i.Bytes != 12 || i.LaunchContract != 2 || len(*i.FinalReceiptSHA256) != 64 {
			t.Errorf("%+v, %v", i, err)
		}
		messages, err := s.Messages(r.ID())
		if err != nil || len(messages) != 3 || messages[1].Disposition != Acknowledged || messages[1].Bytes != 15 {
			t.Errorf("%+v, %v", messages, err)
		}
		c, err := s.Context(r.ID())
		if err != nil || c.Binding != Verified || c.Drift {
			t.Errorf("%+v, %v", c, err)
		}
		receipts, err := s.Receipts(r.ID())
		if err != nil || len(receipts) != 6 || receipts[5].Type != typeEnded {
			t.Errorf("%+v, %v", receipts, err)
		}
		shown, err := json.Marshal([]any{messages, receipts, i, c})
		if err != nil || bytes.Contains(shown, []byte("left, not right")) {
			t.Errorf("a body is shown: %s", shown)
		}
	}
	for _, file := range fileList(t, dir) {
		info, err := os.Stat(filepath.Join(dir, file))
		if want := map[bool]fs.FileMode{true: 0o600, false: 0o400}[file == statusFile]; err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if err := os.Remove(filepath.Join(dir, statusFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(r.ID()); err != nil {
		t.Errorf("a projection is made again: %v", err)
	}
}

// Whatever is done to whichever file of a run is found by everything that reads
// the run, and by verify with the file's name (EVI-3).
func TestRun_TamperingWithAnyFileIsFound(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1000)
	rapid.Check(t, func(rt *rapid.T) {
		r := full(t, s)
		ended(r, 0, "")
		dir := filepath.Join(s.dir.Name(), r.ID())
		if rapid.Bool().Draw(rt, "read before") {
			if _, err := s.Info(r.ID()); err != nil {
				rt.Fatal(err)
			}
		}
		files := fileList(rt, dir)
		name := rapid.SampledFrom(files).Draw(rt, "file")
		entries := []string{name}
		if err := tamper(rt, dir, name, &entries); err != nil {
			rt.Fatal(err)
		}
		if name != statusFile && slices.Contains(entries, finalFile) {
			entries = append(entries, ".")
		}
		reads := map[string]func() error{
			"info":       func() error { _, err := s.Info(r.ID()); return err },
			"list":       func() error { _, _, err := s.List("", "", 1); return err },
			"messages":   func() error { _, err := s.Messages(r.ID()); return err },
			"receipts":   func() error { _, err := s.Receipts(r.ID()); return err },
			"context":    func() error { _, err := s.Context(r.ID()); return err },
			"card":       func() error { _, err := s.Card(r.ID()); return err },
			"transcript": func() error { _, _, err := s.Transcript(r.ID(), 0); return err },
			"verify":     func() error { _, err := s.Verify(r.ID()); return err },
		}
		for what, read := range reads {
			var f *evidence.Fault
			if err := read(); !errors.As(err, &f) {
				rt.Fatalf("%s of a run whose %s was changed: %v", what, name, err)
			} else if what == "verify" && !slices.Contains(entries, f.Entry) {
				rt.Fatalf("%s was changed, and %v is blamed", name, f)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			rt.Fatal(err)
		}
		s.leave(r.ID(), "a")
	})
}

// tamper does something to a file, and says whom else it may be laid to.
func tamper(t *rapid.T, dir, name string, entries *[]string) error {
	file := filepath.Join(dir, name)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	replace := func(data []byte) error {
		return errors.Join(os.Remove(file), os.WriteFile(file, data, info.Mode()), os.Chtimes(file, info.ModTime(), info.ModTime()))
	}
	ways := []string{"flip", "cut", "grow", "mode", "link", "hard", "fifo", "rename", "remove"}
	if name == statusFile {
		ways = ways[:6] // one that is gone is made again
	}
	switch rapid.SampledFrom(ways).Draw(t, "way") {
	case "flip":
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		data[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		return replace(data)
	case "cut":
		return replace(data[:rapid.IntRange(0, len(data)-1).Draw(t, "to")])
	case "grow":
		return replace(append(data, rapid.SampledFrom([]string{"\n", " ", "x"}).Draw(t, "more")...))
	case "mode":
		return os.Chmod(file, info.Mode()^rapid.SampledFrom([]fs.FileMode{0o200, 0o040, 0o001}).Draw(t, "mode"))
	case "link":
		other := filepath.Join(filepath.Dir(dir), "other")
		return errors.Join(os.RemoveAll(other), os.Rename(file, other), os.Symlink(other, file))
	case "hard":
		other := filepath.Join(filepath.Dir(dir), "other")
		return errors.Join(os.RemoveAll(other), os.Link(file, other))
	case "fifo":
		return errors.Join(os.Remove(file), syscall.Mkfifo(file, uint32(info.Mode().Perm())))
	case "rename":
		as := name + rapid.SampledFrom([]string{"~", ".json", "2"}).Draw(t, "as")
		*entries = append(*entries, as)
		return os.Rename(file, filepath.Join(dir, as))
	default:
		return os.Remove(file)
	}
}

// A daemon that is killed leaves runs without an end; the next one seals them,
// names what was torn, and does not begin them again.
func TestRecover_SealsWhatWasLeftAndNamesWhatWasTorn(t *testing.T) {
	t.Parallel()
	write := func(name, text string, mode fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, mode)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	}
	for name, c := range map[string]struct {
		tear func(*testing.T, string)
		torn string
	}{
		"nothing":        {func(*testing.T, string) {}, ""},
		"a receipt":      {write("receipts/0006-ended.json", `{"schema":"harn`, 0o400), "torn/receipts-0006-ended.json"},
		"an empty one":   {write("receipts/0006-message.json", "", 0o400), "torn/receipts-0006-message.json"},
		"half a message": {write(messagesFile, `{"id":"m4","ty`, 0o600), "torn/0006-messages.jsonl"},
		"a message":      {write(messagesFile, "{\"id\":\"m4\"}\n", 0o600), "torn/0006-messages.jsonl"},
		"the final":      {write(finalFile, `{"sch`, 0o400), "torn/0006-final-receipt.json"},
		"a status":       {write(statusNew, `{"id`, 0o600), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, 10)
			r := full(t, s)
			dir := filepath.Join(s.dir.Name(), r.ID())
			c.tear(t, dir)
			s = again(t, s)
			if _, err := s.Verify(r.ID()); err != nil {
				t.Fatal(err)
			}
			i, err := s.Info(r.ID())
			if err != nil || i.State != Failed || i.ExitCode != nil || i.Signal != nil || i.Bytes != 12 || i.Reason == nil {
				t.Errorf("%+v, %v", i, err)
			}
			if messages, err := s.Messages(r.ID()); err != nil || len(messages) != 3 {
				t.Errorf("%+v, %v", messages, err)
			}
			receipts, err := s.Receipts(r.ID())
			if err != nil {
				t.Fatal(err)
			}
			named := slices.ContainsFunc(receipts, func(r Receipt) bool { return r.Type == typeTorn })
			if named != (c.torn != "") {
				t.Errorf("named: %v, %+v", named, receipts)
			}
			if _, err := os.Stat(filepath.Join(dir, c.torn)); err != nil {
				t.Error(err)
			}
			if _, err := again(t, s).Verify(r.ID()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What was never sealed has started nothing, and is no run.
func TestRecover_SetsAsideWhatNeverBegan(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	kept := begin(t, s, "a")
	var ids []string
	for i, leave := range []func(dir string) error{
		os.RemoveAll,
		func(dir string) error { return os.Remove(dir + "/receipts/0001-sealed.json") },
		func(dir string) error {
			file := dir + "/receipts/0001-sealed.json"
			return errors.Join(os.Remove(file), os.WriteFile(file, []byte(`{"schema`), 0o400))
		},
	} {
		r, err := s.Begin(Launch{Harness: "a", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(s.dir.Name(), r.ID())
		if err := leave(dir); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		ids = append(ids, r.ID())
	}
	s = again(t, s)
	for _, id := range ids {
		if _, err := s.Info(id); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := os.Stat(filepath.Join(s.state.Name(), asideDir, id)); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Info(kept.ID()); err != nil {
		t.Error(err)
	}
}

// What is wrong otherwise is not made good, and it is what is named: of a run that
// cannot be sealed no file is as one that is over has it.
func TestRecover_LeavesAloneWhatWasTamperedWith(t *testing.T) {
	t.Parallel()
	cut := func(file string, mode fs.FileMode) error {
		data, err := os.ReadFile(file)
		return errors.Join(err, os.Remove(file), os.WriteFile(file, data[:len(data)/2], mode))
	}
	for _, tc := range []struct {
		file, entry string // entry is "" where it is the file
		change      func(file string) error
	}{
		{"receipts/0003-message.json", "receipts/0003-*", os.Remove},
		{"receipts/0003-message.json", "", func(file string) error { return cut(file, 0o400) }},
		{contractFile, "", func(file string) error { return cut(file, 0o400) }},
		{messagesFile, "", func(file string) error { return cut(file, 0o600) }},
		{messagesFile, "", os.Remove},
	} {
		s := newStore(t, 10)
		var log strings.Builder
		r := full(t, s)
		if err := tc.change(filepath.Join(s.dir.Name(), r.ID(), tc.file)); err != nil {
			t.Fatal(err)
		}
		s.opt.Log = slog.New(slog.NewTextHandler(&log, nil))
		s.live = map[string]*Run{} // as the next daemon finds it
		s.recover(time.Now())
		want := cmp.Or(tc.entry, tc.file)
		_, err := s.Verify(r.ID())
		var f *evidence.Fault
		if !errors.As(err, &f) || f.Entry != want || strings.Contains(f.Message, "mode") {
			t.Errorf("%s: %v", tc.file, err)
		}
		if !strings.Contains(log.String(), "cannot be sealed") || !strings.Contains(log.String(), want) {
			t.Errorf("%s: %s", tc.file, log.String())
		}
	}
}

// A receipt that is taken from a run under way is the one that is named.
func TestVerify_NamesTheReceiptThatIsMissing(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		for _, name := range []string{"receipts/0001-sealed.json", "receipts/0002-started.json", "receipts/0005-message.json"} {
			s := newStore(t, 10)
			r := full(t, s)
			if over {
				ended(r, 0, "")
			}
			if err := os.Remove(filepath.Join(s.dir.Name(), r.ID(), name)); err != nil {
				t.Fatal(err)
			}
			_, err := s.Verify(r.ID())
			var f *evidence.Fault
			if !errors.As(err, &f) || f.Entry != name || !strings.HasPrefix(f.Message, "missing") {
				t.Errorf("over %v, %s: %v", over, name, err)
			}
		}
	}
}

func TestMessage_SteerWaitsForItsOwnAcknowledgement(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	send := func(typ, correlation string) error {
		_, err := r.Message(Note{ID: typ + correlation, Type: typ, Body: "x", CorrelationID: correlation}, time.Now())
		return err
	}
	disposition := func() string {
		list, err := s.Messages(r.ID())
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Disposition
	}
	if err := send(Steer, "c1"); err != nil || disposition() != Pending {
		t.Error(err, disposition())
	}
	if err := send(Ack, "c2"); !errors.Is(err, ErrNoSteer) || disposition() != Pending {
		t.Error(err, disposition())
	}
	if err := send(Ack, "c1"); err != nil || disposition() != Acknowledged {
		t.Error(err, disposition())
	}
	if err := send(Ack, "c1"); !errors.Is(err, ErrNoSteer) {
		t.Error("twice:", err)
	}
	ended(r, 0, "")
	if err := send(Progress, "c3"); !errors.Is(err, ErrOver) {
		t.Error(err)
	}
}

// A run that is removed is removed as a whole, and that is recorded.
func TestRetention_IsRecorded(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1)
	first := begin(t, s, "a")
	ended(first, 0, "")
	final, err := s.Info(first.ID())
	if err != nil {
		t.Fatal(err)
	}
	ended(begin(t, s, "a"), 0, "")
	s = again(t, s)
	if _, err := os.Stat(filepath.Join(s.dir.Name(), first.ID())); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	parent, err := s.state.Sub(retentionDir)
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	if was, err := s.Removed(first.ID()); err != nil || !was || s.Has(first.ID()) {
		t.Error(was, err)
	}
	records, _, err := evidence.ReadChain(parent, removedDir, "removed runs")
	if err != nil || len(records) != 1 || !strings.Contains(string(records[0].Body), fmt.Sprintf("%q", *final.FinalReceiptSHA256)) {
		t.Errorf("%+v, %v", records, err)
	}
}

// A run that cannot be removed, or of which that cannot be recorded, is kept, and
// removed when what was in the way has passed.
func TestRetention_ForgetsNothingThatIsStillThere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{retentionDir, removingDir} {
		s := newStore(t, 1)
		path := filepath.Join(s.state.Name(), name)
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		first, second := begin(t, s, "a"), begin(t, s, "a")
		ended(first, 0, "")
		ended(second, 0, "")
		s.removals.Wait()
		if all, _ := ids(t, s, "a", "", 10); !slices.Equal(all, []string{second.ID(), first.ID()}) || !s.Has(first.ID()) {
			t.Errorf("without %s there are %v", name, all)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		third := begin(t, s, "a")
		ended(third, 0, "")
		s.removals.Wait()
		if all, _ := ids(t, s, "a", "", 10); !slices.Equal(all, []string{third.ID()}) {
			t.Errorf("with %s there are %v", name, all)
		}
		for _, r := range []*Run{first, second} {
			if was, err := s.Removed(r.ID()); err != nil || !was {
				t.Errorf("%s: %v, %v", r.ID(), was, err)
			}
		}
	}
}

// A chain that could not be written once is written to again.
func TestRetention_GoesOnAfterARecordThatFailed(t *testing.T) {
	t.Parallel()
	s := newStore(t, 1)
	for range 2 {
		ended(begin(t, s, "a"), 0, "")
	}
	s.removals.Wait()
	block := filepath.Join(s.state.Name(), retentionDir, removedDir, evidence.EntryName(2, "removed"))
	if err := os.WriteFile(block, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ended(begin(t, s, "a"), 0, "")
		s.removals.Wait()
	}
	if all, _ := ids(t, s, "a", "", 10); len(all) != 1 {
		t.Errorf("%d runs are kept", len(all))
	}
}

func TestContext_SaysWhereTheProgramIsAnother(t *testing.T) {
	t.Parallel()
	s := newStore(t, 10)
	r := begin(t, s, "a")
	ended(r, 0, "")
	var err error
	if s.opt.Knowledge, err = NewKnowledge(Catalog{Version: "2"}); err != nil {
		t.Fatal(err)
	}
	c, err := s.Context(r.ID())
	if err != nil || c.Binding != Verified || !c.Drift || c.RunningCatalogSHA256 == *c.CatalogSHA256 {
		t.Errorf("%+v, %v", c, err)
	}
}

// The final receipt is on the disk before the status names it: where that is so
// and the receipt is not there, the run is not sealed again.
func TestRecover_SealsNothingThatWasSealed(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(dir string) error{
		"gone": func(string) error { return nil },
		"torn": func(dir string) error { return os.WriteFile(filepath.Join(dir, finalFile), []byte(`{"sch`), 0o400) },
		"gone, and the output is another": func(dir string) error {
			file := filepath.Join(dir, outputFile)
			return errors.Join(os.Remove(file), os.WriteFile(file, []byte("forged"), 0o400))
		},
		"gone, with the end": func(dir string) error { return os.Remove(filepath.Join(dir, "receipts/0006-ended.json")) },
	} {
		s := newStore(t, 10)
		r := full(t, s)
		ended(r, 0, "")
		dir := filepath.Join(s.dir.Name(), r.ID())
		if err := errors.Join(os.Remove(filepath.Join(dir, finalFile)), forge(dir)); err != nil {
			t.Fatal(err)
		}
		before := fileList(t, dir)
		for range 2 {
			s = again(t, s)
			var f *evidence.Fault
			if _, err := s.Verify(r.ID()); !errors.As(err, &f) || f.Entry != finalFile {
				t.Errorf("%s: %v", name, err)
			}
			if after := fileList(t, dir); !slices.Equal(before, after) {
				t.Errorf("%s: %v, and then %v", name, before, after)
			}
		}
	}
}

// What is shown of a run is made from the rest: what was wrong at the start is
// made again, unless it names another final receipt (EVI-1).
func TestStatus_IsMadeAgainAtTheStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status func(right string) string
		ok     bool
	}{
		"empty":   {func(string) string { return "" }, true},
		"torn":    {func(right string) string { return right[:20] }, true},
		"changed": {func(right string) string { return strings.Replace(right, `"exited"`, `"failed"`, 1) }, true},
		"of a run that is not over": {func(right string) string {
			return right[:strings.Index(right, `"final_receipt_sha256":"`)] + `"final_receipt_sha256":null}` + "\n"
		}, true},
		"of another seal": {func(right string) string {
			return strings.Replace(right, `"final_receipt_sha256":"`, `"final_receipt_sha256":"0`, 1)
		}, false},
	} {
		s := newStore(t, 10)
		r := full(t, s)
		ended(r, 0, "")
		file := filepath.Join(s.dir.Name(), r.ID(), statusFile)
		right, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte(c.status(string(right))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Verify(r.ID()); err == nil {
			t.Errorf("%s: taken while the store was open", name)
		}
		settled(t, file)
		s = again(t, s)
		_, err = s.Info(r.ID())
		var f *evidence.Fault
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &f) || !strings.HasSuffix(f.Entry, statusFile)) {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(file); err != nil || c.ok != bytes.Equal(now, right) {
			t.Errorf("%s: %s, %v", name, now, err)
		}
	}
}

// settled waits until a file's last change is before now: the clock of files is
// behind by as much as a tick of the kernel's.
func settled(t *testing.T, file string) {
	t.Helper()
	probe := file + ".probe"
	was, err := os.Stat(file)
	now := was
	for err == nil && !now.ModTime().After(was.ModTime()) {
		if err = os.WriteFile(probe, nil, 0o600); err == nil {
			now, err = os.Stat(probe)
		}
	}
	if err := errors.Join(err, os.Remove(probe)); err != nil {
		t.Fatal(err)
	}
}

// Whoever finds a run that cannot be believed neither seals it again nor takes
// it for none (EVI-3).
func TestRecover_ChangesNothingOfWhatWasChanged(t *testing.T) {
	t.Parallel()
	for _, name := range []string{finalFile, contractFile, "receipts/0006-ended.json"} {
		for _, more := range []string{"\n", "x", "\nxyz"} {
			s := newStore(t, 10)
			r := full(t, s)
			ended(r, 0, "")
			file := filepath.Join(s.dir.Name(), r.ID(), name)
			data, err := os.ReadFile(file)
			if err == nil {
				err = errors.Join(os.Remove(file), os.WriteFile(file, append(data, more...), 0o400))
			}
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s = again(t, s)
				var f *evidence.Fault
				if _, err := s.Verify(r.ID()); !errors.As(err, &f) || f.Entry != name {
					t.Errorf("%s and %q: %v", name, more, err)
				}
				if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, append(data, more...)) || !s.Has(r.ID()) {
					t.Errorf("%s and %q: it was changed once more: %v", name, more, err)
				}
			}
		}
	}
}
