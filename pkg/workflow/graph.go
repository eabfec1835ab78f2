package workflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"harness/pkg/evidence"
)

// Limits of a workflow.
const (
	maxNodes    = 500
	maxParallel = 64
	maxRetry    = 10
)

// Graph is a workflow as it was written, with the digests of its prompts.
type Graph struct {
	Name     string `json:"name"`
	Parallel int    `json:"parallel"` // how many runs at once
	Nodes    []Node `json:"nodes"`
	// SHA256 is over the file and every prompt.
	SHA256 string `json:"sha256"`
}

// Node is one run, or one approval.
type Node struct {
	ID       string   `json:"id"`
	Approval bool     `json:"approval"`
	Harness  string   `json:"harness"` // "" for an approval
	Role     string   `json:"role"`
	Contract string   `json:"contract,omitempty"` // relative to the workflow's file; "" for none
	Prompt   string   `json:"prompt_file"`        // relative to the workflow's file
	Timeout  string   `json:"timeout"`
	Needs    []string `json:"needs"`
	Retry    int      `json:"retry"` // how often it is tried again
	// PromptSHA256 is the digest of the prompt, or of the contract's text; "" for
	// none.
	PromptSHA256 string `json:"prompt_sha256"`
}

// graphText is a workflow as it is written.
type graphText struct {
	Name     string `toml:"name"`
	Parallel *int   `toml:"parallel"`
	Workflow struct {
		Name     string `toml:"name"`
		Parallel *int   `toml:"parallel"`
	} `toml:"workflow"`
	Node  []nodeText `toml:"node"`
	Nodes []nodeText `toml:"nodes"`
}

type nodeText struct {
	ID       string   `toml:"id"`
	Kind     string   `toml:"kind"`
	Approval bool     `toml:"approval"`
	Harness  string   `toml:"harness"`
	Role     string   `toml:"role"`
	Contract string   `toml:"contract"`
	Prompt   string   `toml:"prompt_file"`
	Timeout  string   `toml:"timeout"`
	Needs    []string `toml:"needs"`
	Retry    int      `toml:"retry"`
}

// Parse reads a workflow, and its prompts through read, which is given their
// paths relative to it. It returns the prompts by node.
func Parse(text []byte, roles []string, read func(file string) ([]byte, error)) (g Graph, prompts map[string][]byte, faults Faults) {
	g = Graph{Parallel: 1, Nodes: []Node{}}
	var t graphText
	if faults = decode(text, &t); len(faults) > 0 {
		return g, nil, faults
	}
	g.Name = cmp.Or(t.Name, t.Workflow.Name)
	if n := cmp.Or(t.Parallel, t.Workflow.Parallel); n != nil {
		g.Parallel = *n
	}
	if !evidence.IsName(g.Name) {
		faults.add("name", "a workflow has a name of letters, digits, _ . and -")
	}
	if g.Parallel < 1 || g.Parallel > maxParallel {
		faults.add("parallel", "1 to %d runs at once", maxParallel)
	}
	all := append(t.Node, t.Nodes...)
	if len(all) == 0 || len(all) > maxNodes {
		faults.add("node", "a workflow has 1 to %d nodes", maxNodes)
	}
	hash := sha256.New()
	hash.Write(text)
	prompts = map[string][]byte{}
	var ids []string
	needs := map[string][]string{}
	for _, one := range all {
		n := one.check(roles, &faults)
		if file, key := n.text(); file != "" {
			data, err := read(file)
			if err != nil {
				faults.add("node."+n.ID+"."+key, "%v", err)
			}
			sum := sha256.Sum256(data)
			prompts[n.ID], n.PromptSHA256 = data, hex.EncodeToString(sum[:])
			hash.Write(sum[:])
		}
		g.Nodes = append(g.Nodes, n)
		ids, needs[n.ID] = append(ids, n.ID), n.Needs
	}
	checkNeeds("node", ids, needs, &faults)
	g.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return g, prompts, faults
}

// check makes a node of what is written.
func (t nodeText) check(roles []string, faults *Faults) Node {
	key := "node." + t.ID
	n := Node{
		ID: t.ID, Approval: t.Approval || t.Kind == "approval", Harness: t.Harness, Role: t.Role, Contract: t.Contract, Prompt: t.Prompt, Timeout: t.Timeout,
		Needs: append([]string{}, t.Needs...), Retry: t.Retry,
	}
	if !evidence.IsName(t.ID) {
		faults.add(key, "an id is of letters, digits, _ . and -")
	}
	if !slices.Contains([]string{"", "run", "approval", "contract"}, t.Kind) || t.Approval && t.Kind != "" && t.Kind != "approval" {
		faults.add(key+".kind", "a node is a run, a contract or an approval")
	}
	switch {
	case n.Contract != "" && (n.Approval || t.Kind == "run" || t.Harness != "" || t.Prompt != "" || t.Timeout != "" || t.Role != ""):
		faults.add(key, "a contract has needs and retry, and nothing else: the rest is in its file")
	case t.Kind == "contract" && n.Contract == "":
		faults.add(key+".contract", "which file is it?")
	case n.Approval && (t.Harness != "" || t.Prompt != "" || t.Timeout != "" || t.Retry != 0 || t.Role != ""):
		faults.add(key, "an approval has needs, and nothing else")
	case !n.Approval && n.Contract == "" && t.Harness == "":
		faults.add(key+".harness", "which harness does it run?")
	}
	if t.Role != "" && !slices.Contains(roles, t.Role) {
		faults.add(key+".role", "%q is no role; there are %s", t.Role, strings.Join(roles, ", "))
	}
	if d, err := time.ParseDuration(cmp.Or(t.Timeout, "1s")); err != nil || d <= 0 {
		faults.add(key+".timeout", "%q is no duration, such as 10m", t.Timeout)
	}
	if t.Retry < 0 || t.Retry > maxRetry {
		faults.add(key+".retry", "it is tried again 0 to %d times", maxRetry)
	}
	if file, which := n.text(); file != "" && !below(file) {
		faults.add(key+"."+which, "a path below the workflow's file, without . or ..")
		n.Prompt, n.Contract = "", ""
	}
	return n
}

// text is the file that a node is given the text of, and its key; "" for none.
func (n Node) text() (file, key string) {
	if n.Contract != "" {
		return n.Contract, "contract"
	}
	return n.Prompt, "prompt_file"
}

// Find returns the node of an id.
func (g *Graph) Find(id string) (Node, bool) {
	for _, n := range g.Nodes {
		if n.ID == id {
			return n, true
		}
	}
	return Node{}, false
}

// Ancestors lists what a node needs, directly and through others, sorted.
func (g *Graph) Ancestors(id string) []string {
	seen := map[string]bool{}
	var visit func(id string)
	visit = func(id string) {
		n, _ := g.Find(id)
		for _, need := range n.Needs {
			if !seen[need] {
				seen[need] = true
				visit(need)
			}
		}
	}
	visit(id)
	var list []string
	for one := range seen {
		list = append(list, one)
	}
	slices.Sort(list)
	return list
}
