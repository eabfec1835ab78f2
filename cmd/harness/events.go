package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
)

func newEventsCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print what happens as it happens",
		Args:  exactly(0, "no arguments"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, _ []string) error {
			for event, err := range c.Events(cmd.Context(), nil) {
				if cancelled(cmd.Context()) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := printEvent(cmd.OutOrStdout(), event, asJSON); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printEvent(w io.Writer, e control.Event, asJSON bool) error {
	if asJSON {
		return printJSON(w, e)
	}
	_, err := fmt.Fprintf(w, "%s  %-12s %-16s %s\n", e.At.Local().Format("15:04:05.000"), plain.Text(e.Kind), plain.Text(or(e.Name, "-")), plain.Text(e.Message))
	return err
}
