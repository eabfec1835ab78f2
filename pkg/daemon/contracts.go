package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"harness/pkg/contract"
	"harness/pkg/identity"
	"harness/pkg/ledger"
	"harness/pkg/proc"
	"harness/pkg/run"
	"harness/pkg/workflow"
)

// contracts runs those that are nodes of workflows, and shows the sessions that
// other processes run among the runs. What came of one is what its ledger says,
// not whoever ran it.
type contracts struct {
	*contract.Runner
	*archive
	hosts string // the directory of the records of others that run steps
	idle  sync.WaitGroup

	mu      sync.Mutex
	closing bool
	held    map[string]*heldSession // by run
}

// heldSession is a session that is under way in another process.
type heldSession struct {
	session string
	run     *run.Run
	lost    *time.Timer // until its process holds it
}

// holdWithin is how long a session that was announced may go without a process
// that holds it.
const holdWithin = 10 * time.Second

// asHarness is what runs of contracts are shown as.
const asHarness = "contract"

func newContracts(kept *archive, host *proc.Host, stateDir string, log *slog.Logger) *contracts {
	r := &contract.Runner{
		Engine: &contract.Engine{Host: host, Lookup: os.LookupEnv, Log: log},
		Ledger: ledger.Open(filepath.Join(stateDir, "ledger")), Principal: contract.Local(),
	}
	return &contracts{Runner: r, archive: kept, hosts: filepath.Join(stateDir, contract.HostsDir), held: map[string]*heldSession{}}
}

// barred turns away what a contract's step runs: Landlock keeps it from files, and
// from no socket that has a name among them (CON-1).
func (c *contracts) barred(pid int) string {
	line := func(yield func(int, uint64) bool) {
		for _, p := range identity.Ancestors(pid) {
			if !yield(p.PID, p.Start) {
				return
			}
		}
	}
	if contract.IsStep(c.Engine.Host, c.hosts, line) {
		return "a contract's step may not use the daemon"
	}
	return ""
}

// String names the service in the supervisor's log.
func (c *contracts) String() string { return "contracts" }

// Serve waits for ctx to end, then interrupts what runs here, and ends what is
// shown: this daemon will not see what becomes of it.
func (c *contracts) Serve(ctx context.Context) error {
	<-ctx.Done()
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.Stop()
	c.idle.Wait()
	c.mu.Lock()
	ids := slices.Collect(maps.Keys(c.held))
	c.mu.Unlock()
	for _, id := range ids {
		c.end(id)
	}
	return ctx.Err()
}

// sessionOf is the session of a run that a node of a workflow is. Names of
// sessions have no dots.
func sessionOf(run string) string { return strings.ReplaceAll(run, ".", "-") }

// admit counts a contract that is about to run here, unless the daemon is about to
// end.
func (c *contracts) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return context.Canceled
	}
	c.idle.Add(1)
	return nil
}

// start runs the contract that a node of a workflow is, as the run that the
// workflow knows it by.
func (c *contracts) start(ctx context.Context, t workflow.Task, actor run.Actor) (r *run.Run, err error) {
	if err := c.admit(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.idle.Done()
		}
	}()
	root := filepath.Dir(filepath.Join(filepath.Dir(t.File), t.Node.Contract))
	x, err := c.Run(ctx, contract.Request{Session: sessionOf(t.Run), Name: t.Node.Contract, Text: t.Prompt, Root: root})
	if errors.Is(err, contract.ErrInterrupted) {
		return nil, fmt.Errorf("%w: %w", context.Canceled, err) // the daemon is about to end
	}
	if err != nil {
		return nil, err
	}
	r, err = c.launch(t.Run, sessionOf(t.Run), t.Node.PromptSHA256, actor, t.Workflow+"/"+t.Node.ID)
	if err != nil {
		x.Cancel()
		return nil, err
	}
	go func() {
		defer c.idle.Done()
		<-x.Done()
		c.seal(r, sessionOf(t.Run))
	}()
	return r, nil
}

// digest is that of the verdict of a node's run; "" where it has none.
func (c *contracts) digest(run string) (string, error) {
	v, err := c.verdict(sessionOf(run))
	if errors.Is(err, ledger.ErrUnknown) {
		return "", nil // a harness of that name
	}
	if err != nil || v == nil {
		return "", err
	}
	data, err := ledger.Canonical(v)
	return ledger.SHA256(data), err
}

// ownFleet is the fleet of the daemon itself, for the contracts that it runs.
type ownFleet struct{ o *ops }

// Announce implements [contract.Fleet]. What runs here is a run already.
func (ownFleet) Announce(string) (over func()) { return func() {} }

// Work implements [contract.Fleet].
func (f ownFleet) Work(ctx context.Context, w contract.HarnessWork) (contract.HarnessEnd, error) {
	t, err := f.o.task(launchArgs{Name: w.Harness, Prompt: &w.Prompt, Timeout: w.Timeout.String()}, run.Named(run.ByContract, w.Session))
	if err != nil {
		return contract.HarnessEnd{}, err
	}
	t.id, t.key = f.o.runs.NewID(time.Now()), w.Key
	r, err := f.o.bounded.start(ctx, t)
	if err != nil {
		return contract.HarnessEnd{}, err
	}
	defer context.AfterFunc(ctx, func() { f.o.bounded.cancel(t.id) })()
	i, err := r.Wait(context.WithoutCancel(ctx))
	e := contract.HarnessEnd{Run: i.ID, State: i.State, ExitCode: i.ExitCode, Signal: orEmpty(i.Signal), Reason: orEmpty(i.Reason), Receipt: orEmpty(i.FinalReceiptSHA256)}
	return e, err
}

// begin makes a run of a session, whose chain has begun.
func (c *contracts) begin(session string) (*run.Run, error) {
	entries, err := c.Ledger.Read(session)
	if err != nil {
		return nil, refusal("session: " + err.Error())
	}
	head, err := entries[0].Head()
	if err != nil {
		return nil, err
	}
	r, err := c.launch("", session, head.ContractSHA256, run.Named(run.ByContract, session), "")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[r.ID()] = &heldSession{session, r, time.AfterFunc(holdWithin, func() { c.end(r.ID()) })}
	return r, nil
}

// launch records that a session begins.
func (c *contracts) launch(id, session, digest string, actor run.Actor, key string) (*run.Run, error) {
	r, err := c.runs.Begin(run.Launch{
		ID: id, Harness: asHarness, Bounded: true, Argv: []string{asHarness, "run", session}, Definition: digest, Actor: actor, Key: key, At: time.Now(),
	})
	if err != nil {
		return nil, err
	}
	if err := r.Started(time.Now()); err != nil {
		r.End(run.End{At: time.Now(), State: run.Failed, Unseen: true, Reason: "its start was not recorded"})
		return nil, err
	}
	return r, nil
}

// hold waits until the run has ended, or ends it when ctx does: when the process
// that runs the session is gone.
func (c *contracts) hold(ctx context.Context, id string) {
	c.mu.Lock()
	h := c.held[id]
	c.mu.Unlock()
	if h == nil {
		return
	}
	h.lost.Stop()
	select {
	case <-h.run.Done():
	case <-ctx.Done():
		c.end(id)
	}
}

// end seals the run of a session by what its ledger says.
func (c *contracts) end(id string) {
	c.mu.Lock()
	h := c.held[id]
	delete(c.held, id)
	c.mu.Unlock()
	if h == nil {
		return
	}
	h.lost.Stop()
	c.seal(h.run, h.session)
}

func (c *contracts) seal(r *run.Run, session string) {
	v, err := c.verdict(session)
	e := run.End{At: time.Now(), State: run.Failed, Unseen: true, Reason: "the session was interrupted"}
	switch {
	case err != nil:
		ref := token()
		c.Engine.Log.Error("verdict of a contract not read", "run", r.ID(), "correlation_id", ref, "error", err)
		e.Reason = "its ledger cannot be read; the daemon's log says more at " + ref
	case v != nil:
		e.State, e.Unseen, e.Code, e.Reason = run.Exited, false, contract.ExitCode(v.Outcome), "verdict "+v.Outcome
		switch v.Outcome {
		case contract.Timeout:
			e.State = run.TimedOut
		case contract.Cancelled:
			e.State = run.Cancelled
		}
		data, err := ledger.Canonical(v)
		if err == nil {
			_, _ = r.Write(append(data, '\n')) // it never fails
		}
	}
	r.End(e)
}

// verdict is that of a session; nil before there is one.
func (c *contracts) verdict(session string) (*ledger.Verdict, error) {
	a, err := c.Look(session)
	return a.Verdict, err
}

// sessionArgs names a session.
type sessionArgs struct {
	Session string `json:"session"`
}

// contractBegin shows a session among the runs. Only the command line says so.
func (o *ops) contractBegin(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[sessionArgs](raw)
	if err != nil {
		return nil, err
	}
	r, err := o.contracts.begin(a.Session)
	if err != nil {
		return nil, err
	}
	info, err := o.runs.Info(r.ID())
	return launched{Run: info}, err
}

func (o *ops) contractHold(ctx context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[runArgs](raw)
	if err != nil {
		return nil, err
	}
	o.contracts.hold(ctx, a.Run)
	return struct{}{}, nil
}

func (o *ops) contractEnd(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := arguments[runArgs](raw)
	if err != nil {
		return nil, err
	}
	o.contracts.end(a.Run)
	return o.runInfo(ctx, raw, who)
}
