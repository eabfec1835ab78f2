package reconcile

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

// names are few, so that states often share some.
func names() *rapid.Generator[string] { return rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}) }

func launches() *rapid.Generator[config.Launch] {
	return rapid.Custom(func(t *rapid.T) config.Launch {
		changes := rapid.SliceOfN(rapid.SampledFrom([]func(*config.Launch){
			changedLaunch, otherLaunch, liveLaunch, replacing, disabled,
			func(l *config.Launch) { l.EnvDigest = "d2" },
			func(l *config.Launch) { l.Exe = "" },
		}), 0, 3).Draw(t, "changes")
		return launch(changes...)
	})
}

func upstreams() *rapid.Generator[Upstream] {
	return rapid.Custom(func(t *rapid.T) Upstream {
		return Upstream{
			Launch:  launches().Draw(t, "launch"),
			Enabled: rapid.Bool().Draw(t, "enabled"),
			Nonce:   rapid.Uint64Range(0, 2).Draw(t, "nonce"),
		}
	})
}

func observedUpstreams() *rapid.Generator[ObservedUpstream] {
	return rapid.Custom(func(t *rapid.T) ObservedUpstream {
		return ObservedUpstream{
			InForce: launches().Draw(t, "in force"),
			Pending: rapid.Ptr(launches(), true).Draw(t, "pending"),
			Enabled: rapid.Bool().Draw(t, "enabled"),
			Nonce:   rapid.Uint64Range(0, 2).Draw(t, "nonce"),
			State:   rapid.SampledFrom([]string{"stopped", "starting", "running", "restarting", "degraded", "failed"}).Draw(t, "state"),
		}
	})
}

func prompts() *rapid.Generator[[]prompt.Prompt] {
	return rapid.Custom(func(t *rapid.T) []prompt.Prompt {
		var list []prompt.Prompt
		for _, name := range rapid.SliceOfDistinct(names(), rapid.ID).Draw(t, "prompts") {
			list = append(list, promptOf(name, "", rapid.SampledFrom([]string{"x", "y"}).Draw(t, "body")))
		}
		return list
	})
}

func agentLaunches() *rapid.Generator[config.AgentLaunch] {
	return rapid.Custom(func(t *rapid.T) config.AgentLaunch {
		var l config.AgentLaunch
		l.Cmd = rapid.SampledFrom([]string{"claude", "codex"}).Draw(t, "cmd")
		l.Description = rapid.SampledFrom([]string{"", "d"}).Draw(t, "description")
		l.Line = rapid.Int().Draw(t, "line")
		return l
	})
}

func agents() *rapid.Generator[map[string]Agent] {
	return rapid.MapOf(names(), rapid.Custom(func(t *rapid.T) Agent {
		return Agent{
			Launch:  agentLaunches().Draw(t, "launch"),
			Enabled: rapid.Bool().Draw(t, "enabled"),
			Nonce:   rapid.Uint64Range(0, 2).Draw(t, "nonce"),
		}
	}))
}

func observedAgents() *rapid.Generator[map[string]ObservedAgent] {
	return rapid.MapOf(names(), rapid.Custom(func(t *rapid.T) ObservedAgent {
		return ObservedAgent{
			Next:    agentLaunches().Draw(t, "next"),
			Spawned: rapid.Ptr(agentLaunches(), true).Draw(t, "spawned"),
			Enabled: rapid.Bool().Draw(t, "enabled"),
			Nonce:   rapid.Uint64Range(0, 2).Draw(t, "nonce"),
			State:   rapid.SampledFrom([]string{"stopped", "starting", "running", "restarting", "degraded", "failed"}).Draw(t, "state"),
		}
	}))
}

func projects() *rapid.Generator[map[string]Project] {
	return rapid.MapOf(names(), rapid.Custom(func(t *rapid.T) Project {
		return Project{Path: rapid.SampledFrom([]string{"/a", "/b"}).Draw(t, "path")}
	}))
}

func profiles() *rapid.Generator[map[string]config.Profile] {
	return rapid.MapOf(names(), rapid.Custom(func(t *rapid.T) config.Profile {
		return config.Profile{Autostart: rapid.Bool().Draw(t, "autostart")}
	}))
}

func servers() *rapid.Generator[config.Server] {
	return rapid.Custom(func(t *rapid.T) config.Server {
		s := config.DefaultServer()
		s.LogLevel = rapid.SampledFrom([]string{"info", "debug"}).Draw(t, "log_level")
		return s
	})
}

func paths() *rapid.Generator[[]string] {
	return rapid.SliceOfN(rapid.SampledFrom([]string{"/p", "/q"}), 0, 2)
}

func desired() *rapid.Generator[*Desired] {
	return rapid.Custom(func(t *rapid.T) *Desired {
		return &Desired{
			Server:      servers().Draw(t, "server"),
			Upstreams:   rapid.MapOf(names(), upstreams()).Draw(t, "upstreams"),
			Prompts:     prompts().Draw(t, "prompts"),
			PromptPaths: paths().Draw(t, "paths"),
			Agents:      agents().Draw(t, "agents"),
			Profiles:    profiles().Draw(t, "profiles"),
			Projects:    projects().Draw(t, "projects"),
		}
	})
}

func observed() *rapid.Generator[*Observed] {
	return rapid.Custom(func(t *rapid.T) *Observed {
		return &Observed{
			Server:      servers().Draw(t, "server"),
			Upstreams:   rapid.MapOf(names(), observedUpstreams()).Draw(t, "upstreams"),
			Prompts:     prompts().Draw(t, "prompts"),
			PromptPaths: paths().Draw(t, "paths"),
			Agents:      observedAgents().Draw(t, "agents"),
			Defined:     rapid.MapOf(names(), agentLaunches()).Draw(t, "defined"),
			Profiles:    profiles().Draw(t, "profiles"),
			Projects:    projects().Draw(t, "projects"),
		}
	})
}

// apply is a model of the world that does every step of a plan. up says which
// swaps have their new process in service already; the others stay pending.
func apply(d *Desired, o *Observed, plan Plan, up func(name string) bool) *Observed {
	next := *o
	next.Upstreams, next.Agents, next.Profiles = copied(o.Upstreams), copied(o.Agents), copied(o.Profiles)
	next.Projects, next.Defined = copied(o.Projects), map[string]config.AgentLaunch{}
	for name, a := range d.Agents {
		next.Defined[name] = a.Launch
	}
	next.Prompts = slices.Clone(o.Prompts)
	for _, step := range plan {
		switch step.Kind {
		case KindServer:
			next.Server, next.PromptPaths = d.Server, d.PromptPaths
		case KindUpstream:
			applyUpstream(&next, step, d.Upstreams[step.Name], up(step.Name))
		case KindPrompt:
			next.Prompts = slices.DeleteFunc(next.Prompts, func(p prompt.Prompt) bool { return p.Name == step.Name })
			if step.Op != OpUnpublish {
				next.Prompts = append(next.Prompts, byName(d.Prompts)[step.Name])
			}
		case KindHarness:
			applyAgent(&next, step, d.Agents[step.Name])
		case KindProfile:
			applyNamed(next.Profiles, step, d.Profiles)
		case KindProject:
			applyNamed(next.Projects, step, d.Projects)
		}
	}
	return &next
}

// copied is a map to write to, also of nil.
func copied[T any](m map[string]T) map[string]T {
	next := make(map[string]T, len(m))
	maps.Copy(next, m)
	return next
}

func applyNamed[T any](have map[string]T, step Step, want map[string]T) {
	delete(have, step.Name)
	if step.Op != OpUnpublish {
		have[step.Name] = want[step.Name]
	}
}

func applyAgent(o *Observed, step Step, want Agent) {
	a := o.Agents[step.Name]
	switch step.Op {
	case OpStart, OpReplace:
		a = ObservedAgent{Next: want.Launch, Spawned: &want.Launch, Enabled: true, Nonce: want.Nonce, State: "running"}
	case OpUpdate, OpPending:
		if !a.Enabled {
			return // its definition is published, and nothing else
		}
		a.Next = want.Launch
	case OpStop:
		delete(o.Agents, step.Name)
		return
	default: // nothing has a process
		return
	}
	o.Agents[step.Name] = a
}

func applyUpstream(o *Observed, step Step, want Upstream, up bool) {
	u := o.Upstreams[step.Name]
	switch step.Op {
	case OpStart, OpReplace:
		u = ObservedUpstream{InForce: want.Launch, Enabled: true, Nonce: want.Nonce, State: "starting"}
	case OpSwap:
		u.Pending = &want.Launch
		if up {
			u.InForce, u.Pending, u.State = want.Launch, nil, "running"
		}
	case OpUpdate:
		switch {
		case step.Cancel:
			u.InForce, u.Pending = want.Launch, nil
		case u.Pending != nil:
			u.Pending = &want.Launch
		default:
			u.InForce = want.Launch
		}
	case OpStop:
		delete(o.Upstreams, step.Name)
		return
	default: // nothing else is planned for an upstream
	}
	o.Upstreams[step.Name] = u
}

func TestDiff_IsEmptyAfterItsPlanWasDone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, o := desired().Draw(t, "desired"), observed().Draw(t, "observed")
		up := rapid.MapOf(names(), rapid.Bool()).Draw(t, "up")
		plan := Diff(d, o)
		after := apply(d, o, plan, func(name string) bool { return up[name] })
		if again := Diff(d, after); len(again) != 0 {
			t.Fatalf("after\n%s\nthere is still to do\n%s", plan, again)
		}
	})
}

func TestDiff_NamesNothingThatDidNotChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := desired().Draw(t, "from"), desired().Draw(t, "to")
		o := apply(from, &Observed{}, Diff(from, &Observed{}), func(string) bool { return true })
		same := map[string]bool{}
		for _, name := range rapid.SliceOf(names()).Draw(t, "same") {
			same[name] = true
			keep(to.Upstreams, from.Upstreams, name)
			keep(to.Agents, from.Agents, name)
			keep(to.Profiles, from.Profiles, name)
			keep(to.Projects, from.Projects, name)
			to.Prompts = keepPrompt(to.Prompts, from.Prompts, name)
		}
		for _, step := range Diff(to, o) {
			if same[step.Name] {
				t.Fatalf("%s did not change, and yet: %s", step.Name, step)
			}
		}
	})
}

// keep makes one entry of to what it is in from.
func keep[T any](to, from map[string]T, name string) {
	delete(to, name)
	if v, ok := from[name]; ok {
		to[name] = v
	}
}

func keepPrompt(to, from []prompt.Prompt, name string) []prompt.Prompt {
	named := func(p prompt.Prompt) bool { return p.Name == name }
	to = slices.DeleteFunc(to, named)
	if i := slices.IndexFunc(from, named); i >= 0 {
		to = append(to, from[i])
	}
	return to
}

func TestDiff_DependsOnNoOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, o := desired().Draw(t, "desired"), observed().Draw(t, "observed")
		want := Diff(d, o)
		d2, o2 := *d, *o
		d2.Upstreams, o2.Upstreams = maps.Clone(d.Upstreams), maps.Clone(o.Upstreams)
		d2.Prompts = rapid.Permutation(d.Prompts).Draw(t, "desired prompts")
		o2.Prompts = rapid.Permutation(o.Prompts).Draw(t, "observed prompts")
		if diff := cmp.Diff(want, Diff(&d2, &o2)); diff != "" {
			t.Fatalf("another order gives another plan (-want +got):\n%s", diff)
		}
		if d.Digest() != d2.Digest() {
			t.Fatal("another order gives another digest")
		}
	})
}

func TestPlan_HasOneStepForEachName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := Diff(desired().Draw(t, "desired"), observed().Draw(t, "observed"))
		type id struct {
			kind Kind
			name string
		}
		seen := map[id]bool{}
		for _, step := range plan {
			me := id{step.Kind, step.Name}
			if seen[me] {
				t.Fatalf("two steps for %s %s in\n%s", step.Kind, step.Name, plan)
			}
			seen[me] = true
		}
	})
}

func TestPlan_IsCutAtItsPublish(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := Diff(desired().Draw(t, "desired"), observed().Draw(t, "observed"))
		before, after := plan.BeforePublish(), plan.AfterPublish()
		at := plan[len(before) : len(plan)-len(after)]
		for _, step := range before {
			if step.Op == OpStop || step.Kind != KindUpstream && step.Kind != KindServer && step.Kind != KindHarness {
				t.Fatalf("before the publish: %s", step)
			}
		}
		for _, step := range after {
			if step.Op != OpStop {
				t.Fatalf("after the publish: %s", step)
			}
		}
		for _, step := range at {
			if step.Kind == KindUpstream || step.Kind == KindServer || step.Kind == KindHarness {
				t.Fatalf("at the publish: %s", step)
			}
		}
	})
}

func TestDiff_LeavesItsArgumentsAlone(t *testing.T) {
	t.Parallel()
	d, o := night(), evening()
	Diff(d, o)
	if diff := cmp.Diff(night(), d); diff != "" {
		t.Errorf("desired changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(evening(), o); diff != "" {
		t.Errorf("observed changed (-want +got):\n%s", diff)
	}
}
