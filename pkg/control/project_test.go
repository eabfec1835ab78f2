package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/wire"
)

func TestProjects_GoThereAndBack(t *testing.T) {
	var asked []string
	project := "shop"
	ops := &fakeOps{
		up: func(req UpRequest) (*UpResult, error) {
			asked = append(asked, "up "+req.Path+" "+req.Approve)
			return &UpResult{OK: true, Project: &project, Path: req.Path}, nil
		},
		named: func(what, name string) error {
			asked = append(asked, what+" "+name)
			if name == "no" {
				return &Problem{Code: wire.OperationFailed, Message: "nobody"}
			}
			return nil
		},
	}
	c := serve(t, ops).client(t)
	up, err := c.Up(t.Context(), UpRequest{Path: "/shop/harness.toml", Approve: "ab"})
	if err != nil || *up.Project != "shop" || up.Runs == nil {
		t.Errorf("up: %+v, %v", up, err)
	}
	if _, err := c.Up(t.Context(), UpRequest{Path: "shop/harness.toml"}); err == nil {
		t.Error("a relative path was taken")
	}
	if err := c.Down(t.Context(), "shop"); err != nil {
		t.Errorf("down: %v", err)
	}
	if err := c.Down(t.Context(), "no"); err == nil || err.Error() != "nobody" {
		t.Errorf("down of nothing: %v", err)
	}
	if used, err := c.Use(t.Context(), "day"); err != nil || used.Profile != "day" {
		t.Errorf("use: %+v, %v", used, err)
	}
	if list, err := c.Projects(t.Context()); err != nil || cmp.Diff([]Project{{"shop", "/shop/harness.toml"}}, list) != "" {
		t.Errorf("projects: %+v, %v", list, err)
	}
	if u, err := c.Usage(t.Context()); err != nil || len(u.Units) != 1 || *u.Units[0].Memory != 1<<20 || u.Units[0].CPUMS != nil {
		t.Errorf("usage: %+v, %v", u, err)
	}
	if list, err := c.Profiles(t.Context()); err != nil || cmp.Diff([]Profile{{Name: "day", Members: List[string]{"a"}}}, list) != "" {
		t.Errorf("profiles: %+v, %v", list, err)
	}
	if c, err := c.Checkup(t.Context()); err != nil || c.Status != CheckFailure || len(c.Checks) != 3 || *c.Checks[1].Hint != "set it" || c.Checks[2].Hint != nil {
		t.Errorf("checkup: %+v, %v", c, err)
	}
	if diff := cmp.Diff([]string{"up /shop/harness.toml ab", "down shop", "down no", "use day"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}
