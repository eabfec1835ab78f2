package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"harness/pkg/adapter"
	"harness/pkg/agent"
	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/upstream"
	"harness/reconcile"
	"harness/watch"
)

// patient is what a checkup looks at.
type patient struct {
	paths    control.Paths
	desired  *reconcile.Desired
	faults   []config.Fault
	warnings []config.Fault
	wiring   wiring
}

// Checkup implements [control.Ops]: what the daemon sees, in its environment.
func (o *ops) Checkup(ctx context.Context) (*control.Checkup, error) {
	s := o.loop.State()
	c := &control.Checkup{}
	c.Add("daemon", control.CheckOK, fmt.Sprintf("runs as pid %d, version %s", os.Getpid(), o.version), "")
	patient{o.paths, s.Desired, s.Faults, s.Warnings, o.wiring}.examine(c)
	status, err := o.Status(ctx)
	if err != nil {
		return nil, err
	}
	checkWatch(c, watch.Mode(status.Watch))
	for _, u := range status.Upstreams {
		checkUpstream(c, u)
	}
	for _, u := range o.pool.Snapshot() {
		if u.Refused != "" {
			c.Add(reconcile.UpstreamName(u.Key)+".isolation", control.CheckWarning, u.Refused, "")
		}
	}
	for _, l := range o.broker.LeftOut() {
		c.Add(reconcile.UpstreamName(reconcile.FullName(l.Project, l.Key))+".tools", control.CheckWarning, fmt.Sprintf("%s is left out for %s: %s", l.Tool, l.Class, l.Reason), "tell the server's authors")
	}
	for _, h := range o.List("") {
		checkHarness(c, h)
	}
	return c, nil
}

// Checkup looks at what a daemon would find, where none answers for why.
func Checkup(opt Options, why error) *control.Checkup {
	c := &control.Checkup{}
	c.Add("daemon", control.CheckFailure, why.Error(), "start it with `harness daemon`")
	f, _ := newFollowed(opt.Paths.Config, config.Global, nil, config.Env{Home: opt.Home, Lookup: os.LookupEnv})
	o := f.judge(ReadRegular(opt.Paths.Config))
	l := loader{}
	desired := reconcile.NewDesired(o.cfg, l.launches(&reading{}, o.cfg), nil).With(nil)
	exe, err := os.Executable()
	if err != nil {
		exe = "harness"
	}
	w := wiring{exe: exe, socket: opt.Paths.Socket, dir: filepath.Join(opt.Paths.State, wiredDir)}
	patient{opt.Paths, desired, o.faults, o.warnings, w}.examine(c)
	return c
}

// examine adds what there is to say without knowing how anything runs.
func (p patient) examine(c *control.Checkup) {
	checkFaults(c, p.paths.Config, p.faults, p.warnings)
	c.Path = os.Getenv("PATH")
	if c.Path == "" {
		c.Add("path", control.CheckFailure, "PATH is empty: no command is found by its name", "name commands by their paths, or set PATH where the daemon is started")
	} else {
		c.Add("path", control.CheckOK, "commands are looked up in "+c.Path, "")
	}
	checkPrivate(c, "state", p.paths.State)
	checkPrivate(c, "socket", filepath.Dir(p.paths.Socket))
	checkPrivate(c, "socket", p.paths.Socket)
	d := p.desired
	for _, key := range slices.Sorted(maps.Keys(d.Upstreams)) {
		u := d.Upstreams[key]
		checkDefinition(c, reconcile.UpstreamName(key), u.Enabled, doubt(unplaced(reconcile.UpstreamName(key)), u.Launch.Cmd, u.Launch.Workdir, u.Launch.EnvFile))
		checkEnvFile(c, reconcile.UpstreamName(key), u.Launch.EnvFile)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Agents)) {
		a := d.Agents[name]
		table := "harness." + name
		checkDefinition(c, table, a.Enabled, doubt(unplaced(table), a.Launch.Cmd, a.Launch.Workdir, a.Launch.EnvFile))
		checkEnvFile(c, table, a.Launch.EnvFile)
		p.checkWiring(c, a.Launch)
	}
}

// checkFaults covers the files themselves.
func checkFaults(c *control.Checkup, path string, faults, warnings []config.Fault) {
	for _, f := range faults {
		c.Add("config", control.CheckFailure, f.String(), "")
	}
	for _, w := range warnings {
		c.Add("config", control.CheckWarning, w.String(), "")
	}
	if len(faults) == 0 && len(warnings) == 0 {
		c.Add("config", control.CheckOK, path+" is valid", "")
	}
}

// checkPrivate covers a file or directory that is for nobody else (FIL-1). One
// that is not there yet will be made so.
func checkPrivate(c *control.Checkup, name, path string) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.Add(name, control.CheckFailure, fmt.Sprintf("%s: %v", path, bare(err)), "")
	case info.Mode().Perm()&0o077 != 0:
		c.Add(name, control.CheckWarning, fmt.Sprintf("%s is open to other users (mode %04o)", path, info.Mode().Perm()), "chmod go-rwx "+path)
	default:
		c.Add(name, control.CheckOK, fmt.Sprintf("%s is yours alone (mode %04o)", path, info.Mode().Perm()), "")
	}
}

// checkDefinition covers what keeps a definition from coming up. For one that
// nobody wants to run, that is a warning.
func checkDefinition(c *control.Checkup, table string, enabled bool, doubts []config.Fault) {
	status := control.CheckWarning
	if enabled {
		status = control.CheckFailure
	}
	for _, d := range doubts {
		c.Add(d.Key, status, withoutPath(c, d.Message), "")
	}
	if len(doubts) == 0 {
		c.Add(table, control.CheckOK, "its command and its files are there", "")
	}
}

// withoutPath leaves out of a message what the checkup says of PATH above.
func withoutPath(c *control.Checkup, message string) string {
	return strings.Replace(message, fmt.Sprintf(" (PATH searched: %s)", c.Path), "", 1)
}

// checkEnvFile covers who else can read what an env_file holds.
func checkEnvFile(c *control.Checkup, table, path string) {
	if path == "" {
		return
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o044 != 0 {
		c.Add(table+".env_file", control.CheckWarning, fmt.Sprintf("%s can be read by other users (mode %04o)", path, info.Mode().Perm()), "chmod go-rwx "+path)
	}
}

// checkWiring says how the agent of a harness gets the endpoint (WHO-4).
func (p patient) checkWiring(c *control.Checkup, l config.AgentLaunch) {
	how := p.wiring.plan(l)
	of := adapter.Find(l.Adapter, l.Cmd, l.Args).Name()
	c.Harnesses = append(c.Harnesses, control.Wired{Name: l.Name, Adapter: of, Wired: how.Wired, How: how.How, Paste: control.OrNull(how.Paste), Into: control.OrNull(how.Into)})
	if !how.Wired && l.MCPBridge && of != adapter.Generic {
		c.Add("harness."+l.Name+".adapter", control.CheckWarning, how.How, "paste what is shown below into "+how.Into)
	}
}

// checkWatch covers how edits are noticed (HOT-1), and the kernel's limits that
// this depends on.
func checkWatch(c *control.Checkup, mode watch.Mode) {
	limits := fmt.Sprintf("fs.inotify.max_user_instances is %s, max_user_watches %s", kernelLimit("max_user_instances"), kernelLimit("max_user_watches"))
	if mode == watch.Inotify {
		c.Add("watch", control.CheckOK, "edits are noticed by inotify; "+limits, "")
		return
	}
	c.Add("watch", control.CheckWarning, "inotify is not to be had, so files are polled; "+limits, "raise the one that is used up, for example: sysctl fs.inotify.max_user_instances=1024")
}

// kernelLimit reads one limit of inotify.
func kernelLimit(name string) string {
	data, err := os.ReadFile("/proc/sys/fs/inotify/" + name)
	text := strings.TrimSpace(string(data))
	if _, bad := strconv.Atoi(text); err != nil || bad != nil {
		return "not known"
	}
	return text
}

// checkUpstream covers how one upstream is.
func checkUpstream(c *control.Checkup, u control.UpstreamStatus) {
	name, hint := reconcile.UpstreamName(u.Name), "see `harness logs "+reconcile.UpstreamName(u.Name)+"`"
	why := ""
	if u.Error != nil {
		why = ": " + withoutPath(c, *u.Error)
	}
	switch upstream.State(u.State) {
	case upstream.Running, upstream.Stopped:
		if u.Pending != nil {
			c.Add(name, control.CheckWarning, "its changed definition is not in force: "+*u.Pending, hint)
			return
		}
		c.Add(name, control.CheckOK, "is "+u.State, "")
	case upstream.Failed, upstream.Degraded:
		c.Add(name, control.CheckFailure, "is "+u.State+why, hint)
	default:
		c.Add(name, control.CheckWarning, "is "+u.State+why, hint)
	}
}

// checkHarness covers how one harness is.
func checkHarness(c *control.Checkup, h control.Harness) {
	name, hint := "harness."+h.Name, "see `harness logs "+h.Name+"`"
	switch agent.State(h.State) {
	case agent.Running, agent.Stopped:
		c.Add(name, control.CheckOK, "is "+h.State, "")
	case agent.Failed, agent.Degraded:
		c.Add(name, control.CheckFailure, "is "+h.State, hint)
	default:
		c.Add(name, control.CheckWarning, "is "+h.State, hint)
	}
}
