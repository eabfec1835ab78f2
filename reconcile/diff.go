package reconcile

import (
	"slices"
	"strings"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

// serverName is the name of the one step about the daemon's own settings.
const serverName = "server"

// Diff lists the steps from what is observed to what is desired, and nothing
// else: a name without a change has no step (HOT-3). It is pure; neither
// argument is changed or kept, but for strings.
//
// What has no process has its definition published, updated and unpublished, so
// that a generation says honestly what it differs in.
func Diff(d *Desired, o *Observed) Plan {
	var plan Plan
	plan = append(plan, diffServer(d, o)...)
	plan = append(plan, diffUpstreams(d.Upstreams, o.Upstreams)...)
	plan = append(plan, diffNamed(KindPrompt, byName(d.Prompts), byName(o.Prompts), comparePrompt)...)
	plan = append(plan, diffAgents(d.Agents, o)...)
	plan = append(plan, diffNamed(KindProfile, d.Profiles, o.Profiles, compareProfile)...)
	plan = append(plan, diffNamed(KindProject, d.Projects, o.Projects, compareProject)...)
	plan.sort()
	return plan
}

// diffServer covers what the file says about the daemon itself: its settings
// and the prompt directories it follows.
func diffServer(d *Desired, o *Observed) Plan {
	changed := compareServer(o.Server, d.Server)
	if !slices.Equal(o.PromptPaths, d.PromptPaths) {
		changed = append(changed, "mcp.prompts.paths")
	}
	if len(changed) == 0 {
		return nil
	}
	return Plan{{Kind: KindServer, Name: serverName, Op: OpUpdate, Why: whyChanged(changed)}}
}

// diffNamed covers what is only shown: prompts and definitions.
func diffNamed[T any](kind Kind, want, have map[string]T, compare func(a, b T) []string) Plan {
	var plan Plan
	for name, w := range want {
		h, there := have[name]
		if !there {
			plan = append(plan, Step{Kind: kind, Name: name, Op: OpPublish, Why: "added"})
		} else if changed := compare(h, w); len(changed) > 0 {
			plan = append(plan, Step{Kind: kind, Name: name, Op: OpUpdate, Why: whyChanged(changed)})
		}
	}
	for name := range have {
		if _, wanted := want[name]; !wanted {
			plan = append(plan, Step{Kind: kind, Name: name, Op: OpUnpublish, Why: "removed"})
		}
	}
	return plan
}

func byName(list []prompt.Prompt) map[string]prompt.Prompt {
	m := make(map[string]prompt.Prompt, len(list))
	for _, p := range list {
		m[FullName(p.Project, p.Name)] = p
	}
	return m
}

// diffUpstreams covers what has a process.
func diffUpstreams(want map[string]Upstream, have map[string]ObservedUpstream) Plan {
	var plan Plan
	add := func(name string, step Step) { plan = plan.with(KindUpstream, name, step) }
	for key, w := range want {
		h, known := have[key]
		add(key, upstreamStep(w, h, known))
	}
	for key, h := range have {
		if _, wanted := want[key]; !wanted && h.Enabled {
			add(key, Step{Op: OpStop, Why: "removed"})
		}
	}
	return plan
}

// upstreamStep is the step for one upstream that is in the file; one without an
// operation means that there is nothing to do.
func upstreamStep(want Upstream, have ObservedUpstream, known bool) Step {
	switch {
	case want.Enabled && have.Enabled:
		return changeStep(want, have)
	case want.Enabled:
		return Step{Op: OpStart, Why: whyStart(want.Launch.Enabled, want.Nonce != have.Nonce, known)}
	case have.Enabled:
		return Step{Op: OpStop, Why: whyStop(want.Launch.Enabled)}
	default:
		return Step{} // a definition that is not to run changes nothing
	}
}

// changeStep is the step for one that should run and does.
func changeStep(want Upstream, have ObservedUpstream) Step {
	change, changed := CompareLaunch(have.InForce, want.Launch)
	switch {
	case want.Nonce != have.Nonce:
		return restartStep(have.State, changed)
	case have.Pending != nil:
		return pendingStep(want, have)
	case change == Respawn:
		return Step{Op: respawnOp(want.Launch), Why: whyChanged(changed)}
	case change == Live:
		return Step{Op: OpUpdate, Why: whyChanged(changed)}
	default:
		return Step{}
	}
}

// restartStep is the step for a request by hand. It stops first, whatever
// `update` says: who asks for a restart wants the old process gone, the more so
// when it hangs. Changes that wait in the file come with it.
func restartStep(state string, changed []string) Step {
	op, why := OpReplace, "restart requested"
	if state == "failed" || state == "stopped" {
		op, why = OpStart, "start requested"
	}
	if len(changed) > 0 {
		why = whyChanged(changed) + "; " + why
	}
	return Step{Op: op, Why: why}
}

// pendingStep is the step for one whose last swap is not in force yet (HOT-4):
// another edit begins it anew, the old text cancels it.
func pendingStep(want Upstream, have ObservedUpstream) Step {
	change, changed := CompareLaunch(*have.Pending, want.Launch)
	fromForce, total := CompareLaunch(have.InForce, want.Launch)
	switch {
	case change == Respawn && fromForce != Respawn:
		return Step{Op: OpUpdate, Why: "changed back; pending swap cancelled", Cancel: true}
	case change == Respawn:
		return Step{Op: respawnOp(want.Launch), Why: whyChanged(total)}
	case want.Launch.Update == config.Replace && have.Pending.Update != config.Replace:
		// The advice for a swap that cannot come up beside the old process was
		// taken; as a live key it would wait for that swap.
		return Step{Op: OpReplace, Why: whyChanged(changed)}
	case change == Live:
		return Step{Op: OpUpdate, Why: whyChanged(changed)}
	default:
		return Step{}
	}
}

// respawnOp is how a definition wants to take the place of another.
func respawnOp(l config.Launch) Op {
	if l.Update == config.Replace {
		return OpReplace
	}
	return OpSwap
}

// whyStart says why one that does not run should: file is what its table says,
// requested that the count of requests has moved.
func whyStart(file, requested, known bool) string {
	switch {
	case !known:
		return "added"
	case requested || !file:
		return "start requested"
	default:
		return "enabled = true"
	}
}

func whyStop(file bool) string {
	if file {
		return "stop requested"
	}
	return "enabled = false"
}

func whyChanged(keys []string) string { return strings.Join(keys, ", ") + " changed" }
