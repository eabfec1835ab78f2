package main

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed help/*.md
var helpFiles embed.FS

// topics lists what `harness help TOPIC` knows, sorted.
func topics() []string {
	entries, err := fs.ReadDir(helpFiles, "help")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	slices.Sort(names)
	return names
}

func newHelpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Explain a command or a topic: " + strings.Join(topics(), ", "),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return topics(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return root.Help()
			}
			if text, err := helpFiles.ReadFile(path.Join("help", args[0]+".md")); err == nil && len(args) == 1 {
				_, err := cmd.OutOrStdout().Write(text)
				return err
			}
			target, rest, err := root.Find(args)
			if err != nil || target == root || len(rest) > 0 {
				return usagef("there is no command or topic %q; topics are %s", strings.Join(args, " "), strings.Join(topics(), ", "))
			}
			fmt.Fprint(cmd.OutOrStdout(), target.Long, "\n\n", target.UsageString())
			return nil
		},
	}
}
