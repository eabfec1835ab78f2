package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"harness/pkg/config"
)

// Limits of a workflow.
const (
	maxNodes    = 500
	maxParallel = 64
	maxRetry    = 10
	shortest    = time.Nanosecond
	longest     = 7 * 24 * time.Hour // of a bounded run
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

// Parse reads a workflow, which faults call name. It returns the prompts, and the
// texts of contracts, by node; and every fault there is, in line order (CFG-1).
func Parse(name string, text []byte, o Outside) (g Graph, prompts map[string][]byte, faults config.Faults) {
	d := config.OpenDocument(name, text)
	r := graphReader{outside: o, prompts: map[string][]byte{}}
	g = Graph{Parallel: 1, Nodes: []Node{}}
	r.graph(d.Root(), &g)
	hash := sha256.New()
	hash.Write(text)
	for i := range g.Nodes {
		if sum := r.attach(r.entries[i], &g.Nodes[i]); sum != nil {
			hash.Write(sum)
		}
	}
	checkNeeds("node", d.Root(), r.entries)
	g.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return g, r.prompts, faultsOf(d, "node", r.entries)
}

// graphReader reads the nodes of one workflow.
type graphReader struct {
	outside Outside
	entries []*entry // of the nodes
	prompts map[string][]byte
}

func (r *graphReader) graph(root config.Node, g *Graph) {
	found := root.Fields(map[string]func(config.Node){
		"name":     func(n config.Node) { g.Name = name(n) },
		"parallel": func(n config.Node) { g.Parallel = n.Int(1, maxParallel) },
		"node": func(n config.Node) {
			g.Nodes, r.entries = tables(n, "node", maxNodes, r.node)
		},
	})
	if _, has := found["name"]; !has && root.Complete() {
		root.Fault("name is missing")
	}
	if _, has := found["node"]; !has && root.Complete() {
		root.Fault("[[node]] is missing: a workflow has 1 to %d nodes", maxNodes)
	}
}

// node reads one node.
func (r *graphReader) node(e *entry) Node {
	n := Node{Needs: []string{}}
	kind := ""
	e.read(map[string]func(config.Node){
		"id":          func(v config.Node) { n.ID = name(v) },
		"kind":        func(v config.Node) { kind = nodeKind(v) },
		"approval":    func(v config.Node) { n.Approval = v.Bool() },
		"harness":     func(v config.Node) { n.Harness = v.Text() },
		"role":        func(v config.Node) { n.Role = role(v, r.outside.Roles) },
		"contract":    func(v config.Node) { n.Contract = file(v) },
		"prompt_file": func(v config.Node) { n.Prompt = file(v) },
		"timeout": func(v config.Node) {
			v.Duration(shortest, longest)
			n.Timeout, _ = v.Raw().(string)
		},
		"needs": func(v config.Node) { n.Needs = texts(v) },
		"retry": func(v config.Node) { n.Retry = v.Int(0, maxRetry) },
	})
	if _, has := e.found["id"]; !has {
		e.missing("id is missing")
	}
	e.id, e.needs = n.ID, n.Needs
	if kind == "approval" {
		n.Approval = true
	} else if n.Approval && kind != "" {
		e.fault("approval", "a node is a run, a contract or an approval")
	}
	e.checkKind(kind, n)
	return n
}

func nodeKind(v config.Node) string {
	kind := v.Text()
	if _, text := v.Raw().(string); text && !slices.Contains([]string{"run", "approval", "contract"}, kind) {
		v.Fault("%s is no kind of node: run, contract or approval", config.Show(kind))
	}
	return kind
}

// checkKind faults what a node of its kind does not have, and what it lacks.
func (e *entry) checkKind(kind string, n Node) {
	alone := func(what string, others ...string) {
		for _, key := range others {
			if _, has := e.found[key]; has {
				e.fault(key, "%s", what)
			}
		}
	}
	_, holds := e.found["contract"]
	_, runs := e.found["harness"]
	switch {
	case holds:
		alone("a contract has needs and retry, and nothing else: the rest is in its file", "harness", "prompt_file", "timeout", "role")
		if n.Approval || kind == "run" {
			e.fault("contract", "a node is a run, a contract or an approval")
		}
	case n.Approval:
		alone("an approval has needs, and nothing else", "harness", "prompt_file", "timeout", "role", "retry")
	case kind == "contract":
		e.missing("contract is missing: which file is it?")
	case !runs:
		e.missing("harness is missing: which one does it run?")
	}
}

// attach reads what a node is given the text of, and returns its digest; nil for
// none.
func (r *graphReader) attach(e *entry, n *Node) []byte {
	if declared := r.outside.Harness; declared != nil && n.Harness != "" && !declared(n.Harness) {
		e.fault("harness", "no harness is named %s", config.Show(n.Harness))
	}
	file, key := n.text()
	if file == "" {
		return nil
	}
	data, err := r.outside.Read(file)
	if err != nil {
		e.fault(key, "%v", err)
	} else if key == "contract" && r.outside.Contract != nil {
		for _, f := range r.outside.Contract(file, data) {
			e.fault(key, "%s", f)
		}
	}
	sum := sha256.Sum256(data)
	r.prompts[n.ID], n.PromptSHA256 = data, hex.EncodeToString(sum[:])
	return sum[:]
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
