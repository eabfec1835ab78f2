package daemon

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"harness/pkg/adapter"
	"harness/pkg/agent"
	"harness/pkg/broker"
	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/facade"
	"harness/pkg/identity"
	"harness/pkg/proc"
	"harness/pkg/run"
	"harness/pkg/wire"
	"harness/reconcile"
)

// agents is the pool of harnesses as the reconciler and the operations use it.
type agents interface {
	Snapshot() []agent.Status
	Status(name string) (agent.Status, bool)
	Start(l config.AgentLaunch, nonce uint64)
	Update(l config.AgentLaunch)
	Stop(name string)
	Remove(name string)
	Attach(name string, v agent.Viewer) (*agent.Attachment, error)
	SetLimits(s config.Server)
}

var _ agents = (*agent.Pool)(nil)

// caller is one session's other end. Whose it is, and what that one may do, is
// looked up at each request (WHO-2, WHO-3).
type caller struct {
	ids     *identity.Store
	claim   identity.Claim
	desired func() *reconcile.Desired
	nobody  *broker.Scope

	mu    sync.Mutex
	of    *reconcile.Desired // what scope was made of
	name  string
	scope *broker.Scope
}

var _ broker.Caller = (*caller)(nil)

func newCaller(ids *identity.Store, claim identity.Claim, desired func() *reconcile.Desired) *caller {
	return &caller{ids: ids, claim: claim, desired: desired, nobody: broker.Unattributed()}
}

// Scope implements [broker.Caller].
func (c *caller) Scope() *broker.Scope {
	owner, ok := c.ids.Whose(c.claim)
	if !ok {
		return c.nobody
	}
	d := c.desired()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == d && c.name == owner.Name {
		return c.scope
	}
	c.of, c.name, c.scope = d, owner.Name, scopeOf(d, owner.Name)
	return c.scope
}

// scopeOf is what the file grants a harness. One that is not in it any more, and
// is on its way out, has what everybody has.
func scopeOf(d *reconcile.Desired, name string) *broker.Scope {
	a, declared := d.Agents[name]
	if !declared {
		return broker.NewScope(name, "", []string{"*"}, false)
	}
	// A project's file cannot grant anything (CFG-4).
	write := a.Launch.Project == "" && slices.Contains(a.Launch.MCPAllow, "write")
	s := broker.NewScope(name, a.Launch.Project, a.Launch.MCP, write)
	if of := adapter.Find(a.Launch.Adapter, a.Launch.Cmd, a.Launch.Args).Name(); of != adapter.Generic {
		s.Class = of
	}
	return s
}

// List implements [control.Ops].
func (o *ops) List(project string) []control.Harness {
	d := o.loop.State().Desired
	list := []control.Harness{}
	for name, a := range d.Agents {
		if project == "" || a.Launch.Project == project {
			list = append(list, o.harness(d, name))
		}
	}
	slices.SortFunc(list, func(a, b control.Harness) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// harness describes one that is declared.
func (o *ops) harness(d *reconcile.Desired, name string) control.Harness {
	a := d.Agents[name]
	h := control.Harness{
		Name: name, State: string(agent.Stopped), Enabled: a.Enabled, Project: control.OrNull(a.Launch.Project),
		Description: control.OrNull(a.Launch.Description), Profiles: profilesOf(d, name),
	}
	s, there := o.agents.Status(name)
	if !there {
		return h
	}
	h.State, h.PID, h.Restarts = string(s.State), control.OrNull(s.PID), s.Restarts
	if s.LastExit != nil {
		h.LastExit = &control.Exit{Signal: control.OrNull(s.LastExit.Signal), At: s.LastExit.At.UTC()}
		if s.LastExit.Signal == "" {
			h.LastExit.Code = &s.LastExit.Code
		}
	}
	if !s.Started.IsZero() {
		ms := time.Since(s.Started).Milliseconds()
		h.UptimeMS = &ms
	}
	if s.Enabled && s.State != agent.Running {
		h.Error = control.OrNull(s.Error)
		if !s.NextRetry.IsZero() {
			at := s.NextRetry.UTC()
			h.NextRetry = &at
		}
	}
	if s.Spawned != nil {
		change, _ := reconcile.CompareAgent(*s.Spawned, a.Launch)
		h.ConfigPending = change == reconcile.Respawn
	}
	return h
}

// profilesOf lists the profiles that a harness is a member of.
func profilesOf(d *reconcile.Desired, name string) control.List[string] {
	var list control.List[string]
	for profile, p := range d.Profiles {
		if slices.Contains(p.Members, name) {
			list = append(list, profile)
		}
	}
	slices.Sort(list)
	return list
}

// Describe implements [control.Ops].
func (o *ops) Describe(name string) (*control.Description, error) {
	d := o.loop.State().Desired
	a, declared := d.Agents[name]
	if !declared {
		return nil, &control.Problem{Code: wire.UnknownHarness, Message: fmt.Sprintf("no harness is named %q", name), Hint: o.otherHarnesses(d, name)}
	}
	l := a.Launch
	return &control.Description{Harness: o.harness(d, name), Definition: control.Definition{
		Cmd: l.Cmd, Args: l.Args, EnvFile: control.OrNull(l.EnvFile), Env: slices.Sorted(maps.Keys(l.Env)), Workdir: l.Workdir,
		RestartDelayMS: l.RestartDelay.Milliseconds(), Enabled: startsByFile(l), Description: control.OrNull(l.Description), MCPAllow: l.MCPAllow,
		MCPBridge: l.MCPBridge, Adapter: l.Adapter, MCP: l.MCP, EnvPass: l.EnvPass,
	}}, nil
}

// startsByFile reports whether a harness's table has it started: of a project's,
// which up starts, what says nothing says yes (CLI-6).
func startsByFile(l config.AgentLaunch) bool {
	return l.Enabled || l.Project != "" && !l.EnabledWritten
}

// looked adapts an attachment to what clients are given.
type looked struct{ *agent.Attachment }

// Resize implements [control.Terminal].
func (l looked) Resize(cols, rows uint16) {
	l.Attachment.Resize(proc.Size{Cols: cols, Rows: rows})
}

// Attach implements [control.Ops].
func (o *ops) Attach(req control.AttachRequest) (control.Terminal, error) {
	u, err := o.unitOf(req.Name)
	if err != nil {
		return nil, err
	}
	if u.key != "" {
		return nil, &control.Problem{Code: wire.OperationFailed, Message: req.Name + " is an upstream and has no terminal", Hint: "see `harness logs " + req.Name + "`"}
	}
	a, err := o.agents.Attach(u.name, agent.Viewer{Size: proc.Size{Cols: req.Cols, Rows: req.Rows}, ReadOnly: req.ReadOnly})
	if err == nil && o.standing(u).state.State == string(agent.Stopped) {
		err = errors.Join(agent.ErrNoProcess, a.Close())
	}
	if err != nil {
		return nil, &control.Problem{Code: wire.OperationFailed, Message: req.Name + " does not run", Hint: "harness start " + req.Name}
	}
	return looked{a}, nil
}

var _ facade.Ops = (*ops)(nil)

// Render implements [facade.Ops]: of two prompts of one name, the global one is
// meant (PRM-1).
func (o *ops) Render(project, name string, arguments map[string]string) (string, error) {
	view := o.broker.View(broker.NewScope("", project, nil, false))
	for _, p := range o.loop.State().Desired.Prompts {
		if p.Project != "" && p.Project != project || view.PromptName(p.Name) != name {
			continue
		}
		for _, a := range p.Arguments {
			if _, given := arguments[a.Name]; a.Required && !given {
				return "", wire.New(wire.InvalidArgument, fmt.Sprintf("prompt %q needs the argument %q", name, a.Name))
			}
		}
		text, err := p.Render(arguments)
		if err != nil {
			return "", wire.New(wire.OutputLimit, fmt.Sprintf("prompt %q cannot be rendered: %v", name, err))
		}
		return string(text), nil
	}
	return "", wire.New(wire.InvalidArgument, fmt.Sprintf("unknown prompt %.100q", name))
}

// Runs implements [facade.Ops].
func (o *ops) Runs(harness, after string, n int) ([]run.Info, string, error) {
	list, next, err := o.runs.List(harness, after, n)
	return list, next, pageProblem(err, "after %s", "limit %d")
}

// pageProblem says what a page of runs was refused for, and how to see the others
// where it was for one of them: older is what has those before it, and newer what
// has the rest, as whoever asks spells it.
func pageProblem(err error, older, newer string) error {
	u, unfit := errors.AsType[*run.Unfit](err)
	if !unfit {
		return problem(err)
	}
	hint := fmt.Sprintf(older+" has the older runs", u.Run)
	if u.Newer > 0 {
		hint += fmt.Sprintf(", "+newer+" the newer ones of this page", u.Newer)
	}
	return &control.Problem{Code: wire.InvalidEvidence, Message: u.Error(), Hint: hint}
}

// Transcript implements [facade.Ops].
func (o *ops) Transcript(id string, offset int64) ([]byte, int64, error) {
	text, next, err := o.runs.Transcript(id, offset)
	return text, next, problem(err)
}
