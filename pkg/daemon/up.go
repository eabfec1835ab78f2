package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"harness/pkg/agent"
	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/upstream"
	"harness/reconcile"
)

// Up implements [control.Ops] (CFG-4, CLI-6).
func (o *ops) Up(ctx context.Context, req control.UpRequest) (*control.UpResult, error) {
	var a admission
	approved := func(sha256 string) bool { return req.Yes || req.Approve == sha256 }
	passed, err := o.loop.Amend(ctx, func() (err error) {
		a, err = o.loader.admit(req.Path, approved, time.Now())
		return err
	})
	if err != nil {
		return nil, stopping(err)
	}
	o.saved(ctx)
	result := &control.UpResult{
		Path: req.Path, SHA256: a.sha256, Unapproved: a.pending, OK: !a.pending && len(a.faults) == 0,
		Errors: faults(a.faults), Warnings: faults(a.warnings),
	}
	if a.cfg != nil {
		result.Project, result.Runs, result.Prompts = &a.cfg.Project.Name, runsOf(a.cfg), a.cfg.PromptPaths
	}
	if !result.OK {
		return result, nil
	}
	if err := o.shown(ctx, passed.State.Pass); err != nil {
		return nil, err
	}
	d := o.loop.State().Desired
	result.Harnesses, err = o.Start(ctx, startsWith(d, a.cfg.Project.Name))
	if err != nil {
		return nil, err
	}
	result.Warnings = faults(o.doubtsOf(d, a.cfg))
	return result, nil
}

// runsOf lists what a project's file has the daemon run, harnesses first.
func runsOf(c *config.Config) control.List[control.Runs] {
	var list control.List[control.Runs]
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		list = append(list, control.Runs{
			Kind: "harness", Name: name, Cmd: a.Cmd, Args: a.Args, Workdir: a.Workdir, EnvFile: control.OrNull(a.EnvFile), Env: slices.Sorted(maps.Keys(a.Env)), Enabled: a.Enabled || !a.EnabledWritten,
		})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[key]
		list = append(list, control.Runs{Kind: "upstream", Name: key, Cmd: u.Cmd, Args: u.Args, Workdir: u.Workdir, EnvFile: control.OrNull(u.EnvFile), Env: slices.Sorted(maps.Keys(u.Env)), Enabled: u.Enabled})
	}
	return list
}

// startsWith lists the harnesses that being up starts: all but those whose table
// says no.
func startsWith(d *reconcile.Desired, project string) []string {
	var names []string
	for name, a := range d.Agents {
		if a.Launch.Project == project && (a.Launch.Enabled || !a.Launch.EnabledWritten) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// doubtsOf is what there is to say of a project that is up: the warnings of its
// files, and its upstreams that have not come up.
func (o *ops) doubtsOf(d *reconcile.Desired, c *config.Config) []config.Fault {
	var list []config.Fault
	for _, w := range o.loop.State().Warnings {
		if isOf(c, w.File) {
			list = append(list, w)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Upstreams)) {
		full := reconcile.FullName(c.Project.Name, key)
		if problem := o.problem(full); d.Upstreams[full].Enabled && problem != "" {
			list = append(list, config.Fault{File: c.Path, Line: c.Upstreams[key].Line, Key: reconcile.UpstreamName(key), Message: problem})
		}
	}
	return list
}

// isOf reports whether a file is the config file of a project, one of its prompts
// or one of its env_files.
func isOf(c *config.Config, file string) bool {
	within := func(dir string) bool { return file == dir || strings.HasPrefix(file, dir+"/") }
	return file == c.Path || slices.ContainsFunc(c.PromptPaths, within) || slices.Contains(envFiles(c), file)
}

// shown waits until all of a pass is published.
func (o *ops) shown(ctx context.Context, pass uint64) error {
	return stopping(o.loop.Until(ctx, unitWait, func() bool { return o.loop.State().Shown >= pass }))
}

// Down implements [control.Ops] (CLI-6): it returns when nothing of the project
// runs any more.
func (o *ops) Down(ctx context.Context, name string) error {
	up, there := o.loop.State().Desired.Projects[name]
	if !there {
		return control.NoProject(name, o.Projects())
	}
	passed, err := o.loop.Amend(ctx, func() error { return o.loader.dismiss(up.Path) })
	if errors.Is(err, errNotHere) {
		return control.NoProject(name, o.Projects()) // somebody else was faster
	}
	if err != nil {
		return stopping(err)
	}
	o.saved(ctx)
	return stopping(o.loop.Until(ctx, unitWait, func() bool {
		return o.loop.State().Shown >= passed.State.Pass && !o.lingers(name)
	}))
}

// lingers reports whether anything of a project runs that is not in it any more.
func (o *ops) lingers(project string) bool {
	gone := func(full string) bool {
		of, _ := reconcile.SplitName(full)
		return of == project
	}
	return slices.ContainsFunc(o.agents.Snapshot(), func(s agent.Status) bool { return gone(s.Name) && s.State != agent.Stopped }) ||
		slices.ContainsFunc(o.pool.Snapshot(), func(s upstream.Status) bool { return gone(s.Key) && s.State != upstream.Stopped })
}

// Projects implements [control.Ops].
func (o *ops) Projects() []control.Project {
	list := []control.Project{}
	d := o.loop.State().Desired
	for _, name := range slices.Sorted(maps.Keys(d.Projects)) {
		list = append(list, control.Project{Name: name, Path: d.Projects[name].Path})
	}
	return list
}
