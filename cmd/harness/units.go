package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/facade"
	"harness/pkg/plain"
	"harness/pkg/run"
)

// newUnitsCmd makes start, stop or restart.
func newUnitsCmd(g *globals, verb, short string) *cobra.Command {
	var asJSON bool
	names := "NAME..."
	if verb == "stop" {
		names = "NAME...|RUN..."
	}
	cmd := &cobra.Command{
		Use:               verb + " " + names,
		Short:             short,
		Args:              atLeast(1, "names: of harnesses, or of upstreams such as mcp.gitea"),
		ValidArgsFunction: g.completeUnits,
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, names []string) error {
			if verb == "stop" && slices.ContainsFunc(names, run.Known) {
				return stopRuns(cmd, c, names, asJSON)
			}
			act := map[string]func(context.Context, ...string) ([]control.UnitState, error){
				"start": c.Start, "stop": c.Stop, "restart": c.Restart,
			}[verb]
			units, err := act(cmd.Context(), names...)
			if err != nil {
				return err
			}
			err = reportUnits(cmd, verb, units, asJSON)
			if verb == "stop" && !asJSON {
				remind(cmd, c, names)
			}
			return err
		}),
	}
	if verb == "stop" {
		cmd.Long = "stop stops harnesses and upstreams, and waits until they are stopped. With the ids of\nruns it cancels what `harness run` began, also such as nobody waits for: to stop a\nharness leaves those alone."
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// stopRuns cancels runs that `harness run` began.
func stopRuns(cmd *cobra.Command, c *control.Client, ids []string, asJSON bool) error {
	if slices.ContainsFunc(ids, func(id string) bool { return !run.Known(id) }) {
		return usagef("stop takes names, or ids of runs, and not both at once; see `harness stop --help`")
	}
	var over []run.Info
	for _, id := range ids {
		var a ranAnswer
		if err := c.Operate(cmd.Context(), "cancel", map[string]string{"run": id}, &a); err != nil {
			return err
		}
		over = append(over, a.Run)
		if !asJSON {
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", id, plain.Text(stateText(a.Run)))
		}
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), facade.RunList{Runs: over})
	}
	return nil
}

// remind names the runs of what was stopped that go on.
func remind(cmd *cobra.Command, c *control.Client, names []string) {
	for _, name := range names {
		var list facade.RunList
		// What is wrong with the evidence of runs is for those to hear who ask for it.
		if c.Operate(cmd.Context(), "runs", map[string]any{"name": name, "limit": 20}, &list) != nil {
			continue
		}
		for _, i := range list.Runs {
			if i.Bounded && !run.Over(i.State) {
				fmt.Fprintf(cmd.ErrOrStderr(), "harness: run %s of %s goes on; `harness stop %s` ends it\n", i.ID, plain.Text(name), i.ID)
			}
		}
	}
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
