package contract

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"harness/pkg/config"
	"harness/pkg/ledger"
)

// Errors that callers tell apart.
var (
	// ErrConflict is what a session of another contract answers.
	ErrConflict = errors.New("the session is of another contract")
	// ErrInterrupted is how a session ends whose process had to.
	ErrInterrupted = errors.New("the session was interrupted; ask for it again to go on")
)

// followEvery is how often a session that another process runs is looked at,
// and how often one's own looks whether it was cancelled.
const followEvery = 50 * time.Millisecond

// Local is the principal of a process that was told none: the user that it runs
// as, on this machine.
func Local() ledger.Principal {
	p := ledger.Principal{Tenant: "local", User: strconv.Itoa(os.Getuid())}
	if u, err := user.Current(); err == nil {
		p.User = u.Username
	}
	return p
}

// Invalid is a contract that does not validate.
type Invalid struct{ Faults config.Faults }

// Error lists the faults, one a line.
func (e *Invalid) Error() string { return e.Faults.Error() }

// Request asks for a contract to be run, or for what it came to.
type Request struct {
	Session string // "" begins a new one
	Name    string // what faults call the contract
	Text    []byte
	Root    string // the directory that it may touch: absolute, without links
	// Own says that the contract is the session's, from [Runner.Text]: what its
	// prompt is now matters only where the work is still to be done.
	Own bool
}

// Runner runs sessions. It may be used by any number of goroutines.
type Runner struct {
	Engine    *Engine
	Ledger    *ledger.Store
	Principal ledger.Principal
	// Fleet is where harnesses are run and sessions shown; nil for no daemon.
	Fleet Fleet
	// Reap ends what dead processes left of their steps; nil: nothing does.
	Reap func(context.Context)

	mu      sync.Mutex
	running map[string]*Execution
	opening map[string]chan struct{} // sessions that are read or begun, each until its channel is closed
	stopped bool
	all     sync.WaitGroup // of what runs or is opened
}

// Run runs a contract, or joins the session that runs it, or returns what it
// came to; a session that was interrupted goes on (CON-2, CON-3). It outlives the
// caller: [Execution.Cancel] and [Runner.Stop] end it, and not the end of ctx.
func (r *Runner) Run(ctx context.Context, req Request) (*Execution, error) {
	spec, faults := Parse(req.Name, req.Text)
	if len(faults) > 0 {
		return nil, &Invalid{faults}
	}
	digest, err := spec.Digest()
	if err != nil {
		return nil, err
	}
	if req.Session == "" {
		req.Session = newSession()
	}
	if problem := ledger.SessionProblem(req.Session); problem != "" {
		return nil, ledger.BadName(problem)
	}
	p := spec.Work.prompt(req.Root)
	x, err := r.reserve(req.Session)
	switch {
	case err != nil:
		return nil, err
	case x == nil:
		defer r.release(req.Session)
		return r.open(context.WithoutCancel(ctx), req, spec, digest, p)
	case x.digest != digest || x.root != req.Root, !req.Own && !p.is(x.prompt.sum):
		return nil, ErrConflict
	}
	return x, nil
}

// reserve returns the execution of a session; where there is none, the session is
// the caller's to open, and to release. It waits for whoever opens it already:
// that takes the disk, and other sessions' callers do not wait for it.
func (r *Runner) reserve(id string) (*Execution, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		opened := r.opening[id]
		switch x := r.running[id]; {
		case r.stopped:
			return nil, ErrInterrupted
		case x != nil:
			return x, nil
		case opened == nil:
			if r.opening == nil {
				r.opening = map[string]chan struct{}{}
			}
			r.opening[id] = make(chan struct{})
			r.all.Add(1)
			return nil, nil //nolint:nilnil // the session is the caller's
		}
		r.mu.Unlock()
		<-opened
		r.mu.Lock()
	}
}

// release ends a reservation: what came of it is in running, or nothing did.
func (r *Runner) release(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.opening[id])
	delete(r.opening, id)
	r.all.Done()
}

// here returns the execution of a session in this process, nil for none, once it
// is not being opened.
func (r *Runner) here(ctx context.Context, id string) (*Execution, error) {
	for {
		r.mu.Lock()
		x, opened := r.running[id], r.opening[id]
		r.mu.Unlock()
		if x != nil || opened == nil {
			return x, nil
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// newSession makes a name that sorts by time.
func newSession() string {
	return time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:8])
}

// open begins a session, goes on with one, or follows somebody else's. The caller
// has reserved it.
func (r *Runner) open(ctx context.Context, req Request, spec *Spec, digest string, p prompt) (*Execution, error) {
	steps := len(spec.Checks)
	if spec.Work != nil {
		steps++
	}
	x := &Execution{
		runner: r, id: req.Session, spec: spec, digest: digest, prompt: p, own: req.Own,
		root: req.Root, steps: steps, done: make(chan struct{}),
	}
	r.all.Go(func() { r.Engine.Sandbox() }) // found out beside what follows: it takes the start of a process
	r.all.Go(r.Engine.guarded)              // and so does this
	log, err := r.Ledger.Create(req.Session, ledger.Opening{
		Principal: r.Principal, ContractSHA256: digest, Text: req.Text,
		Fields: map[string]any{"root": req.Root, "name": spec.Name, "steps": steps, "prompt_sha256": p.sum},
	})
	again := errors.Is(err, ledger.ErrExists)
	if again {
		log, err = r.Ledger.Write(req.Session)
	}
	if errors.Is(err, ledger.ErrBusy) {
		return x, r.follow(ctx, x)
	}
	if err != nil {
		return nil, err
	}
	x.log = log
	if err := x.prepare(ctx, again); err != nil {
		if closeErr := log.Close(); closeErr != nil {
			return nil, errors.Join(err, closeErr)
		}
		return nil, err
	}
	if x.isOver() {
		return x, log.Close()
	}
	r.begin(ctx, x, x.execute)
	return x, nil
}

// begin runs x beside the caller, who has reserved its session. What is begun
// while the runner is stopped is interrupted before its first step.
func (r *Runner) begin(ctx context.Context, x *Execution, run func(context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	x.cancel = cancel
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		cancel(ErrInterrupted)
	}
	if r.running == nil {
		r.running = map[string]*Execution{}
	}
	r.running[x.id] = x
	r.all.Go(func() {
		defer cancel(nil)
		run(ctx)
		r.mu.Lock()
		delete(r.running, x.id)
		r.mu.Unlock()
		close(x.done)
	})
}

// follow watches a session that another process runs.
func (r *Runner) follow(ctx context.Context, x *Execution) error {
	entries, err := r.Ledger.Read(x.id)
	if err != nil {
		return err
	}
	h, err := replay(entries)
	switch {
	case err != nil:
		return err
	case !x.isOf(h, true):
		return ErrConflict
	}
	r.begin(ctx, x, x.follow)
	return nil
}

// Stop interrupts what runs, and returns when all of it is recorded. Nothing
// begins any more.
func (r *Runner) Stop() {
	r.mu.Lock()
	r.stopped = true
	for _, x := range r.running {
		x.cancel(ErrInterrupted)
	}
	r.mu.Unlock()
	r.all.Wait()
}

// Wait returns when nothing runs any more.
func (r *Runner) Wait() { r.all.Wait() }

// Look tells what a session has come to, and changes nothing (CON-5). Evidence
// that is not what its entry commits to is a [*ledger.Fault].
func (r *Runner) Look(id string) (Answer, error) {
	busy := ledger.SessionProblem(id) == "" && r.Ledger.Busy(id) // first: it may end in between
	entries, err := r.read(id, func() ([]ledger.Entry, error) { return r.Ledger.Read(id) })
	if err != nil {
		return Answer{}, err
	}
	return answer(id, entries, busy)
}

// Status tells what a session has come to. Steps that were under way when its
// process died are recorded as interrupted.
func (r *Runner) Status(id string) (Answer, error) {
	a, err := r.Look(id)
	if err != nil || a.Status != Interrupted {
		return a, err
	}
	return r.noteInterruption(id)
}

func (r *Runner) noteInterruption(id string) (Answer, error) {
	log, err := r.Ledger.Write(id)
	if errors.Is(err, ledger.ErrBusy) { // somebody went on with it meanwhile
		entries, err := r.Ledger.Read(id)
		if err != nil {
			return Answer{}, err
		}
		return answer(id, entries, true)
	}
	if err != nil {
		return Answer{}, err
	}
	h, err := replay(log.Entries())
	if err == nil {
		log.As(r.Principal)
		err = recordInterruption(log, h)
	}
	entries := log.Entries()
	if err := errors.Join(err, log.Close()); err != nil {
		return Answer{}, err
	}
	return answer(id, entries, false)
}

func recordInterruption(log *ledger.Log, h history) error {
	if len(h.underWay) == 0 {
		return nil
	}
	_, err := log.Append(entryInterrupted, map[string]any{"steps": h.underWay})
	return err
}

// Export is the bundle of a session whose evidence is what its entries commit to.
func (r *Runner) Export(id string) (*ledger.Bundle, error) {
	var b *ledger.Bundle
	_, err := r.read(id, func() (entries []ledger.Entry, err error) {
		if b, err = r.Ledger.Export(id); err != nil {
			return nil, err
		}
		return b.Entries, nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Text is the contract of a session, with the directory it is about, for whoever
// wants to go on with it.
func (r *Runner) Text(id string) (text []byte, root string, err error) {
	b, err := r.Export(id)
	if err != nil {
		return nil, "", err
	}
	h, err := replay(b.Entries)
	return []byte(b.Contract), h.Root, err
}

// Cancel ends a session with the verdict "cancelled", whoever runs it, and
// returns what it came to. One that is done stays as it is.
func (r *Runner) Cancel(ctx context.Context, id string) (Answer, error) {
	x, err := r.here(ctx, id)
	if err != nil {
		return Answer{}, err
	}
	if x != nil {
		x.Cancel()
		return x.Wait(ctx)
	}
	for tick := time.NewTicker(followEvery); ; {
		a, err := r.Status(id)
		if err != nil || a.Status == Done {
			tick.Stop()
			return a, err
		}
		if err := r.askToCancel(id); err != nil {
			tick.Stop()
			return Answer{}, err
		}
		if a.Status == Interrupted {
			text, root, err := r.Text(id)
			if err != nil {
				return Answer{}, err
			}
			// With the wish on the disk, going on is coming to an end.
			x, err := r.Run(ctx, Request{Session: id, Name: id, Text: text, Root: root, Own: true})
			if err != nil {
				return Answer{}, err
			}
			tick.Stop()
			return x.Wait(ctx)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return a, ctx.Err()
		case <-tick.C:
		}
	}
}

func (r *Runner) askToCancel(id string) error {
	f, err := os.OpenFile(filepath.Join(r.Ledger.Dir(id), ledger.CancelName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("ask for an end: %w", err)
	}
	return f.Close()
}
