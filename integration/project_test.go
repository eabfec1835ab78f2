package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// bringUp writes the file of a project and has it up.
func (h *home) bringUp(dir string, tables ...string) {
	h.t.Helper()
	there := h.in(dir)
	h.write(dir+"/harness.toml", strings.Join(tables, "\n"))
	there.must("up", "--yes")
}

// Two projects may have the same keys: each has processes, tools and prompts of
// its own, and nobody else sees them (CFG-4).
func TestProject_TwoWithTheSameKeysLiveSideBySide(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, h.upstream("all"), harnessTable("boss", h.lender(), "enabled = true\nmcp_allow = [\"read\", \"write\"]"))
	d := h.start()
	for _, project := range []string{"shop", "mill"} {
		h.write(project+"/prompts/"+project+".md", "of "+project+"\n")
		h.bringUp(project,
			set(h.upstream("db"), "env", fmt.Sprintf("{OWNER=%q}", project)), harnessTable("rev", h.lender(), ""), "[mcp.prompts]\npaths = [\"prompts\"]\n")
	}
	shop, mill, boss, nobody := h.as("shop/rev"), h.as("mill/rev"), h.as("boss"), d.connected()
	for project, a := range map[string]*agent{"shop": shop, "mill": mill} {
		eventually(t, project+" sees its own", func() bool { return a.sees("db__pid") && a.sees("all__pid") })
		if got := a.promptNames(); !slices.Equal(got, []string{project}) {
			t.Errorf("prompts of %s: %v", project, got)
		}
	}
	if a, b := shop.must("db__pid", nil), mill.must("db__pid", nil); a == b {
		t.Errorf("both have process %s", a)
	}
	if a, b := shop.must("all__pid", nil), mill.must("all__pid", nil); a != b {
		t.Errorf("the global server has two processes, %s and %s", a, b)
	}
	for name, a := range map[string]*agent{"boss": boss, "nobody": nobody} {
		if a.sees("db__pid") || len(a.promptNames()) > 0 {
			t.Errorf("%s sees what is a project's: %v", name, a.toolNames())
		}
		if r := a.call("db__pid", nil); r.code() != "unknown_namespace" {
			t.Errorf("%s calls what is a project's: %s", name, r.code())
		}
	}
	// One going down is nothing to the other.
	pid := mill.must("db__pid", nil)
	h.must("down", "shop")
	if now := mill.must("db__pid", nil); now != pid {
		t.Errorf("pid %s became %s", pid, now)
	}
	if l := h.list(); len(l) != 2 || l["mill/rev"].State != "running" {
		t.Errorf("harnesses: %+v", l)
	}
}

// A project that cannot be taken up whole is not taken up at all (CFG-4).
func TestProject_IsRefusedWhole(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, h.upstream("my-db"))
	h.start()
	h.bringUp("shop", harnessTable("rev", stays, ""))
	refused := map[string]struct{ text, says string }{
		"a key that is a global one's": {h.upstream("my_db") + harnessTable("x", stays, ""), "my-db"},
		"a name that is taken":         {"[project]\nname = \"shop\"\n" + harnessTable("x", stays, ""), h.path("shop/harness.toml")},
		"a right for itself":           {harnessTable("x", stays, "mcp_allow = [\"write\"]"), "mcp_allow"},
		"a profile":                    {harnessTable("x", stays, "") + "[profile.p]\nmembers = [\"x\"]\n", "profile"},
		"the server's settings":        {"[server]\nsettle = \"1ms\"\n" + harnessTable("x", stays, ""), "server"},
		"a broken file":                {harnessTable("x", stays, "") + "[harness.y]\n", "cmd"},
	}
	for name, tt := range refused {
		there := h.in("other")
		h.write("other/harness.toml", tt.text)
		o := there.harness("up", "--yes")
		if o.code != 1 || !strings.Contains(o.stderr, "other/harness.toml") || !strings.Contains(o.stderr, tt.says) {
			t.Errorf("%s: %v", name, o)
		}
		if l := h.list(); len(l) != 1 {
			t.Errorf("%s: %+v", name, l)
		}
	}
	if _, there := h.status().find("other/my_db"); there {
		t.Error("an upstream of a refused project is there")
	}
}

// What breaks in one file holds back nobody else, and of a key that both files
// have, the global one wins (CFG-4).
func TestProject_IsFollowedForItself(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(quick, h.upstream("all"))
	h.start()
	h.bringUp("shop", h.upstream("db"), harnessTable("rev", h.lender(), ""))
	h.bringUp("mill", harnessTable("rev", h.lender(), ""))
	shop, mill := h.as("shop/rev"), h.as("mill/rev")
	pid := h.awaitState("shop/db", "running").PID
	// Broken: it keeps its last good, the others go on.
	h.write("shop/harness.toml", "[harness.rev]\ncmd = 3\n")
	h.write("mill/harness.toml", harnessTable("rev", h.lender(), "")+harnessTable("two", stays, ""))
	h.awaitHarness("mill/two", "running")
	h.configure(quick, h.upstream("all"), h.upstream("more"))
	h.awaitState("more", "running")
	eventually(t, "the fault is told", func() bool {
		return slices.ContainsFunc(h.status().LastReload.Errors, func(f fault) bool { return f.File == h.path("shop/harness.toml") && f.Line == 2 })
	})
	if now := h.status().up(t, "shop/db"); now.PID == nil || *now.PID != *pid {
		t.Errorf("the broken project's server: %v", now)
	}
	// Its name is another's: refused, and nothing of either changes.
	h.write("shop/harness.toml", "[project]\nname = \"mill\"\n"+h.upstream("db"))
	eventually(t, "the taken name is told", func() bool {
		return slices.ContainsFunc(h.status().LastReload.Errors, func(f fault) bool { return strings.Contains(f.Message, "mill") })
	})
	if l := h.list(); l["shop/rev"].State != "running" || l["mill/two"].State != "running" {
		t.Errorf("harnesses: %+v", l)
	}
	h.write("shop/harness.toml", h.upstream("db")+"\n"+harnessTable("rev", h.lender(), ""))
	eventually(t, "all is well", func() bool { return h.status().LastReload.OK })
	shop.must("db__pid", nil)
	// The global file gains the key: that one is served, the project's is not.
	h.configure(quick, h.upstream("all"), h.table("db", "fake-upstream", []string{"-record", h.recordFile("global")}))
	h.awaitState("db", "running")
	eventually(t, "the project's is gone", func() bool { _, there := h.status().find("shop/db"); return !there })
	eventually(t, "that is told", func() bool {
		return slices.ContainsFunc(h.status().LastReload.Warnings, func(f fault) bool { return f.File == h.path("shop/harness.toml") && f.Key == "mcp.db" })
	})
	if a, b := shop.must("db__pid", nil), mill.must("db__pid", nil); a != b {
		t.Errorf("the global server has two processes, %s and %s", a, b)
	}
	// The file vanishes: the project stays until it is told to go.
	h.remove("shop/harness.toml")
	eventually(t, "the loss is told", func() bool { return !h.status().LastReload.OK })
	h.awaitHarness("shop/rev", "running")
	h.in("shop").must("down")
	if l := h.list(); len(l) != 2 || !h.mustReload().OK {
		t.Errorf("harnesses: %+v", l)
	}
}
