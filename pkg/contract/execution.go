package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"harness/pkg/evidence"
	"harness/pkg/ledger"
)

// Execution is a session that this process runs or follows. Any number of
// callers may wait for the same one.
type Execution struct {
	runner *Runner
	id     string
	spec   *Spec
	digest string
	prompt prompt // of the work
	own    bool   // the contract is the session's own
	root   string
	steps  int
	cancel context.CancelCauseFunc
	done   chan struct{}

	log     *ledger.Log   // nil while it is followed only
	kept    *evidence.Dir // of what its steps said
	history history

	mu       sync.Mutex
	results  map[int]stepResult
	heard    []Progress
	ended    int // steps that were told to have
	watchers []func(Progress)
	answered Answer
	err      error
}

// Session names it.
func (x *Execution) Session() string { return x.id }

// Done is closed when it is over.
func (x *Execution) Done() <-chan struct{} { return x.done }

// Wait returns what it came to. When ctx ends first there is no answer, and the
// error is that of ctx; the execution goes on, and [Execution.Handle] tells how it
// is.
func (x *Execution) Wait(ctx context.Context) (Answer, error) {
	select {
	case <-x.done:
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.answered, x.err
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// Handle is the answer of a session that goes on.
func (x *Execution) Handle() (Answer, error) {
	select {
	case <-x.done:
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.answered, x.err
	default:
	}
	entries, err := x.runner.Ledger.Read(x.id)
	if err != nil {
		return Answer{}, err
	}
	return answer(x.id, entries, true)
}

// Watch hands progress to f, what there was so far included, until it is over.
// f must not block.
func (x *Execution) Watch(f func(Progress)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.heard {
		f(p)
	}
	x.watchers = append(x.watchers, f)
}

// tell counts p, and hands it on.
func (x *Execution) tell(p Progress) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.Outcome != "" {
		x.ended++
	}
	p.Done, p.Total = x.ended, x.steps
	x.heard = append(x.heard, p)
	for _, f := range x.watchers {
		f(p)
	}
}

// Cancel asks for an end. Wait tells when it is reached.
func (x *Execution) Cancel() {
	if x.log == nil {
		_ = x.runner.askToCancel(x.id) // Wait tells what became of it
		return
	}
	x.cancel(errCancelled)
}

// prepare takes in what the chain says already.
func (x *Execution) prepare(ctx context.Context, again bool) error {
	h, err := replay(x.log.Entries())
	switch {
	case err != nil:
		return err
	case !x.isOf(h, x.wanted() || h.cancelled):
		return ErrConflict
	}
	x.history, x.results = h, h.done
	if !again {
		return nil
	}
	if _, err := x.runner.read(x.id, func() ([]ledger.Entry, error) { return x.log.Entries(), nil }); err != nil {
		return err
	}
	if v, err := ledger.VerdictOf(x.log.Entries()); err != nil || v != nil {
		x.settle(err)
		close(x.done)
		return err
	}
	if x.runner.Reap != nil {
		// What a dead process left of a step must not run beside its repetition.
		x.runner.Reap(ctx)
	}
	x.log.As(x.runner.Principal)
	if err := recordInterruption(x.log, h); err != nil {
		return err
	}
	_, err = x.log.Append(entryResumed, nil)
	return err
}

// isOf reports whether a session is of the contract of x, with its prompt. That of
// a session's own contract matters where its work is to be done yet.
func (x *Execution) isOf(h history, worked bool) bool {
	_, done := h.done[workStep]
	return h.contract == x.digest && h.Root == x.root && (h.Prompt == nil || x.own && (done || worked) || x.prompt.is(h.Prompt))
}

func (x *Execution) isOver() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// settle fixes what Wait answers.
func (x *Execution) settle(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err = err; err == nil {
		x.answered, x.err = answer(x.id, x.log.Entries(), false)
	}
}

// execute runs what is not recorded yet, and ends the chain with the verdict.
func (x *Execution) execute(ctx context.Context) {
	over := func() {}
	if x.runner.Fleet != nil {
		over = x.runner.Fleet.Announce(x.id)
	}
	defer over()
	err := x.steer(ctx)
	x.settle(err)
	if closeErr := x.log.Close(); closeErr != nil && err == nil {
		x.settle(closeErr)
	}
}

func (x *Execution) steer(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	heed := make(chan struct{})
	defer func() { <-heed }()
	stop := make(chan struct{})
	defer close(stop)
	if x.wanted() {
		cancel(errCancelled)
	}
	go func() {
		defer close(heed)
		x.heedCancel(stop, cancel)
	}()
	timed, expire := context.WithTimeout(ctx, x.spec.Timeout)
	defer expire()
	found := x.runner.Engine.Sandbox()
	if found != (Sandbox{true, true}) {
		x.runner.Engine.Log.Warn("a contract runs with less than the whole sandbox", "session", x.id, "sandbox", found.String())
	}
	if x.kept, err = x.runner.openEvidence(x.id); err != nil {
		return err
	}
	defer x.kept.Close()
	scratch, clean, err := x.scratch()
	if err != nil {
		return err
	}
	defer clean()
	if err := x.runAll(timed, scratch, found); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errCancelled) {
		h, err := replay(x.log.Entries())
		if err != nil {
			return err
		}
		return errors.Join(ErrInterrupted, recordInterruption(x.log, h))
	} else if cause != nil && !x.history.cancelled {
		if _, err := x.log.Append(entryCancelled, nil); err != nil {
			return err
		}
	}
	return x.decide(timed, found)
}

// heedCancel ends the session when another process asks for it.
func (x *Execution) heedCancel(stop <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if x.wanted() {
				cancel(errCancelled)
				return
			}
		}
	}
}

// wanted reports whether somebody asked for an end.
func (x *Execution) wanted() bool {
	_, err := os.Lstat(filepath.Join(x.log.Dir(), ledger.CancelName))
	return err == nil || x.history.cancelled
}

// scratch makes the directory that TMPDIR names, where it is let through.
func (x *Execution) scratch() (dir string, clean func(), err error) {
	if !slices.Contains(x.spec.Env, "TMPDIR") {
		return "", func() {}, nil
	}
	dir = filepath.Join(x.log.Dir(), ledger.ScratchName)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // the next session has its own
}

// runAll does the work and, where it succeeded, the checks.
func (x *Execution) runAll(ctx context.Context, scratch string, found Sandbox) error {
	if w := x.spec.Work; w != nil {
		err := x.once(ctx, workStep, "work", found.around(w), func(ctx context.Context, entry int) (Observed, Judged) {
			o := x.work(ctx, scratch, entry)
			return o, JudgeWork(o)
		})
		if err != nil || x.outcome(workStep) != Pass {
			return err
		}
	}
	return x.runChecks(ctx, scratch, found)
}

func (x *Execution) runChecks(ctx context.Context, scratch string, found Sandbox) error {
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	free := make(chan struct{}, x.spec.Parallel)
	for i := range x.spec.Checks {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-free }()
			c := &x.spec.Checks[i]
			err := x.once(ctx, i+1, c.Name, found, func(ctx context.Context, _ int) (Observed, Judged) {
				o := x.check(ctx, c, scratch)
				return o, JudgeCheck(c, o)
			})
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		})
	}
	all.Wait()
	return failed
}

// work does what the contract wants done.
func (x *Execution) work(ctx context.Context, scratch string, entry int) Observed {
	w := x.spec.Work
	if x.prompt.err != nil {
		return Observed{End: Unstarted, Problem: "prompt_file: " + x.prompt.err.Error()}
	}
	if w.Harness == "" {
		return x.runner.Engine.run(ctx, task{
			name: "work", cmd: w.Cmd, args: w.Args, stdin: x.prompt.text, timeout: w.Timeout, network: true,
			root: x.root, spec: x.spec, scratch: scratch,
		})
	}
	return x.harness(ctx, x.prompt.text, entry)
}

func (x *Execution) check(ctx context.Context, c *Check, scratch string) Observed {
	if c.Cmd == "" {
		if err := checkDir(x.root, x.spec.Workdir); err != nil {
			return Observed{End: Unstarted, Problem: "workdir: " + err.Error()}
		}
		return lookAt(x.root, filepath.Join(x.spec.Workdir, c.File), c)
	}
	return x.runner.Engine.run(ctx, task{
		name: c.Name, cmd: c.Cmd, args: c.Args, timeout: c.Timeout,
		root: x.root, spec: x.spec, scratch: scratch,
	})
}

// once runs a step that is not recorded as finished. Before it begins it is in
// the ledger, and what it came to is before once returns. A step that was cut
// off because its process has to end is not recorded: it never finished.
func (x *Execution) once(ctx context.Context, step int, name string, sandbox Sandbox, run func(ctx context.Context, entry int) (Observed, Judged)) error {
	if r, ok := x.result(step); ok {
		x.tell(Progress{Step: name, Outcome: r.Outcome, Reason: "as recorded"})
		return nil
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // to be cut off is no fault
	}
	started, err := x.log.Append(entryStarted, map[string]any{"step": step, "name": name})
	if err != nil {
		return err
	}
	x.tell(Progress{Step: name})
	began := time.Now()
	o, judged := run(ctx, started.N)
	if o.End == Cut && !errors.Is(context.Cause(ctx), errCancelled) {
		return nil
	}
	r := stepResult{
		Step: step, Name: name, Outcome: judged.Outcome, Reason: judged.Reason, ExitCode: o.Exit,
		Sandbox: sandbox.String(), Millis: time.Since(began).Milliseconds(), Run: o.Run, Receipt: o.Receipt,
	}
	sum, err := keepEvidence(x.kept, started.N, r, o, began)
	if err != nil {
		return err
	}
	r.Evidence = &sum
	return x.record(r)
}

// record waits for no disk: the next step does, when it notes that it begins.
func (x *Execution) record(r stepResult) error {
	fields := map[string]any{
		"step": r.Step, "name": r.Name, "outcome": r.Outcome, "reason": r.Reason, "exit_code": r.ExitCode,
		"evidence_sha256": r.Evidence, "sandbox": r.Sandbox, "duration_ms": r.Millis,
	}
	if r.Run != "" {
		fields["run"], fields["receipt_sha256"] = r.Run, r.Receipt
	}
	_, err := x.log.Note(entryFinished, fields)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.results[r.Step] = r
	x.mu.Unlock()
	x.tell(Progress{Step: r.Name, Outcome: r.Outcome, Reason: r.Reason})
	return nil
}

func (x *Execution) result(step int) (stepResult, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r, ok := x.results[step]
	return r, ok
}

func (x *Execution) outcome(step int) string {
	r, _ := x.result(step)
	return r.Outcome
}

// decide judges what was recorded. ctx says why what was not run was not, found
// what the verdict states where no step had less.
func (x *Execution) decide(ctx context.Context, found Sandbox) error {
	work := ""
	if x.spec.Work != nil {
		work = x.outcome(workStep)
	}
	instead := Instead(work)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		instead = Cancelled
	case errors.Is(cause, context.DeadlineExceeded):
		instead = Timeout
	}
	if x.spec.Work != nil && work == "" {
		work = instead
	}
	v := ledger.Verdict{ContractSHA256: x.digest, Sandbox: x.weakest(found), Checks: []ledger.Checked{}}
	for i, c := range x.spec.Checks {
		checked := ledger.Checked{Name: c.Name, Outcome: instead}
		if r, ok := x.result(i + 1); ok {
			checked.Outcome, checked.ExitCode, checked.EvidenceSHA256 = r.Outcome, r.ExitCode, r.Evidence
		}
		v.Checks = append(v.Checks, checked)
	}
	v.Outcome = Judge(work, v.Checks)
	_, err := x.log.Decide(v)
	return err
}

// weakest is what was in force around every step that is recorded.
func (x *Execution) weakest(found Sandbox) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	least := found.String()
	for _, r := range x.results {
		least = weaker(least, r.Sandbox)
	}
	return least
}

// follow waits until another process is done with the session.
func (x *Execution) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	told := 0
	for {
		busy := x.runner.Ledger.Busy(x.id)
		entries, err := x.runner.Ledger.Read(x.id)
		if err != nil {
			x.fix(Answer{}, err)
			return
		}
		told = x.retell(entries, told)
		if a, err := answer(x.id, entries, busy); err != nil || a.Status != Running {
			if err == nil && a.Status == Interrupted {
				err = ErrInterrupted
			} else if err == nil {
				_, err = x.runner.Look(x.id) // with its evidence
			}
			x.fix(a, err)
			return
		}
		select {
		case <-ctx.Done():
			x.fix(Answer{}, ErrInterrupted)
			return
		case <-tick.C:
		}
	}
}

func (x *Execution) fix(a Answer, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered, x.err = a, err
}

// retell makes progress of the entries from told on.
func (x *Execution) retell(entries []ledger.Entry, told int) int {
	for n := told; n < len(entries); n++ {
		h, err := replay(entries[:n+1])
		if err != nil || entries[n].Type != entryFinished {
			continue
		}
		before, _ := replay(entries[:n]) // the longer one could be read
		for step, r := range h.done {
			if _, known := before.done[step]; !known {
				x.tell(Progress{Step: r.Name, Outcome: r.Outcome, Reason: r.Reason})
			}
		}
	}
	return len(entries)
}
