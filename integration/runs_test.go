package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ran is one run as commands, tools and resources show it.
type ran struct {
	ID, Harness, State string
	ExitCode           *int `json:"exit_code"`
	Role               *string
	Actor              struct {
		Kind string
		Name *string
		UID  *int
	}
	IdempotencyKey *string `json:"idempotency_key"`
	LaunchContract int     `json:"launch_contract"`
	FinalReceipt   *string `json:"final_receipt_sha256"`
	Replayed       bool
}

// runOf reads the run of an answer.
func runOf(t testing.TB, answer string) ran {
	t.Helper()
	var a struct{ Run ran }
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Run.ID == "" {
		t.Fatalf("%s: %v", answer, err)
	}
	return a.Run
}

// runDir is where the evidence of a run is.
func (h *home) runDir(id string) string { return h.path("state/harness/runs", id) }

// awaitRun waits until a run has ended.
func (h *home) awaitRun(id string) (r ran) {
	h.t.Helper()
	eventually(h.t, "run "+id+" ends", func() bool {
		r = runOf(h.t, h.must("runs", id, "--json"))
		return r.State != "starting" && r.State != "running"
	})
	return r
}

// workers is a fleet for the tests of runs: one lends its rights.
func (h *home) workers() []string {
	return []string{
		"[server]\nstop_grace = \"1500ms\"\nroots = [\"" + h.path("roots") + "\"]\n",
		harnessTable("boss", h.lender(), "enabled = true\nmcp_allow = [\"write\"]"),
		harnessTable("quick", "cat; echo done", "env = { FOO = \"bar\" }\nenv_pass = [\"PASSED\"]"),
		harnessTable("counts", "echo $HARNESS_RUN_ID >>"+h.path("counted"), ""),
		harnessTable("fails", "exit 3", ""),
		harnessTable("slow", "echo begun; sleep 600", ""),
	}
}

// withRoots makes the directory that prompts, packs and repositories are under.
func (h *home) withRoots() *home {
	h.t.Helper()
	resolved, err := filepath.EvalSymlinks(h.dir)
	if err != nil || resolved != h.dir {
		h.t.Fatalf("%s is %s: %v", h.dir, resolved, err)
	}
	h.write("roots/prompt.md", "the prompt\n")
	return h
}

// structured is what a tool answered, which has to be a success.
func structured(t testing.TB, r result) string {
	t.Helper()
	if !r.ok() {
		t.Fatal(r)
	}
	return string(r.StructuredContent)
}

// evidenceOf reads the evidence of a run, with what differs from one run to the
// next taken out.
func (h *home) evidenceOf(id string, own ...string) map[string]string {
	h.t.Helper()
	return evidenceIn(h.t, h.runDir(id), append(own, id)...)
}

// evidenceIn reads every file below a directory, each without what is its own.
func evidenceIn(t testing.TB, dir string, own ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = neutral(t, string(data), own...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// neutral takes out of evidence, or of an answer, what is its own: ids, times,
// who acted, digests that commit to these, and the given words.
func neutral(t testing.TB, text string, own ...string) string {
	t.Helper()
	for _, s := range own {
		text = strings.ReplaceAll(text, s, "(own)")
	}
	if !strings.HasPrefix(text, "{") {
		return text
	}
	var lines []string
	for line := range strings.Lines(text) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, marshal(t, without(v, "")))
	}
	return strings.Join(lines, "\n")
}

// without is v without what is its own; key is what it is a member as.
func without(v any, key string) any {
	switch v := v.(type) {
	case map[string]any:
		_, stored := v["schema"] // its digest commits to all of it
		for k, one := range v {
			_, isText := one.(string)
			switch {
			case isText && one != "" && (slices.Contains(ownKeys(), k) || k == "sha256" && stored || key == "inputs"):
				v[k] = "(own)"
			case k == "actor":
				v[k] = nil
			case key == "files" && !strings.HasPrefix(k, "command-"):
				v[k] = "(own)"
			default:
				v[k] = without(one, k)
			}
		}
	case []any:
		for i, one := range v {
			v[i] = without(one, "")
		}
	}
	return v
}

// ownKeys are the members that differ from one to the next.
func ownKeys() []string {
	return []string{
		"at", "started_at", "ended_at", "run", "retry_of", "correlation_id", "idempotency_key", "request",
		"prev_sha256", "contract_sha256", "line_sha256", "head_sha256", "final_receipt_sha256", "spec_sha256",
	}
}

// The same launch by command line and by tool leaves equal evidence, ids, times
// and actors aside, and both verify (MUT-1, EVI-2).
func TestRuns_OfBothSurfacesLeaveEqualEvidence(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.env["PASSED"], h.env["KEPT_BACK"] = "yes", "no"
	h.configure(h.workers()...)
	h.start()
	boss := h.boss()
	typed := runOf(t, h.must("run", "quick", "--prompt-file", h.path("roots/prompt.md"), "--role", "review", "--timeout", "1m", "--json"))
	if typed.State != "exited" || *typed.ExitCode != 0 || typed.Actor.Kind != "operator" || *typed.Actor.UID != os.Getuid() || typed.LaunchContract != 2 {
		t.Errorf("%+v", typed)
	}
	called := runOf(t, structured(t, boss.call("harness_run_launch", map[string]any{
		"name": "quick", "prompt_file": h.path("roots/prompt.md"), "role": "review", "timeout": "1m0s", "idempotency_key": "k",
	})))
	if called.Actor.Kind != "harness" || *called.Actor.Name != "boss" {
		t.Errorf("%+v", called)
	}
	h.awaitRun(called.ID)
	one, other := h.evidenceOf(typed.ID), h.evidenceOf(called.ID)
	for _, name := range []string{"output.log"} {
		for _, all := range []map[string]string{one, other} {
			out := all[name]
			if !strings.HasPrefix(out, "the prompt\n") || !strings.HasSuffix(out, "done\n") {
				t.Errorf("%s: %q", name, out)
			}
		}
	}
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("evidence (-command line +tool):\n%s", diff)
	}
	for _, id := range []string{typed.ID, called.ID} {
		var v struct {
			OK      bool
			Entries int
		}
		if err := json.Unmarshal([]byte(h.must("runs", id, "verify", "--json")), &v); err != nil || !v.OK || v.Entries != len(one) {
			t.Errorf("%+v, %v, of %d", v, err, len(one))
		}
	}
}

// A bounded run has a clean environment: what is listed, what its definition
// names, and who it is (EVI-6).
func TestRun_HasACleanEnvironment(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.env["PASSED"], h.env["KEPT_BACK"], h.env["TZ"] = "yes", "no", "UTC"
	h.write("config/harness/e.env", "FILED=1\n")
	h.configure(harnessTable("env", "env", "env = { FOO = \"bar\" }\nenv_pass = [\"PASSED\"]\nenv_file = \"e.env\""))
	h.start()
	out := h.must("run", "env")
	have := map[string]bool{}
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "HARNESS_") && name != "PWD" && name != "SHLVL" && name != "_" { // the shell's own
			have[name] = true
		}
	}
	want := []string{"FILED", "FOO", "HOME", "LANG", "PASSED", "PATH", "TZ", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(have))); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if !strings.Contains(out, "HARNESS_RUN_ID=") || !strings.Contains(out, "HARNESS_RUN_CARD="+h.path("state")) || !strings.Contains(out, "HARNESS_RUN_CATALOG=") {
		t.Errorf("no pointers: %s", out)
	}
}

// However a run ends, the command says so, and nothing of it is left.
func TestRun_EndsByItselfInTimeOrWithTheDaemon(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	d := h.start()
	if o := h.harness("run", "fails", "--json"); o.code != 1 || runOf(t, o.stdout).State != "exited" || *runOf(t, o.stdout).ExitCode != 3 {
		t.Error(o)
	}
	if o := h.harness("run", "slow", "--timeout", "300ms", "--json"); o.code != 1 || runOf(t, o.stdout).State != "timed_out" {
		t.Error(o)
	}
	if o := h.harness("run", "nobody", "--json"); o.code != 1 || !strings.Contains(o.stdout, `"code":"unknown_harness"`) {
		t.Error(o)
	}
	id := runOf(t, h.must("run", "slow", "-d", "--json")).ID
	d.stop()
	if left := mentioning(t, id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	h.start()
	if r := h.awaitRun(id); r.State != "cancelled" || r.FinalReceipt == nil {
		t.Errorf("%+v", r)
	}
	if out := h.must("runs"); !strings.Contains(out, id) || !strings.Contains(out, "timed_out") {
		t.Error(out)
	}
}

// Whoever waits for a run in the foreground has it end with the command, and
// hears which run it was when the daemon ends first.
func TestRun_EndsWithTheCommandThatWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	d := h.start()
	wait := func(end func(*exec.Cmd)) (id, said string, code int) {
		cmd := h.command(t.Context(), "harness", "run", "slow")
		var stdout, stderr buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the run prints", func() bool { return strings.Contains(stdout.String(), "begun") })
		end(cmd)
		_ = cmd.Wait() // its code says how
		rest, _ := strings.CutPrefix(stderr.String(), "harness: run ")
		id, _, _ = strings.Cut(rest, " ")
		return id, stderr.String(), cmd.ProcessState.ExitCode()
	}
	id, said, code := wait(func(cmd *exec.Cmd) { signal(t, cmd.Process.Pid, syscall.SIGINT) })
	if r := h.awaitRun(id); r.State != "cancelled" || code != 1 || !strings.Contains(said, "cancelled") {
		t.Errorf("%+v, exit %d: %s", r, code, said)
	}
	if left := mentioning(t, id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	id, said, code = wait(func(*exec.Cmd) { d.stop() })
	if code == 0 || !strings.Contains(strings.TrimPrefix(said, "harness: run "+id+" begins"), id) {
		t.Errorf("exit %d, no word of %s: %s", code, id, said)
	}
	h.start()
	if r := h.awaitRun(id); r.State != "cancelled" {
		t.Errorf("%+v", r)
	}
}

// A run whose process could not be started is kept with what was in the way, and
// shows no path: the log of the daemon does (RES-5).
func TestRun_ThatCannotStartShowsNoPath(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.write("config/harness/away/f", "")
	h.configure(harnessTable("lost", "true", "workdir = \""+h.path("config/harness/away")+"\""))
	d := h.start()
	if err := os.RemoveAll(h.path("config/harness/away")); err != nil {
		t.Fatal(err)
	}
	o := h.harness("run", "lost", "--json")
	var a struct {
		Run struct{ ID, State, Reason string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &a); err != nil || o.code != 1 || a.Run.State != "failed" {
		t.Fatal(o, err)
	}
	_, ref, said := strings.Cut(a.Run.Reason, "; the daemon's log says more at ")
	if !said || !strings.Contains(a.Run.Reason, "working directory") || strings.Contains(a.Run.Reason, "/") {
		t.Errorf("reason %q", a.Run.Reason)
	}
	for name, text := range evidenceIn(t, h.path("state/harness/runs", a.Run.ID)) {
		if strings.Contains(text, "away") {
			t.Errorf("%s has the path: %s", name, text)
		}
	}
	if log := d.log.String(); !strings.Contains(log, "correlation_id="+ref) || !strings.Contains(log, h.path("config/harness/away")) {
		t.Errorf("nothing at %s: %s", ref, log)
	}
}

// repo makes a git repository with one commit.
func (h *home) repo(name string) {
	h.t.Helper()
	dir := h.path(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.CommandContext(h.t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, h.environ()
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Fatalf("%v: %s", err, out)
		}
	}
}

// A steer waits for its own acknowledgement, and its text is shown by nothing.
func TestMessages_SteerIsPendingUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	s, boss := h.official(""), h.boss()
	id := runOf(t, h.must("run", "slow", "-d", "--json")).ID
	const secret = "go-left-at-the-canary"
	var sent struct {
		Message struct {
			ID, Disposition string
			CorrelationID   string `json:"correlation_id"`
		}
	}
	answer := h.must("message", "steer", id, secret, "--json")
	if err := json.Unmarshal([]byte(answer), &sent); err != nil || sent.Message.Disposition != "pending" {
		t.Fatalf("%s: %v", answer, err)
	}
	disposition := func() string {
		text := s.shown("harness://runs/" + id + "/messages")
		if strings.Contains(text, secret) {
			t.Errorf("the text is shown: %s", text)
		}
		var list struct {
			Items []struct{ Disposition string }
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Items) == 0 {
			t.Fatalf("%s: %v", text, err)
		}
		return list.Items[0].Disposition
	}
	if disposition() != "pending" {
		t.Error(disposition())
	}
	before := h.evidenceOf(id)
	for i, other := range []string{"c-other", sent.Message.ID, strings.ToUpper(sent.Message.CorrelationID), sent.Message.CorrelationID[:4]} {
		if r := boss.call("harness_message_ack", map[string]any{"run": id, "correlation_id": other, "idempotency_key": fmt.Sprint("a1", i)}); r.code() != "invalid_argument" || disposition() != "pending" {
			t.Error(r)
		}
		if o := h.harness("message", "ack", id, other, "--json"); o.code != 1 || !strings.Contains(o.stdout, `"invalid_argument"`) {
			t.Error(o)
		}
	}
	if diff := cmp.Diff(before, h.evidenceOf(id)); diff != "" {
		t.Errorf("an acknowledgement of another message changed something:\n%s", diff)
	}
	if answer := h.must("message", "steer", id, "again", "--json"); !strings.Contains(answer, `"pending"`) || disposition() != "pending" {
		t.Errorf("a tool's answer is taken for an acknowledgement: %s", answer)
	}
	if r := boss.call("harness_message_ack", map[string]any{"run": id, "correlation_id": sent.Message.CorrelationID, "idempotency_key": "a2"}); !r.ok() || disposition() != "acknowledged" {
		t.Error(r)
	}
	for _, args := range [][]string{{"runs", id, "--json"}, {"runs", "--json"}, {"runs", id}, {"events", "--help"}} {
		if out := h.must(args...); strings.Contains(out, secret) {
			t.Errorf("%v shows the text", args)
		}
	}
	log, err := os.ReadFile(filepath.Join(h.runDir(id), "messages.jsonl"))
	if err != nil || !strings.Contains(string(log), secret) {
		t.Errorf("the run cannot read it: %q, %v", log, err)
	}
}

// A run that nobody waits for is ended by its id, and shown by it; to stop its
// harness leaves it alone and says so.
func TestRuns_AreEndedAndShownByTheirIDs(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(append(h.workers(), harnessTable("talks", "head -c 5000000 /dev/zero", ""))...)
	h.start()
	id := runOf(t, h.must("run", "slow", "-d", "--idempotency-key", "k", "--json")).ID
	if o := h.harness("run", "slow", "-d", "--idempotency-key", "k"); o.code != 0 || !strings.Contains(o.stderr, id+" replayed") {
		t.Error(o)
	}
	if o := h.harness("stop", "slow"); o.code != 0 || !strings.Contains(o.stderr, "harness stop "+id) {
		t.Error(o)
	}
	correlation := answered(t, h.must("message", "steer", id, "not this", "--json")).Message.CorrelationID
	if out := h.must("runs", id); !strings.Contains(out, "pending, correlation id "+correlation) || strings.Contains(out, "not this") {
		t.Error(out)
	}
	for range 2 { // the second finds it over
		if out := h.must("stop", id); !strings.HasPrefix(out, id+" cancelled") {
			t.Error(out)
		}
	}
	if out := h.must("runs", id, "--output"); out != "begun\n" {
		t.Errorf("%q", out)
	}
	if o := h.harness("run", "slow", "--idempotency-key", "k"); o.code != 1 || o.stdout != "begun\n" || !strings.Contains(o.stderr, "cancelled") || !strings.Contains(o.stderr, "(replayed)") {
		t.Error(o)
	}
	o := h.harness("run", "talks", "--json")
	if o.code != 0 || !strings.Contains(o.stderr, "output cut at 4194304 bytes") || !strings.Contains(o.stdout, `"truncated":true`) && !strings.Contains(o.stdout, `"truncated": true`) {
		t.Errorf("%d %s %s", o.code, o.stdout, o.stderr)
	}
	if out := h.must("runs", runOf(t, o.stdout).ID, "verify"); !strings.Contains(out, "all as they were written") {
		t.Error(out)
	}
}

// Subscribers hear of the state, and of the end of a run (RES).
func TestResources_TellWhoSubscribed(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	s := h.official("")
	id := runOf(t, h.must("run", "slow", "-d", "--timeout", "1s", "--json")).ID
	all := []string{"harness://state", "harness://runs/" + id + "/status"}
	for _, uri := range all {
		if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
	}
	h.must("start", "slow")
	for _, uri := range all {
		eventually(t, uri+" is told of", func() bool { return s.wasTold(uri) })
	}
	h.awaitRun(id)
}

// What does not run says why in the state, to those who read it there too.
func TestResources_StateSaysWhy(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure("[mcp.gone]\ncmd = \"/no/such/server\"\n", "[harness.lost]\ncmd = \"/no/such/agent\"\nenabled = true\n")
	h.start()
	s := h.official("")
	for _, cmd := range []string{"/no/such/server", "/no/such/agent"} {
		eventually(t, cmd+" is why", func() bool {
			r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "harness://state"})
			return err == nil && strings.Contains(r.Contents[0].Text, `"error":"`) && strings.Contains(r.Contents[0].Text, cmd)
		})
	}
}

// Nothing listens but the one socket, of the daemon, of its sessions and of what
// it runs, whatever is done; and no other kind of socket is there.
func TestRuns_OpenNoListener(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	more, flow := h.flaky()
	h.configure(append(h.workers(), more...)...)
	h.repo("roots/repo")
	d := h.start()
	boss := h.boss()
	looks := func(when string) {
		t.Helper()
		for _, pid := range []int{d.pid(), boss.pid} {
			for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "packet"} {
				if ours := socketsOf(t, pid, kind); len(ours) > 0 {
					t.Errorf("%s: %s: %v", when, kind, ours)
				}
			}
			var listening []string
			for _, line := range socketsOf(t, pid, "unix") {
				if fields := strings.Fields(line); fields[3] == "00010000" { // it accepts
					listening = append(listening, fields[len(fields)-1])
				}
			}
			want := map[bool][]string{true: {h.socket()}}[pid == d.pid()]
			if diff := cmp.Diff(want, listening); diff != "" {
				t.Errorf("%s: listeners of %d (-want +got):\n%s", when, pid, diff)
			}
		}
	}
	looks("at first")
	steady := runOf(t, structured(t, boss.call("harness_run_launch", map[string]any{"name": "slow", "idempotency_key": "k1"}))).ID
	looks("while it runs")
	steer := answered(t, structured(t, boss.call("harness_message_steer", map[string]any{"run": steady, "body": "x", "idempotency_key": "k2"})))
	structured(t, boss.call("harness_message_ack", map[string]any{"run": steady, "correlation_id": steer.Message.CorrelationID, "idempotency_key": "k3"}))
	structured(t, boss.call("harness_worktree_create", map[string]any{"repo": h.path("roots/repo"), "name": "w", "idempotency_key": "k4"}))
	begun := answered(t, structured(t, boss.call("harness_workflow_start", map[string]any{"file": flow, "idempotency_key": "k5"})))
	looks("while a workflow runs")
	h.awaitFlow(begun.Workflow.ID, "failed")
	boss.shown("harness://capabilities")
	looks("at last")
}

// socketsOf lists the sockets of one kind that a process has.
func socketsOf(t *testing.T, pid int, kind string) []string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, kind))
	if err != nil {
		return nil
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]bool{}
	for _, fd := range fds {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())); err == nil {
			inodes[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	var ours []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); slices.ContainsFunc(fields[min(6, len(fields)):], func(one string) bool { return inodes[one] }) {
			ours = append(ours, line)
		}
	}
	return ours
}

// TestAnswers_HaveNullForWhatIsAbsent asks about things that lack something, in
// JSON: none of it is "" (CLI-1), and a verification that came to nothing has the
// shape of any other.
func TestAnswers_HaveNullForWhatIsAbsent(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	h.write("roots/w.toml", "name='w'\n[[node]]\nid='a'\nharness='gone'\nprompt_file='none.md'\n[[node]]\nid='b'\nkind='approval'\n")
	h.write("roots/pack/pack.toml", "name='p'\n[[ticket]]\nid='t'\nfile='none.md'\nrole='review'\n")
	h.write("roots/torn/pack.toml", "name='p")
	for _, args := range [][]string{
		{"workflow", "validate", h.path("roots/w.toml")},
		{"pack", "validate", h.path("roots/pack")},
		{"pack", "validate", h.path("roots/torn")},
	} {
		got := h.harness(append(args, "--json")...)
		if got.code != 1 || !strings.HasPrefix(got.stdout, `{"ok":false,`) || strings.Contains(got.stdout, `:""`) || strings.Contains(got.stdout, "e3b0c442") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	got := h.harness("runs", "20260102T030405.000000-0a1b2c3d", "verify", "--json")
	want := `{"ok":false,"entries":0,"error":{"code":"unknown_run","entry":null,"message":"there is no such run"}}` + "\n"
	if got.code != 1 || got.stdout != want {
		t.Errorf("%+v", got)
	}
}
