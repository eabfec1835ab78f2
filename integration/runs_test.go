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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	real, err := filepath.EvalSymlinks(h.dir)
	if err != nil || real != h.dir {
		h.t.Fatalf("%s is %s: %v", h.dir, real, err)
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
func (h *home) evidenceOf(id string, secrets ...string) map[string]string {
	h.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.runDir(id), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name := strings.TrimPrefix(path, h.runDir(id)+"/")
		all[name] = neutral(string(data), append([]string{id}, secrets...))
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// neutral takes ids, times, digests and actors out of evidence.
func neutral(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "(this)")
	}
	for _, key := range []string{"at", "started_at", "ended_at", "sha256", "prev_sha256", "contract_sha256", "head_sha256", "final_receipt_sha256", "actor", "idempotency_key"} {
		for from := 0; ; {
			at := strings.Index(text[from:], `"`+key+`":`)
			if at < 0 {
				break
			}
			begin := from + at + len(key) + 3
			var raw json.RawMessage
			if err := json.NewDecoder(strings.NewReader(text[begin:])).Decode(&raw); err != nil {
				break
			}
			text = text[:begin] + "0" + text[begin+len(raw):]
			from = begin
		}
	}
	// What is left of digests is those of files, by name.
	words := strings.Split(text, `"`)
	for i, w := range words {
		if len(w) == 64 && strings.Trim(w, "0123456789abcdef") == "" && i > 1 && strings.Contains(words[i-2], "receipts/") || i > 1 && (words[i-2] == "launch-contract.json" || words[i-2] == "output.log") {
			words[i] = "(digest)"
		}
	}
	return strings.Join(words, `"`)
}

// The same launch by command line and by tool leaves equal evidence, ids, times
// and actors aside, and both verify (MUT-1, EVI-2).
func TestRuns_OfBothSurfacesLeaveEqualEvidence(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.env["PASSED"], h.env["KEPT_BACK"] = "yes", "no"
	h.configure(h.workers()...)
	h.start()
	boss := h.as("boss")
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

// Fifty at once with one key have one effect and equal answers; with another
// argument it is a conflict; after a restart the first result is returned.
func TestMutations_OfOneKeyHappenOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.repo("roots/repo")
	h.write("roots/wf.toml", "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"counts\"\n")
	h.configure(h.workers()...)
	d := h.start()
	steady := runOf(t, h.must("run", "slow", "-d", "--json")).ID
	requests := map[string]map[string]any{
		"harness_run_launch":       {"name": "counts"},
		"harness_message_progress": {"run": steady, "body": "half"},
		"harness_message_steer":    {"run": steady, "body": "left"},
		"harness_worktree_create":  {"repo": h.path("roots/repo"), "name": "w1"},
		"harness_workflow_start":   {"file": h.path("roots/wf.toml")},
	}
	bosses := []*agent{h.as("boss"), h.as("boss"), h.as("boss"), h.as("boss"), h.as("boss")}
	answers := map[string]string{}
	for tool, arguments := range requests {
		arguments["idempotency_key"] = "key of " + tool
		var calls []*call
		for i := range 50 {
			calls = append(calls, bosses[i%len(bosses)].beginCall(tool, arguments))
		}
		fresh := 0
		for _, c := range calls {
			text := structured(t, c.result())
			if strings.Contains(text, `"replayed":false`) {
				fresh++
			}
			text = strings.ReplaceAll(text, `"replayed":false`, `"replayed":true`)
			if answers[tool] == "" {
				answers[tool] = text
			}
			if text != answers[tool] {
				t.Errorf("%s: answers differ:\n%s\n%s", tool, answers[tool], text)
			}
		}
		if fresh != 1 {
			t.Errorf("%s: done %d times", tool, fresh)
		}
	}
	steer := struct {
		Message struct {
			CorrelationID string `json:"correlation_id"`
		}
	}{}
	if err := json.Unmarshal([]byte(answers["harness_message_steer"]), &steer); err != nil {
		t.Fatal(err)
	}
	requests["harness_message_ack"] = map[string]any{"run": steady, "correlation_id": steer.Message.CorrelationID, "idempotency_key": "ack"}
	answers["harness_message_ack"] = strings.ReplaceAll(structured(t, bosses[0].call("harness_message_ack", requests["harness_message_ack"])), `"replayed":false`, `"replayed":true`)
	eventually(t, "both runs have ended", func() bool {
		data, _ := os.ReadFile(h.path("counted"))
		return strings.Count(string(data), "\n") == 2 // the launch, and the workflow's
	})
	d.stop()
	h.start()
	boss := h.bearing(h.identityOf("boss", bosses[0].token(t)))
	for tool, arguments := range requests {
		if got := structured(t, boss.call(tool, arguments)); got != answers[tool] {
			t.Errorf("%s after a restart:\n%s\nwant %s", tool, got, answers[tool])
		}
		other := maps.Clone(arguments)
		for _, key := range []string{"name", "body", "file", "correlation_id"} {
			if _, takes := other[key]; takes {
				other[key] = "other"
				break
			}
		}
		if r := boss.call(tool, other); r.code() != "idempotency_conflict" {
			t.Errorf("%s with another argument: %s", tool, r)
		}
		other = maps.Clone(arguments)
		other["unknown"] = 1
		if r := boss.call(tool, other); r.code() != "invalid_argument" {
			t.Errorf("%s with an unknown argument: %s", tool, r)
		}
		delete(other, "unknown")
		delete(other, "idempotency_key")
		if r := boss.call(tool, other); r.code() != "invalid_argument" {
			t.Errorf("%s without a key: %s", tool, r)
		}
		other["idempotency_key"] = strings.Repeat("k", 65<<10)
		if r := boss.call(tool, other); r.code() != "invalid_argument" {
			t.Errorf("%s that is too large: %s", tool, r)
		}
	}
	if data, err := os.ReadFile(h.path("counted")); err != nil || strings.Count(string(data), "\n") != 2 {
		t.Errorf("%q, %v", data, err)
	}
}

// token is that which a session was opened with.
func (a *agent) token(t testing.TB) string {
	t.Helper()
	for _, arg := range a.cmd.Args {
		if value, ok := strings.CutPrefix(arg, "HARNESS_MCP_TOKEN="); ok {
			return value
		}
	}
	t.Fatal("the session has no token")
	return ""
}

// repo makes a git repository with one commit.
func (h *home) repo(name string) string {
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
	return dir
}

// Every path that is not a plain one under a root is refused, whichever argument
// it is given in (EVI-4).
func TestPaths_ThatAreNotPlainAreRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.repo("roots/repo")
	h.write("outside/prompt.md", "x")
	h.write("outside/pack/pack.toml", "name = \"p\"\nversion = \"1\"\n[[ticket]]\nfile = \"a.md\"\nrole = \"review\"\n")
	h.write("roots/pack/pack.toml", "name = \"p\"\nversion = \"1\"\n[[ticket]]\nfile = \"a.md\"\nrole = \"review\"\n")
	h.write("roots/pack/a.md", "x")
	h.write("roots/wf.toml", "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"quick\"\n")
	h.write("roots/big", strings.Repeat("x", 2<<20))
	for link, to := range map[string]string{
		"roots/link.md": "prompt.md", "roots/dir": "pack", "roots/away": h.path("outside"), "roots/repolink": "repo", "roots/wflink.toml": "wf.toml",
	} {
		if err := os.Symlink(to, h.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(h.path("roots/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	boss := h.as("boss")
	bad := []string{
		"prompt.md", "/", "", "/etc/passwd", "/dev/null", "/dev/zero", h.path("outside/prompt.md"), h.path("roots") + "x/prompt.md",
		h.path("roots/none"), h.path("roots") + "/../outside/prompt.md", h.path("roots") + "//prompt.md", h.path("roots") + "/./prompt.md", h.path("roots/link.md"),
		h.path("roots/dir/a.md"), h.path("roots/away/prompt.md"), h.path("roots/away/pack"), h.path("roots/fifo"), h.path("roots/big"), h.path("roots/repolink"),
		h.path("roots/wflink.toml"), h.path("roots/prompt.md/x"), h.path("roots") + "/prompt.md\x00", "~/prompt.md", "file://" + h.path("roots/prompt.md"),
	}
	for i, path := range bad {
		for tool, argument := range map[string]string{
			"harness_run_launch": "prompt_file", "harness_pack_validate": "dir", "harness_worktree_create": "repo",
			"harness_workflow_validate": "file", "harness_workflow_start": "file",
		} {
			if path == "" && tool == "harness_run_launch" {
				continue // none
			}
			arguments := map[string]any{argument: path}
			switch tool {
			case "harness_run_launch":
				arguments["name"] = "quick"
			case "harness_worktree_create":
				arguments["name"] = "w"
			}
			if !strings.HasSuffix(tool, "_validate") {
				arguments["idempotency_key"] = fmt.Sprint(tool, i)
			}
			if r := boss.call(tool, arguments); r.code() != "invalid_argument" && r.code() != "operation_failed" {
				t.Errorf("%s of %q: %s", tool, path, r)
			}
		}
	}
	var list struct{ Runs []ran }
	if err := json.Unmarshal([]byte(h.must("runs", "--json")), &list); err != nil || len(list.Runs) != 1 {
		t.Errorf("something was launched: %+v, %v", list, err)
	}
	for tool, arguments := range map[string]map[string]any{
		"harness_pack_validate":     {"dir": h.path("roots/pack")},
		"harness_workflow_validate": {"file": h.path("roots/wf.toml")},
	} {
		if got := structured(t, boss.call(tool, arguments)); !strings.Contains(got, `"ok":true`) {
			t.Errorf("%s: %s", tool, got)
		}
	}
}

// Whatever is done to a file of a run is found by verify and by every resource
// that would have shown it (EVI-3).
func TestEvidence_ThatWasTamperedWithIsNotShown(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	s := h.connected()
	id := runOf(t, h.must("run", "quick", "--json")).ID
	uris := []string{"harness://runs"}
	for _, kind := range []string{"status", "messages", "receipts", "command-context", "command-card"} {
		uris = append(uris, "harness://runs/"+id+"/"+kind)
	}
	for _, uri := range uris {
		if m := s.ask("resources/read", map[string]any{"uri": uri}); m.Error != nil {
			t.Errorf("%s: %s", uri, m.raw)
		}
	}
	for name := range h.evidenceOf(id) {
		path := filepath.Join(h.runDir(id), name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		put := func(data []byte, mode fs.FileMode) {
			os.Remove(path)
			if err := os.WriteFile(path, data, mode); err != nil {
				t.Fatal(err)
			}
		}
		put(append(slices.Clone(data), 'x'), info.Mode())
		var v struct {
			OK    bool
			Error struct{ Code, Entry string }
		}
		o := h.harness("runs", id, "verify", "--json")
		if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || o.code != 1 || v.OK || v.Error.Code != "invalid_evidence" || v.Error.Entry != name {
			t.Errorf("%s: %s", name, o)
		}
		for _, uri := range uris {
			if m := s.ask("resources/read", map[string]any{"uri": uri}); m.Error == nil || !strings.Contains(string(m.Error.Data), `"invalid_evidence"`) {
				t.Errorf("%s changed, %s: %s", name, uri, m.raw)
			}
		}
		put(data, info.Mode())
	}
	if o := h.harness("runs", id, "verify"); o.code != 0 {
		t.Error(o)
	}
}

// A steer waits for its own acknowledgement, and its text is shown by nothing.
func TestMessages_SteerIsPendingUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	s, boss := h.connected(), h.as("boss")
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
		m := s.ask("resources/read", map[string]any{"uri": "harness://runs/" + id + "/messages"})
		if strings.Contains(string(m.raw), secret) {
			t.Errorf("the text is shown: %s", m.raw)
		}
		i := strings.Index(string(m.raw), `disposition\":\"`)
		if i < 0 {
			t.Fatalf("%s", m.raw)
		}
		rest := string(m.raw)[i+len(`disposition\":\"`):]
		return rest[:strings.IndexByte(rest, '\\')]
	}
	if disposition() != "pending" {
		t.Error(disposition())
	}
	if r := boss.call("harness_message_ack", map[string]any{"run": id, "correlation_id": "c-other", "idempotency_key": "a1"}); r.code() != "invalid_argument" || disposition() != "pending" {
		t.Error(r)
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

// Subscribers hear of the state, and of the end of a run (RES).
func TestResources_TellWhoSubscribed(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	s := h.connected()
	id := runOf(t, h.must("run", "slow", "-d", "--timeout", "1s", "--json")).ID
	for _, uri := range []string{"harness://state", "harness://runs/" + id + "/status"} {
		if m := s.ask("resources/subscribe", map[string]any{"uri": uri}); m.Error != nil {
			t.Fatalf("%s", m.raw)
		}
	}
	h.must("start", "slow")
	told := func(uri string) func() bool {
		return func() bool {
			return slices.ContainsFunc(s.notes("notifications/resources/updated"), func(m message) bool { return strings.Contains(string(m.Params), uri) })
		}
	}
	eventually(t, "the state is told of", told("harness://state"))
	eventually(t, "the run is told of", told(id))
	h.awaitRun(id)
}

// A daemon that is killed at any point of launches and messages leaves evidence
// that verifies, and keys that return their first result; nothing runs twice.
func TestCrash_AtAnyPointLeavesEvidenceThatVerifies(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.write("roots/wf.toml", "name = \"w\"\nparallel = 2\n[[node]]\nid = \"a\"\nharness = \"counts\"\n[[node]]\nid = \"b\"\nharness = \"counts\"\nneeds = [\"a\"]\n")
	h.configure(h.workers()...)
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	answered := map[string]string{} // by key
	keys := func() int {
		list, _ := os.ReadDir(h.path("state/harness/keys"))
		return len(list)
	}
	for round := range rounds {
		d := h.start()
		before := keys()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range 4 {
			wg.Go(func() {
				key := fmt.Sprint("k", round, "-", i)
				var o outcome
				if i == 3 {
					o = h.harness("workflow", "start", h.path("roots/wf.toml"), "--idempotency-key", key, "--json")
				} else {
					o = h.harness("run", "counts", "-d", "--idempotency-key", key, "--json")
				}
				mu.Lock()
				defer mu.Unlock()
				if o.code == 0 {
					answered[key] = o.stdout
				}
			})
		}
		eventually(t, "something is asked for", func() bool { return keys() > before })
		<-time.After(time.Duration(round*13%160) * time.Millisecond)
		d.kill()
		wg.Wait()
	}
	h.start()
	var list struct {
		Runs      []ran
		NextAfter *string `json:"next_after"`
	}
	if err := json.Unmarshal([]byte(h.must("runs", "--json", "--limit", "100")), &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Runs {
		if o := h.harness("runs", r.ID, "verify"); o.code != 0 {
			t.Error(o)
		}
	}
	for key, first := range answered {
		var o outcome
		if strings.HasSuffix(key, "-3") {
			o = h.harness("workflow", "start", h.path("roots/wf.toml"), "--idempotency-key", key, "--json")
		} else {
			o = h.harness("run", "counts", "-d", "--idempotency-key", key, "--json")
		}
		if got := strings.ReplaceAll(o.stdout, `"replayed":true`, `"replayed":false`); o.code != 0 || got != strings.ReplaceAll(first, `"replayed":true`, `"replayed":false`) {
			t.Errorf("%s: %s\nwas %s", key, o, first)
		}
	}
	data, err := os.ReadFile(h.path("counted"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if seen[line] {
			t.Errorf("%s ran twice", line)
		}
		seen[line] = true
	}
	t.Logf("%d runs in %d rounds, %d answered", len(list.Runs), rounds, len(answered))
}

// Nothing listens but the socket, whatever is done.
func TestRuns_OpenNoListener(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	d := h.start()
	boss := h.as("boss")
	structured(t, boss.call("harness_run_launch", map[string]any{"name": "quick", "idempotency_key": "k"}))
	boss.ask("resources/read", map[string]any{"uri": "harness://capabilities"})
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6", "raw"} {
		if ours := socketsOf(t, d.pid(), file); len(ours) > 0 {
			t.Errorf("%s: %v", file, ours)
		}
	}
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
		if fields := strings.Fields(line); len(fields) > 9 && inodes[fields[9]] {
			ours = append(ours, line)
		}
	}
	return ours
}
