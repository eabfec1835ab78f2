package daemon

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/broker"
	"harness/pkg/control"
	"harness/pkg/identity"
	"harness/reconcile"
)

const twoHarnesses = `
[harness.rev]
cmd = "sh"
env = { TOKEN = "xyzzy" }
enabled = true
description = "reviews"
mcp_allow = ["read", "write"]
[harness.idle]
cmd = "sh"
mcp = ["up"]
[profile.day]
members = ["rev"]
`

func TestHarnesses_FollowTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", twoHarnesses)
		o.open()
		list := o.ops.List("")
		if len(list) != 2 || list[0].Name != "idle" || list[0].State != "stopped" || list[0].PID != nil {
			t.Errorf("list: %+v", list)
		}
		if h := list[1]; h.State != "running" || !h.Enabled || *h.Description != "reviews" || cmp.Diff(control.List[string]{"day"}, h.Profiles) != "" {
			t.Errorf("list: %+v", h)
		}
		d, err := o.ops.Describe("rev")
		if err != nil || strings.Contains(shape(t, d), "xyzzy") || cmp.Diff(control.List[string]{"TOKEN"}, d.Definition.Env) != "" {
			t.Errorf("description: %+v, %v", d, err)
		}
		if d, err := o.ops.Describe("idle"); err != nil || d.Definition.Description != nil || d.Definition.Enabled {
			t.Errorf("one that says nothing: %s, %v", shape(t, d), err)
		}
		var p *control.Problem
		if _, err := o.ops.Describe("nobody"); !errors.As(err, &p) || !strings.Contains(p.Hint, "rev") {
			t.Errorf("of nobody: %v", err)
		}
		// A changed one is not bounced; what the file takes out is.
		o.edit(strings.Replace(twoHarnesses, `"xyzzy"`, `"plugh"`, 1))
		if h := o.ops.List("")[1]; !h.ConfigPending || h.State != "running" {
			t.Errorf("changed: %+v", h)
		}
		if _, err := o.ops.Restart(t.Context(), []string{"rev"}); err != nil {
			t.Error(err)
		}
		if h := o.ops.List("")[1]; h.ConfigPending {
			t.Errorf("restarted: %+v", h)
		}
		if _, err := o.ops.Stop(t.Context(), []string{"rev"}); err != nil || o.ops.List("")[1].State != "stopped" {
			t.Error(err)
		}
		if _, err := o.ops.Start(t.Context(), []string{"idle"}); err != nil || o.ops.List("")[0].State != "running" {
			t.Error(err)
		}
		o.edit("# none\n")
		if list := o.ops.List(""); len(list) != 0 {
			t.Errorf("after their end: %+v", list)
		}
		want := []string{"start rev", "update rev", "start rev", "stop rev", "start idle", "remove rev", "remove idle"}
		if diff := cmp.Diff(want, o.agents.words); diff != "" {
			t.Errorf("the pool was told (-want +got):\n%s", diff)
		}
	})
}

func TestCaller_IsWhoHasTheTokenAndMayWhatTheFileSaysNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.write("harness.toml", twoHarnesses)
		o.open()
		desired := func() *reconcile.Desired { return o.loop.State().Desired }
		var ids identity.Store
		rev, idle := ids.Begin("rev", "r1"), ids.Begin("idle", "r2")
		scope := func(token string) *broker.Scope {
			return newCaller(&ids, identity.NewClaim(token, nil), desired).Scope()
		}
		if s := scope(rev.Token().Reveal()); s.Harness != "rev" || !s.Write || cmp.Diff([]string{"*"}, s.MCP) != "" {
			t.Errorf("rev has %+v", s)
		}
		if s := scope(idle.Token().Reveal()); s.Harness != "idle" || s.Write || cmp.Diff([]string{"up"}, s.MCP) != "" {
			t.Errorf("idle has %+v", s)
		}
		if s := scope("forged"); s.Harness != "" || s.Write {
			t.Errorf("a forged token has %+v", s)
		}
		c := newCaller(&ids, identity.NewClaim(rev.Token().Reveal(), nil), desired)
		if first := c.Scope(); !first.Write || c.Scope() != first {
			t.Error("a scope that did not change is made again")
		}
		o.edit(strings.Replace(twoHarnesses, `["read", "write"]`, `["read"]`, 1))
		if c.Scope().Write {
			t.Error("a right that was taken away is there still")
		}
		o.edit("# none\n")
		if s := c.Scope(); s.Harness != "rev" || s.Write {
			t.Errorf("one that is gone from the file has %+v", s)
		}
		rev.End()
		if s := c.Scope(); s.Harness != "" {
			t.Errorf("an ended one has %+v", s)
		}
	})
}
