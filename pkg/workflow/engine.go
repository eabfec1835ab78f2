package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"harness/pkg/evidence"
)

// What a workflow has on disk, in its directory.
const (
	specFile   = "workflow.json"
	journalDir = "journal"
	promptsDir = "prompts"
	baseDir    = "workflows" // in the state directory
	asideDir   = "workflows-aside"
)

// maxSpec bounds what is read of one workflow's own file, in bytes.
const maxSpec = 4 << 20

// ErrUnknown is what is returned for a workflow that there is not.
var ErrUnknown = errors.New("no such workflow")

// ErrOver is what is returned for a resume of what has nothing left to do.
var ErrOver = errors.New("the workflow is done")

// Outcome is how a run ended.
type Outcome struct {
	State              string
	ExitCode           *int
	FinalReceiptSHA256 string
	VerdictSHA256      string // of a contract that came to one
}

// Task is one run that is to be launched.
type Task struct {
	Run      string // the id that it is to have
	Workflow string
	File     string // the workflow's own
	Node     Node
	Prompt   []byte // or the text of the contract; nil for none
	Actor    json.RawMessage
}

// Launcher runs what a workflow has run. It is safe for use by many goroutines.
type Launcher interface {
	// NewID makes the id of a run that is about to be.
	NewID() string
	// Launch starts a run, which outlives ctx. An error means that nothing was
	// started; what a [*Refused] says is shown.
	Launch(ctx context.Context, t Task) (Launched, error)
	// Has reports whether there is evidence of a run.
	Has(id string) bool
	// Outcome returns how a run ended that a daemon before this one launched.
	Outcome(id string) (Outcome, error)
}

// Refused is why a run is not launched, in words for whoever sees the workflow.
type Refused struct {
	Reason string
	Err    error
}

// Error implements error.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap returns what was refused.
func (r *Refused) Unwrap() error { return r.Err }

// reasonOf is what is shown of an error because of which nothing was launched.
func reasonOf(err error) string {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r.Reason
	}
	if f, ok := errors.AsType[*evidence.Fault](err); ok {
		return f.Error()
	}
	return "it could not be launched; the daemon's log says why"
}

// Launched is a run that was launched. Its Wait returns how it ended, once it
// has; or ctx's error.
type Launched interface {
	Wait(ctx context.Context) (Outcome, error)
}

// Spec is a workflow as it was sealed when it began.
type Spec struct {
	Schema string          `json:"schema"` // harness/workflow/v1
	ID     string          `json:"id"`
	File   string          `json:"file"`
	Graph  Graph           `json:"graph"`
	Actor  json.RawMessage `json:"actor"`
	Key    string          `json:"idempotency_key"`
	At     time.Time       `json:"at"`
}

const specSchema = "harness/workflow/v1"

// View is a workflow as it is shown.
type View struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	File      string          `json:"file"`
	State     string          `json:"state"`
	Nodes     []NodeView      `json:"nodes"`
	Reason    *string         `json:"reason"` // why it cannot go on; null where it can
	SHA256    string          `json:"sha256"`
	Actor     json.RawMessage `json:"actor"`
	StartedAt time.Time       `json:"started_at"`
	Replayed  bool            `json:"replayed"`
}

// Engine keeps the workflows of one state directory, whose only writer it is.
type Engine struct {
	state *evidence.Dir
	dir   *evidence.Dir
	run   Launcher
	log   *slog.Logger

	ctx    context.Context //nolint:containedctx // ends what was begun by requests that are over
	cancel context.CancelFunc
	idle   sync.WaitGroup

	mu     sync.Mutex
	flows  map[string]*flow
	wrecks map[string]wreck // written while it is opened alone
}

// flow is one workflow that is in memory.
type flow struct {
	spec    Spec
	dir     *evidence.Dir
	journal *evidence.Ledger

	mu    sync.Mutex
	state *State
	asked map[string]bool // the requests that changed something
	stuck *Stuck          // nil while its journal can be written
}

// Open opens the workflows of a state directory. What was under way when a
// daemon ended is noted as interrupted. It starts nothing. Serve and Close end
// what is begun later, and not the end of ctx.
func Open(ctx context.Context, state *evidence.Dir, run Launcher, log *slog.Logger, now time.Time) (*Engine, error) {
	dir, err := state.Ensure(baseDir)
	if err != nil {
		return nil, fmt.Errorf("open the workflows: %w", err)
	}
	e := &Engine{state: state, dir: dir, run: run, log: log, flows: map[string]*flow{}, wrecks: map[string]wreck{}}
	e.ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	names, err := dir.Names()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("list the workflows: %w", err), dir.Close())
	}
	for _, id := range names {
		if !known(id) {
			continue
		}
		if err := e.load(id, now); err != nil {
			log.Error("a workflow's journal is not valid; it is left alone", "workflow", id, "error", err)
			e.ruin(id, err)
		}
	}
	return e, nil
}

// load opens one workflow, and settles what a daemon left under way.
func (e *Engine) load(id string, now time.Time) error {
	f, err := e.open(id, now)
	if err != nil || f == nil {
		return err
	}
	e.flows[id] = f
	if state, _ := f.state.View(); state != Running {
		return nil
	}
	if err := e.interrupt(f, now); err != nil {
		e.log.Error("a workflow cannot go on", "workflow", id, "error", err)
	}
	return nil
}

// interrupt journals how the tries ended that a daemon left under way.
func (e *Engine) interrupt(f *flow, now time.Time) error {
	for _, a := range f.state.UnderWay() {
		r := Result{Node: a.Node, N: a.N, Run: a.Run, State: Interrupted}
		if e.run.Has(a.Run) {
			// It is over: the daemon that ran it is.
			if o, err := e.run.Outcome(a.Run); err == nil && o.State != "failed" {
				r.State, r.ExitCode, r.FinalReceiptSHA256, r.VerdictSHA256 = o.State, o.ExitCode, o.FinalReceiptSHA256, o.VerdictSHA256
			}
		} else {
			r.Reason = "the daemon ended before it was launched, or it is not kept"
		}
		if err := f.end(now, r); err != nil {
			return err
		}
	}
	return f.append(TypeInterrupted, now, struct{}{})
}

// open reads a workflow; nil for one that never began.
func (e *Engine) open(id string, now time.Time) (*flow, error) {
	dir, err := e.dir.Sub(id)
	if err != nil {
		return nil, err
	}
	f := &flow{dir: dir, asked: map[string]bool{}}
	if !begun(dir, id) {
		return nil, errors.Join(dir.Close(), e.aside(id))
	}
	data, err := dir.ReadSealed(specFile, maxSpec)
	if err == nil {
		if bad := evidence.DecodeCanonical(data, &f.spec); bad != nil {
			err = &evidence.Fault{Entry: specFile, Message: bad.Error()}
		}
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	journal, records, torn, err := evidence.OpenLedger(dir, journalDir, id, now)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if torn != nil {
		e.log.Warn("torn record of a workflow set aside", "workflow", id, "entry", torn.Entry, "aside", torn.Aside)
	}
	f.journal = journal
	var first startedBody
	if records[0].Type != TypeStarted || json.Unmarshal(records[0].Body, &first) != nil || first.SpecSHA256 != evidence.Digest(data) || f.spec.ID != id {
		err = &evidence.Fault{Entry: specFile, Message: "not as it was when the workflow began"}
	}
	if err == nil {
		err = f.files()
	}
	if err == nil {
		f.state, err = Replay(&f.spec.Graph, entriesOf(records))
	}
	if err != nil {
		return nil, errors.Join(err, journal.Close(), dir.Close())
	}
	for _, r := range records {
		f.note(r)
	}
	return f, nil
}

// note remembers the request that a record is of.
func (f *flow) note(r evidence.Record) {
	var by struct {
		Request string `json:"request"`
	}
	if json.Unmarshal(r.Body, &by) == nil && by.Request != "" {
		f.asked[by.Request] = true
	}
}

// aside moves what never began out of the way: nothing was launched of it.
func (e *Engine) aside(id string) error {
	dir, err := e.state.Ensure(asideDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := e.dir.Rename(id, dir, id); err != nil {
		return err
	}
	e.log.Warn("a workflow that was about to begin when an earlier daemon ended is set aside; nothing was launched", "workflow", id, "aside", asideDir+"/"+id)
	return evidence.Together(e.dir.Sync, dir.Sync)
}

// startedBody is the first record of a journal.
type startedBody struct {
	SpecSHA256 string          `json:"spec_sha256"`
	Actor      json.RawMessage `json:"actor"`
}

func entriesOf(records []evidence.Record) []Entry {
	entries := make([]Entry, len(records))
	for i, r := range records {
		entries[i] = Entry{r.Type, r.Body}
	}
	return entries
}

// known reports whether id could be one of ours, and so a path.
func known(id string) bool {
	if len(id) < 4 || len(id) > 80 || id[:3] != "wf-" {
		return false
	}
	return evidence.IsName(id)
}

// append adds a record, and what it means. The error is a [*Stuck]: nothing more
// is added before the workflow is opened again. The caller holds f.mu, or is alone.
func (f *flow) append(typ string, at time.Time, body any) error {
	if f.stuck != nil {
		return f.stuck
	}
	r, err := f.journal.Append(typ, at, body)
	if err == nil {
		f.note(r)
		err = f.state.apply(Entry{r.Type, r.Body})
	}
	if err != nil {
		f.stuck = &Stuck{f.spec.ID, err}
		return f.stuck
	}
	return nil
}

// end adds the end of a try. Where it cannot be journalled the try is shown as
// interrupted: it is not under way, and what it came to is not kept.
func (f *flow) end(at time.Time, r Result) error {
	err := f.append(TypeNodeEnded, at, r)
	if n := f.state.nodes[r.Node]; err != nil && n != nil {
		n.state = Interrupted
	}
	return err
}

// Has reports whether a workflow began, also one that cannot be believed.
func (e *Engine) Has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.flows[id] != nil || e.wrecks[id].err != nil
}

// Start begins a workflow of that id: it is sealed, and what it runs goes on by
// itself. After a [*Stuck] it is there, and interrupted.
func (e *Engine) Start(spec Spec, prompts map[string][]byte) (View, error) {
	if !known(spec.ID) {
		return View{}, ErrUnknown
	}
	if err := e.wrecks[spec.ID].err; err != nil {
		return View{}, err
	}
	spec.Schema, spec.At = specSchema, spec.At.UTC().Round(0)
	f, err := e.seal(spec, prompts)
	if err != nil {
		return View{}, err
	}
	e.mu.Lock()
	e.flows[spec.ID] = f
	e.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := e.advance(f); err != nil {
		return View{}, err
	}
	return f.view(), nil
}

// seal writes what a workflow is begun with. A directory of that name is of a
// daemon that ended before it had begun.
func (e *Engine) seal(spec Spec, prompts map[string][]byte) (f *flow, err error) {
	if old, err := e.dir.Sub(spec.ID); err == nil {
		if err := errors.Join(old.Close(), e.dir.Remove(spec.ID)); err != nil {
			return nil, fmt.Errorf("begin a workflow: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("begin a workflow: %w", err)
	}
	dir, err := e.dir.Make(spec.ID)
	if err != nil {
		return nil, fmt.Errorf("begin a workflow: %w", err)
	}
	opened := []io.Closer{dir}
	defer func() {
		for _, c := range opened {
			if err != nil {
				c.Close()
			}
		}
	}()
	texts, err := dir.Make(promptsDir)
	if err != nil {
		return nil, fmt.Errorf("begin a workflow: %w", err)
	}
	defer texts.Close()
	journal, err := dir.Make(journalDir)
	if err != nil {
		return nil, fmt.Errorf("begin a workflow: %w", err)
	}
	opened = append(opened, journal)
	data, err := evidence.Canonical(spec)
	if err != nil {
		return nil, err
	}
	var syncs []func() error
	put := func(in *evidence.Dir, name string, data []byte) {
		if err == nil {
			var sync func() error
			sync, err = in.Put(name, data)
			syncs = append(syncs, sync)
		}
	}
	for id, text := range prompts {
		put(texts, id, text)
	}
	put(dir, specFile, data)
	if err != nil {
		return nil, fmt.Errorf("begin a workflow: %w", err)
	}
	if err := evidence.Together(append(syncs, texts.Sync, dir.Sync, e.dir.Sync)...); err != nil {
		return nil, fmt.Errorf("begin a workflow: %w", err)
	}
	f = &flow{spec: spec, dir: dir, journal: evidence.NewLedger(journal, spec.ID), asked: map[string]bool{}}
	if f.state, err = Replay(&f.spec.Graph, nil); err != nil {
		return nil, err
	}
	return f, f.append(TypeStarted, spec.At, startedBody{evidence.Digest(data), spec.Actor})
}

// advance does what is to be done now. The error is a [*Stuck]. The caller holds
// f.mu.
func (e *Engine) advance(f *flow) error {
	for f.stuck == nil && e.ctx.Err() == nil {
		steps := f.state.Next()
		if len(steps) == 0 {
			return nil
		}
		for _, step := range steps {
			if step.End != "" {
				return f.append(TypeEnded, time.Now(), map[string]string{"state": step.End})
			}
			if err := e.try(f, *step.Attempt); err != nil {
				return err
			}
		}
	}
	if f.stuck != nil {
		return f.stuck
	}
	return nil // the daemon ends; what is left goes on with a resume
}

// try begins one try of a node: what is about to be is in the journal before it
// is.
func (e *Engine) try(f *flow, a Attempt) error {
	def, _ := f.spec.Graph.Find(a.Node)
	a.Run = e.run.NewID()
	if err := f.append(TypeNodeStarted, time.Now(), a); err != nil {
		return err
	}
	t := Task{Run: a.Run, Workflow: f.spec.ID, File: f.spec.File, Node: def, Actor: f.spec.Actor}
	var launched Launched
	var err error
	if file, _ := def.text(); file != "" {
		t.Prompt, err = f.dir.ReadSealed(promptsDir+"/"+def.ID, MaxTicket)
		if err == nil && evidence.Digest(t.Prompt) != def.PromptSHA256 {
			err = &evidence.Fault{Entry: promptsDir + "/" + def.ID, Message: "not as it was when the workflow began"}
		}
	}
	if err == nil {
		launched, err = e.run.Launch(e.ctx, t)
	}
	if err != nil {
		e.log.Warn("a node of a workflow was not launched", "workflow", f.spec.ID, "node", def.ID, "error", err)
		state := "failed"
		if errors.Is(err, context.Canceled) {
			state = Interrupted // everything is ending
		}
		r := Result{Node: a.Node, N: a.N, Run: a.Run, State: state}
		if !e.run.Has(a.Run) {
			r.Reason = reasonOf(err)
		}
		return f.end(time.Now(), r)
	}
	e.idle.Go(func() { e.await(f, a, launched) })
	return nil
}

// await notes how a try ended, and goes on.
func (e *Engine) await(f *flow, a Attempt, launched Launched) {
	o, err := launched.Wait(e.ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		if e.ctx.Err() != nil {
			return // the next daemon looks for it
		}
		e.log.Error("the end of a workflow's run is not known", "workflow", f.spec.ID, "run", a.Run, "error", err)
		o = Outcome{State: Interrupted}
	}
	r := Result{Node: a.Node, N: a.N, Run: a.Run, State: o.State, ExitCode: o.ExitCode, FinalReceiptSHA256: o.FinalReceiptSHA256, VerdictSHA256: o.VerdictSHA256}
	err = f.end(time.Now(), r)
	if err == nil {
		err = e.advance(f)
	}
	if err != nil {
		e.log.Error("a workflow cannot go on", "workflow", f.spec.ID, "error", err)
	}
}

// Resume goes on with a workflow: what failed or was interrupted is tried again.
// Approvals are given by name alone, and whoever calls it has seen to it that they
// may be. A request that has changed something changes nothing more.
func (e *Engine) Resume(id string, r Resumption) (View, error) {
	f, release, err := e.verified(id)
	if err != nil {
		return View{}, err
	}
	defer release()
	if f.asked[r.Request] {
		return f.view(), nil
	}
	if err := e.free(f); err != nil {
		return View{}, err
	}
	if err := f.resume(r); err != nil {
		return View{}, err
	}
	if err := e.advance(f); err != nil {
		return View{}, err
	}
	return f.view(), nil
}

// Resumption is who asks for a workflow to go on.
type Resumption struct {
	Request string // its name, for the journal
	Approve []string
	Actor   json.RawMessage
}

// resume journals what a request changes. The caller holds f.mu.
func (f *flow) resume(r Resumption) error {
	state, _ := f.state.View()
	if state == Done {
		return ErrOver
	}
	awaited := f.state.Awaited()
	for _, node := range r.Approve {
		if !slices.Contains(awaited, node) {
			return fmt.Errorf("%w: %q", ErrNotAwaited, node)
		}
	}
	given := Approval{append([]string{}, r.Approve...), r.Actor, r.Request}
	switch {
	case state != Running && state != Waiting:
		return f.append(TypeResumed, time.Now(), given)
	case len(r.Approve) > 0:
		return f.append(TypeApproved, time.Now(), given)
	}
	return nil
}

// ErrNotAwaited is what is returned for an approval that nobody waits for.
var ErrNotAwaited = errors.New("no approval of that node is waited for")

// verified returns a workflow whose files were checked, held until release.
func (e *Engine) verified(id string) (f *flow, release func(), err error) {
	if f, err = e.flow(id); err != nil {
		return nil, nil, err
	}
	f.mu.Lock()
	if err := f.verify(); err != nil {
		f.mu.Unlock()
		return nil, nil, err
	}
	return f, f.mu.Unlock, nil
}

// Status shows a workflow, whose journal is verified first.
func (e *Engine) Status(id string) (View, error) {
	f, release, err := e.verified(id)
	if err != nil {
		return View{}, err
	}
	defer release()
	return f.view(), nil
}

// Asked reports whether a request has changed a workflow.
func (e *Engine) Asked(id, request string) bool {
	f, err := e.flow(id)
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[request]
}

// Newest returns the id of the newest workflow that was started from a file.
func (e *Engine) Newest(file string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	newest, at := "", time.Time{}
	take := func(id string, spec *Spec) {
		if spec.File == file && (newest == "" || spec.At.After(at)) {
			newest, at = id, spec.At
		}
	}
	for id, f := range e.flows {
		take(id, &f.spec)
	}
	for id, w := range e.wrecks {
		take(id, &w.spec)
	}
	if newest == "" {
		return "", ErrUnknown
	}
	return newest, nil
}

func (e *Engine) flow(id string) (*flow, error) {
	e.mu.Lock()
	f := e.flows[id]
	e.mu.Unlock()
	if f != nil {
		return f, nil
	}
	if err := e.wrecks[id].err; err != nil {
		return nil, err
	}
	return nil, ErrUnknown
}

// named says of which workflow an entry is.
func named(id string, err error) error { return evidence.Within(baseDir+"/"+id, err) }

// view shows a workflow. The caller holds f.mu.
func (f *flow) view() View {
	state, nodes := f.state.View()
	v := View{ID: f.spec.ID, Name: f.spec.Graph.Name, File: f.spec.File, State: state, Nodes: nodes, SHA256: f.spec.Graph.SHA256, Actor: f.spec.Actor, StartedAt: f.spec.At}
	if f.stuck != nil {
		why := f.stuck.Reason()
		v.Reason = &why
		if state == Running || state == Waiting {
			v.State = Interrupted
		}
	}
	return v
}

// String names the service in a supervisor's log.
func (e *Engine) String() string { return "workflows" }

// Serve waits for ctx to end, then for what waits for runs. Nothing more is
// launched; what is under way ends elsewhere.
func (e *Engine) Serve(ctx context.Context) error {
	<-ctx.Done()
	e.cancel()
	e.idle.Wait()
	return ctx.Err()
}

// Close lets go of the workflows. Serve must have returned.
func (e *Engine) Close() error {
	e.cancel()
	e.idle.Wait()
	var errs []error
	for _, f := range e.flows {
		errs = append(errs, f.journal.Close(), f.dir.Close())
	}
	return errors.Join(append(errs, e.dir.Close())...)
}
