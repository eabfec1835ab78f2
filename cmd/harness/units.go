package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
)

// newUnitsCmd makes start, stop or restart.
func newUnitsCmd(g *globals, verb, short string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               verb + " NAME...",
		Short:             short,
		Args:              atLeast(1, "names: of harnesses, or of upstreams such as mcp.gitea"),
		ValidArgsFunction: g.completeUnits,
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, names []string) error {
			act := map[string]func(context.Context, ...string) ([]control.UnitState, error){
				"start": c.Start, "stop": c.Stop, "restart": c.Restart,
			}[verb]
			units, err := act(cmd.Context(), names...)
			if err != nil {
				return err
			}
			return reportUnits(cmd, verb, units, asJSON)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// reportUnits prints what became of a start, stop or restart.
func reportUnits(cmd *cobra.Command, verb string, units []control.UnitState, asJSON bool) error {
	if asJSON {
		if err := printJSON(cmd.OutOrStdout(), control.UnitStates{Units: units}); err != nil {
			return err
		}
	}
	want := map[bool]string{true: "stopped", false: "running"}[verb == "stop"]
	return reportStates(cmd, units, want, asJSON)
}

// reportStates fails where what was asked for did not come to be. It prints
// nothing where it was printed as JSON.
func reportStates(cmd *cobra.Command, units []control.UnitState, want string, printed bool) error {
	failed := false
	for _, u := range units {
		bad := u.State != want && !(u.Ready && want == "running")
		failed = failed || bad
		switch {
		case printed:
		case u.Ready:
			fmt.Fprintf(cmd.OutOrStdout(), "%s is ready: it starts at its first use\n", plain.Text(u.Name))
		case bad:
			fmt.Fprintf(cmd.ErrOrStderr(), "harness: %s is %s: %s; see `harness logs %s`\n", plain.Text(u.Name), u.State, plain.Text(or(u.Error, "no reason known")), plain.Text(u.Name))
		default:
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", plain.Text(u.Name), u.State)
		}
	}
	if failed {
		return silentError{}
	}
	return nil
}
