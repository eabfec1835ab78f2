package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/control"
)

// mutations are the tools whose effect there is once.
var mutations = []string{
	"harness_worktree_create", "harness_run_launch", "harness_workflow_start", "harness_workflow_resume",
	"harness_message_progress", "harness_message_steer", "harness_message_ack",
}

// verb is the command that is what a tool is.
func verb(tool string, arguments map[string]any) []string {
	at := func(name string) string { return fmt.Sprint(arguments[name]) }
	var line []string
	switch tool {
	case "harness_pack_validate":
		line = []string{"pack", "validate", at("dir")}
	case "harness_worktree_create":
		line = []string{"worktree", "create", at("repo"), at("name")}
	case "harness_run_launch":
		line = []string{"run", at("name"), "-d"}
	case "harness_workflow_validate", "harness_workflow_start", "harness_workflow_status", "harness_workflow_resume":
		named := arguments["file"]
		if named == nil {
			named = arguments["id"]
		}
		line = []string{"workflow", strings.TrimPrefix(tool, "harness_workflow_"), fmt.Sprint(named)}
	case "harness_message_ack":
		line = []string{"message", "ack", at("run"), at("correlation_id")}
	default:
		line = []string{"message", strings.TrimPrefix(tool, "harness_message_"), at("run"), at("body")}
	}
	for argument, flag := range map[string]string{"base": "base", "branch": "branch", "role": "role", "prompt_file": "prompt-file", "timeout": "timeout", "idempotency_key": "idempotency-key"} {
		if v, given := arguments[argument]; given {
			line = append(line, "--"+flag+"="+fmt.Sprint(v))
		}
	}
	return append(line, "--json")
}

// surface is one of the two ways to ask for an operation; do returns the answer,
// which has to be a success.
type surface struct {
	name string
	do   func(tool string, arguments map[string]any) string
}

// surfaces are the command line, and the tools of a session.
func (h *home) surfaces(o *official) []surface {
	return []surface{
		{"cli", func(tool string, arguments map[string]any) string { return h.must(verb(tool, arguments)...) }},
		{"tool", func(tool string, arguments map[string]any) string { return structured(h.t, o.call(tool, arguments)) }},
	}
}

// answerOf is what the tests need of the answer to any operation.
type answerOf struct {
	Run     struct{ ID string }
	Message struct {
		ID, Disposition string
		CorrelationID   string `json:"correlation_id"`
	}
	Workflow struct {
		ID, State string
		Nodes     []struct {
			ID, State string
			Run       *string
			Attempts  int
		}
	}
	Worktree struct{ Path string }
}

func answered(t testing.TB, text string) (a answerOf) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

// awaitFlow waits until a workflow is in a state.
func (h *home) awaitFlow(id, state string) (a answerOf) {
	h.t.Helper()
	eventually(h.t, id+" is "+state, func() bool {
		h.control(func(ctx context.Context, c *control.Client) (any, error) {
			return c.OperateRaw(ctx, "harness_workflow_status", map[string]any{"id": id})
		}, &a)
		return a.Workflow.State == state
	})
	return a
}

// flaky is a workflow of two runs, the first of which fails until it is mended.
func (h *home) flaky() (tables []string, file string) {
	h.write("roots/wf/prompt.md", "do\n")
	file = h.write("roots/wf/wf.toml", "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"flaky\"\nprompt_file = \"prompt.md\"\n[[node]]\nid = \"b\"\nharness = \"counts\"\nneeds = [\"a\"]\n")
	return []string{
		harnessTable("flaky", "cat; echo $HARNESS_RUN_ID >>"+h.path("tried")+"; test -e "+h.path("mended"), ""),
		// It prints nothing before it may go on: the answer to its launch has the
		// bytes of its output so far.
		harnessTable("waits", "while [ ! -e "+h.path("go")+" ]; do sleep 0.05; done; cat", ""),
	}, file
}

// Whatever is asked for, by the command line or by a tool, the answer is equal
// and so is the evidence that is left: ids, times and actors aside (MUT-1).
func TestMutations_OfBothSurfacesLeaveEqualEvidence(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	more, flow := h.flaky()
	h.configure(append(h.workers(), more...)...)
	h.start()
	type left struct {
		Answers  []string
		Run      map[string]string
		Workflow map[string]string
		Nodes    []map[string]string
		Worktree string
	}
	all := map[string]*left{}
	runs, flows, own := map[string]string{}, map[string]string{}, map[string][]string{}
	surfaces := h.surfaces(h.boss())
	for _, s := range surfaces {
		l := &left{}
		all[s.name] = l
		ask := func(tool string, arguments map[string]any) answerOf {
			if slices.Contains(mutations, tool) {
				arguments["idempotency_key"] = s.name + tool
			}
			text := s.do(tool, arguments)
			a := answered(t, text)
			own[s.name] = append(own[s.name], a.Message.ID, a.Message.CorrelationID)
			l.Answers = append(l.Answers, tool+neutral(t, text, slices.DeleteFunc([]string{a.Run.ID, a.Message.ID, a.Workflow.ID, "-" + s.name}, func(s string) bool { return s == "" })...))
			return a
		}
		runs[s.name] = ask("harness_run_launch", map[string]any{"name": "waits", "role": "review", "prompt_file": h.path("roots/prompt.md"), "timeout": "1m0s"}).Run.ID
		ask("harness_message_progress", map[string]any{"run": runs[s.name], "body": "half"})
		steer := ask("harness_message_steer", map[string]any{"run": runs[s.name], "body": "left"})
		ask("harness_message_ack", map[string]any{"run": runs[s.name], "correlation_id": steer.Message.CorrelationID})
		h.repo("roots/repo-" + s.name)
		tree := ask("harness_worktree_create", map[string]any{"repo": h.path("roots/repo-" + s.name), "name": "w-" + s.name, "base": "HEAD", "branch": "b-" + s.name})
		if !exists(tree.Worktree.Path + "/.git") {
			t.Errorf("%s: no worktree at %s", s.name, tree.Worktree.Path)
		}
		ask("harness_workflow_validate", map[string]any{"file": flow})
		flows[s.name] = ask("harness_workflow_start", map[string]any{"file": flow}).Workflow.ID
		h.awaitFlow(flows[s.name], "failed")
		ask("harness_workflow_status", map[string]any{"id": flows[s.name]})
	}
	h.write("mended", "")
	h.write("go", "")
	for _, s := range surfaces {
		text := s.do("harness_workflow_resume", map[string]any{"id": flows[s.name], "idempotency_key": "again" + s.name})
		all[s.name].Answers = append(all[s.name].Answers, neutral(t, text, flows[s.name]))
		done := h.awaitFlow(flows[s.name], "done")
		for _, n := range done.Workflow.Nodes {
			all[s.name].Nodes = append(all[s.name].Nodes, h.evidenceOf(*n.Run, flows[s.name]))
		}
		h.awaitRun(runs[s.name])
		all[s.name].Run = h.evidenceOf(runs[s.name], slices.DeleteFunc(own[s.name], func(s string) bool { return s == "" })...)
		all[s.name].Workflow = evidenceIn(t, h.path("state/harness/workflows", flows[s.name]), flows[s.name])
	}
	for name, text := range evidenceIn(t, h.path("state/harness/worktrees")) {
		for _, s := range surfaces {
			if strings.Contains(text, "w-"+s.name) {
				all[s.name].Worktree += name[len("records/0001"):] + strings.ReplaceAll(text, "-"+s.name, "-(own)")
			}
		}
	}
	for _, l := range all {
		for i, text := range append(l.Answers, l.Worktree) {
			text = commits.ReplaceAllString(text, `"(commit)"`)
			if i < len(l.Answers) {
				l.Answers[i] = text
			} else {
				l.Worktree = text
			}
		}
	}
	if len(all["cli"].Run) < 10 || len(all["cli"].Workflow) < 9 || len(all["cli"].Nodes) != 2 || all["cli"].Worktree == "" {
		t.Errorf("hardly anything is left: %+v", all["cli"])
	}
	if diff := cmp.Diff(all["cli"], all["tool"]); diff != "" {
		t.Errorf("evidence (-command line +tool):\n%s", diff)
	}
}

// Fifty at once, by five sessions and the command line, have one effect and
// equal answers, of everything that changes something. With another argument it
// is a conflict. After a restart the first result is returned (MUT-1).
func TestMutations_FiftyAtOnceHappenOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	more, flow := h.flaky()
	h.repo("roots/repo")
	h.configure(append(h.workers(), more...)...)
	d := h.start()
	steady := runOf(t, h.must("run", "slow", "-d", "--json")).ID
	begun := answered(t, h.must("workflow", "start", flow, "--json"))
	h.awaitFlow(begun.Workflow.ID, "failed")
	pending := answered(t, h.must("message", "steer", steady, "wait", "--json"))
	requests := map[string]map[string]any{
		"harness_run_launch":       {"name": "counts", "role": "review", "timeout": "1m0s"},
		"harness_message_progress": {"run": steady, "body": "half"},
		"harness_message_steer":    {"run": steady, "body": "left"},
		"harness_message_ack":      {"run": steady, "correlation_id": pending.Message.CorrelationID},
		"harness_worktree_create":  {"repo": h.path("roots/repo"), "name": "w1"},
		"harness_workflow_start":   {"file": flow},
		"harness_workflow_resume":  {"id": begun.Workflow.ID},
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(mutations)), slices.Sorted(maps.Keys(requests))); diff != "" {
		t.Fatal(diff)
	}
	token := h.identityOf("boss", "")
	sessions := make([]*official, 5)
	for i := range sessions {
		sessions[i] = h.official(token)
	}
	answers := map[string]string{}
	for _, tool := range mutations {
		requests[tool]["idempotency_key"] = "key of " + tool
		got := h.fifty(sessions, tool, requests[tool])
		fresh := 0
		for _, text := range got {
			if !strings.Contains(text, `"replayed":true`) {
				fresh++
			}
			text = replayed(text)
			if answers[tool] == "" {
				answers[tool] = text
			}
			if text != answers[tool] {
				t.Errorf("%s: answers differ:\n%s\n%s", tool, answers[tool], text)
			}
		}
		if len(got) != 50 || fresh != 1 {
			t.Errorf("%s: %d answers, %d of them the first", tool, len(got), fresh)
		}
	}
	for tool, arguments := range map[string]map[string]any{
		"harness_workflow_status": {"id": begun.Workflow.ID}, "harness_workflow_validate": {"file": flow}, "harness_pack_validate": {"dir": filepath.Dir(h.write("roots/pack/pack.toml", "name = \"p\"\n"))},
	} {
		h.awaitFlow(begun.Workflow.ID, "failed") // again
		got := h.fifty(sessions, tool, arguments)
		if slices.Sort(got); len(got) != 50 || got[0] != got[49] {
			t.Errorf("%s, which changes nothing: %d answers, %s, %s", tool, len(got), got[0], got[len(got)-1])
		}
	}
	d.stop()
	h.start()
	boss := h.official(h.identityOf("boss", token))
	for tool, arguments := range requests {
		h.isConflict(boss, tool, arguments, answers[tool])
	}
	h.happenedOnce(steady, begun.Workflow.ID)
}

// commits are those of repositories, the ids of worktrees and their numbers.
var commits = regexp.MustCompile(`"[0-9a-f]{40}"|"wt-[0-9a-z]+"|"n":[0-9]+`)

// replayed is an answer as a later one is.
func replayed(text string) string {
	return strings.ReplaceAll(text, `"replayed":false`, `"replayed":true`)
}

// fifty asks fifty times at once, mostly by the sessions, and returns the
// answers, in one spelling.
func (h *home) fifty(sessions []*official, tool string, arguments map[string]any) (answers []string) {
	h.t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	keep := func(text string) {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			h.t.Errorf("%s: %s: %v", tool, text, err)
		}
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, marshal(h.t, v))
	}
	for i := range 50 {
		wg.Go(func() {
			switch {
			case i == 49 && !strings.HasSuffix(tool, "_pack_validate"): // which fails by its exit code
				o := h.harness(verb(tool, arguments)...)
				if o.code != 0 {
					h.t.Error(o)
				}
				keep(o.stdout)
			case i >= 40:
				var raw json.RawMessage
				h.control(func(ctx context.Context, c *control.Client) (any, error) { return c.OperateRaw(ctx, tool, arguments) }, &raw)
				keep(string(raw))
			default:
				if r := sessions[i%len(sessions)].call(tool, arguments); r.ok() {
					keep(string(r.StructuredContent))
				} else {
					h.t.Errorf("%s: %s", tool, r)
				}
			}
		})
	}
	wg.Wait()
	return answers
}

// isConflict demands that a key returns its first result, and is good for no
// other request, by either surface.
func (h *home) isConflict(o *official, tool string, arguments map[string]any, first string) {
	h.t.Helper()
	again := func(text string) string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			h.t.Errorf("%s: %s: %v", tool, text, err)
		}
		return marshal(h.t, v)
	}
	if got := again(structured(h.t, o.call(tool, arguments))); got != first {
		h.t.Errorf("%s after a restart:\n%s\nwant %s", tool, got, first)
	}
	if got := again(h.must(verb(tool, arguments)...)); got != first {
		h.t.Errorf("%s after a restart, by its command:\n%s\nwant %s", tool, got, first)
	}
	for _, key := range []string{"name", "role", "timeout", "body", "file", "correlation_id", "id", "run", "repo"} {
		if _, takes := arguments[key]; !takes {
			continue
		}
		other := maps.Clone(arguments)
		switch key {
		case "role":
			other[key] = "implementation"
		case "timeout":
			other[key] = "2m0s"
		default:
			other[key] = "wf-other"
		}
		if r := o.call(tool, other); r.code() != "idempotency_conflict" {
			h.t.Errorf("%s with another %s: %s", tool, key, r)
		}
		if key == "body" || key == "name" {
			if c := h.harness(verb(tool, other)...); c.code != 1 || !strings.Contains(c.stdout, `"idempotency_conflict"`) {
				h.t.Errorf("%s with another %s: %s", tool, key, c)
			}
		}
	}
	for what, change := range map[string]func(map[string]any){
		"an unknown argument": func(a map[string]any) { a["unknown"] = 1 },
		"no key":              func(a map[string]any) { delete(a, "idempotency_key") },
		"an empty key":        func(a map[string]any) { a["idempotency_key"] = "" },
		"a long key":          func(a map[string]any) { a["idempotency_key"] = strings.Repeat("k", 129) },
		"too much":            func(a map[string]any) { a["idempotency_key"] = strings.Repeat("k", 65<<10) },
	} {
		other := maps.Clone(arguments)
		change(other)
		if r := o.call(tool, other); r.code() != "invalid_argument" {
			h.t.Errorf("%s with %s: %s", tool, what, r)
		}
	}
}

// happenedOnce counts on the disk what was done.
func (h *home) happenedOnce(steady, flow string) {
	h.t.Helper()
	count := func(what string, want, have int) {
		if have != want {
			h.t.Errorf("%d %s, not %d", have, what, want)
		}
	}
	lines := func(name string) int {
		data, err := os.ReadFile(h.path(name))
		if err != nil && !os.IsNotExist(err) {
			h.t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
	files := func(pattern string) int {
		list, err := filepath.Glob(h.path("state/harness", pattern))
		if err != nil {
			h.t.Fatal(err)
		}
		return len(list)
	}
	count("launches", 1, lines("counted"))
	count("tries: of the first workflow, of its resume, of the second", 3, lines("tried"))
	count("receipts of messages", 4, files("runs/"+steady+"/receipts/*-message.json"))
	count("lines of messages", 4, lines("state/harness/runs/"+steady+"/messages.jsonl"))
	count("workflows", 2, files("workflows/*"))
	count("resumes", 1, files("workflows/"+flow+"/journal/*-resumed.json"))
	count("records of worktrees", 1, files("worktrees/records/*"))
	list, err := filepath.Glob(h.path("roots/repo/.worktrees/*"))
	count("worktrees", 1, len(list))
	if err != nil {
		h.t.Error(err)
	}
	var all struct{ Runs []ran }
	if err := json.Unmarshal([]byte(h.must("runs", "--json", "--limit", "100")), &all); err != nil {
		h.t.Fatal(err)
	}
	bounded := map[string]int{}
	for _, r := range all.Runs {
		bounded[r.Harness]++
	}
	count("runs of counts", 1, bounded["counts"])
	count("runs of flaky", 3, bounded["flaky"])
	count("runs of slow", 1, bounded["slow"])
}
