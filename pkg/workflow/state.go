package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The states of a workflow and of its nodes.
const (
	Pending     = "pending"
	Running     = "running"
	Waiting     = "waiting" // for an approval
	Done        = "done"
	Failed      = "failed"
	Interrupted = "interrupted" // the daemon ended; a resume goes on
)

// The types of a journal's records.
const (
	TypeStarted     = "started"
	TypeNodeStarted = "node_started"
	TypeNodeEnded   = "node_ended"
	TypeApproved    = "approved"
	TypeResumed     = "resumed"
	TypeInterrupted = "interrupted"
	TypeEnded       = "ended"
)

// Attempt is one try of a node.
type Attempt struct {
	Node string `json:"node"`
	N    int    `json:"attempt"` // from 1
	Run  string `json:"run"`
	// RetryOf is the run of the try before, "" for the first.
	RetryOf string `json:"retry_of"`
	// Inputs has the final receipt of each finished ancestor's run, by node.
	Inputs map[string]string `json:"inputs"`
}

// Result is how a try ended.
type Result struct {
	Node               string `json:"node"`
	N                  int    `json:"attempt"`
	Run                string `json:"run"`
	State              string `json:"state"` // that of the run, or interrupted
	ExitCode           *int   `json:"exit_code"`
	FinalReceiptSHA256 string `json:"final_receipt_sha256"`
	// VerdictSHA256 is the digest of the signed verdict of a contract, in its RFC
	// 8785 form; "" for any other node.
	VerdictSHA256 string `json:"verdict_sha256,omitempty"`
	// Reason is why nothing was launched: there is no such run. "" for one that was.
	Reason string `json:"reason,omitempty"`
}

// ok reports whether the try did what it should.
func (r Result) ok() bool { return r.State == "exited" && r.ExitCode != nil && *r.ExitCode == 0 }

// interrupted reports whether nobody knows what the try would have come to.
func (r Result) interrupted() bool { return r.State == Interrupted || r.State == "cancelled" }

// Approval is the word of who may, of one request: all that it gives, or nothing,
// is in the journal.
type Approval struct {
	Nodes   []string        `json:"nodes"`
	Actor   json.RawMessage `json:"actor"`
	Request string          `json:"request"`
}

// Entry is one record of a journal, as far as it matters here.
type Entry struct {
	Type string
	Body json.RawMessage
}

// node is how far one node is.
type node struct {
	state    string
	run      string // the newest that there is
	reason   string // why there is none of the newest try
	before   string // run, before the try that is under way
	attempts int
	tries    int // since the last resume
	final    string
}

// State is how far a workflow is.
type State struct {
	graph   *Graph
	nodes   map[string]*node
	ended   string
	stopped bool // interrupted: nothing goes on before a resume
}

// Replay makes the state of a journal.
func Replay(g *Graph, journal []Entry) (*State, error) {
	s := &State{graph: g, nodes: map[string]*node{}}
	for _, n := range g.Nodes {
		s.nodes[n.ID] = &node{state: Pending}
	}
	for _, e := range journal {
		if err := s.apply(e); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// apply takes one more record.
func (s *State) apply(e Entry) error {
	switch e.Type {
	case TypeNodeStarted:
		var a Attempt
		n, err := s.of(e, &a, func() string { return a.Node })
		if err != nil {
			return err
		}
		n.before, n.reason = n.run, ""
		n.state, n.run, n.attempts, n.tries = Running, a.Run, a.N, n.tries+1
	case TypeNodeEnded:
		var r Result
		n, err := s.of(e, &r, func() string { return r.Node })
		if err != nil {
			return err
		}
		s.end(n, r)
	case TypeApproved:
		return s.approve(e, 1)
	case TypeInterrupted:
		s.stopped = true
	case TypeResumed:
		s.resume()
		return s.approve(e, 0)
	case TypeEnded:
		var end struct{ State string }
		if err := json.Unmarshal(e.Body, &end); err != nil {
			return fmt.Errorf("read a journal: %w", err)
		}
		s.ended = end.State
	}
	return nil
}

// approve takes what a record approves, which is of so many nodes at least.
func (s *State) approve(e Entry, atLeast int) error {
	var a Approval
	if err := json.Unmarshal(e.Body, &a); err != nil {
		return fmt.Errorf("read a journal: %w", err)
	}
	if len(a.Nodes) < atLeast {
		return errors.New("read a journal: an approval of no node")
	}
	for _, id := range a.Nodes {
		n := s.nodes[id]
		if n == nil {
			return fmt.Errorf("read a journal: there is no node %q", id)
		}
		n.state = Done
	}
	return nil
}

// of reads a record about a node.
func (s *State) of(e Entry, v any, id func() string) (*node, error) {
	if err := json.Unmarshal(e.Body, v); err != nil {
		return nil, fmt.Errorf("read a journal: %w", err)
	}
	n := s.nodes[id()]
	if n == nil {
		return nil, fmt.Errorf("read a journal: there is no node %q", id())
	}
	return n, nil
}

// end notes how a try of a node ended.
func (s *State) end(n *node, r Result) {
	def, _ := s.graph.Find(r.Node)
	if n.reason = r.Reason; r.Reason != "" {
		n.run = n.before
	}
	switch {
	case r.ok():
		n.state, n.final = Done, r.FinalReceiptSHA256
	case r.interrupted():
		n.state = Interrupted
	case n.tries <= def.Retry:
		n.state = Pending // it is tried again
	default:
		n.state = Failed
	}
}

// resume has what failed or was interrupted tried again.
func (s *State) resume() {
	s.ended, s.stopped = "", false
	for _, n := range s.nodes {
		if n.state == Failed || n.state == Interrupted {
			n.state, n.tries = Pending, 0
		}
	}
}

// Step is what is to be done next: a node to be tried, or the end.
type Step struct {
	Attempt *Attempt
	End     string // the state to end in; "" for none
}

// Next lists what is to be done now. An empty list means that something is
// waited for, or that nothing is left.
func (s *State) Next() []Step {
	if s.ended != "" || s.stopped {
		return nil
	}
	running, open := 0, false
	for _, n := range s.nodes {
		if n.state == Running {
			running++
		}
	}
	var steps []Step
	for _, def := range s.graph.Nodes {
		n := s.nodes[def.ID]
		if n.state != Pending {
			continue
		}
		if !s.ready(def) {
			open = open || s.reachable(def)
			continue
		}
		open = true
		if def.Approval || running >= s.graph.Parallel {
			continue
		}
		running++
		steps = append(steps, Step{Attempt: s.attempt(def, n)})
	}
	if running > 0 || open {
		return steps
	}
	return []Step{{End: s.outcome()}}
}

// ready reports whether all that a node needs is done.
func (s *State) ready(def Node) bool {
	return !slices.ContainsFunc(def.Needs, func(need string) bool { return s.nodes[need].state != Done })
}

// reachable reports whether a node may still become ready.
func (s *State) reachable(def Node) bool {
	for _, need := range s.graph.Ancestors(def.ID) {
		if state := s.nodes[need].state; state == Failed || state == Interrupted {
			return false
		}
	}
	return true
}

// attempt is the next try of a node, but for its run.
func (s *State) attempt(def Node, n *node) *Attempt {
	a := &Attempt{Node: def.ID, N: n.attempts + 1, RetryOf: n.run, Inputs: map[string]string{}}
	for _, need := range s.graph.Ancestors(def.ID) {
		if final := s.nodes[need].final; final != "" {
			a.Inputs[need] = final
		}
	}
	return a
}

// outcome is the state of a workflow in which nothing is left to do.
func (s *State) outcome() string {
	for _, n := range s.nodes {
		if n.state == Interrupted {
			return Interrupted
		}
	}
	for _, n := range s.nodes {
		if n.state != Done {
			return Failed
		}
	}
	return Done
}

// Awaited lists the approvals that are waited for.
func (s *State) Awaited() []string {
	var list []string
	for _, def := range s.graph.Nodes {
		if def.Approval && s.nodes[def.ID].state == Pending && s.ready(def) && s.ended == "" {
			list = append(list, def.ID)
		}
	}
	return list
}

// UnderWay lists the tries that have not ended.
func (s *State) UnderWay() []Attempt {
	var list []Attempt
	for _, def := range s.graph.Nodes {
		if n := s.nodes[def.ID]; n.state == Running {
			list = append(list, Attempt{Node: def.ID, N: n.attempts, Run: n.run})
		}
	}
	return list
}

// NodeView is one node as it is shown.
type NodeView struct {
	ID       string  `json:"id"`
	State    string  `json:"state"`
	Run      *string `json:"run"` // the newest; null before there is one
	Attempts int     `json:"attempts"`
	Reason   *string `json:"reason"` // why the newest try has no run; null for one that has
}

// View shows the state of the workflow and of its nodes.
func (s *State) View() (state string, nodes []NodeView) {
	awaited := s.Awaited()
	running := false
	for _, def := range s.graph.Nodes {
		n := s.nodes[def.ID]
		v := NodeView{ID: def.ID, State: n.state, Attempts: n.attempts}
		if n.run != "" {
			v.Run = &n.run
		}
		if n.reason != "" {
			v.Reason = &n.reason
		}
		if slices.Contains(awaited, def.ID) {
			v.State = Waiting
		}
		running = running || n.state == Running
		nodes = append(nodes, v)
	}
	switch {
	case s.ended != "":
		return s.ended, nodes
	case s.stopped:
		return Interrupted, nodes
	case !running && len(awaited) > 0 && len(s.Next()) == 0:
		return Waiting, nodes
	}
	return Running, nodes
}
