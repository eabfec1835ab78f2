package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
	"harness/pkg/run"
)

// newRoot builds the command tree over s. kill is closed when what runs should
// end at once.
func newRoot(s streams, kill <-chan struct{}) *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:           "harness",
		Short:         "Run MCP servers once, for every agent, and follow every edit of their config",
		Long:          "harness runs the MCP servers declared in harness.toml once, serves them to any\nnumber of agents through `harness mcp`, and follows every edit while it runs.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q%s; see `harness help`", args[0], didYouMean(cmd, args[0]))
			}
			return cmd.Help()
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see `%s --help`", err, cmd.CommandPath())
	})
	g.flags(root)
	root.Version = programVersion()
	root.SetVersionTemplate("harness {{.Version}}\n")
	const lead = run.Orchestrator
	root.AddCommand(
		destroy(newDaemonCmd(g, kill), lead), read(newStatusCmd(g)), write(newReloadCmd(g), lead), read(newValidateCmd(g)), write(newInitCmd(g), lead), write(newImportCmd(g), lead), read(newMCPCmd()),
		read(newToolsCmd(g)), destroy(newCallCmd(g), lead, run.Implementation), read(newPromptsCmd(g)), read(newLogsCmd(g)), read(newEventsCmd(g)), read(newTopCmd(g)), write(newDemoCmd(), lead),
		read(newListCmd(g)), read(newDescribeCmd(g)), destroy(newAttachCmd(g), lead),
		write(newUpCmd(g), lead), destroy(newDownCmd(g), lead), read(newPsCmd(g)), read(newProfilesCmd(g)), destroy(newUseCmd(g), lead), read(newDoctorCmd(g)),
		write(newUnitsCmd(g, "start", "Start harnesses and upstreams, and wait until they run"), lead),
		destroy(newUnitsCmd(g, "stop", "Stop harnesses and upstreams, and wait until they are stopped"), lead),
		destroy(newUnitsCmd(g, "restart", "Restart harnesses and upstreams, and wait until they run"), lead),
		write(newRunCmd(g), lead), read(newRunsCmd(g)), newMessageCmd(g), newPackCmd(g), newWorktreeCmd(g), newWorkflowCmd(g),
		newContractCmd(g, kill), newLedgerCmd(g), read(newServeMCPCmd(g)),
		read(newVersionCmd()),
	)
	root.SetHelpCommand(read(newHelpCmd(root)))
	refuseOtherShells(root)
	return root
}

// refuseOtherShells has `completion` fail for a shell it does not know, where
// the library prints help and succeeds.
func refuseOtherShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		for _, shell := range cmd.Commands() {
			read(shell)
		}
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no completion for %q; take bash, fish, powershell or zsh", args[0])
			}
			return cmd.Help()
		}
	}
}

// didYouMean names the commands that a mistyped word resembles.
func didYouMean(cmd *cobra.Command, word string) string {
	names := cmd.SuggestionsFor(word)
	if len(names) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(names, " or ") + "?)"
}

// versions is the answer of `harness version --json`.
type versions struct {
	Version string `json:"version"`
	API     string `json:"api"` // of the control interface, major.minor
}

func newVersionCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), versions{programVersion(), control.APIVersion()})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "harness "+programVersion())
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// printJSON prints v on one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows under a head, each cell made safe to show (CFG-6). Without
// rows there is no head either.
func table(w io.Writer, head []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	var out bytes.Buffer
	t := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	for _, row := range append([][]string{head}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plain.Text(cell)
		}
		// Every cell ends in a tab, also an empty last one: a column is aligned
		// over neighbouring rows that have it.
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(out.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	return nil
}

// firstLine cuts text to its first line and at most n characters.
func firstLine(text string, n int) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

// or returns *p, or what stands for nothing in a table.
func or[T any](p *T, nothing string) string {
	if p == nil {
		return nothing
	}
	return fmt.Sprint(*p)
}

// cancelled reports whether the person at the terminal ended the command.
func cancelled(ctx context.Context) bool { return ctx.Err() != nil }
