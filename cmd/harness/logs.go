package main

import (
	"bufio"
	"io"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
)

func newLogsCmd(g *globals) *cobra.Command {
	var lines int
	var follow, raw bool
	cmd := &cobra.Command{
		Use:               "logs NAME",
		Short:             "Show what a harness printed, or an upstream wrote to its stderr",
		Args:              exactly(1, "one name: of a harness, or of an upstream such as mcp.gitea"),
		ValidArgsFunction: g.completeUnits,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usagef("-n must not be negative")
			}
			c, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			out := cmd.OutOrStdout()
			if !raw {
				w := newCleaner(out)
				defer w.Close()
				out = w
			}
			err = c.Logs(cmd.Context(), control.LogsRequest{Name: args[0], Lines: lines, Follow: follow}, out)
			if follow && cancelled(cmd.Context()) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many of the last lines, within the last MiB; 0 means all that is kept")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().BoolVar(&raw, "raw", false, "do not escape control characters")
	return cmd
}

// cleaner escapes each line before the terminal sees it (CFG-6).
type cleaner struct {
	*io.PipeWriter
	done chan struct{}
}

func newCleaner(out io.Writer) *cleaner {
	r, w := io.Pipe()
	c := &cleaner{w, make(chan struct{})}
	go func() {
		defer close(c.done)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if n := len(line); n > 0 && line[n-1] == '\n' {
				line = plain.Text(line[:n-1]) + "\n"
			} else {
				line = plain.Text(line)
			}
			if _, writeErr := io.WriteString(out, line); writeErr != nil {
				r.CloseWithError(writeErr)
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

// Close ends the output and waits until all of it is written.
func (c *cleaner) Close() error {
	err := c.PipeWriter.Close()
	<-c.done
	return err
}
