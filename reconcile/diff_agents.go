package reconcile

import "harness/pkg/config"

// diffAgents covers the harnesses. A running one is never bounced by an edit
// (HOT-5).
func diffAgents(want map[string]Agent, o *Observed) Plan {
	var plan Plan
	add := func(name string, step Step) { plan = plan.with(KindHarness, name, step) }
	for name, w := range want {
		defined, known := o.Defined[name]
		add(name, agentStep(w, o.Agents[name], defined, known))
	}
	for name := range o.Defined {
		if _, wanted := want[name]; !wanted && !o.Agents[name].Enabled {
			add(name, Step{Op: OpUnpublish, Why: "removed"})
		}
	}
	for name, h := range o.Agents {
		if _, wanted := want[name]; !wanted && h.Enabled {
			add(name, Step{Op: OpStop, Why: "removed"})
		}
	}
	return plan
}

// agentStep is the step for one harness that is in a file. defined is what was
// published of it, if it is known.
func agentStep(want Agent, have ObservedAgent, defined config.AgentLaunch, known bool) Step {
	switch {
	case want.Enabled && have.Enabled:
		return changeAgent(want, have)
	case want.Enabled:
		return Step{Op: OpStart, Why: whyStart(want.Launch.Enabled, want.Nonce != have.Nonce, known)}
	case have.Enabled:
		return Step{Op: OpStop, Why: whyStop(want.Launch.Enabled)}
	case !known:
		return Step{Op: OpPublish, Why: "added"}
	}
	if _, changed := CompareAgent(defined, want.Launch); len(changed) > 0 {
		return Step{Op: OpUpdate, Why: whyChanged(changed)}
	}
	return Step{}
}

// waits reports whether a harness in a state has no process and waits for its next
// try: of another definition that is a first one, and nothing is to be waited for
// (LIF-2).
func waits(state string) bool {
	return state == "failed" || state == "degraded" || state == "restarting"
}

// changeAgent is the step for one that should run and does, or waits for its
// next try.
func changeAgent(want Agent, have ObservedAgent) Step {
	change, changed := CompareAgent(have.Next, want.Launch)
	switch {
	case want.Nonce != have.Nonce:
		return restartStep(have.State, changed)
	case change == Same:
		return Step{}
	case change == Respawn && waits(have.State):
		return Step{Op: OpStart, Why: whyChanged(changed)}
	case change == Live || have.Spawned == nil:
		return Step{Op: OpUpdate, Why: whyChanged(changed)}
	}
	if back, _ := CompareAgent(*have.Spawned, want.Launch); back != Respawn {
		return Step{Op: OpUpdate, Why: "changed back; nothing waits for the next start"}
	}
	return Step{Op: OpPending, Why: whyChanged(changed) + "; applies at the next start"}
}
