package ledger_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/ledger"
)

const text = "[contract]\nname = \"build <all> & test\"\n# größer\n"

var me = [...]ledger.Principal{{Tenant: "acme", User: "ann"}}

// begin opens a session with a few entries.
func begin(t testing.TB, s *ledger.Store, id string, steps int) *ledger.Log {
	t.Helper()
	l, err := s.Create(id, ledger.Opening{Principal: me[0], ContractSHA256: strings.Repeat("c", 64), Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for i := range steps {
		if _, err := l.Append("step", map[string]any{"name": fmt.Sprintf("step %d", i), "exit_code": i}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// finished exports a session that has its verdict.
func finished(t testing.TB, s *ledger.Store, id string, steps int) []byte {
	t.Helper()
	l := begin(t, s, id, steps)
	zero, sum := 0, strings.Repeat("e", 64)
	_, err := l.Decide(ledger.Verdict{
		Outcome: "pass", ContractSHA256: strings.Repeat("c", 64), Sandbox: "none",
		Checks: []ledger.Checked{{Name: "tests", Outcome: "pass", ExitCode: &zero, EvidenceSHA256: &sum}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	return export(t, s, id)
}

func export(t testing.TB, s *ledger.Store, id string) []byte {
	t.Helper()
	b, err := s.Export(id)
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newStore(t testing.TB) *ledger.Store { return ledger.Open(filepath.Join(t.TempDir(), "ledger")) }

func pinOf(t testing.TB, s *ledger.Store) ledger.Pin {
	t.Helper()
	ring, err := s.Ring()
	if err != nil {
		t.Fatal(err)
	}
	pin, err := ledger.NewPin(ring[0].PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

func TestVerify_AcceptsWhatWasExported(t *testing.T) {
	s := newStore(t)
	data := finished(t, s, "a", 3)
	b, err := ledger.Verify(data, pinOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if b.Verdict.Outcome != "pass" || b.Contract != text || len(b.Entries) != 5 {
		t.Errorf("%+v", b)
	}
	for i, e := range b.Entries {
		h, err := e.Head()
		if err != nil || h.Principal != me[0] || h.Session != "a" || h.At == "" || e.N != i+1 {
			t.Errorf("entry %d: %+v, %v", e.N, h, err)
		}
	}
}

func TestVerify_AcceptsASessionThatIsNotDone(t *testing.T) {
	s := newStore(t)
	begin(t, s, "a", 1)
	b, err := ledger.Verify(export(t, s, "a"), nil)
	if err != nil || b.Verdict != nil {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestVerify_AcceptsWhatAClientDecodedAndEncodedAgain(t *testing.T) {
	data := finished(t, newStore(t), "a", 2)
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	compact, _ := json.Marshal(v)
	indented, _ := json.MarshalIndent(v, "", "  ")
	python, err := exec.Command("python3", "-c", `import json,sys; print(json.dumps(json.loads(sys.argv[1])), end="")`, string(data)).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range [][]byte{compact, indented, python} {
		if bytes.Equal(again, data) {
			t.Error("it was not written in another way")
		}
		if _, err := ledger.Verify(again, nil); err != nil {
			t.Errorf("%v:\n%s", err, again)
		}
	}
}

// refuses checks that a bundle is refused, here and by the program of others.
func refuses(t testing.TB, what string, data []byte, pin ledger.Pin) {
	t.Helper()
	if _, err := ledger.Verify(data, pin); err == nil {
		t.Errorf("accepted although %s:\n%s", what, data)
	} else if fault, ok := errors.AsType[*ledger.Fault](err); !ok || fault.Message == "" {
		t.Errorf("%s: %v says nothing", what, err)
	}
}

func TestVerify_RefusesAnyByteThatWasChangedAddedOrRemoved(t *testing.T) {
	s := newStore(t)
	data := finished(t, s, "a", 2)
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	indented, _ := json.MarshalIndent(v, "", "\t")
	forms := map[int][]byte{1: bytes.TrimSpace(data), 5: indented} // every byte, and every fifth
	for every, form := range forms {
		for i := 0; i < len(form); i += every {
			c := form[i]
			put := func(what string, with ...byte) {
				refuses(t, fmt.Sprintf("byte %d is %s", i, what), slices.Concat(form[:i], with, form[i+1:]), nil)
			}
			switch i % 4 {
			case 0:
				put("another", c^1)
			case 1:
				put("of the other case", c^0x20)
			case 2:
				put("missing")
			case 3:
				put("behind a blank", ' ', c)
			}
		}
	}
}

func TestVerify_AProgramOfOthersAgrees(t *testing.T) {
	s := newStore(t)
	if _, err := s.Rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate(); err != nil {
		t.Fatal(err)
	}
	data := finished(t, s, "a", 1)
	dir := t.TempDir()
	var paths []string
	write := func(data []byte) {
		path := filepath.Join(dir, fmt.Sprint(len(paths)))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	write(data)
	begin(t, s, "b", 1)
	write(export(t, s, "b")) // has no verdict yet
	sound := len(paths)
	write(finished(t, newStore(t), "a", 1)) // sound, and not by the pinned key
	for i := 0; i < len(data)-1; i += 41 {
		bad := slices.Clone(data)
		bad[i] ^= 1
		write(bad)
	}
	out, err := exec.Command("python3", "testdata/verify.py", strings.Join(paths, ","), pinOf(t, s)[0]).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if strings.HasPrefix(line, "ok") != (i < sound) {
			t.Errorf("bundle %d: %s", i, line)
		}
		bad, err := os.ReadFile(paths[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Verify(bad, pinOf(t, s)); (err == nil) != strings.HasPrefix(line, "ok") {
			t.Errorf("bundle %d: we say %v, they say %s", i, err, line)
		}
	}
}

func TestVerify_RefusesRandomEdits(t *testing.T) {
	s := newStore(t)
	data := finished(t, s, "a", 4)
	other := finished(t, newStore(t), "a", 4) // by another key
	sibling := finished(t, s, "b", 4)         // of another session
	pin := pinOf(t, s)
	decode := func(data []byte) *ledger.Bundle {
		var b ledger.Bundle
		if err := json.Unmarshal(data, &b); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	rapid.Check(t, func(rt *rapid.T) {
		b, foreign, beside := decode(data), decode(other), decode(sibling)
		n := len(b.Entries)
		i, j := rapid.IntRange(0, n-1).Draw(rt, "i"), rapid.IntRange(0, n-1).Draw(rt, "j")
		switch what := rapid.IntRange(0, 9).Draw(rt, "what"); what {
		case 0:
			b.Entries = slices.Delete(b.Entries, i, i+1)
		case 1:
			b.Entries = slices.Insert(b.Entries, j, b.Entries[i])
		case 2:
			b.Entries[i], b.Entries[(i+1+j%(n-1))%n] = b.Entries[(i+1+j%(n-1))%n], b.Entries[i]
		case 3:
			b.Entries[i] = foreign.Entries[i]
		case 4:
			b.Entries[i] = beside.Entries[i]
		case 5:
			b.Entries[i].Signature = foreign.Entries[i].Signature
		case 6:
			b.Verdict = beside.Verdict
		case 7:
			b.Verdict = foreign.Verdict
		case 8:
			b = foreign // whole and sound, but not by the key that is pinned
		case 9:
			b.Verdict, b.Session = beside.Verdict, beside.Session
		}
		edited, err := b.Encode()
		if err != nil {
			rt.Fatal(err)
		}
		if _, err := ledger.Verify(edited, pin); err == nil {
			rt.Fatalf("accepted:\n%s", edited)
		}
	})
}

func TestVerify_SaysPreciselyWhatDoesNotHold(t *testing.T) {
	s := newStore(t)
	data := finished(t, s, "a", 2)
	edit := func(change func(b *ledger.Bundle)) []byte {
		b, err := ledger.Verify(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		out, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, tc := range []struct {
		change func(b *ledger.Bundle)
		want   string
	}{
		{func(b *ledger.Bundle) { b.Entries = slices.Delete(b.Entries, 1, 2) }, "entry 2: it is numbered 3: an entry was removed, repeated or moved"},
		{func(b *ledger.Bundle) { b.Entries = b.Entries[:3] }, "the verdict is recorded by no entry"},
		{func(b *ledger.Bundle) { b.Entries[1].Type = "stop" }, "entry 2: its content was changed: sha256 is another digest"},
		{func(b *ledger.Bundle) { b.Entries[2].Signature = b.Entries[1].Signature }, "entry 3: its signature does not fit"},
		{func(b *ledger.Bundle) { b.Contract += " " }, "entry 1: the contract's text is not the one that was agreed: text_sha256 is another digest"},
		{func(b *ledger.Bundle) { b.Verdict.Outcome = "fail" }, "the verdict's signature does not fit: it was changed, or is of another session"},
		{func(b *ledger.Bundle) { b.Verdict = nil }, "entry 4: the verdict that it records is missing"},
		{func(b *ledger.Bundle) { b.Session = "b" }, "entry 1: it is of another session"},
		{func(b *ledger.Bundle) { b.HeadHash = b.Entries[0].SHA256 }, "head_hash is not the digest of the last entry"},
		{func(b *ledger.Bundle) { b.PublicKeys[0].Since = "1970-01-01T00:00:00Z" }, "public key 1: its own signature does not fit"},
		{func(b *ledger.Bundle) { b.PublicKeys = nil }, "there is no public key"},
	} {
		_, err := ledger.Verify(edit(tc.change), nil)
		if err == nil || err.Error() != tc.want {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
}

func TestVerify_SaysWhatIsNoBundleInWordsOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                     "it is not a bundle: it is not an object",
		`{"session":5}`:          "it is not a bundle: session: a bundle has no number there",
		`{"entries":{}}`:         "it is not a bundle: entries: a bundle has no object there",
		`{"entries":[{"n":""}]}`: "it is not a bundle: entries.n: a bundle has no string there",
		`{"other":1}`:            `it is not a bundle: unknown field "other"`,
	} {
		if _, err := ledger.Verify([]byte(text), nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestRotate_KeepsWhatWasSignedAndVouchesForWhatIsNew(t *testing.T) {
	s := newStore(t)
	before := finished(t, s, "a", 1)
	first := pinOf(t, s)
	l := begin(t, s, "b", 1) // goes on over the rotation
	made, err := s.Rotate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append("step", nil); err != nil {
		t.Fatal(err)
	}
	l.Close()
	second, err := ledger.NewPin(made.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range []ledger.Pin{first, second} {
		for name, data := range map[string][]byte{"a again": export(t, s, "a"), "b": export(t, s, "b"), "c": finished(t, s, "c"+pin[0][:4], 1)} {
			if _, err := ledger.Verify(data, pin); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := ledger.Verify(before, first); err != nil {
		t.Errorf("exported before: %v", err)
	}
	ring, err := s.Ring()
	if err != nil || len(ring) != 2 || *ring[1].Previous != ring[0].Fingerprint {
		t.Errorf("%+v, %v", ring, err)
	}
}

func TestStore_KeysArePrivateAndMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	begin(t, ledger.Open(dir), "a", 0)
	ring, err := ledger.Open(dir).Ring()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, ledger.Open(dir), "b", 0)
	again, err := ledger.Open(dir).Ring()
	if diff := cmp.Diff(ring, again); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	path := filepath.Join(dir, "keys.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Open(dir).Create("c", ledger.Opening{}); err == nil {
		t.Error("a key that others can read was used")
	}
}

func TestStore_BrokenKeysSayWhatGoesWithThem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	begin(t, ledger.Open(dir), "a", 0)
	path := filepath.Join(dir, "keys.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]string{"torn": string(data[:len(data)/2]), "a key changed": strings.Replace(string(data), `"public_key": "`, `"public_key": "A`, 1)} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ledger.Open(dir).Ring()
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "neither verified, exported nor resumed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStore_OneWriterAtATime(t *testing.T) {
	s := newStore(t)
	l := begin(t, s, "a", 1)
	if _, err := s.Write("a"); !errors.Is(err, ledger.ErrBusy) || !s.Busy("a") {
		t.Errorf("Write: %v", err)
	}
	if _, err := s.Create("a", ledger.Opening{}); !errors.Is(err, ledger.ErrBusy) {
		t.Errorf("Create: %v", err)
	}
	l.Close()
	if _, err := s.Create("a", ledger.Opening{}); !errors.Is(err, ledger.ErrExists) || s.Busy("a") {
		t.Errorf("Create: %v", err)
	}
	again, err := s.Write("a")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if e, err := again.Append("step", nil); err != nil || e.N != 3 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := s.Write("../a"); !errors.Is(err, ledger.ErrUnknown) {
		t.Errorf("Write: %v", err)
	}
	if _, err := s.Read("none"); !errors.Is(err, ledger.ErrUnknown) {
		t.Errorf("Read: %v", err)
	}
}

// A session that lost its chain is none that never was: nobody begins it again.
func TestStore_ASessionThatLostItsChainIsAFault(t *testing.T) {
	for way, change := range map[string]func(path string) error{
		"emptied": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"removed": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 20) },
		"removed with the contract": func(path string) error {
			evidence := filepath.Join(filepath.Dir(path), "evidence")
			return errors.Join(os.Mkdir(evidence, 0o700), os.Remove(path), os.Remove(filepath.Join(filepath.Dir(path), "contract.toml")))
		},
	} {
		s := newStore(t)
		begin(t, s, "a", 2).Close()
		if err := change(filepath.Join(s.Dir("a"), "entries.jsonl")); err != nil {
			t.Fatal(err)
		}
		for what, do := range map[string]func() error{
			"read":   func() error { _, err := s.Read("a"); return err },
			"write":  func() error { _, err := s.Write("a"); return err },
			"export": func() error { _, err := s.Export("a"); return err },
		} {
			if fault, ok := errors.AsType[*ledger.Fault](do()); !ok || !strings.Contains(fault.Message, "entries.jsonl of session a") {
				t.Errorf("%s, %s: %v", way, what, do())
			}
		}
		if _, err := s.Create("a", ledger.Opening{Text: []byte(text)}); !errors.Is(err, ledger.ErrExists) {
			t.Errorf("%s: created again: %v", way, err)
		}
		if all, err := s.List(); err != nil || len(all) != 1 || all[0].ID != "a" || all[0].At.IsZero() {
			t.Errorf("%s: listed: %v, %v", way, all, err)
		}
	}
}

// What a crash leaves before the first entry is no session, and in nobody's way.
func TestStore_ASessionIsThereAsAWholeOrNotAtAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	s := ledger.Open(dir)
	finished(t, s, "other", 1)
	old := filepath.Join(dir, "sessions", ".a.1")
	if err := errors.Join(os.MkdirAll(old, 0o700), os.WriteFile(filepath.Join(old, "contract.toml"), []byte(text), 0o600),
		os.MkdirAll(s.Dir("a"), 0o700), os.WriteFile(filepath.Join(s.Dir("a"), "lock"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read("a"); !errors.Is(err, ledger.ErrUnknown) {
		t.Errorf("read: %v", err)
	}
	if all, err := s.List(); err != nil || len(all) != 1 {
		t.Errorf("listed: %v, %v", all, err)
	}
	finished(t, s, "a", 1)
	if left, err := os.ReadDir(filepath.Dir(old)); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestStore_SetsATornEntryAsideAndSaysSo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	s := ledger.Open(dir)
	begin(t, s, "a", 2).Close()
	path := filepath.Join(s.Dir("a"), "entries.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := data[:len(data)-7]
	if err := os.WriteFile(path, cut, 0o600); err != nil {
		t.Fatal(err)
	}
	if entries, err := s.Read("a"); err != nil || len(entries) != 2 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	l, err := s.Write("a")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	entries := l.Entries()
	if len(entries) != 3 || entries[2].Type != ledger.Torn {
		t.Errorf("%+v", entries)
	}
	aside, err := os.ReadFile(filepath.Join(s.Dir("a"), "torn-3"))
	if last := bytes.LastIndexByte(cut, '\n') + 1; err != nil || !bytes.Equal(aside, cut[last:]) {
		t.Errorf("set aside: %q, %v", aside, err)
	}
}

func TestStore_ReadsNothingThatWasTamperedWith(t *testing.T) {
	s := newStore(t)
	begin(t, s, "a", 2).Close()
	path := filepath.Join(s.Dir("a"), "entries.jsonl")
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(sound)-1; i += 3 {
		if sound[i] == '\n' {
			continue
		}
		bad := slices.Clone(sound)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read("a"); err == nil {
			t.Fatalf("byte %d was changed and read", i)
		}
	}
}
