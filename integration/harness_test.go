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
	// It waits for its user, and a start by hand begins to count anew.
	h.harness("start", "a")
	if now := h.list()["a"]; !now.Enabled || now.Restarts >= 14 {
		t.Errorf("started by hand: %+v", now)
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

// identityOf waits for the token of a harness that lends it, other than before.
func (h *home) identityOf(name, before string) (token string) {
	h.t.Helper()
	eventually(h.t, name+" has an identity", func() bool {
		env, _ := os.ReadFile(h.path("env-" + strings.ReplaceAll(name, "/", ".")))
		for line := range strings.Lines(string(env)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "HARNESS_MCP_TOKEN="); ok {
				token = value
			}
		}
		return token != "" && token != before
	})
	return token
}

// bearing is a session outside of every harness that presents a token; "" for
// none.
func (h *home) bearing(token string) *agent {
	h.t.Helper()
	a := h.client("env", "HARNESS_MCP_TOKEN="+token, bin(h.t)+"/harness", "mcp")
	a.initialize("2025-11-25")
	a.initialized()
	return a
}

// as is a session with the identity of a harness that lends it.
func (h *home) as(name string) *agent {
	h.t.Helper()
	return h.bearing(h.identityOf(name, ""))
}

// A harness sees the upstreams that its mcp names, from the next call on, and
// acts on harnesses alone (PRM-6, WHO-3).
func TestHarness_SeesAndActsOnWhatItIsGranted(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tables := func(mcp string) []string {
		return []string{quick, h.upstream("up"), h.upstream("hidden"), harnessTable("boss", h.lender(), "enabled = true\nmcp_allow = [\"write\"]\nmcp = "+mcp)}
	}
	h.configure(tables(`["up"]`)...)
	d := h.start()
	boss, nobody := h.as("boss"), d.connected()
	nobody.eventuallyCalls("hidden__echo", map[string]any{"text": "x"})
	boss.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	if r := boss.call("hidden__echo", nil); r.code() != "unknown_namespace" || boss.sees("hidden__echo") {
		t.Errorf("an upstream it does not see: %s", r)
	}
	if r := boss.call("harness_stop", map[string]any{"name": "mcp.up"}); r.code() != "unknown_harness" {
		t.Errorf("an upstream is no harness: %s", r)
	}
	h.configure(tables(`["hid*"]`)...)
	h.mustReload()
	boss.well("hidden")
	if r := boss.call("up__echo", nil); r.code() != "unknown_namespace" || boss.sees("up__echo") {
		t.Errorf("an upstream it does not see any more: %s", r)
	}
}
