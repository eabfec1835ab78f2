package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/control"
)

// The tools of the endpoint itself (WHO-3).
var (
	readTools  = []string{"get_trajectory", "harness_describe", "harness_list", "harness_logs", "harness_pack_validate", "harness_prompts", "harness_workflow_status", "harness_workflow_validate", "list_trajectories"}
	writeTools = []string{"harness_message_ack", "harness_message_progress", "harness_message_steer", "harness_run_launch", "harness_worktree_create", "harness_workflow_start", "harness_workflow_resume", "harness_restart", "harness_start", "harness_stop"}
)

// door is what a harness does for a session that is to descend from it: it runs
// a bridge on two named pipes, in an environment that has nothing of its own but
// what a file says. See through.
func (h *home) door(name string) string {
	h.t.Helper()
	for _, pipe := range []string{"in-", "out-"} {
		if err := syscall.Mkfifo(h.path(pipe+name), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	return fmt.Sprintf("(exec <%s >%s; exec env -i HOME=$HOME PATH=$PATH GORACE=$GORACE $(cat %s) harness mcp --socket %s) &\n",
		h.path("in-"+name), h.path("out-"+name), h.path("as-"+name), h.socket())
}

// through is the session behind a door.
func (h *home) through(name, token string) *agent {
	h.t.Helper()
	env := ""
	if token != "" {
		env = "HARNESS_MCP_TOKEN=" + token
	}
	h.write("as-"+name, env)
	a := h.client("sh", "-c", fmt.Sprintf("cat <%s & exec cat >%s", h.path("out-"+name), h.path("in-"+name)))
	a.initialize("2025-11-25")
	a.initialized()
	return a
}

// presented is what a session shows of itself.
type presented string

const (
	owners   presented = "the owner's token"
	siblings presented = "the sibling's token"
	stale    presented = "a token of the owner's last process"
	outlived presented = "a token that was good when it began"
	forged   presented = "a forged token"
	nothing  presented = "no token"
)

// caller is one row of the matrix: what it presents, and whether it descends
// from the process of the owner.
type caller struct {
	shows  presented
	inside bool
	agent  *agent
}

func (c caller) String() string {
	if c.inside {
		return string(c.shows) + ", inside the owner"
	}
	return string(c.shows) + ", outside"
}

// whose is the harness that a caller's calls are (WHO-2): of a token that is
// good, else by descent, else nobody's.
func (c caller) whose() string {
	switch {
	case c.shows == siblings:
		return "sibling"
	case c.shows == owners, c.inside:
		return "owner"
	default:
		return ""
	}
}

// grant is one state of the file: the mcp_allow of both, "" for none written.
type grant struct{ name, owner, sibling string }

// writes reports whether the file grants a harness the right to change things.
func (g grant) writes(harness string) bool {
	return harness != "" && strings.Contains(map[string]string{"owner": g.owner, "sibling": g.sibling}[harness], "write")
}

// The scopes. The sibling always has the other one, so that whoever is taken
// for the other shows.
var grants = []grant{
	{name: "default", owner: "", sibling: `["read", "write"]`},
	{name: "read and write", owner: `["read", "write"]`, sibling: ""},
	{name: "narrowed by an edit", owner: `["read"]`, sibling: `["write"]`},
}

// authority is the fleet of the matrix: the two, and a harness that things are
// done to.
type authority struct {
	*home
	doors string
}

func (m *authority) tables(g grant) []string {
	allow := func(list string) string {
		if list == "" {
			return "enabled = true"
		}
		return "enabled = true\nmcp_allow = " + list
	}
	return []string{
		quick,
		harnessTable("owner", m.doors+m.lender(), allow(g.owner)),
		harnessTable("sibling", m.lender(), allow(g.sibling)),
		harnessTable("worker", stays, "enabled = true"),
	}
}

// worker is how the harness is that things are done to.
func (m *authority) worker() (w listed) {
	m.t.Helper()
	m.control(func(ctx context.Context, c *control.Client) (any, error) { return c.Describe(ctx, "worker") }, &w)
	return w
}

// callers are all rows. The owner has been restarted since the first of them
// began.
func (m *authority) callers() []caller {
	m.t.Helper()
	old := m.identityOf("owner", "")
	rows := []caller{{shows: outlived, agent: m.bearing(old)}}
	m.must("restart", "owner")
	tokens := map[presented]string{
		owners: m.identityOf("owner", old), siblings: m.identityOf("sibling", ""), stale: old, forged: strings.Repeat("A", len(old)), nothing: "",
	}
	for i, shows := range insiders {
		rows = append(rows,
			caller{shows, false, m.bearing(tokens[shows])},
			caller{shows, true, m.through(fmt.Sprint(i), tokens[shows])})
	}
	return rows
}

// insiders are what is presented both outside and inside of the owner.
var insiders = []presented{owners, siblings, stale, forged, nothing}

// TestAuthority_OfEveryCallerForEveryToolInEveryScope is the matrix of WHO-2
// and WHO-3: what each caller is shown, and what becomes of each call.
func TestAuthority_OfEveryCallerForEveryToolInEveryScope(t *testing.T) {
	t.Parallel()
	m := &authority{home: newHome(t)}
	for i := range insiders {
		m.doors += m.door(fmt.Sprint(i))
	}
	m.configure(m.tables(grants[0])...)
	m.start()
	m.awaitHarness("worker", "running")
	rows := m.callers()
	for i, g := range grants {
		if i > 0 {
			m.configure(m.tables(g)...)
			m.mustReload()
		}
		for _, c := range rows {
			may := g.writes(c.whose())
			cell := fmt.Sprintf("%s: %s", g.name, c)
			m.holdsList(cell, c.agent, may)
			m.holdsReads(cell, c.agent)
			m.holdsWrites(cell, c.agent, may)
			m.holdsOnce(cell, c.agent, may)
			// Each was told when what it is shown became another, and only then.
			told := 0
			if c.whose() != "" {
				told = i // every edit turns both over
			}
			c.agent.awaitCount(toolsChanged, told)
			if n := c.agent.count(toolsChanged); n != told {
				t.Errorf("%s was told %d times, not %d", cell, n, told)
			}
		}
	}
}

// holdsList demands that a caller is shown what it may call.
func (m *authority) holdsList(cell string, a *agent, may bool) {
	m.t.Helper()
	want := slices.Clone(readTools)
	if may {
		want = append(want, writeTools...)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, a.ownTools()); diff != "" {
		m.t.Errorf("%s: tools/list (-want +got):\n%s", cell, diff)
	}
}

// holdsReads demands that whoever calls may read.
func (m *authority) holdsReads(cell string, a *agent) {
	m.t.Helper()
	arguments := map[string]any{
		"harness_describe": map[string]any{"name": "worker"}, "harness_logs": map[string]any{"name": "worker"},
		"list_trajectories": map[string]any{"name": "worker"}, "get_trajectory": map[string]any{"id": "none"},
	}
	for _, tool := range readTools {
		r := a.call(tool, arguments[tool])
		switch {
		case tool == "get_trajectory" && r.code() == "unknown_run": // it was looked for
		case r.code() == "invalid_argument" && slices.Contains([]string{"harness_pack_validate", "harness_workflow_status", "harness_workflow_validate"}, tool): // none was named
		case !r.ok() || len(r.StructuredContent) == 0:
			m.t.Errorf("%s: %s: %s", cell, tool, r)
		case tool == "list_trajectories":
			var list struct{ Runs []struct{ ID string } }
			if err := json.Unmarshal(r.StructuredContent, &list); err != nil || len(list.Runs) == 0 {
				m.t.Fatalf("%s: %s: %s", cell, tool, r)
			}
			arguments["get_trajectory"] = map[string]any{"id": list.Runs[0].ID}
			if r := a.call("get_trajectory", arguments["get_trajectory"]); !r.ok() {
				m.t.Errorf("%s: get_trajectory of what is listed: %s", cell, r)
			}
		}
	}
}

// holdsWrites demands that a call of each tool that changes something does so
// or is refused and does not.
func (m *authority) holdsWrites(cell string, a *agent, may bool) {
	m.t.Helper()
	for _, one := range []struct{ tool, then string }{{"harness_stop", "stopped"}, {"harness_start", "running"}, {"harness_restart", "running"}} {
		before := m.worker()
		r := a.call(one.tool, map[string]any{"name": "worker"})
		after := m.worker()
		if !may {
			if r.code() != "permission_denied" || after.PID != before.PID || after.State != "running" {
				m.t.Errorf("%s: %s: it is %s, was process %d and is %d: %s", cell, one.tool, after.State, before.PID, after.PID, r)
			}
			continue
		}
		if !r.ok() || after.State != one.then || after.PID == before.PID {
			m.t.Errorf("%s: %s: it is %s, was process %d and is %d: %s", cell, one.tool, after.State, before.PID, after.PID, r)
		}
	}
}

// holdsOnce demands that what is done once under a key is done, for who may.
func (m *authority) holdsOnce(cell string, a *agent, may bool) {
	m.t.Helper()
	for tool, arguments := range map[string]map[string]any{
		"harness_run_launch": {"name": "nobody"}, "harness_message_progress": {"run": "none", "body": "x"},
		"harness_message_steer": {"run": "none", "body": "x"}, "harness_message_ack": {"run": "none", "correlation_id": "x"},
		"harness_worktree_create": {"repo": "/none", "name": "x"}, "harness_workflow_start": {"file": "/none"}, "harness_workflow_resume": {"id": "none"},
	} {
		arguments["idempotency_key"] = cell + tool
		want := "permission_denied"
		switch {
		case !may:
		case tool == "harness_run_launch":
			want = "unknown_harness"
		case strings.HasPrefix(tool, "harness_message_"):
			want = "unknown_run"
		default:
			want = "invalid_argument"
		}
		if r := a.call(tool, arguments); r.code() != want {
			m.t.Errorf("%s: %s: want %s: %s", cell, tool, want, r)
		}
	}
}

// A harness may restart and stop itself: it is answered first (WHO-3).
func TestAuthority_OfAHarnessOverItselfIsAnsweredFirst(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, harnessTable("self", h.door("0")+h.lender(), "enabled = true\nmcp_allow = [\"write\"]"))
	h.start()
	first := h.awaitHarness("self", "running")
	token := h.identityOf("self", "")
	if r := h.through("0", token).call("harness_restart", map[string]any{"name": "self"}); !r.ok() {
		t.Errorf("restart of itself: %s", r)
	}
	h.identityOf("self", token)
	if now := h.awaitHarness("self", "running"); now.PID == first.PID || !alive(now.PID) || alive(first.PID) {
		t.Errorf("after it restarted itself: %+v, was %+v", now, first)
	}
	if r := h.through("0", "").call("harness_stop", map[string]any{"name": "self"}); !r.ok() {
		t.Errorf("stop of itself: %s", r)
	}
	if now := h.awaitHarness("self", "stopped"); now.Enabled {
		t.Errorf("after it stopped itself: %+v", now)
	}
}
