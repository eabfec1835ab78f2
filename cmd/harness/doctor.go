package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/daemon"
	"harness/pkg/plain"
)

// unwell is how doctor ends where something is wrong: 1 for warnings, 2 for
// failures.
type unwell struct{ code int }

func (u unwell) Error() string { return "unwell" }

func newDoctorCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what keeps servers and agents from working, and say how each agent is wired",
		Long:  "doctor looks at the files, commands, modes and limits that servers and agents depend on,\nat how they are, and at how each agent gets the endpoint. Exit 0: all is well, 1: there\nare warnings, 2: something is broken.",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := g.checkup(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), c)
			} else {
				err = printCheckup(cmd, c)
			}
			if err != nil {
				return err
			}
			switch c.Status {
			case control.CheckFailure:
				return unwell{exitUsage}
			case control.CheckWarning:
				return unwell{exitFailed}
			}
			return nil
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// checkup asks the daemon, whose environment counts, or looks for itself.
func (g *globals) checkup(cmd *cobra.Command) (*control.Checkup, error) {
	c, err := g.client(cmd.Context())
	if errors.Is(err, control.ErrUnreachable) {
		home, _ := os.UserHomeDir() // without one a leading ~ is a fault of the file
		return daemon.Checkup(daemon.Options{Paths: g.paths(), Home: home}, err), nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Checkup(cmd.Context())
}

func printCheckup(cmd *cobra.Command, c *control.Checkup) error {
	out := cmd.OutOrStdout()
	var rows [][]string
	for _, one := range c.Checks {
		message := one.Message
		if one.Hint != nil {
			message += "; " + *one.Hint
		}
		rows = append(rows, []string{one.Status, one.Name, message})
	}
	if err := table(out, []string{"CHECK", "OF", "FOUND"}, rows); err != nil {
		return err
	}
	if len(c.Harnesses) == 0 {
		return nil
	}
	rows = nil
	for _, h := range c.Harnesses {
		rows = append(rows, []string{h.Name, h.Adapter, map[bool]string{true: "yes", false: "no"}[h.Wired], h.How})
	}
	fmt.Fprintln(out)
	if err := table(out, []string{"HARNESS", "ADAPTER", "WIRED", "HOW"}, rows); err != nil {
		return err
	}
	printPaste(out, c.Harnesses)
	return nil
}

// printPaste says what gives the endpoint to agents that are not wired, once
// for those that take the same.
func printPaste(out io.Writer, list []control.Wired) {
	type paste struct{ into, text string }
	of := map[paste][]string{}
	var order []paste
	for _, h := range list {
		if h.Wired || h.Paste == nil {
			continue
		}
		p := paste{or(h.Into, "its MCP settings"), *h.Paste}
		if of[p] == nil {
			order = append(order, p)
		}
		of[p] = append(of[p], h.Name)
	}
	for _, p := range order {
		fmt.Fprintf(out, "\nfor %s, into %s:\n", plain.Text(strings.Join(of[p], ", ")), plain.Text(p.into))
		for line := range strings.Lines(p.text) {
			fmt.Fprintln(out, "    "+plain.Text(strings.TrimSuffix(line, "\n")))
		}
	}
}
