package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
)

func newListCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the harnesses and how each is",
		Args:    exactly(0, "no arguments"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, _ []string) error {
			list, err := c.List(cmd.Context(), "")
			if err != nil {
				return err
			}
			if len(list) == 0 && !asJSON && g.refused(cmd.Context(), c) {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "no harness is in force, and the file is refused; `harness status` says why")
				return err
			}
			return printHarnesses(cmd, list, asJSON)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// refused reports whether what the file says is not in force.
func (g *globals) refused(ctx context.Context, c *control.Client) bool {
	s, err := c.Status(ctx)
	return err == nil && s.LastReload != nil && !s.LastReload.OK
}

func printHarnesses(cmd *cobra.Command, list []control.Harness, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), control.HarnessList{Harnesses: list})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no harness is declared; `harness help config` shows how")
		return err
	}
	var rows [][]string
	for _, h := range list {
		up := "-"
		if h.UptimeMS != nil {
			up = (time.Duration(*h.UptimeMS) * time.Millisecond).Round(time.Second).String()
		}
		rows = append(rows, []string{h.Name, h.State, or(h.PID, "-"), up, fmt.Sprint(h.Restarts), exitText(h.LastExit), noteOf(h)})
	}
	return table(cmd.OutOrStdout(), []string{"HARNESS", "STATE", "PID", "UP", "RESTARTS", "LAST EXIT", "NOTE"}, rows)
}

// noteOf is what else there is to say of a harness in a line.
func noteOf(h control.Harness) string {
	var notes []string
	switch {
	case h.ConfigPending:
		notes = append(notes, "changed; applies at the next start")
	case h.Error != nil && h.NextRetry != nil:
		in := max(time.Until(*h.NextRetry), 0).Milliseconds()
		notes = append(notes, *h.Error+", tried again in "+retryText(&in))
	case h.Error != nil:
		notes = append(notes, *h.Error)
	case h.State == "stopped" && !h.Enabled:
		notes = append(notes, "not enabled, in the file or by hand; `harness start "+h.Name+"` starts it")
	}
	if h.Description != nil {
		notes = append(notes, firstLine(*h.Description, 60))
	}
	return strings.Join(notes, "; ")
}

func exitText(e *control.Exit) string {
	switch {
	case e == nil:
		return "-"
	case e.Signal != nil:
		return *e.Signal
	default:
		return fmt.Sprintf("code %d", *e.Code)
	}
}

func newDescribeCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "describe NAME",
		Short:             "Show one harness and its definition, without the values of its environment",
		Args:              exactly(1, "the name of one harness"),
		ValidArgsFunction: g.completeHarnesses,
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, args []string) error {
			d, err := c.Describe(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), d)
			}
			return printDescription(cmd, d)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printDescription(cmd *cobra.Command, d *control.Description) error {
	out := cmd.OutOrStdout()
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%-14s %s\n", name, plain.Text(value))
		}
	}
	row("name", d.Name)
	row("state", d.State)
	row("pid", or(d.PID, ""))
	row("last exit", exitText(d.LastExit))
	row("restarts", fmt.Sprint(d.Restarts))
	row("note", noteOf(d.Harness))
	def := d.Definition
	row("cmd", strings.Join(append([]string{def.Cmd}, def.Args...), " "))
	row("workdir", def.Workdir)
	row("env_file", or(def.EnvFile, ""))
	row("env", strings.Join(def.Env, " "))
	row("mcp_allow", strings.Join(def.MCPAllow, " "))
	row("mcp", strings.Join(def.MCP, " "))
	row("mcp_bridge", fmt.Sprint(def.MCPBridge))
	row("adapter", def.Adapter)
	row("profiles", strings.Join(d.Profiles, " "))
	return nil
}

// completeHarnesses offers the harnesses that are not named yet.
func (g *globals) completeHarnesses(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return g.harnessNames(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
}

func (g *globals) harnessNames(ctx context.Context, without []string) []string {
	c, err := g.client(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	list, err := c.List(ctx, "")
	if err != nil {
		return nil
	}
	var names []string
	for _, h := range list {
		if !slices.Contains(without, h.Name) {
			names = append(names, h.Name)
		}
	}
	return names
}
