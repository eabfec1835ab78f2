package daemon

import (
	"harness/pkg/control"
	"harness/pkg/workflow"
)

// packed is the answer of a check of a pack.
type packed struct {
	OK     bool                        `json:"ok"`
	Pack   shownPack                   `json:"pack"`
	Errors control.List[control.Fault] `json:"errors"`
}

// shownPack is a pack as it is shown: what it does not have is null (CLI-1).
type shownPack struct {
	Name    *string                   `json:"name"`
	Version *string                   `json:"version"`
	Tickets control.List[shownTicket] `json:"tickets"`
	SHA256  *string                   `json:"sha256"`
}

type shownTicket struct {
	ID     *string              `json:"id"`
	File   *string              `json:"file"`
	Role   *string              `json:"role"`
	Needs  control.List[string] `json:"needs"`
	Bytes  int                  `json:"bytes"`
	SHA256 *string              `json:"sha256"`
}

func showPack(p workflow.Pack) shownPack {
	s := shownPack{Name: control.OrNull(p.Name), Version: control.OrNull(p.Version), SHA256: control.OrNull(p.SHA256)}
	for _, t := range p.Tickets {
		s.Tickets = append(s.Tickets, shownTicket{
			ID: control.OrNull(t.ID), File: control.OrNull(t.File), Role: control.OrNull(t.Role),
			Needs: t.Needs, Bytes: t.Bytes, SHA256: control.OrNull(t.SHA256),
		})
	}
	return s
}

// checked is the answer of a check of a workflow.
type checked struct {
	OK       bool                        `json:"ok"`
	Workflow drawn                       `json:"workflow"`
	Errors   control.List[control.Fault] `json:"errors"`
}

// drawn is a workflow that was not started.
type drawn struct {
	ID    *string                         `json:"id"`
	Name  *string                         `json:"name"`
	State string                          `json:"state"` // "valid" or "invalid"
	Nodes control.List[workflow.NodeView] `json:"nodes"`
	Graph shownGraph                      `json:"graph"`
}

// shownGraph is a graph as it is shown: sealed it is in another form.
type shownGraph struct {
	Name     *string                 `json:"name"`
	Parallel int                     `json:"parallel"`
	Nodes    control.List[shownNode] `json:"nodes"`
	SHA256   *string                 `json:"sha256"`
}

type shownNode struct {
	ID           *string              `json:"id"`
	Approval     bool                 `json:"approval"`
	Harness      *string              `json:"harness"`
	Role         *string              `json:"role"`
	Contract     *string              `json:"contract"`
	Prompt       *string              `json:"prompt_file"`
	Timeout      *string              `json:"timeout"`
	Needs        control.List[string] `json:"needs"`
	Retry        int                  `json:"retry"`
	PromptSHA256 *string              `json:"prompt_sha256"` // null also where it could not be read
}

// showGraph shows a graph, whose prompts were read: nil for one that could not be.
func showGraph(g workflow.Graph, prompts map[string][]byte) shownGraph {
	s := shownGraph{Name: control.OrNull(g.Name), Parallel: g.Parallel, SHA256: control.OrNull(g.SHA256)}
	for _, n := range g.Nodes {
		one := shownNode{
			ID: control.OrNull(n.ID), Approval: n.Approval, Harness: control.OrNull(n.Harness), Role: control.OrNull(n.Role),
			Contract: control.OrNull(n.Contract), Prompt: control.OrNull(n.Prompt), Timeout: control.OrNull(n.Timeout),
			Needs: n.Needs, Retry: n.Retry,
		}
		if prompts[n.ID] != nil {
			one.PromptSHA256 = control.OrNull(n.PromptSHA256)
		}
		s.Nodes = append(s.Nodes, one)
	}
	return s
}
