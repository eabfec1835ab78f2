package main

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
)

func newLogsCmd(g *globals) *cobra.Command {
	var lines int
	var follow, raw, asJSON bool
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
			req := control.LogsRequest{Name: args[0], Lines: lines, Follow: follow}
			if asJSON && !follow {
				return logsJSON(cmd, c, req)
			}
			out, show := cmd.OutOrStdout(), plainLine
			if asJSON {
				show = jsonLine(req.Name)
			}
			if asJSON || !raw {
				w := newCleaner(out, show)
				defer w.Close()
				out = w
			}
			err = c.Logs(cmd.Context(), req, out)
			if follow && cancelled(cmd.Context()) {
				return nil
			}
			return err
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "how many of the last lines, within the last MiB; 0 means all that is kept")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&raw, "raw", false, "do not escape control characters")
	return cmd
}

// logsJSON prints what is kept as one value.
func logsJSON(cmd *cobra.Command, c *control.Client, req control.LogsRequest) error {
	var text bytes.Buffer
	if err := c.Logs(cmd.Context(), req, &text); err != nil {
		return err
	}
	return printJSON(cmd.OutOrStdout(), control.NewLogged(req.Name, text.Bytes()))
}

// plainLine makes a line safe to show.
func plainLine(line string) string {
	if whole, ended := strings.CutSuffix(line, "\n"); ended {
		return plain.Text(strings.TrimSuffix(whole, "\r")) + "\n" // a terminal's own line end
	}
	return plain.Text(line)
}

// jsonLine makes each line a value of its own.
func jsonLine(name string) func(string) string {
	return func(line string) string {
		if line == "" {
			return ""
		}
		var b strings.Builder
		// A string has no value that cannot be encoded, and b takes all.
		_ = printJSON(&b, control.LoggedLine{Name: name, Line: strings.TrimRight(line, "\r\n")})
		return b.String()
	}
}

// cleaner passes each line through a function before the terminal sees it
// (CFG-6).
type cleaner struct {
	*io.PipeWriter
	done chan struct{}
}

func newCleaner(out io.Writer, show func(line string) string) *cleaner {
	r, w := io.Pipe()
	c := &cleaner{w, make(chan struct{})}
	go func() {
		defer close(c.done)
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if _, writeErr := io.WriteString(out, show(line)); writeErr != nil {
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
