package daemon

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"time"

	"harness/pkg/evidence"
	"harness/pkg/run"
	"harness/pkg/workflow"
	"harness/pkg/worktree"
)

// archive is what is kept of runs, workflows and worktrees, and what is sealed
// with them. It is empty until it was opened, which takes as long as the start of
// a process: it is done beside the start of the upstreams (PRF-4), and before
// anything that is kept can begin.
type archive struct {
	self      run.Actor // the daemons of this state directory
	state     *evidence.Dir
	knowledge *run.Knowledge
	keys      *run.Keys
	worktrees *worktree.Store
	runs      *run.Store
	flows     *workflow.Engine

	opened []io.Closer // what close closes, the last first
}

// open opens it, and seals what an earlier daemon left that was killed. close is
// to be called also after an error.
func (a *archive) open(ctx context.Context, state *stateDir, commands func() (run.Catalog, error), opt run.Options, nodes workflow.Launcher, log *slog.Logger) error {
	id, err := state.instance()
	if err != nil {
		return err
	}
	a.self = run.Named(run.Instance, id)
	var catalog run.Catalog
	if commands != nil {
		if catalog, err = commands(); err != nil {
			return err
		}
	}
	if a.knowledge, err = run.NewKnowledge(catalog); err != nil {
		return err
	}
	if a.state, err = state.openEvidence(); err != nil {
		return err
	}
	a.opened = append(a.opened, a.state)
	if a.keys, err = run.OpenKeys(a.state, log); err != nil {
		return err
	}
	a.opened = append(a.opened, a.keys)
	if a.worktrees, err = worktree.Open(a.state, log, time.Now()); err != nil {
		return err
	}
	a.opened = append(a.opened, a.worktrees)
	opt.Log, opt.Knowledge, opt.Self = log, a.knowledge, a.self
	if a.runs, err = run.OpenStore(a.state, time.Now(), opt); err != nil {
		return err
	}
	a.opened = append(a.opened, a.runs)
	if a.flows, err = workflow.Open(ctx, a.state, nodes, log, time.Now()); err != nil {
		return err
	}
	a.opened = append(a.opened, a.flows)
	return nil
}

// close lets go of it. Nothing may be under way any more.
func (a *archive) close(log *slog.Logger) {
	for _, one := range slices.Backward(a.opened) {
		if err := one.Close(); err != nil {
			log.Warn("evidence not closed", "error", err)
		}
	}
}
