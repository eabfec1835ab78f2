package reconcile

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Op is what a step does. The words are those of HOT-7.
type Op string

// The operations.
const (
	// OpStart begins to run an upstream or a harness that is not running.
	OpStart Op = "start"
	// OpStop ends a harness, or takes an upstream out of the catalog and then
	// ends it.
	OpStop Op = "stop"
	// OpSwap starts the new process beside the old one, and ends the old one when
	// the catalog has switched.
	OpSwap Op = "swap"
	// OpReplace ends the old process before the new one is started.
	OpReplace Op = "replace"
	// OpUpdate applies in place.
	OpUpdate Op = "update"
	// OpPending notes a change that waits for something: of a harness, for its
	// next start (HOT-5). It is also what a swap is called whose new process did
	// not come up.
	OpPending Op = "pending"
	// OpPublish makes a prompt or a definition visible.
	OpPublish Op = "publish"
	// OpUnpublish takes a prompt or a definition away.
	OpUnpublish Op = "unpublish"
)

// Kind is what a step is about.
type Kind string

// The kinds.
const (
	KindServer   Kind = "server"
	KindUpstream Kind = "upstream"
	KindPrompt   Kind = "prompt"
	KindHarness  Kind = "harness"
	KindProfile  Kind = "profile"
	KindProject  Kind = "project"
)

// Step is one thing to do, and why. Why names keys, never values (HOT-7).
type Step struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	Op   Op     `json:"action"`
	Why  string `json:"reason"`
	// Cancel goes with OpUpdate: a pending swap is dropped first.
	Cancel bool `json:"-"`
}

// String renders the step as one line of a dry run: "swap upstream gitea: args
// changed". A name that could disturb a terminal is quoted (CFG-6).
func (s Step) String() string {
	name := s.Name
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	if s.Kind == KindServer {
		return string(s.Op) + " server: " + s.Why
	}
	return string(s.Op) + " " + string(s.Kind) + " " + name + ": " + s.Why
}

// moment orders steps around the one publish of a plan (HOT-6).
func (s Step) moment() int {
	const before, during, after = 0, 1, 2
	switch {
	case s.Op == OpStop:
		return after
	case s.Kind == KindUpstream, s.Kind == KindServer, s.Kind == KindHarness:
		return before
	default:
		return during
	}
}

// kindOrder puts the daemon's own settings first, since limits should hold
// before something is started under them.
func kindOrder(k Kind) int {
	order := []Kind{KindServer, KindUpstream, KindPrompt, KindHarness, KindProfile, KindProject}
	return slices.Index(order, k)
}

// Plan is a list of steps with at most one for each kind and name. It is sorted
// by when a step is due around the publish, then kind and name, so equal states
// give equal plans.
type Plan []Step

// with returns the plan with a step for one name; a step without an operation
// means that there is nothing to do.
func (p Plan) with(kind Kind, name string, step Step) Plan {
	if step.Op == "" {
		return p
	}
	step.Kind, step.Name = kind, name
	return append(p, step)
}

// sort brings the plan into its order.
func (p Plan) sort() {
	slices.SortFunc(p, func(a, b Step) int {
		return cmp.Or(
			cmp.Compare(a.moment(), b.moment()),
			cmp.Compare(kindOrder(a.Kind), kindOrder(b.Kind)),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// BeforePublish returns the steps to begin before the plan is published. They
// share p's memory. Those between them and the ones after it are the publish
// itself.
func (p Plan) BeforePublish() Plan { return p[:p.from(1)] }

// AfterPublish returns the steps to do once the plan is published: nothing is
// ended that sessions can still see.
func (p Plan) AfterPublish() Plan { return p[p.from(2):] }

// from is the index of the first step at or after a moment.
func (p Plan) from(moment int) int {
	i := slices.IndexFunc(p, func(s Step) bool { return s.moment() >= moment })
	if i < 0 {
		return len(p)
	}
	return i
}

// String is the text of a dry run: a line for each step, without a final
// newline.
func (p Plan) String() string {
	if len(p) == 0 {
		return "nothing to do"
	}
	lines := make([]string, len(p))
	for i, step := range p {
		lines[i] = step.String()
	}
	return strings.Join(lines, "\n")
}

// MarshalJSON implements [json.Marshaler]: an empty plan is [], not null.
func (p Plan) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]Step(p))
}
