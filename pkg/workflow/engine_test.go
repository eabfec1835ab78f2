package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harness/pkg/evidence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for what has to happen.
const patience = 20 * time.Second

// hand launches runs that end when the test says so.
type hand struct {
	mu      sync.Mutex
	n       int
	tasks   map[string]Task
	ended   map[string]Outcome
	changed chan struct{} // closed and replaced at each change
	refuse  error
	lost    error  // in place of how a run ended
	before  func() // a try is journalled; nil for nothing
}

func newHand() *hand {
	return &hand{tasks: map[string]Task{}, ended: map[string]Outcome{}, changed: make(chan struct{})}
}

func (h *hand) stir() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *hand) NewID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	if h.before != nil {
		h.before()
	}
	return fmt.Sprint("r", h.n)
}

func (h *hand) Launch(_ context.Context, t Task) (Launched, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return nil, h.refuse
	}
	if _, twice := h.tasks[t.Run]; twice {
		panic("launched twice")
	}
	h.tasks[t.Run] = t
	h.stir()
	return handed{h, t.Run}, nil
}

// handed is one run of a hand.
type handed struct {
	*hand
	id string
}

func (h *hand) Outcome(id string) (Outcome, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o, over := h.ended[id]; over {
		return o, h.lost
	}
	return Outcome{State: "failed"}, h.lost // as what a daemon left is sealed
}

func (h *hand) Has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there := h.tasks[id]
	return there
}

func (h handed) Wait(ctx context.Context) (Outcome, error) {
	for {
		h.mu.Lock()
		o, over := h.ended[h.id]
		changed, lost := h.changed, h.lost
		h.mu.Unlock()
		if over {
			return o, lost
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Outcome{}, ctx.Err()
		}
	}
}

// end ends the newest run of a node, which is waited for.
func (h *hand) end(t *testing.T, node, state string, code int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		for id, task := range h.tasks {
			if _, over := h.ended[id]; !over && task.Node.ID == node {
				h.ended[id] = Outcome{State: state, ExitCode: &code, FinalReceiptSHA256: "final of " + id}
				h.stir()
				h.mu.Unlock()
				return
			}
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%s was never launched", node)
		}
	}
}

// house is an engine over a state directory.
type house struct {
	t     *testing.T
	dir   string
	state *evidence.Dir
	hand  *hand
	e     *Engine
}

func newHouse(t *testing.T) *house {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir, hand: newHand()}
	h.open()
	return h
}

// open opens the directory as the next daemon does.
func (h *house) open() {
	h.t.Helper()
	var err error
	if h.state, err = evidence.OpenDir(h.dir); err != nil {
		h.t.Fatal(err)
	}
	if h.e, err = Open(h.t.Context(), h.state, h.hand, slog.New(slog.NewTextHandler(h.t.Output(), nil)), time.Now()); err != nil {
		h.t.Fatal(err)
	}
	e, state := h.e, h.state
	h.t.Cleanup(func() {
		e.Close()
		state.Close()
	})
}

// kill ends the engine as the end of its process does.
func (h *house) kill() {
	h.t.Helper()
	if err := h.e.Close(); err != nil {
		h.t.Fatal(err)
	}
}

const threeSteps = "name = \"w\"\nparallel = 2\n[[node]]\nid = \"a\"\nharness = \"h\"\nprompt_file = \"a.md\"\n[[node]]\nid = \"b\"\nharness = \"h\"\nretry = 1\n" +
	"[[node]]\nid = \"ok\"\nkind = \"approval\"\nneeds = [\"a\", \"b\"]\n[[node]]\nid = \"c\"\nharness = \"h\"\nneeds = [\"ok\"]\n"

func (h *house) start(text string) View {
	h.t.Helper()
	g, prompts, faults := Parse("w.toml", []byte(text), outside(map[string]string{"a.md": "do a"}))
	if len(faults) > 0 {
		h.t.Fatal(faults)
	}
	v, err := h.e.Start(Spec{ID: "wf-1", File: "/f", Graph: g, Actor: json.RawMessage(`{"kind":"operator"}`), At: time.Now()}, prompts)
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// is waits until the workflow is in a state, with each node as given.
func (h *house) is(state string, nodes ...string) View {
	h.t.Helper()
	want := state + " " + strings.Join(nodes, " ")
	deadline := time.Now().Add(patience)
	for {
		v, err := h.e.Status("wf-1")
		if err != nil {
			h.t.Fatal(err)
		}
		got := v.State
		for _, n := range v.Nodes {
			got += fmt.Sprintf(" %s:%s:%d", n.ID, n.State, n.Attempts)
		}
		if got == want {
			return v
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("it is %s, and not %s", got, want)
		}
		h.hand.mu.Lock()
		changed := h.hand.changed
		h.hand.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestEngine_RunsAGraphToItsEnd(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(threeSteps)
	h.is(Running, "a:running:1", "b:running:1", "ok:pending:0", "c:pending:0")
	h.hand.end(t, "b", "exited", 1)
	h.is(Running, "a:running:1", "b:running:2", "ok:pending:0", "c:pending:0")
	h.hand.end(t, "a", "exited", 0)
	h.hand.end(t, "b", "exited", 0)
	h.is(Waiting, "a:done:1", "b:done:2", "ok:waiting:0", "c:pending:0")
	if v, err := h.e.Resume("wf-1", Resumption{}); err != nil || v.State != Waiting {
		t.Errorf("an approval was given that nobody named: %+v, %v", v, err)
	}
	if _, err := h.e.Resume("wf-1", Resumption{Approve: []string{"c"}}); !errors.Is(err, ErrNotAwaited) {
		t.Error(err)
	}
	if _, err := h.e.Resume("wf-1", Resumption{Approve: []string{"ok"}, Actor: json.RawMessage(`{}`)}); err != nil {
		t.Error(err)
	}
	h.hand.end(t, "c", "exited", 0)
	h.is(Done, "a:done:1", "b:done:2", "ok:done:0", "c:done:1")
	if _, err := h.e.Resume("wf-1", Resumption{}); !errors.Is(err, ErrOver) {
		t.Error(err)
	}
	h.hand.mu.Lock()
	defer h.hand.mu.Unlock()
	for _, task := range h.hand.tasks {
		if want := map[string]string{"a": "do a"}[task.Node.ID]; string(task.Prompt) != want {
			t.Errorf("the prompt of %s: %q", task.Node.ID, task.Prompt)
		}
	}
}

// Each try says which one it is of and what it builds on.
func TestEngine_JournalHasTheLineage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\n[[node]]\nid = \"b\"\nharness = \"h\"\nneeds = [\"a\"]\nretry = 1\n")
	h.hand.end(t, "a", "exited", 0)
	h.hand.end(t, "b", "timed_out", -1)
	h.hand.end(t, "b", "exited", 0)
	h.is(Done, "a:done:1", "b:done:2")
	dir, err := h.state.Sub("workflows/wf-1")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	records, _, err := evidence.ReadChain(dir, journalDir, "wf-1")
	if err != nil {
		t.Fatal(err)
	}
	var tries []string
	for _, r := range records {
		if r.Type == TypeNodeStarted {
			tries = append(tries, string(r.Body))
		}
	}
	want := `[{"node":"a","attempt":1,"run":"r1","retry_of":"","inputs":{}} {"node":"b","attempt":1,"run":"r2","retry_of":"","inputs":{"a":"final of r1"}} {"node":"b","attempt":2,"run":"r3","retry_of":"r2","inputs":{"a":"final of r1"}}]`
	if got := fmt.Sprint(tries); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The text of a contract is a file of its workflow as a prompt is: it is looked
// for, by the same daemon and by the next, and held against its digest.
func TestEngine_KnowsTheTextOfAContract(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("name = \"w\"\n[[node]]\nid = \"only\"\ncontract = \"a.md\"\n")
	h.is(Running, "only:running:1")
	h.kill()
	h.hand.end(t, "only", "exited", 0)
	h.open()
	h.is(Interrupted, "only:done:1")
	if err := os.Remove(filepath.Join(h.dir, "workflows/wf-1/prompts/only")); err != nil {
		t.Fatal(err)
	}
	var f *evidence.Fault
	if _, err := h.e.Status("wf-1"); !errors.As(err, &f) || f.Entry != "workflows/wf-1/prompts/only" {
		t.Errorf("without its text: %v", err)
	}
}

// A daemon that ends leaves a workflow interrupted. A run that had ended counts
// as it ended, and nothing that is done runs again.
func TestEngine_GoesOnAfterACrashWhenItIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(threeSteps)
	h.is(Running, "a:running:1", "b:running:1", "ok:pending:0", "c:pending:0")
	h.kill()
	h.hand.end(t, "a", "exited", 0) // nobody saw it
	h.hand.end(t, "b", "failed", -1)
	h.open()
	h.is(Interrupted, "a:done:1", "b:interrupted:1", "ok:pending:0", "c:pending:0")
	if _, err := h.e.Resume("wf-1", Resumption{}); err != nil {
		t.Fatal(err)
	}
	h.is(Running, "a:done:1", "b:running:2", "ok:pending:0", "c:pending:0")
	h.hand.end(t, "b", "exited", 0)
	h.is(Waiting, "a:done:1", "b:done:2", "ok:waiting:0", "c:pending:0")
	h.kill()
	h.open()
	h.is(Waiting, "a:done:1", "b:done:2", "ok:waiting:0", "c:pending:0")
	if id, err := h.e.Newest("/f"); err != nil || id != "wf-1" {
		t.Error(id, err)
	}
}

// Whatever is done to a file of a workflow is found by whoever looks at it, by
// the same daemon and by the next; and nothing of it is begun again (EVI-3).
func TestEngine_TrustsNoFileThatWasChanged(t *testing.T) {
	t.Parallel()
	grow := func(file string) error {
		data, err := os.ReadFile(file)
		return errors.Join(err, os.Remove(file), os.WriteFile(file, append(data, '\n'), 0o400))
	}
	writable := func(file string) error { return os.Chmod(file, 0o600) }
	link := func(file string) error {
		return errors.Join(os.Rename(file, file+"~"), os.Rename(file+"~", filepath.Join(filepath.Dir(file), "../../elsewhere")), os.Symlink("../../elsewhere", file))
	}
	pipe := func(file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o400)) }
	for _, name := range []string{specFile, "prompts/a", "journal/0001-started.json", "journal/0002-node_started.json", "journal/0003-node_started.json"} {
		for what, change := range map[string]func(string) error{"grown": grow, "writable": writable, "a link": link, "a pipe": pipe, "gone": os.Remove} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				h := newHouse(t)
				h.start(threeSteps)
				h.is(Running, "a:running:1", "b:running:1", "ok:pending:0", "c:pending:0")
				if err := change(filepath.Join(h.dir, "workflows/wf-1", name)); err != nil {
					t.Fatal(err)
				}
				refuses := func(when string) {
					var f *evidence.Fault
					if _, err := h.e.Status("wf-1"); !errors.As(err, &f) || !strings.HasPrefix(f.Entry, "workflows/wf-1/") {
						t.Errorf("%s, status: %v", when, err)
					}
					if _, err := h.e.Resume("wf-1", Resumption{}); !errors.As(err, &f) {
						t.Errorf("%s, resume: %v", when, err)
					}
				}
				refuses("at once")
				h.kill()
				h.hand.end(t, "a", "failed", -1)
				h.hand.end(t, "b", "failed", -1)
				h.open()
				if what == "gone" && strings.HasPrefix(name, "journal/0003") {
					return // it is as if it had not been written yet
				}
				refuses("later")
				g, prompts, _ := Parse("w.toml", []byte(threeSteps), outside(map[string]string{"a.md": "do a"}))
				if _, err := h.e.Start(Spec{ID: "wf-1", File: "/f", Graph: g, At: time.Now()}, prompts); err == nil || !h.e.Has("wf-1") {
					t.Error("it is begun again")
				}
				if _, err := h.e.Status("wf-2"); !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			})
		}
	}
}

// What never had a journal launched nothing: it is set aside, however far it
// was written.
func TestEngine_SetsAsideWhatNeverBegan(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"an empty definition": "", "half a definition": `{"schema":"harness/wor`} {
		h := newHouse(t)
		h.kill()
		dir := filepath.Join(h.dir, "workflows/wf-1")
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, journalDir), 0o700), os.WriteFile(filepath.Join(dir, specFile), []byte(text), 0o400)); err != nil {
			t.Fatal(err)
		}
		h.open()
		if h.e.Has("wf-1") {
			t.Errorf("%s is a workflow", name)
		}
		h.start(threeSteps)
		h.is(Running, "a:running:1", "b:running:1", "ok:pending:0", "c:pending:0")
	}
}

// A request to go on that was journalled changes nothing more, also where a
// crash kept it from being answered (MUT-1).
func TestEngine_GoesOnOnceForEachRequest(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(threeSteps)
	h.kill()
	h.hand.end(t, "a", "failed", -1)
	h.hand.end(t, "b", "failed", -1)
	h.open()
	h.is(Interrupted, "a:interrupted:1", "b:interrupted:1", "ok:pending:0", "c:pending:0")
	again := Resumption{Request: "rs-1"}
	if _, err := h.e.Resume("wf-1", again); err != nil {
		t.Fatal(err)
	}
	h.hand.end(t, "a", "exited", 0)
	h.hand.end(t, "b", "exited", 0)
	h.is(Waiting, "a:done:2", "b:done:2", "ok:waiting:0", "c:pending:0")
	h.kill()
	h.open()
	if !h.e.Asked("wf-1", "rs-1") || h.e.Asked("wf-1", "rs-2") || h.e.Asked("wf-2", "rs-1") {
		t.Error("it is not known what was asked")
	}
	if v, err := h.e.Resume("wf-1", again); err != nil || v.State != Waiting {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := h.e.Resume("wf-1", Resumption{Request: "rs-2", Approve: []string{"ok"}}); err != nil {
		t.Fatal(err)
	}
	h.is(Running, "a:done:2", "b:done:2", "ok:done:0", "c:running:1")
	h.kill()
	h.hand.end(t, "c", "exited", 0)
	h.open()
	if !h.e.Asked("wf-1", "rs-2") {
		t.Error("an approval is not known as what was asked")
	}
}

// What one request gives is in the journal as one record: a crash leaves all of
// it, or nothing.
func TestEngine_AResumptionIsOneRecord(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start("name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\n[[node]]\nid = \"x\"\nkind = \"approval\"\n" +
		"[[node]]\nid = \"y\"\nkind = \"approval\"\n[[node]]\nid = \"c\"\nharness = \"h\"\nneeds = [\"a\", \"x\", \"y\"]\n")
	h.kill()
	h.open()
	h.is(Interrupted, "a:interrupted:1", "x:waiting:0", "y:waiting:0", "c:pending:0")
	before, err := os.ReadDir(filepath.Join(h.dir, baseDir, "wf-1", journalDir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.e.Resume("wf-1", Resumption{Request: "rs-1", Approve: []string{"x", "y"}, Actor: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	h.is(Running, "a:running:2", "x:done:0", "y:done:0", "c:pending:0")
	// Beside it there is the start of a.
	if after, err := os.ReadDir(filepath.Join(h.dir, baseDir, "wf-1", journalDir)); err != nil || len(after) != len(before)+2 {
		t.Errorf("%d records became %d, %v", len(before), len(after), err)
	}
	h.kill()
	h.open()
	h.is(Interrupted, "a:interrupted:2", "x:done:0", "y:done:0", "c:pending:0")
}

func TestReplay_AnApprovalNamesItsNodes(t *testing.T) {
	g := &Graph{Nodes: []Node{{ID: "ok", Approval: true}}}
	for _, body := range []string{`{}`, `{"node":"ok"}`, `{"nodes":[]}`, `{"nodes":["other"]}`} {
		if _, err := Replay(g, []Entry{{TypeApproved, json.RawMessage(body)}}); err == nil {
			t.Errorf("%s approves something", body)
		}
	}
}

// A run whose evidence is gone when it has ended holds nothing up for ever: what
// it was is not known, and it is tried again when that is asked for.
func TestEngine_ARunOfWhichNothingIsKnownIsInterrupted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hand.lost = errors.New("its evidence was removed")
	h.start("name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\nretry = 2\n")
	h.hand.end(t, "a", "exited", 0)
	h.is(Interrupted, "a:interrupted:1")
	h.hand.mu.Lock()
	h.hand.lost = nil
	h.hand.mu.Unlock()
	if _, err := h.e.Resume("wf-1", Resumption{}); err != nil {
		t.Fatal(err)
	}
	h.hand.end(t, "a", "exited", 0)
	h.is(Done, "a:done:2")
}

func TestEngine_ANodeThatCannotBeLaunchedFails(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hand.refuse = errors.New("not installed")
	h.start("name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\nretry = 2\n")
	h.is(Failed, "a:failed:3")
	shown := func() NodeView {
		v, err := h.e.Status("wf-1")
		if err != nil {
			t.Fatal(err)
		}
		return v.Nodes[0]
	}
	if n := shown(); n.Run != nil || n.Reason == nil || !strings.Contains(*n.Reason, "the daemon's log says why") {
		t.Errorf("%+v", n)
	}
	h.hand.refuse = &Refused{Reason: "no harness is named h", Err: errors.New("and more")}
	h.kill()
	h.open()
	if _, err := h.e.Resume("wf-1", Resumption{}); err != nil {
		t.Fatal(err)
	}
	h.is(Failed, "a:failed:6")
	h.kill()
	h.open()
	if n := shown(); n.Run != nil || n.Reason == nil || *n.Reason != "no harness is named h" {
		t.Errorf("%+v", n)
	}
	h.hand.refuse = nil
	if _, err := h.e.Resume("wf-1", Resumption{}); err != nil {
		t.Fatal(err)
	}
	h.is(Running, "a:running:7")
	if n := shown(); n.Run == nil || n.Reason != nil {
		t.Errorf("%+v", n)
	}
	h.hand.end(t, "a", "exited", 0)
	h.is(Done, "a:done:7")
}

// block has the next record of that name fail to be written, and leaves what such
// a write leaves.
func (h *house) block(name string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, baseDir, "wf-1", journalDir, name), nil, 0o400); err != nil {
		h.t.Fatal(err)
	}
}

// halted waits until a write has failed.
func (h *house) halted() {
	h.t.Helper()
	f, err := h.e.flow("wf-1")
	if err != nil {
		h.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		halted := f.stuck != nil
		f.mu.Unlock()
		if halted {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatal("nothing failed")
		}
	}
}

// stuck demands that the error says why nothing goes on.
func stuck(t *testing.T, err error) {
	t.Helper()
	s, is := errors.AsType[*Stuck](err)
	if !is || s.ID != "wf-1" || s.Reason() != "its journal cannot be written: file exists" {
		t.Errorf("%v", err)
	}
}

const twoSteps = "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"h\"\n[[node]]\nid = \"b\"\nharness = \"h\"\nneeds = [\"a\"]\n"

// Whoever begins a workflow that cannot go on is told, and so is whoever looks.
func TestEngine_AJournalThatCannotBeWrittenIsNoSuccess(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.hand.before = func() {
		h.hand.before = nil
		h.block("0002-node_started.json")
	}
	g, _, _ := Parse("w.toml", []byte(twoSteps), outside(nil))
	_, err := h.e.Start(Spec{ID: "wf-1", File: "/f", Graph: g, At: time.Now()}, nil)
	stuck(t, err)
	v := h.is(Interrupted, "a:pending:0", "b:pending:0")
	if v.Reason == nil || *v.Reason != "its journal cannot be written: file exists" {
		t.Errorf("%+v", v)
	}
	if v, err = h.e.Resume("wf-1", Resumption{}); err != nil || v.State != Running || v.Reason != nil {
		t.Fatalf("%+v, %v", v, err)
	}
	h.hand.end(t, "a", "exited", 0)
	h.hand.end(t, "b", "exited", 0)
	h.is(Done, "a:done:1", "b:done:1")
}

// The end of a run that is not journalled is not lost: a resume looks for it, as
// the next daemon would.
func TestEngine_AnEndThatCannotBeJournalledInterrupts(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"resume", "daemon"} {
		h := newHouse(t)
		h.start("name = \"w\"\nparallel = 2\n[[node]]\nid = \"a\"\nharness = \"h\"\n[[node]]\nid = \"b\"\nharness = \"h\"\n[[node]]\nid = \"c\"\nharness = \"h\"\nneeds = [\"a\", \"b\"]\n")
		h.is(Running, "a:running:1", "b:running:1", "c:pending:0")
		h.block("0004-node_ended.json")
		h.hand.end(t, "a", "exited", 0)
		h.halted()
		h.is(Interrupted, "a:interrupted:1", "b:running:1", "c:pending:0")
		_, err := h.e.Resume("wf-1", Resumption{})
		stuck(t, err)
		h.hand.end(t, "b", "exited", 0)
		h.is(Interrupted, "a:interrupted:1", "b:interrupted:1", "c:pending:0")
		if again == "daemon" {
			h.kill()
			h.open()
			h.is(Interrupted, "a:done:1", "b:done:1", "c:pending:0")
		}
		if v, err := h.e.Resume("wf-1", Resumption{}); err != nil || v.State != Running {
			t.Fatalf("%s: %+v, %v", again, v, err)
		}
		h.hand.end(t, "c", "exited", 0)
		h.is(Done, "a:done:1", "b:done:1", "c:done:1")
	}
}

// What a write that failed left is no evidence of a change; anything else is.
func TestEngine_AStuckJournalIsVerified(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(twoSteps)
	h.block("0003-node_ended.json")
	h.hand.end(t, "a", "exited", 0)
	h.halted()
	h.is(Interrupted, "a:interrupted:1", "b:pending:0")
	first := filepath.Join(h.dir, baseDir, "wf-1", journalDir, "0002-node_started.json")
	if err := os.Chmod(first, 0o600); err != nil {
		t.Fatal(err)
	}
	var f *evidence.Fault
	if _, err := h.e.Status("wf-1"); !errors.As(err, &f) {
		t.Error(err)
	}
	if _, err := h.e.Resume("wf-1", Resumption{}); !errors.As(err, &f) {
		t.Error(err)
	}
}
