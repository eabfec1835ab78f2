package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func newToolsCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools that an agent sees",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := g.dialAgent(cmd.Context())
			if err != nil {
				return err
			}
			defer a.conn.Close()
			result, err := a.request("tools/list", []byte("{}"))
			if err != nil {
				return err
			}
			if asJSON {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", result)
				return err
			}
			var list struct {
				Tools []struct{ Name, Description string }
			}
			if err := json.Unmarshal(result, &list); err != nil {
				return fmt.Errorf("read the list of tools: %w", err)
			}
			if len(list.Tools) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "no tools; `harness status` says which upstreams run")
			}
			var rows [][]string
			for _, t := range list.Tools {
				rows = append(rows, []string{t.Name, firstLine(t.Description, 80)})
			}
			return table(cmd.OutOrStdout(), []string{"TOOL", "DESCRIPTION"}, rows)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
