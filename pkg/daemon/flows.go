package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"harness/pkg/config"
	"harness/pkg/contract"
	"harness/pkg/control"
	"harness/pkg/evidence"
	"harness/pkg/facade"
	"harness/pkg/run"
	"harness/pkg/wire"
	"harness/pkg/workflow"
	"harness/pkg/worktree"
)

// launcher runs what workflows have run.
type launcher struct{ o *ops }

var _ workflow.Launcher = launcher{}

// NewID implements [workflow.Launcher].
func (l launcher) NewID() string { return l.o.runs.NewID(time.Now()) }

// Launch implements [workflow.Launcher].
func (l launcher) Launch(ctx context.Context, t workflow.Task) (workflow.Launched, error) {
	r, err := l.launch(ctx, t)
	if p, refused := errors.AsType[*control.Problem](err); refused {
		return nil, &workflow.Refused{Reason: p.Message, Err: err}
	}
	if errors.Is(err, contract.ErrConflict) {
		return nil, &workflow.Refused{Reason: err.Error(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	return waited{l, r}, nil
}

func (l launcher) launch(ctx context.Context, t workflow.Task) (*run.Run, error) {
	var actor run.Actor
	if err := json.Unmarshal(t.Actor, &actor); err != nil {
		return nil, fmt.Errorf("read who started the workflow: %w", err)
	}
	if t.Node.Contract != "" {
		return l.o.contracts.start(ctx, t, actor)
	}
	one, err := l.o.task(launchArgs{Name: t.Node.Harness, Role: t.Node.Role, Timeout: t.Node.Timeout}, actor)
	if err != nil {
		return nil, err
	}
	one.id, one.prompt, one.key = t.Run, t.Prompt, t.Workflow+"/"+t.Node.ID
	return l.o.bounded.start(ctx, one)
}

// waited is the run of a node.
type waited struct {
	launcher
	run *run.Run
}

// Wait implements [workflow.Launched].
func (w waited) Wait(ctx context.Context) (workflow.Outcome, error) {
	info, err := w.run.Wait(ctx)
	if err != nil {
		return workflow.Outcome{}, err
	}
	return w.outcome(info)
}

// Outcome implements [workflow.Launcher].
func (l launcher) Outcome(id string) (workflow.Outcome, error) {
	info, err := l.o.runs.Info(id)
	if err != nil {
		return workflow.Outcome{}, err
	}
	return l.outcome(info)
}

func (l launcher) outcome(info run.Info) (o workflow.Outcome, err error) {
	o = workflow.Outcome{State: info.State, ExitCode: info.ExitCode}
	if info.FinalReceiptSHA256 != nil {
		o.FinalReceiptSHA256 = *info.FinalReceiptSHA256
	}
	if info.Harness == asHarness {
		o.VerdictSHA256, err = l.o.contracts.digest(info.ID)
	}
	return o, err
}

// Has implements [workflow.Launcher].
func (l launcher) Has(id string) bool { return l.o.runs.Has(id) }

// packArgs names a pack.
type packArgs struct {
	Dir string `json:"dir"`
}

// packValidate checks a prompt pack. What is wrong with it is its answer.
func (o *ops) packValidate(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[packArgs](raw)
	if err != nil {
		return nil, err
	}
	dir, err := o.dirUnder("dir", a.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	manifest, _, err := dir.Read(workflow.PackFile, workflow.MaxManifest)
	if err != nil {
		return nil, refusal("dir: " + workflow.PackFile + ": " + pathReason(err))
	}
	p, found := workflow.ParsePack(filepath.Join(a.Dir, workflow.PackFile), manifest, workflow.Outside{Roles: run.Roles(), Read: beside(dir)})
	return packed{OK: len(found) == 0, Pack: showPack(p), Errors: faults(found)}, nil
}

// beside reads the files beside another.
func beside(dir *evidence.Dir) func(string) ([]byte, error) {
	return func(file string) ([]byte, error) {
		data, _, err := dir.Read(file, workflow.MaxTicket)
		if err != nil {
			return nil, errors.New(pathReason(err))
		}
		return data, nil
	}
}

// worktreeArgs asks for a worktree.
type worktreeArgs struct {
	Repo   string `json:"repo"`
	Name   string `json:"name"`
	Base   string `json:"base,omitempty"`
	Branch string `json:"branch,omitempty"`
	Key    string `json:"idempotency_key"`
}

// grown is the answer about a worktree.
type grown struct {
	Worktree shownWorktree `json:"worktree"`
	Replayed bool          `json:"replayed"`
}

type shownWorktree struct {
	worktree.Worktree
	Replayed bool `json:"replayed"`
}

func (o *ops) worktreeCreate(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := arguments[worktreeArgs](raw)
	if err != nil {
		return nil, err
	}
	if a.Name == "" {
		return nil, refusal("name: what is the worktree called?")
	}
	compared := a
	compared.Key = ""
	return o.once(ctx, run.Request{
		Key: a.Key, Operation: facade.WorktreeCreate, Arguments: compared, Actor: who.actor,
		Plan: func() string { return "wt-" + token() },
		Find: func(id string) (any, bool, error) {
			w, there, err := o.worktrees.Find(id)
			return grown{Worktree: shownWorktree{Worktree: w}}, there, err
		},
		Do: func(id string) (any, error) {
			dir, err := o.dirUnder("repo", a.Repo)
			if err != nil {
				return nil, err
			}
			defer dir.Close()
			if err := o.ownGit(ctx, a.Repo); err != nil {
				return nil, err
			}
			r := worktree.Request{ID: id, Repo: a.Repo, Name: a.Name, Base: a.Base, Branch: a.Branch, Actor: actorJSON(who.actor)}
			if who.actor.Run != nil {
				r.Run = o.runs.Path(*who.actor.Run)
			}
			w, err := o.worktrees.Create(context.WithoutCancel(ctx), r)
			return grown{Worktree: shownWorktree{Worktree: w}}, gitProblem(err)
		},
	})
}

// ownGit demands that what git keeps of a repository is under the roots too: a
// worktree is written there as well.
func (o *ops) ownGit(ctx context.Context, repo string) error {
	common, err := worktree.Git(ctx, repo, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return gitProblem(err)
	}
	dir, err := o.dirUnder("repo", common)
	if err != nil {
		return err
	}
	return dir.Close()
}

func actorJSON(a run.Actor) json.RawMessage {
	data, err := json.Marshal(a)
	if err != nil {
		panic("daemon: an actor that is no JSON: " + err.Error()) // met by every test
	}
	return data
}

// gitProblem says what came of git.
func gitProblem(err error) error {
	var r *worktree.Refused
	var lossy *worktree.Lossy
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r):
		return &control.Problem{Code: wire.OperationFailed, Message: r.Error()}
	case errors.Is(err, worktree.ErrNoGit):
		return &control.Problem{Code: wire.OperationFailed, Message: "git is not installed, or not in the daemon's PATH", Hint: "install git"}
	case errors.Is(err, worktree.ErrName), errors.Is(err, worktree.ErrUnknown):
		return refusal("name: " + leaf(err, worktree.ErrName, worktree.ErrUnknown).Error())
	case errors.Is(err, worktree.ErrTaken):
		return &control.Problem{Code: wire.OperationFailed, Message: worktree.ErrTaken.Error()}
	case errors.Is(err, worktree.ErrBranch):
		return &control.Problem{Code: wire.OperationFailed, Message: err.Error(), Hint: "take another branch (--branch) or another name"}
	case errors.As(err, &lossy):
		return &control.Problem{Code: wire.OperationFailed, Message: lossy.Error(), Hint: "commit, move or delete it; `git branch NAME COMMIT` keeps a commit"}
	}
	return err
}

// nameArgs names something.
type nameArgs struct {
	Name string `json:"name"`
}

// worktreeRemove removes a clean worktree: the operator's, no tool does.
func (o *ops) worktreeRemove(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := arguments[nameArgs](raw)
	if err != nil {
		return nil, err
	}
	w, err := o.worktrees.Remove(context.WithoutCancel(ctx), a.Name, actorJSON(who.actor))
	return grown{Worktree: shownWorktree{Worktree: w}}, gitProblem(err)
}

func (o *ops) worktreeList(context.Context, json.RawMessage, petitioner) (any, error) {
	list, err := o.worktrees.List()
	return struct {
		Worktrees control.List[worktree.Listed] `json:"worktrees"`
	}{list}, err
}

// flowArgs names a workflow, by the file that it was or will be started from, or
// by its id.
type flowArgs struct {
	ID   string `json:"id,omitempty"`
	File string `json:"file,omitempty"`
	// Approve are the operator's.
	Approve []string `json:"approve,omitempty"`
	Key     string   `json:"idempotency_key,omitempty"`
}

// flowing is the answer about a workflow.
type flowing struct {
	Workflow workflow.View `json:"workflow"`
	Replayed bool          `json:"replayed"`
}

// graph reads a workflow and its prompts.
func (o *ops) graph(file string) (workflow.Graph, map[string][]byte, control.List[control.Fault], error) {
	text, err := o.readUnder("file", file, workflow.MaxManifest)
	if err != nil {
		return workflow.Graph{}, nil, nil, err
	}
	dir, err := o.dirUnder("file", filepath.Dir(file))
	if err != nil {
		return workflow.Graph{}, nil, nil, err
	}
	defer dir.Close()
	agents := o.loop.State().Desired.Agents
	g, prompts, found := workflow.Parse(file, text, workflow.Outside{
		Roles: run.Roles(), Read: beside(dir),
		Harness: func(name string) bool {
			_, declared := agents[name]
			return declared
		},
		Contract: func(name string, text []byte) config.Faults {
			_, faults := contract.Parse(name, text)
			return faults
		},
	})
	return g, prompts, faults(found), nil
}

// workflowValidate checks a workflow. What is wrong with it is its answer.
func (o *ops) workflowValidate(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[flowArgs](raw)
	if err != nil {
		return nil, err
	}
	g, prompts, faults, err := o.graph(a.File)
	if err != nil {
		return nil, err
	}
	d := drawn{Name: control.OrNull(g.Name), State: "valid", Graph: showGraph(g, prompts)}
	if len(faults) > 0 {
		d.State = "invalid"
	}
	for _, n := range g.Nodes {
		d.Nodes = append(d.Nodes, workflow.NodeView{ID: n.ID, State: workflow.Pending})
	}
	return checked{OK: len(faults) == 0, Workflow: d, Errors: faults}, nil
}

func (o *ops) workflowStart(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := arguments[flowArgs](raw)
	if err != nil {
		return nil, err
	}
	if a.ID != "" || a.Approve != nil {
		return nil, refusal("a workflow is started from its file")
	}
	compared := a
	compared.Key = ""
	return o.once(ctx, run.Request{
		Key: a.Key, Operation: facade.WorkflowStart, Arguments: compared, Actor: who.actor,
		Plan: func() string { return "wf-" + o.runs.NewID(time.Now()) },
		Find: func(id string) (any, bool, error) {
			if !o.flows.Has(id) {
				return nil, false, nil
			}
			v, err := o.flows.Status(id)
			return flowing{Workflow: v}, true, err
		},
		Do: func(id string) (any, error) {
			g, prompts, faults, err := o.graph(a.File)
			if err != nil {
				return nil, err
			}
			if len(faults) > 0 {
				return nil, refusal(fmt.Sprintf("the workflow is not valid: %s: %s (%d in all)", orEmpty(faults[0].Key), faults[0].Message, len(faults)))
			}
			v, err := o.flows.Start(workflow.Spec{ID: id, File: a.File, Graph: g, Actor: actorJSON(who.actor), Key: a.Key, At: time.Now()}, prompts)
			return flowing{Workflow: v}, flowProblem(err)
		},
	})
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// flowID is the id of the workflow that is meant.
func (o *ops) flowID(a flowArgs) (string, error) {
	switch {
	case a.ID != "" && a.File != "":
		return "", refusal("id and file: one of them is enough")
	case a.ID == "" && a.File == "":
		return "", refusal("id: which workflow is meant?")
	case a.ID != "":
		return a.ID, nil
	}
	return o.flows.Newest(a.File)
}

// flowProblem says what was refused.
func flowProblem(err error) error {
	switch {
	case errors.Is(err, workflow.ErrUnknown):
		return refusal("there is no such workflow")
	case errors.Is(err, workflow.ErrNotAwaited):
		return refusal("approve: " + err.Error())
	case errors.Is(err, workflow.ErrOver):
		return &control.Problem{Code: wire.OperationFailed, Message: workflow.ErrOver.Error()}
	}
	if stuck, is := errors.AsType[*workflow.Stuck](err); is {
		return &control.Problem{
			Code: wire.OperationFailed, Message: fmt.Sprintf("workflow %s cannot go on: %s", stuck.ID, stuck.Reason()),
			Hint: fmt.Sprintf("`harness workflow resume %s` tries again, once nothing of it runs", stuck.ID),
		}
	}
	return err
}

func (o *ops) workflowStatus(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[flowArgs](raw)
	if err != nil {
		return nil, err
	}
	id, err := o.flowID(a)
	if err != nil {
		return nil, flowProblem(err)
	}
	v, err := o.flows.Status(id)
	return flowing{Workflow: v}, flowProblem(err)
}

// workflowResume goes on with a workflow. Approvals are the operator's (MUT-4).
func (o *ops) workflowResume(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := arguments[flowArgs](raw)
	if err != nil {
		return nil, err
	}
	if a.Approve != nil && !(who.operator && who.actor.Kind == run.Operator) {
		return nil, &control.Problem{Code: wire.PermissionDenied, Message: "approvals are the operator's to give, at the command line"}
	}
	compared := a
	compared.Key = ""
	return o.once(ctx, run.Request{
		Key: a.Key, Operation: facade.WorkflowResume, Arguments: compared, Actor: who.actor,
		// Which workflow a file means is settled once; the journal has the name of
		// the request.
		Plan: func() string { id, _ := o.flowID(a); return cmp.Or(id, "none") + " rs-" + token() },
		Find: func(plan string) (any, bool, error) {
			id, request, _ := strings.Cut(plan, " ")
			if !o.flows.Asked(id, request) {
				return nil, false, nil
			}
			v, err := o.flows.Status(id)
			return flowing{Workflow: v}, true, err
		},
		Do: func(plan string) (any, error) {
			if _, err := o.flowID(a); err != nil {
				return nil, flowProblem(err)
			}
			id, request, _ := strings.Cut(plan, " ")
			v, err := o.flows.Resume(id, workflow.Resumption{Request: request, Approve: a.Approve, Actor: actorJSON(who.actor)})
			return flowing{Workflow: v}, flowProblem(err)
		},
	})
}
