package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
)

type reloadOptions struct {
	dryRun, asJSON bool
	wait           time.Duration
}

func newReloadCmd(g *globals) *cobra.Command {
	var o reloadOptions
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Read all followed files now, and say what that changed",
		Long:  "reload reads all followed files now and returns when the result is in force.\nThe daemon follows edits by itself; reload is for scripts, and to see why.",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.wait < 0 {
				return usagef("--wait must not be negative")
			}
			c, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := c.Reload(cmd.Context(), control.ReloadRequest{DryRun: o.dryRun, WaitMS: o.wait.Milliseconds(), AgeMS: processAge().Milliseconds()})
			if err != nil {
				return err
			}
			return reportReload(cmd.OutOrStdout(), cmd.ErrOrStderr(), r, o)
		},
	}
	jsonFlag(cmd, &o.asJSON)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the plan and apply nothing")
	cmd.Flags().DurationVar(&o.wait, "wait", 5*time.Second, "how long to wait for upstreams that are starting")
	return cmd
}

func reportReload(out, errOut io.Writer, r *control.ReloadResult, o reloadOptions) error {
	if o.asJSON {
		if err := printJSON(out, r); err != nil {
			return err
		}
	} else {
		printReload(out, errOut, r, o.dryRun)
	}
	if !r.OK {
		return silentError{}
	}
	return nil
}

func printReload(out, errOut io.Writer, r *control.ReloadResult, dryRun bool) {
	for _, c := range r.Changed {
		state := ""
		if c.State != nil {
			state = " (" + *c.State + ")"
		}
		what := c.Kind + " " + c.Name
		if c.Kind == "server" {
			what = c.Kind // there is one
		}
		fmt.Fprintln(out, plain.Text(fmt.Sprintf("%s %s: %s%s", c.Action, what, c.Reason, state)))
	}
	switch {
	case !r.OK:
		printFaults(errOut, "harness: refused: ", r.Errors)
		if len(r.Changed) > 0 && !dryRun {
			fmt.Fprintf(out, "in force but for what was refused, generation %d\n", r.Generation)
		}
	case len(r.Changed) == 0 && dryRun:
		fmt.Fprintln(out, "nothing would change")
	case len(r.Changed) == 0:
		fmt.Fprintf(out, "nothing changed, generation %d\n", r.Generation)
	case !dryRun:
		fmt.Fprintf(out, "in force, generation %d\n", r.Generation)
	}
	printFaults(errOut, "harness: warning: ", r.Warnings)
}
