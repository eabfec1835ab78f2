package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/control"
)

func newProfilesCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "profiles",
		Short: "List the profiles, and which of them is enabled",
		Args:  exactly(0, "no arguments"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, _ []string) error {
			list, err := c.Profiles(cmd.Context())
			if err != nil {
				return err
			}
			return printProfiles(cmd, list, asJSON)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printProfiles(cmd *cobra.Command, list []control.Profile, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), control.ProfileList{Profiles: list})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no profile is declared; `harness help config` shows how")
		return err
	}
	var rows [][]string
	for _, p := range list {
		state := "-"
		if p.Enabled {
			state = "enabled"
		}
		rows = append(rows, []string{p.Name, state, strings.Join(p.Members, " "), firstLine(or(p.Description, ""), 60)})
	}
	return table(cmd.OutOrStdout(), []string{"PROFILE", "STATE", "MEMBERS", "DESCRIPTION"}, rows)
}

func newUseCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "use PROFILE",
		Short:             "Run the members of a profile, and stop those of the others",
		Long:              "use enables the members of a profile, disables the members of other profiles that are\nnot in it, and leaves the rest alone. The choice outlives the daemon.",
		Args:              exactly(1, "the name of one profile"),
		ValidArgsFunction: g.completeProfiles,
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, args []string) error {
			used, err := c.Use(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), used); err != nil {
					return err
				}
			}
			stopped := reportStates(cmd, used.Stopped, "stopped", asJSON)
			if err := reportStates(cmd, used.Started, "running", asJSON); err != nil {
				return err
			}
			return stopped
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// completeProfiles offers the profiles.
func (g *globals) completeProfiles(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := g.client(cmd.Context())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	list, err := c.Profiles(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
