package reconcile

import (
	"slices"
	"time"
)

// trailed is how long what an edit made happen can still be the answer to a
// request that was on its way.
const trailed = 10 * time.Second

// trail is what edits made happen lately, oldest first.
type trail []trailing

// trailing is one pass that followed an edit and had a step.
type trailing struct {
	at   time.Time
	plan Plan
}

// add appends what was begun at now, and forgets what is too old.
func (t *trail) add(now time.Time, plan Plan) {
	*t = slices.DeleteFunc(*t, func(o trailing) bool { return now.Sub(o.at) > trailed })
	if len(plan) > 0 {
		*t = append(*t, trailing{now, plan})
	}
}

// before returns plan together with what was begun after since; of two steps
// for one name the later counts. A zero since adds nothing.
func (t trail) before(plan Plan, since time.Time) Plan {
	if since.IsZero() {
		return plan
	}
	plan = slices.Clone(plan) // others were given the same
	for _, earlier := range slices.Backward(t) {
		if earlier.at.Before(since) {
			break
		}
		for _, s := range earlier.plan {
			if !slices.ContainsFunc(plan, func(o Step) bool { return o.Kind == s.Kind && o.Name == s.Name }) {
				plan = append(plan, s)
			}
		}
	}
	plan.sort()
	return plan
}
