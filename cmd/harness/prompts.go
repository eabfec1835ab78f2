package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/control"
)

func newPromptsCmd(g *globals) *cobra.Command {
	var asJSON bool
	var project string
	cmd := &cobra.Command{
		Use:   "prompts",
		Short: "List the prompts served from markdown files",
		Args:  exactly(0, "no arguments"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, _ []string) error {
			list, err := c.Prompts(cmd.Context(), project)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), control.PromptList{Prompts: list})
			}
			if len(list) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no prompts; `harness help prompts` says where they come from")
			}
			var rows [][]string
			for _, p := range list {
				var names []string
				for _, a := range p.Arguments {
					name := a.Name
					if !a.Required {
						name = "[" + name + "]"
					}
					names = append(names, name)
				}
				rows = append(rows, []string{p.Name, strings.Join(names, " "), firstLine(or(p.Description, ""), 60), p.File})
			}
			return table(cmd.OutOrStdout(), []string{"PROMPT", "ARGUMENTS", "DESCRIPTION", "FILE"}, rows)
		}),
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&project, "project", "", "with those of a project that is up")
	return cmd
}
