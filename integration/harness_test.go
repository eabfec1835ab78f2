package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed is one harness of `list --json`.
type listed struct {
	Name, State   string
	Enabled       bool
	PID           int
	Restarts      int
	LastExit      *struct{ Code *int } `json:"last_exit"`
	ConfigPending bool                 `json:"config_pending"`
}

func (h *home) list() map[string]listed {
	h.t.Helper()
	var l struct{ Harnesses []listed }
	if err := json.Unmarshal([]byte(h.must("list", "--json")), &l); err != nil {
		h.t.Fatal(err)
	}
	all := map[string]listed{}
	for _, one := range l.Harnesses {
		all[one.Name] = one
	}
	return all
}

// awaitHarness waits until a harness is in a state.
func (h *home) awaitHarness(name, state string) (l listed) {
	h.t.Helper()
	eventually(h.t, name+" is "+state, func() bool {
		l = h.list()[name]
		return l.State == state
	})
	return l
}

// harnessTable is a harness that is a shell script.
func harnessTable(name, script, more string) string {
	return fmt.Sprintf("[harness.%s]\ncmd = \"sh\"\nargs = [\"-c\", %q]\n%s\n", name, script, more)
}

// stays is what a harness does that goes on until it is stopped.
const stays = "while read line; do echo got $line; done"

func TestHarness_FollowsTheFileAndIsNotBouncedByIt(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(harnessTable("a", "echo hello; "+stays, "enabled = true"), harnessTable("b", stays, ""))
	h.start()
	a := h.awaitHarness("a", "running")
	if b := h.list()["b"]; b.State != "stopped" || b.Enabled {
		t.Errorf("b: %+v", b)
	}
	// Changed: flagged, and not bounced (HOT-5).
	h.configure(harnessTable("a", "echo again; "+stays, "enabled = true"), harnessTable("b", stays, "enabled = true"))
	r := h.mustReload()
	if r.Generation != 2 {
		t.Errorf("reload: %+v", r)
	}
	h.awaitHarness("b", "running")
	if now := h.list()["a"]; now.PID != a.PID || !now.ConfigPending {
		t.Errorf("changed: %+v", now)
	}
	h.must("restart", "a")
	if now := h.list()["a"]; now.PID == a.PID || now.ConfigPending || now.State != "running" {
		t.Errorf("restarted: %+v", now)
	}
	eventually(t, "it prints", func() bool { return strings.Contains(h.must("logs", "a"), "again") })
	// The intent outlives an edit, and the file's value counts when it changes.
	h.must("stop", "b")
	h.configure(harnessTable("b", stays, "enabled = true\ndescription = \"b\""))
	h.mustReload()
	if l := h.list(); len(l) != 1 || l["b"].State != "stopped" {
		t.Errorf("after a was removed: %+v", l)
	}
	h.configure(harnessTable("b", stays, "enabled = false"))
	h.mustReload()
	h.configure(harnessTable("b", stays, "enabled = true"))
	h.mustReload()
	h.awaitHarness("b", "running")
}

func TestHarness_IntentAndEndSurviveTheDaemon(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(harnessTable("a", stays, ""), harnessTable("b", stays, "enabled = true"))
	d := h.start()
	h.must("start", "a")
	h.must("stop", "b")
	pid := h.list()["a"].PID
	d.stop()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !os.IsNotExist(err) {
		t.Errorf("the harness outlived its daemon: %v", err)
	}
	h.start()
	h.awaitHarness("a", "running")
	if b := h.list()["b"]; b.State != "stopped" {
		t.Errorf("b: %+v", b)
	}
}

func TestHarness_IsRestartedAndSaysHowItEnded(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(harnessTable("a", "exit 3", "enabled = true\nrestart_delay = \"10ms\""))
	h.start()
	a := h.awaitHarness("a", "failed")
	if a.Restarts != 14 || a.LastExit == nil || *a.LastExit.Code != 3 {
		t.Errorf("%+v", a)
	}
	if o := h.harness("start", "nobody"); o.code != 1 || !strings.Contains(o.stderr, "nobody") {
		t.Errorf("%+v", o)
	}
	h.configure(harnessTable("a", stays, "enabled = true"))
	h.awaitHarness("a", "running") // another definition is another chance (LIF-2)
}

// Whose a session is shows in status: by the token of its environment, and by
// descent where that was cleared (WHO-2).
func TestHarness_SessionsAreKnownAsItsOwn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	bridge := bin(t) + "/harness mcp"
	h.configure(
		h.upstream("up"),
		harnessTable("token", bridge, "enabled = true"),
		harnessTable("cleared", "env -i HOME=$HOME PATH=$PATH "+bridge+" --socket "+h.socket(), "enabled = true"),
		harnessTable("forged", "HARNESS_MCP_TOKEN=forged HARNESS_NAME=token "+bridge, "enabled = true"),
	)
	h.start()
	outside := h.connected()
	want := map[string]int{"token": 1, "cleared": 1, "forged": 1, "": 1}
	eventually(t, "each session has its owner", func() bool {
		got := map[string]int{}
		for _, s := range h.status().Sessions {
			if s.Harness == nil {
				got[""]++
			} else {
				got[*s.Harness]++
			}
		}
		return cmp.Diff(want, got) == ""
	})
	outside.well("up")
}

// lender is the script of a harness that lends its identity to sessions of the
// test.
func (h *home) lender() string {
	file := h.path("env-") + `$(echo $HARNESS_NAME | tr / .)`
	return "env > " + file + ".part && mv " + file + ".part " + file + "; " + stays
}

// as is a session with the identity of a harness that lends it.
func (h *home) as(name string) *agent {
	h.t.Helper()
	var token string
	eventually(h.t, name+" has an identity", func() bool {
		data, err := os.ReadFile(h.path("env-" + strings.ReplaceAll(name, "/", ".")))
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(data)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "HARNESS_MCP_TOKEN="); ok {
				token = value
			}
		}
		return token != ""
	})
	a := h.client("env", "HARNESS_MCP_TOKEN="+token, bin(h.t)+"/harness", "mcp")
	a.initialize("2025-11-25")
	a.initialized()
	return a
}

// What an agent may do is asked at each call, and told when it changes (WHO-3).
func TestHarness_RightsCountAtTheNextCall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	lend := h.lender()
	tables := func(allow string) []string {
		return []string{
			h.upstream("up"), h.upstream("hidden"),
			harnessTable("boss", lend, "enabled = true\nmcp_allow = "+allow+"\nmcp = [\"up\"]"), harnessTable("worker", lend, "enabled = true"),
		}
	}
	h.configure(tables(`["read"]`)...)
	d := h.start()
	boss, worker, nobody := h.as("boss"), h.as("worker"), d.connected()
	write := []string{"harness_start", "harness_stop", "harness_restart"}
	for _, a := range []*agent{boss, worker, nobody} {
		for _, tool := range write {
			if r := a.call(tool, map[string]any{"name": "worker"}); r.code() != "permission_denied" {
				t.Errorf("%s without the right: %s", tool, r.code())
			}
		}
		if own := a.ownTools(); len(own) != 6 {
			t.Errorf("tools without the right: %v", own)
		}
	}
	if r := boss.call("hidden__echo", nil); r.code() != "unknown_namespace" {
		t.Errorf("an upstream it does not see: %s", r.code())
	}
	h.configure(tables(`["read", "write"]`)...)
	h.mustReload()
	boss.awaitCount(toolsChanged, 1)
	if own := boss.ownTools(); len(own) != 9 {
		t.Errorf("tools with the right: %v", own)
	}
	pid := h.list()["worker"].PID
	if r := boss.call("harness_restart", map[string]any{"name": "worker"}); r.code() != "" {
		t.Errorf("with the right: %s", r.code())
	}
	if now := h.list()["worker"]; now.PID == pid || now.State != "running" {
		t.Errorf("after its restart: %+v", now)
	}
	if r := boss.call("harness_stop", map[string]any{"name": "mcp.up"}); r.code() != "unknown_harness" {
		t.Errorf("an upstream is no harness: %s", r.code())
	}
	if r := nobody.call("harness_stop", map[string]any{"name": "worker"}); r.code() != "permission_denied" {
		t.Errorf("nobody's session: %s", r.code())
	}
	h.configure(tables(`["read"]`)...)
	h.mustReload()
	if r := boss.call("harness_stop", map[string]any{"name": "worker"}); r.code() != "permission_denied" {
		t.Errorf("after it was taken away: %s", r.code())
	}
}
