package main

import (
	"cmp"
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
			name := strings.Join(args, " ")
			topic, topicErr := helpFiles.ReadFile(path.Join("help", name+".md"))
			target, rest, findErr := root.Find(args)
			isCommand := findErr == nil && target != root && len(rest) == 0
			if topicErr != nil && !isCommand {
				return usagef("there is no command or topic %q; topics are %s", name, strings.Join(topics(), ", "))
			}
			// A word may be both: how to call it, then what it is about.
			if isCommand {
				fmt.Fprint(cmd.OutOrStdout(), cmp.Or(target.Long, target.Short), "\n\n", target.UsageString())
			}
			if isCommand && topicErr == nil {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if _, err := cmd.OutOrStdout().Write(topic); err != nil {
				return err
			}
			return nil
		},
	}
}
