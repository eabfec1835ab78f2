package daemon

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"harness/pkg/agent"
	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/identity"
	"harness/pkg/upstream"
	"harness/reconcile"
	"harness/watch"
)

var _ control.Ops = (*ops)(nil)

// ops answers the control interface from what the rooms know. It keeps no
// state of its own and is used by many goroutines.
type ops struct {
	loop     *reconcile.Loop
	loader   *loader // for the loop's goroutine alone, through Amend
	pool     upstreams
	agents   agents
	bounded  *bounded
	*archive // what operations and resources are about
	// contracts are those of workflows, and those that are shown as runs.
	contracts *contracts
	ids       *identity.Store
	broker    *broker.Broker
	watcher   *watch.Watcher
	limits    *limits
	saved     func(context.Context) // waits for the state files
	paths     control.Paths
	wiring    wiring
	version   string
	config    string
	logs      string // directory of the upstreams' logs
	started   time.Time
}

// Status implements [control.Ops] (CLI-3).
func (o *ops) Status(context.Context) (*control.Status, error) {
	s := o.loop.State()
	out := &control.Status{
		Version: o.version, PID: os.Getpid(), UptimeMS: time.Since(o.started).Milliseconds(), Config: o.config,
		Generation: s.Generation, Digest: control.OrNull(s.Digest), Watch: string(o.watcher.Mode()),
		Harnesses: len(s.Desired.Agents), Prompts: o.broker.View(broker.Unattributed()).Prompts(),
		Upstreams: o.upstreams(s.Desired),
	}
	if !s.At.IsZero() {
		out.LastReload = &control.LastReload{At: s.At.UTC(), OK: s.OK, Errors: faults(s.Faults), Warnings: faults(s.Warnings)}
	}
	for _, info := range o.broker.Sessions() {
		out.Sessions = append(out.Sessions, control.SessionStatus{
			ID: info.ID, Harness: control.OrNull(info.Harness), Client: control.OrNull(info.Client), Since: info.Since.UTC(),
		})
	}
	return out, nil
}

// upstreams lists what has a process and, from the file, what has none.
func (o *ops) upstreams(d *reconcile.Desired) control.List[control.UpstreamStatus] {
	var list control.List[control.UpstreamStatus]
	seen := map[string]bool{}
	for _, s := range o.pool.Snapshot() {
		seen[s.Key] = true
		list = append(list, describe(s))
	}
	for key, u := range d.Upstreams {
		if !seen[key] {
			list = append(list, control.UpstreamStatus{Name: key, State: string(upstream.Stopped), Enabled: u.Enabled})
		}
	}
	slices.SortFunc(list, func(a, b control.UpstreamStatus) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func describe(s upstream.Status) control.UpstreamStatus {
	out := control.UpstreamStatus{
		Name: s.Key, State: string(s.State), Enabled: s.Enabled, PID: control.OrNull(s.PID), Restarts: s.Restarts,
		Error: control.OrNull(s.Error), Instances: s.Instances,
	}
	if s.Offer != nil {
		out.Tools = len(s.Offer.Tools)
	}
	if s.Pending != nil {
		out.Pending = control.OrNull(pendingText(s))
	}
	if !s.NextRetry.IsZero() {
		ms := max(time.Until(s.NextRetry).Milliseconds(), 0)
		out.NextRetryMS = &ms
	}
	return out
}

// pendingText says what a swap waits for.
func pendingText(s upstream.Status) string {
	if s.PendingErr != "" {
		return s.PendingErr
	}
	return "the changed definition is starting"
}

func faults(list []config.Fault) control.List[control.Fault] {
	out := make(control.List[control.Fault], len(list))
	for i, f := range list {
		out[i] = control.Fault{File: f.File, Line: control.OrNull(f.Line), Key: control.OrNull(f.Key), Message: f.Message}
	}
	return out
}

// Reload implements [control.Ops] (HOT-7).
func (o *ops) Reload(ctx context.Context, req control.ReloadRequest) (*control.ReloadResult, error) {
	var passed reconcile.Passed
	var err error
	if req.DryRun {
		passed, err = o.loop.Plan(ctx)
	} else {
		passed, err = o.loop.Reload(ctx, asked(req), req.Wait())
	}
	if err != nil {
		return nil, stopping(err)
	}
	s := passed.State
	result := &control.ReloadResult{OK: s.OK, Generation: s.Generation, Errors: faults(s.Faults), Warnings: faults(s.Warnings)}
	for _, step := range passed.Plan {
		change := control.Change{Kind: string(step.Kind), Name: step.Name, Action: string(step.Op), Reason: step.Why}
		if !req.DryRun {
			o.outcome(step, &change)
		}
		result.Changed = append(result.Changed, change)
	}
	waiting := o.loop.State().Waiting
	for _, key := range passed.Started {
		problem := o.problem(key)
		if problem == "" && slices.Contains(waiting, key) {
			problem = "still starting; `harness status` shows when it runs"
		}
		if problem != "" {
			file := o.config
			if project, _ := reconcile.SplitName(key); project != "" {
				file = s.Desired.Projects[project].Path
			}
			result.Warnings = append(result.Warnings, control.Fault{
				File: file, Line: control.OrNull(s.Desired.Upstreams[key].Launch.Line), Key: control.OrNull(reconcile.UpstreamName(key)), Message: problem,
			})
		}
	}
	return result, nil
}

// asked is when a reload was asked for, zero where that is not known.
func asked(req control.ReloadRequest) time.Time {
	if req.AgeMS <= 0 {
		return time.Time{}
	}
	return time.Now().Add(-time.Duration(req.AgeMS) * time.Millisecond)
}

// outcome adds what became of the step of something that has a process.
func (o *ops) outcome(step reconcile.Step, change *control.Change) {
	switch step.Kind {
	case reconcile.KindUpstream:
		s, there := find(o.pool, step.Name)
		if !there {
			s.State = upstream.Stopped
		}
		change.State = control.OrNull(string(s.State))
		if s.Pending != nil && step.Op == reconcile.OpSwap {
			change.Action = string(reconcile.OpPending)
		}
	case reconcile.KindHarness:
		s, there := o.agents.Status(step.Name)
		if !there {
			s.State = agent.Stopped
		}
		change.State = control.OrNull(string(s.State))
	default: // it has no life of its own
	}
}

// problem is why an upstream did not come up so far, "" where it did or still
// may: the file is in force all the same.
func (o *ops) problem(key string) string {
	s, there := find(o.pool, key)
	switch {
	case !there, s.Pending == nil && s.State == upstream.Running:
		return ""
	case s.Pending != nil:
		return s.PendingErr
	}
	return s.Error
}

// Prompts implements [control.Ops].
func (o *ops) Prompts(_ context.Context, project string) ([]control.PromptInfo, error) {
	if _, up := o.loop.State().Desired.Projects[project]; project != "" && !up {
		return nil, control.NoProject(project, o.Projects())
	}
	infos := []control.PromptInfo{}
	view := o.broker.View(broker.NewScope("", project, nil, false))
	for _, p := range o.loop.State().Desired.Prompts {
		if p.Project != "" && p.Project != project {
			continue // its own harnesses see it
		}
		info := control.PromptInfo{Name: view.PromptName(p.Name), Title: control.OrNull(p.Title), Description: control.OrNull(p.Description), File: p.File}
		for _, a := range p.Arguments {
			info.Arguments = append(info.Arguments, control.PromptArgument{Name: a.Name, Description: control.OrNull(a.Description), Required: a.Required})
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// ServeSession implements [control.Ops].
func (o *ops) ServeSession(ctx context.Context, conn *net.UnixConn, hello control.Hello) {
	who := newCaller(o.ids, identity.NewClaim(hello.Token, identity.Ancestors(hello.PID)), func() *reconcile.Desired { return o.loop.State().Desired })
	edge := broker.NewSocketEdge(conn, hello.Early, o.limits.session())
	stop := context.AfterFunc(ctx, func() { _ = edge.Close() })
	defer stop()
	o.broker.Serve(ctx, edge, who)
}

// Logs implements [control.Ops] (LIF-7).
func (o *ops) Logs(ctx context.Context, req control.LogsRequest, w io.Writer) error {
	u, err := o.unitOf(req.Name)
	if err != nil {
		// What is not declared any more may have left a log.
		key, up := strings.CutPrefix(req.Name, "mcp.")
		u = unit{name: req.Name}
		if up {
			u.key = key
		}
		if info, statErr := os.Stat(u.log(o.logs)); statErr != nil || !info.Mode().IsRegular() {
			return err
		}
	}
	l := logFile{path: u.log(o.logs)}
	if !req.Follow {
		return l.tail(w, req.Lines)
	}
	return l.follow(ctx, w, req.Lines)
}
