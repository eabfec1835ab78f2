package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness/pkg/control"
	"harness/pkg/wire"
	"harness/reconcile"
)

// Profiles implements [control.Ops].
func (o *ops) Profiles() []control.Profile {
	list := []control.Profile{}
	d := o.loop.State().Desired
	for _, name := range slices.Sorted(maps.Keys(d.Profiles)) {
		p := d.Profiles[name]
		off := func(member string) bool { return !d.Agents[member].Enabled }
		list = append(list, control.Profile{
			Name: name, Description: control.OrNull(p.Description), Members: p.Members, Autostart: p.Autostart,
			Enabled: len(p.Members) > 0 && !slices.ContainsFunc(p.Members, off),
		})
	}
	return list
}

// Use implements [control.Ops] (CLI-6).
func (o *ops) Use(ctx context.Context, name string) (*control.UseResult, error) {
	d := o.loop.State().Desired
	p, there := d.Profiles[name]
	if !there {
		return nil, noProfile(d, name)
	}
	var wishes []wish
	for _, member := range p.Members {
		wishes = append(wishes, wish{unit{name: member}, toStart()})
	}
	for _, member := range displaced(d, name) {
		wishes = append(wishes, wish{unit{name: member}, toStop()})
	}
	states, err := o.grant(ctx, wishes)
	if err != nil {
		return nil, err
	}
	n := len(p.Members)
	return &control.UseResult{Profile: name, Started: states[:n], Stopped: states[n:]}, nil
}

// displaced lists the enabled members of other profiles that are not in this
// one.
func displaced(d *reconcile.Desired, profile string) []string {
	others := map[string]bool{}
	for _, p := range d.Profiles {
		for _, member := range p.Members {
			others[member] = d.Agents[member].Enabled && !slices.Contains(d.Profiles[profile].Members, member)
		}
	}
	maps.DeleteFunc(others, func(_ string, stops bool) bool { return !stops })
	return slices.Sorted(maps.Keys(others))
}

func noProfile(d *reconcile.Desired, name string) error {
	p := &control.Problem{Code: wire.OperationFailed, Message: fmt.Sprintf("no profile is named %q", name), Hint: "none is declared; add a [profile.<name>] table"}
	if len(d.Profiles) > 0 {
		p.Hint = "declared: " + strings.Join(slices.Sorted(maps.Keys(d.Profiles)), ", ")
	}
	return p
}
