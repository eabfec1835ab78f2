package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/ledger"
)

func outcomes(a Answer) string {
	list := []string{a.Verdict.Outcome}
	for _, c := range a.Verdict.Checks {
		list = append(list, c.Name+"="+c.Outcome)
	}
	return strings.Join(list, " ")
}

func TestRun_JudgesEveryKindOfCheck(t *testing.T) {
	b := newBench(t)
	b.file(t, "out/app", "hello")
	b.file(t, "p.json", `{"version": "1.2", "n": [1, 2.50, {"a/b": null}]}`)
	got := b.run(t, `
[contract]
name = "all"
env = ["PATH"]
[work]
cmd = "sh"
args = ["-c", "cat > made; echo worked"]
prompt = "do it"
[[check]]
name = "exits"
cmd = "sh"
args = ["-c", "echo first; echo ok done; echo oops >&2; exit 3"]
exit = 3
stdout = "^ok"
stderr = "oops$"
[[check]]
name = "made"
file = "made"
sha256 = "`+ledger.SHA256([]byte("do it"))+`"
[[check]]
name = "gone"
file = "nowhere/at/all"
exists = false
[[check]]
name = "version"
file = "p.json"
json = { pointer = "/version", equals = "1.2" }
[[check]]
name = "number"
file = "p.json"
json = { pointer = "/n/1", equals = 2.5 }
[[check]]
name = "other exit"
cmd = "false"
[[check]]
name = "no match"
cmd = "echo"
args = ["nothing"]
stdout = "^thing"
[[check]]
name = "missing"
file = "out/nothing"
[[check]]
name = "other digest"
file = "out/app"
sha256 = "`+strings.Repeat("0", 64)+`"
[[check]]
name = "other value"
file = "p.json"
json = { pointer = "/version", equals = 1.2 }
`)
	want := "fail exits=pass made=pass gone=pass version=pass number=pass other exit=fail no match=fail missing=fail other digest=fail other value=fail"
	if diff := cmp.Diff(want, outcomes(got)); diff != "" {
		t.Error(diff)
	}
	if got.Status != Done || got.Verdict.Sandbox != b.Engine.Sandbox().around(&Work{Cmd: "sh"}).String() || *got.Verdict.Checks[0].ExitCode != 3 || got.Verdict.Checks[1].ExitCode != nil {
		t.Errorf("%+v", got)
	}
	bundle, err := b.Ledger.Export(got.Session)
	if err != nil {
		t.Fatal(err)
	}
	data, err := bundle.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Verify(data, nil); err != nil {
		t.Error(err)
	}
	// What a check is said to have come to is committed to by a file.
	for _, c := range got.Verdict.Checks {
		found := false
		files, _ := filepath.Glob(filepath.Join(b.Ledger.Dir(got.Session), "evidence", "*.json"))
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || ledger.SHA256(data) == *c.EvidenceSHA256
		}
		if !found {
			t.Errorf("%s: no file has its digest", c.Name)
		}
	}
}

// doneFleet runs every harness at once.
type doneFleet struct{}

func (doneFleet) Announce(string) func() { return func() {} }

func (doneFleet) Work(context.Context, HarnessWork) (HarnessEnd, error) {
	code := 0
	return HarnessEnd{Run: "r", State: "exited", ExitCode: &code, Receipt: strings.Repeat("0", 64)}, nil
}

func TestRun_EachStepStatesItsOwnSandboxAndTheVerdictTheWeakest(t *testing.T) {
	b := newBench(t)
	b.Fleet = doneFleet{}
	found := b.Engine.Sandbox()
	const check = "[[check]]\nname='it'\ncmd='true'\n[[check]]\nname='file'\nfile='none'\nexists=false\n"
	for _, tc := range []struct {
		session, work string
		want          Sandbox
	}{
		{"command", "[work]\ncmd='true'\n", Sandbox{Landlock: found.Landlock}},
		{"harness", "[work]\nharness='h'\nprompt='go'\n", Sandbox{}},
		{"checks", "", found},
	} {
		a := wait(t, b.begin(t, tc.session, "[contract]\nname='x'\nenv=['PATH']\n"+tc.work+check))
		if a.Verdict.Outcome != Pass || a.Verdict.Sandbox != tc.want.String() {
			t.Errorf("%s: %+v", tc.session, a.Verdict)
		}
		entries, err := b.Ledger.Read(tc.session)
		if err != nil {
			t.Fatal(err)
		}
		h, err := replay(entries)
		if err != nil {
			t.Fatal(err)
		}
		for n, r := range h.done {
			want := found
			if n == workStep {
				want = tc.want
			}
			data, err := os.ReadFile(filepath.Join(b.Ledger.Dir(tc.session), "evidence", evidenceName(h.began[n])))
			if r.Sandbox != want.String() || !strings.Contains(string(data), fmt.Sprintf(`"sandbox":%q`, want)) {
				t.Errorf("%s: step %d: %+v, %s, %v", tc.session, n, r, data, err)
			}
		}
	}
}

// A document that says two things holds nothing, wherever it does.
func TestRun_AMemberThatIsThereTwiceIsNoAnswer(t *testing.T) {
	b := newBench(t)
	for text, want := range map[string]string{
		`{"a": 1, "b": {"a": 2, "c": [{"a": 3}, {"a": 3}]}, "d": "a"}`: "",
		`{"a": 2, "a": 1}`:                                 "a",
		`{"a": 1, "\u0061": 1}`:                            "a",
		`{"a": 1, "b": [{"x": {}, "y": [], "x": null}]}`:   "x",
		`{"b": {"c": "c", "d": {"c": 1}, "c": 2}, "a": 1}`: "c",
	} {
		b.file(t, "f.json", text)
		a := b.run(t, "[contract]\nname='x'\n[[check]]\nname='it'\nfile='f.json'\njson={pointer='/a',equals=1}\n")
		wrong := fmt.Sprintf("the member %q twice", want)
		if pass := a.Verdict.Outcome == Pass; pass != (want == "") || !pass && !strings.Contains(a.Steps[0].Reason, wrong) {
			t.Errorf("%s: %s, %+v", text, a.Verdict.Outcome, a.Steps)
		}
	}
}

func TestRun_WorkThatFailsLeavesNothingToCheck(t *testing.T) {
	b := newBench(t)
	got := b.run(t, "[contract]\nname='x'\n[work]\ncmd='false'\n[[check]]\nname='a'\ncmd='true'\n")
	if diff := cmp.Diff("fail a=skipped", outcomes(got)); diff != "" || got.Verdict.Checks[0].EvidenceSHA256 != nil {
		t.Error(diff)
	}
}

func TestRun_WhatCannotBeStartedIsAnError(t *testing.T) {
	b := newBench(t)
	for _, text := range []string{
		"[contract]\nname='x'\n[[check]]\nname='a'\ncmd='no-such-command'\n",
		"[contract]\nname='x'\nworkdir='nowhere'\n[[check]]\nname='a'\ncmd='true'\n",
		"[contract]\nname='x'\n[work]\nharness='reviewer'\nprompt='go'\n[[check]]\nname='a'\ncmd='true'\n",
	} {
		if got := b.run(t, text); got.Verdict.Outcome != Error {
			t.Errorf("%s: %s", text, outcomes(got))
		}
	}
}

func TestRun_TimesAreKept(t *testing.T) {
	b := newBench(t)
	for text, want := range map[string]string{
		sh("sleep 60", "timeout = '300ms'"):                              "timeout it=timeout",
		sh("trap '' TERM; sleep 60 & wait; sleep 60", "timeout='300ms'"): "timeout it=timeout",

		"[contract]\nname='x'\n[[check]]\nname='a'\ncmd='sleep'\nargs=['60']\ntimeout='200ms'\n[[check]]\nname='b'\ncmd='true'\n": "timeout a=timeout b=pass",
		"[contract]\nname='x'\ntimeout='200ms'\n[work]\ncmd='sleep'\nargs=['60']\n[[check]]\nname='b'\ncmd='true'\n":              "timeout b=timeout",
	} {
		began := time.Now()
		if diff := cmp.Diff(want, outcomes(b.run(t, text))); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %s", took)
		}
	}
}

func TestCancel_EndsWhatRunsHereOrElsewhere(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		b := newBench(t)
		x := b.begin(t, "s", sh("touch begun; sleep 60")+"[[check]]\nname='b'\ncmd='true'\n")
		until(t, func() bool { return exists(b.root, "begun") })
		by := b.Runner
		if elsewhere {
			by = &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal}
		}
		got, err := by.Cancel(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("cancelled it=cancelled b=cancelled", outcomes(got)); diff != "" {
			t.Errorf("elsewhere %v: %s", elsewhere, diff)
		}
		if diff := cmp.Diff(got, wait(t, x)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRun_OneSessionIsOneExecution(t *testing.T) {
	b := newBench(t)
	text := sh("echo x >> count; sleep 0.2")
	x := b.begin(t, "s", text)
	if y := b.begin(t, "s", text); x != y {
		t.Error("a second execution")
	}
	other := &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal}
	z, err := other.Run(t.Context(), Request{Session: "s", Text: []byte(text), Root: b.root})
	if err != nil {
		t.Fatal(err)
	}
	want := wait(t, x)
	if diff := cmp.Diff(want, wait(t, z)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, wait(t, b.begin(t, "s", "# the same\n"+text))); diff != "" {
		t.Errorf("asked for again: %s", diff)
	}
	if data, _ := os.ReadFile(filepath.Join(b.root, "count")); string(data) != "x\n" {
		t.Errorf("run %q", data)
	}
	if _, err := b.Run(t.Context(), Request{Session: "s", Text: []byte(sh("true")), Root: b.root}); !errors.Is(err, ErrConflict) {
		t.Errorf("another contract: %v", err)
	}
}

func TestRun_AnInterruptedSessionGoesOnWhenAskedTo(t *testing.T) {
	b := newBench(t)
	text := "[contract]\nname='x'\nenv=['PATH']\n"
	for i := range 4 {
		text += fmt.Sprintf("[[check]]\nname='c%d'\ncmd='sh'\nargs=['-c', 'echo %d >> ran; test %d != 2 || test -e go || { touch wait; sleep 60; }']\n", i, i, i)
	}
	x := b.begin(t, "s", text)
	until(t, func() bool { return exists(b.root, "wait") })
	b.Stop() // as at SIGTERM
	if _, err := x.Wait(t.Context()); err == nil {
		t.Error("it came to something")
	}
	if _, err := b.Run(t.Context(), Request{Session: "late", Text: []byte(text), Root: b.root}); !errors.Is(err, ErrInterrupted) {
		t.Errorf("begun after the end: %v", err)
	}
	again := &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: ledger.Principal{Tenant: "acme", User: "bob"}}
	for range 2 { // looking does not go on with it
		if a, err := again.Status("s"); err != nil || a.Status != Interrupted || a.Verdict != nil {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	b.file(t, "go", "")
	y, err := again.Run(t.Context(), Request{Session: "s", Text: []byte(text), Root: b.root})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("pass c0=pass c1=pass c2=pass c3=pass", outcomes(wait(t, y))); diff != "" {
		t.Error(diff)
	}
	var told []string
	y.Watch(func(p Progress) {
		if p.Outcome != "" {
			told = append(told, fmt.Sprintf("%d/%d %s", p.Done, p.Total, p.Step))
		}
	})
	if diff := cmp.Diff("1/4 c0, 2/4 c1, 3/4 c2, 4/4 c3", strings.Join(told, ", ")); diff != "" {
		t.Error(diff)
	}
	if data, _ := os.ReadFile(filepath.Join(b.root, "ran")); string(data) != "0\n1\n2\n2\n3\n" {
		t.Errorf("ran %q", data)
	}
	entries, err := b.Ledger.Read("s")
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range entries {
		types = append(types, e.Type)
	}
	want := "opened started finished started finished started interrupted resumed started finished started finished verdict"
	if diff := cmp.Diff(want, strings.Join(types, " ")); diff != "" {
		t.Error(diff)
	}
}

// slowToOpen ends the bench's runner and returns one after it, which opens what
// that left only once release is closed, and closes entered before.
func (b *bench) slowToOpen(t *testing.T) (again *Runner, entered, release chan struct{}) {
	t.Helper()
	b.Stop()
	b.file(t, "go", "")
	entered, release = make(chan struct{}), make(chan struct{})
	return &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal, Reap: func(context.Context) {
		close(entered)
		<-release
	}}, entered, release
}

// A session that takes its time to be opened holds up nobody but those who want
// the same one.
func TestRun_OpensEachSessionForItself(t *testing.T) {
	b := newBench(t)
	text := sh("touch begun; test -e go || sleep 60")
	b.begin(t, "slow", text)
	until(t, func() bool { return exists(b.root, "begun") })
	again, entered, release := b.slowToOpen(t)
	t.Cleanup(again.Stop)
	type opened struct {
		x   *Execution
		err error
	}
	slow := make(chan opened, 2)
	for range 2 {
		go func() {
			x, err := again.Run(t.Context(), Request{Session: "slow", Name: "c.toml", Text: []byte(text), Root: b.root})
			slow <- opened{x, err}
		}()
	}
	<-entered
	other, err := again.Run(t.Context(), Request{Session: "other", Name: "c.toml", Text: []byte(sh("sleep 60")), Root: b.root})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := again.Cancel(t.Context(), "other"); err != nil || a.Verdict.Outcome != Cancelled {
		t.Errorf("%+v, %v", a, err)
	}
	<-other.Done()
	impatient, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if _, err := again.Cancel(impatient, "slow"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("what is being opened is cancelled: %v", err)
	}
	close(release)
	first, second := <-slow, <-slow
	if first.err != nil || second.err != nil || first.x != second.x {
		t.Fatalf("%+v, %+v", first, second)
	}
	if a := wait(t, first.x); a.Verdict.Outcome != Pass {
		t.Errorf("%+v", a)
	}
}

// What is being opened when everything ends begins nothing, and is waited for.
func TestStop_InterruptsWhatIsBeingOpened(t *testing.T) {
	b := newBench(t)
	text := sh("touch begun; test -e go || sleep 60; touch again")
	b.begin(t, "s", text)
	until(t, func() bool { return exists(b.root, "begun") })
	again, entered, release := b.slowToOpen(t)
	ended := make(chan error)
	go func() {
		x, err := again.Run(t.Context(), Request{Session: "s", Name: "c.toml", Text: []byte(text), Root: b.root})
		if err == nil {
			_, err = x.Wait(context.Background())
		}
		ended <- err
	}()
	<-entered
	stopped := make(chan struct{})
	go func() {
		again.Stop()
		close(stopped)
	}()
	until(t, func() bool {
		again.mu.Lock()
		defer again.mu.Unlock()
		return again.stopped
	})
	select {
	case <-stopped:
		t.Error("it was not waited for")
	default:
	}
	close(release)
	if err := <-ended; !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	<-stopped
	if exists(b.root, "again") {
		t.Error("a step began")
	}
	if a, err := b.Look("s"); err != nil || a.Status != Interrupted {
		t.Errorf("%+v, %v", a, err)
	}
}

// A session is of one prompt as it is of one contract: what the work was told is in
// its first entry, and nobody goes on with another.
func TestRun_ASessionIsOfOnePrompt(t *testing.T) {
	b := newBench(t)
	const checked = "[[check]]\nname='a'\ncmd='true'\n"
	text := "[contract]\nname='x'\nenv=['PATH']\n[work]\ncmd='sh'\nargs=['-c', 'cat >> told; test -e go || { touch wait; sleep 60; }']\nprompt_file='p.md'\n" + checked
	b.file(t, "p.md", "one")
	x := b.begin(t, "s", text)
	until(t, func() bool { return exists(b.root, "wait") })
	other := &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal}
	ask := func(r *Runner, own bool) (*Execution, error) {
		return r.Run(t.Context(), Request{Session: "s", Text: []byte(text), Root: b.root, Own: own})
	}
	b.file(t, "p.md", "two")
	for what, r := range map[string]*Runner{"joined": b.Runner, "followed": other} {
		if _, err := ask(r, false); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := ask(r, true); err != nil {
			t.Errorf("%s as its own: %v", what, err)
		}
	}
	b.Stop()
	other.Wait()
	if _, err := x.Wait(t.Context()); err == nil {
		t.Error("it came to something")
	}
	again := &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal}
	for _, own := range []bool{false, true} {
		if _, err := ask(again, own); !errors.Is(err, ErrConflict) {
			t.Errorf("gone on with, own %v: %v", own, err)
		}
	}
	b.file(t, "go", "")
	b.file(t, "p.md", "one")
	y, err := ask(again, false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("pass a=pass", outcomes(wait(t, y))); diff != "" {
		t.Error(diff)
	}
	if data, _ := os.ReadFile(filepath.Join(b.root, "told")); string(data) != "oneone" {
		t.Errorf("told %q", data)
	}
	b.file(t, "p.md", "three")
	if _, err := ask(again, false); !errors.Is(err, ErrConflict) {
		t.Errorf("done: %v", err)
	}
	if _, err := ask(again, true); err != nil {
		t.Errorf("done, as its own: %v", err)
	}
	for session, want := range map[string]any{"s": ledger.SHA256([]byte("one")), "none": nil} {
		if session == "none" {
			wait(t, next(t, b).begin(t, "none", "[contract]\nname='x'\n"+checked))
		}
		entries, err := b.Ledger.Read(session)
		if err != nil {
			t.Fatal(err)
		}
		var first map[string]any
		if err := json.Unmarshal(entries[0].Body, &first); err != nil {
			t.Fatal(err)
		}
		if got, there := first["prompt_sha256"]; !there || got != want {
			t.Errorf("%s: %v", session, first)
		}
	}
}

// An interrupted session is cancelled whatever its prompt is now.
func TestCancel_MindsNoPrompt(t *testing.T) {
	b := newBench(t)
	b.file(t, "p.md", "one")
	b.begin(t, "s", "[contract]\nname='x'\nenv=['PATH']\n[work]\ncmd='sh'\nargs=['-c', 'touch wait; sleep 60']\nprompt_file='p.md'\n[[check]]\nname='a'\ncmd='true'\n")
	until(t, func() bool { return exists(b.root, "wait") })
	b.Stop()
	b.file(t, "p.md", "two")
	got, err := next(t, b).Cancel(t.Context(), "s")
	if err != nil || got.Verdict == nil || got.Verdict.Outcome != Cancelled {
		t.Errorf("%+v, %v", got, err)
	}
}

// next is b as the next process has it.
func next(t *testing.T, b *bench) *bench {
	t.Helper()
	n := &bench{root: b.root, Runner: &Runner{Engine: b.Engine, Ledger: b.Ledger, Principal: b.Principal}}
	t.Cleanup(n.Stop)
	return n
}

func TestRun_ChecksInParallel(t *testing.T) {
	b := newBench(t)
	text := "[contract]\nname='x'\nenv=['PATH']\nparallel=2\n"
	// Each waits for the other: one after the other would take for ever.
	for i := range 2 {
		text += fmt.Sprintf("[[check]]\nname='c%d'\ncmd='sh'\nargs=['-c', 'touch %d; while [ ! -e %d ]; do sleep 0.01; done']\n", i, i, 1-i)
	}
	if diff := cmp.Diff("pass c0=pass c1=pass", outcomes(b.run(t, text))); diff != "" {
		t.Error(diff)
	}
}

func TestRun_TellsProgress(t *testing.T) {
	b := newBench(t)
	x := b.begin(t, "", sh("true")+"[[check]]\nname='b'\ncmd='false'\n")
	wait(t, x)
	var got []string
	x.Watch(func(p Progress) { got = append(got, fmt.Sprintf("%d/%d %s %s", p.Done, p.Total, p.Step, p.Outcome)) })
	if diff := cmp.Diff([]string{"0/2 it ", "1/2 it pass", "1/2 b ", "2/2 b fail"}, got); diff != "" {
		t.Error(diff)
	}
}

func exists(root, name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return err == nil
}

func until(t testing.TB, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it never came to that")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
