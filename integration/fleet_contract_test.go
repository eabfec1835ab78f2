package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"harness/pkg/control"
	"harness/pkg/ledger"
)

// contractRuns are the runs that sessions of contracts are shown as.
func (h *home) contractRuns() (list []ran) {
	h.t.Helper()
	var a struct{ Runs []ran }
	if err := json.Unmarshal([]byte(h.must("runs", "--json")), &a); err != nil {
		h.t.Fatal(err)
	}
	return slices.DeleteFunc(a.Runs, func(r ran) bool { return r.Harness != "contract" })
}

// entries are the bodies of a session's entries of a type.
func (h *home) entries(session, kind string) (list []map[string]any) {
	h.t.Helper()
	b, err := ledger.Verify([]byte(h.must("ledger", "export", session)), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range b.Entries {
		var body map[string]any
		if err := json.Unmarshal(e.Body, &body); err != nil {
			h.t.Fatal(err)
		}
		if e.Type == kind {
			list = append(list, body)
		}
	}
	return list
}

// TestContract_ItsWorkIsARunOfTheFleet has a harness do the work: as a run whose
// evidence the ledger commits to, on behalf of the session.
func TestContract_ItsWorkIsARunOfTheFleet(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	// As long as a prompt may be, and what an operation takes otherwise is not.
	prompt := strings.Repeat("do it <now>\x01", 70_000)
	h.write("home/prompt.md", prompt)
	text := oneCheck("[work]\nharness='makes'\nprompt_file='prompt.md'\n[[check]]\nname='made'\nfile='made'\nsha256='" + ledger.SHA256([]byte(prompt)) + "'\n")
	h.write("home/c.toml", text)
	if got := h.harness("contract", "run", "c.toml", "--session", "alone"); got.code != 4 {
		t.Errorf("without a daemon: %+v", got)
	}
	if work := h.entries("alone", "finished"); !strings.Contains(work[0]["reason"].(string), "start it with `harness daemon`") {
		t.Errorf("it does not say why: %v", work[0])
	}
	h.configure(append(h.workers(), harnessTable("makes", "cat > "+h.path("home/made"), ""))...)
	h.start()
	h.must("contract", "run", "c.toml", "--session", "s")
	h.control(func(ctx context.Context, c *control.Client) (any, error) {
		_, err := c.OperateRaw(ctx, "harness_run_launch", map[string]any{"name": "makes", "prompt": prompt, "idempotency_key": "large"})
		if err == nil || !strings.Contains(err.Error(), "larger than 64 KiB") {
			t.Errorf("a launch of %d bytes: %v", len(prompt), err)
		}
		return struct{}{}, nil
	}, &struct{}{})
	work := h.entries("s", "finished")[0]
	id, _ := work["run"].(string)
	r := runOf(t, h.must("runs", id, "--json"))
	if r.Harness != "makes" || r.State != "exited" || r.Actor.Kind != "contract" || *r.Actor.Name != "s" || *r.FinalReceipt != work["receipt_sha256"] {
		t.Errorf("%+v is not the run of %v", r, work)
	}
	h.must("runs", id, "verify")
	if got := h.harness("contract", "run", "c.toml", "--session", "told", "--standalone"); got.code != 4 {
		t.Errorf("--standalone beside a daemon: %+v", got)
	}
	// The session itself is a run too, with its verdict as its output.
	runs := h.contractRuns()
	if len(runs) != 1 || runs[0].State != "exited" || *runs[0].ExitCode != 0 || *runs[0].Actor.Name != "s" {
		t.Errorf("%+v", runs)
	}
	// An agent outside comes to the same; cancelling the session ends the run.
	o := h.outsider()
	if d := o.ask("harness_run_contract", map[string]any{"contract": "c.toml", "session": "tool"}); d.Verdict.Outcome != "pass" {
		t.Errorf("%+v", d)
	}
	slow := strings.Replace(text, "makes", "slow", 1)
	o.ask("harness_run_contract", map[string]any{"contract": slow, "session": "slow", "async": true})
	eventually(t, "the run to begin", func() bool { return strings.Contains(h.must("runs", "--json"), `"harness":"slow","state":"running"`) })
	if got := h.harness("contract", "cancel", "slow"); got.code != 6 {
		t.Errorf("%+v", got)
	}
	eventually(t, "the run to be cancelled", func() bool {
		return strings.Contains(h.must("runs", "--json"), `"harness":"slow","state":"cancelled"`)
	})
}

// TestContract_ASessionIsShownWhileItRuns looks at a session from the daemon's
// side, and kills the process that runs it.
func TestContract_ASessionIsShownWhileItRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run()
	o := h.outsider()
	o.ask("harness_run_contract", map[string]any{"contract": oneCheck("[[check]]\nname='a'\ncmd='sleep'\nargs=['600']\n"), "session": "s", "async": true})
	eventually(t, "it to be shown", func() bool {
		runs := h.contractRuns()
		return len(runs) == 1 && runs[0].State == "running"
	})
	if err := o.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end to be seen", func() bool { return h.contractRuns()[0].State == "failed" })
	h.must("runs", h.contractRuns()[0].ID, "verify")
}

// TestContract_ANodeOfAWorkflowIsBoundByItsVerdict has a workflow run a contract
// between two runs.
func TestContract_ANodeOfAWorkflowIsBoundByItsVerdict(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	h.write("roots/c.toml", oneCheck("[[check]]\nname='a'\nfile='there'\n"))
	h.write("roots/bad.toml", "[contract]\n")
	flow := "name = \"f\"\n[[node]]\nid = \"holds\"\nkind = \"contract\"\ncontract = \"c.toml\"\n[[node]]\nid = \"then\"\nharness = \"quick\"\nneeds = [\"holds\"]\n"
	file := h.write("roots/flow.toml", flow)
	bad := h.write("roots/badflow.toml", strings.Replace(flow, "c.toml", "bad.toml", 1))
	if got := h.harness("workflow", "validate", bad); got.code != 1 || !strings.Contains(got.stderr, "node.holds.contract") {
		t.Errorf("%+v", got)
	}
	state := func() string {
		var a struct{ Workflow struct{ State string } }
		if err := json.Unmarshal([]byte(h.must("workflow", "status", file, "--json")), &a); err != nil {
			t.Fatal(err)
		}
		return a.Workflow.State
	}
	h.must("workflow", "start", file)
	eventually(t, "it to fail: what must be there is not", func() bool { return state() == "failed" })
	h.write("roots/there", "")
	h.must("workflow", "resume", file)
	eventually(t, "it to be done", func() bool { return state() == "done" })
	// The journal has the digest of each verdict, which the ledger has.
	found, err := filepath.Glob(h.path("state/harness/workflows/*/journal/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	for _, path := range found {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var record struct {
			Type string
			Body struct {
				Node, Run string
				Verdict   string `json:"verdict_sha256"`
			}
		}
		if err := json.Unmarshal(data, &record); err != nil || record.Type != "node_ended" || record.Body.Node != "holds" {
			continue
		}
		b, err := ledger.Verify([]byte(h.must("ledger", "export", strings.ReplaceAll(record.Body.Run, ".", "-"))), nil)
		if err != nil {
			t.Fatal(err)
		}
		form, err := ledger.Canonical(b.Verdict)
		if err != nil || ledger.SHA256(form) != record.Body.Verdict {
			t.Errorf("%s is not the digest of %s", record.Body.Verdict, form)
		}
		outcomes = append(outcomes, b.Verdict.Outcome)
	}
	if strings.Join(outcomes, " ") != "fail pass" {
		t.Errorf("%v", outcomes)
	}
}

// TestContract_AStepMayNotUseTheDaemon has steps that run here and steps that the
// daemon runs ask it for something, also after they lost their parents: a socket
// that has a name among files is open to them.
func TestContract_AStepMayNotUseTheDaemon(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(append(h.workers(), h.upstream("up"))...)
	h.start()
	ask := fmt.Sprintf("%s --socket %s stop mcp.up", filepath.Join(bin(t), "harness"), h.socket())
	scripts := map[string]string{
		"itself":  ask + " >> said 2>&1; echo $? >> said",
		"orphan":  "(setsid sh -c '" + ask + " >> said 2>&1; echo $? >> said' &); while ! test -s said || ! tail -n 1 said | grep -q '^[0-9]*$'; do sleep 0.02; done",
		"session": "setsid sh -c '" + ask + " >> said 2>&1; echo $? >> said' & wait",
	}
	check := func(script string) string {
		return "[contract]\nname='x'\nenv=['PATH']\nworkdir='w'\n[[check]]\nname='a'\ncmd='sh'\nargs=['-c', '''" + script + "''']\n"
	}
	refused := func(where, name string) {
		t.Helper()
		said, err := os.ReadFile(h.path(where + "/w/said"))
		if err != nil || !strings.HasSuffix(string(said), "\n1\n") || !strings.Contains(string(said), "a contract's step may not use the daemon") {
			t.Errorf("%s, %s: %q, %v", where, name, said, err)
		}
	}
	for name, script := range scripts {
		dir := "roots/here-" + name
		h.write(dir+"/w/.keep", "")
		h.must("contract", "run", h.write(dir+"/c.toml", check(script)))
		refused(dir, name)

		dir = "roots/daemon-" + name
		h.write(dir+"/w/.keep", "")
		h.write(dir+"/c.toml", check(script))
		flow := h.write(dir+"/flow.toml", "name = \"f-"+name+"\"\n[[node]]\nid = \"holds\"\nkind = \"contract\"\ncontract = \"c.toml\"\n")
		h.must("workflow", "start", flow)
		eventually(t, "the workflow to end", func() bool { return strings.Contains(h.must("workflow", "status", flow), "done") })
		refused(dir, name)
	}
	if out := h.must("status"); !strings.Contains(out, "running") {
		t.Errorf("it was stopped:\n%s", out)
	}
}
