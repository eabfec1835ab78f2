package daemon

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"harness/pkg/config"
	"harness/reconcile"
)

func anybody(string) bool { return true }

// up writes the file of a project and asks for it.
func (d *desk) up(dir, text string, approved func(string) bool) admission {
	d.t.Helper()
	if err := os.MkdirAll(d.path(dir), 0o700); err != nil {
		d.t.Fatal(err)
	}
	d.write(dir+"/harness.toml", text)
	a, err := d.loader.admit(d.path(dir+"/harness.toml"), approved, time.Unix(0, 0))
	if err != nil {
		d.t.Fatal(err)
	}
	return a
}

// agentsOf are the harnesses that are asked for.
func agentsOf(l reconcile.Loaded) []string {
	var names []string
	for name := range l.Desired.Agents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

const oneAgent = "[harness.a]\ncmd = \"sh\"\n"

func TestLoader_AdmitsAProjectOnceItIsApproved(t *testing.T) {
	d := newDesk(t, nil)
	if _, err := d.loader.admit(d.path("shop/harness.toml"), anybody, time.Now()); err == nil {
		t.Error("admitted before anything was read")
	}
	d.write("harness.toml", oneUpstream)
	d.load()
	a := d.up("shop", oneAgent, func(string) bool { return false })
	if !a.pending || len(agentsOf(d.load())) != 0 {
		t.Fatalf("unapproved: %+v", a)
	}
	seen := a.sha256
	d.write("shop/harness.toml", oneAgent+"[harness.b]\ncmd = \"sh\"\n")
	other, err := d.loader.admit(d.path("shop/harness.toml"), func(sum string) bool { return sum == seen }, time.Now())
	if err != nil || !other.pending {
		t.Errorf("another text than the one that was approved: %+v, %v", other, err)
	}
	if a = d.up("shop", oneAgent, func(sum string) bool { return sum == seen }); a.pending || a.faults != nil {
		t.Fatalf("approved: %+v", a)
	}
	if got := agentsOf(d.load()); !slices.Equal(got, []string{"shop/a"}) {
		t.Errorf("harnesses: %v", got)
	}
	kept, _ := d.saved[projectsFile].(projectsState)
	if len(kept.Projects) != 1 || kept.Projects[0].SHA256 != seen || kept.Projects[0].Path != d.path("shop/harness.toml") {
		t.Errorf("kept: %+v", kept)
	}
	// Once it is up, nobody is asked again.
	if a = d.up("shop", oneAgent+"# more\n", func(string) bool { return false }); a.pending || a.faults != nil {
		t.Errorf("up already: %+v", a)
	}
	if err := d.loader.dismiss(d.path("shop/harness.toml")); err != nil || len(agentsOf(d.load())) != 0 {
		t.Errorf("dismissed: %v", err)
	}
	if text, there := d.saved[lastGoodName(d.path("shop/harness.toml"))]; !there || text != nil {
		t.Errorf("its last good text is kept: %v", text)
	}
	if err := d.loader.dismiss(d.path("shop/harness.toml")); err == nil {
		t.Error("dismissed twice")
	}
	if a = d.up("shop", oneAgent, func(string) bool { return false }); !a.pending {
		t.Errorf("the approval outlived the project: %+v", a)
	}
}

func TestLoader_ANameBelongsToWhoeverHadItFirst(t *testing.T) {
	d := newDesk(t, nil)
	d.write("harness.toml", oneUpstream)
	d.load()
	// Two that come up at once are both asked for before either is read.
	d.up("shop", oneAgent, anybody)
	if a := d.up("rival", "[project]\nname = \"shop\"\n[harness.b]\ncmd = \"sh\"\n", anybody); len(a.faults) != 1 {
		t.Errorf("a second one of that name: %v", a.faults)
	}
	for _, dir := range []string{"shop", "mill"} {
		d.up(dir, oneAgent, anybody)
		d.load()
	}
	// The earlier one takes the later one's name.
	d.write("shop/harness.toml", "[project]\nname = \"mill\"\n[harness.b]\ncmd = \"sh\"\n")
	l := d.load()
	if got := agentsOf(l); !slices.Equal(got, []string{"mill/a", "shop/a"}) {
		t.Errorf("harnesses: %v", got)
	}
	if !slices.ContainsFunc(l.Faults, func(f config.Fault) bool {
		return f.File == d.path("shop/harness.toml") && strings.Contains(f.Message, d.path("mill/harness.toml"))
	}) {
		t.Errorf("faults: %v", l.Faults)
	}
	// A free name may be taken.
	d.write("shop/harness.toml", "[project]\nname = \"barn\"\n[harness.b]\ncmd = \"sh\"\n")
	if l = d.load(); !slices.Equal(agentsOf(l), []string{"barn/b", "mill/a"}) || len(l.Faults) > 0 {
		t.Errorf("harnesses: %v, faults %v", agentsOf(l), l.Faults)
	}
}
