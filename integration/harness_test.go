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
