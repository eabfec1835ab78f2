package main

import (
	"encoding/json"
	"slices"

	"github.com/spf13/cobra"
)

// completeUnits offers the harnesses and upstreams that are not named yet.
// Without a daemon there is nothing to offer.
func (g *globals) completeUnits(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := g.client(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	s, err := c.Status(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := g.harnessNames(cmd.Context(), args)
	for _, u := range s.Upstreams {
		if name := "mcp." + u.Name; !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeTools offers the tools that an agent sees, as the first argument.
func (g *globals) completeTools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	a, err := g.dialAgent(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer a.conn.Close()
	var list struct {
		Tools []struct{ Name string }
	}
	result, err := a.request("tools/list", []byte("{}"))
	if err != nil || json.Unmarshal(result, &list) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
