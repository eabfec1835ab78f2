package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/plain"
)

func newStatusCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what runs, what is in force and what is wrong",
		Args:  exactly(0, "no arguments"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, _ []string) error {
			s, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s)
			}
			if err := printStatus(cmd.OutOrStdout(), s); err != nil {
				return err
			}
			return printFleet(cmd, c)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printFleet says how the harnesses are, and which projects are up. It is silent
// where there are none.
func printFleet(cmd *cobra.Command, c *control.Client) error {
	list, err := c.List(cmd.Context(), "")
	if err != nil {
		return err
	}
	if len(list) > 0 {
		fmt.Fprintln(cmd.OutOrStdout())
		if err := printHarnesses(cmd, list, false); err != nil {
			return err
		}
	}
	projects, err := c.Projects(cmd.Context())
	if err != nil || len(projects) == 0 {
		return err
	}
	var rows [][]string
	for _, p := range projects {
		rows = append(rows, []string{p.Name, p.Path})
	}
	fmt.Fprintln(cmd.OutOrStdout())
	return table(cmd.OutOrStdout(), []string{"PROJECT", "FILE"}, rows)
}

func printStatus(w io.Writer, s *control.Status) error {
	fmt.Fprintf(w, "harness %s, pid %d, up %s\n", plain.Text(s.Version), s.PID, (time.Duration(s.UptimeMS) * time.Millisecond).Round(time.Second))
	fmt.Fprintf(w, "config %s, generation %d, watched by %s\n", plain.Text(s.Config), s.Generation, s.Watch)
	if s.LastReload != nil && !s.LastReload.OK {
		switch {
		case s.Generation == 0:
			fmt.Fprintln(w, "no good config to run, so nothing runs:")
		case !slices.ContainsFunc(s.LastReload.Errors, func(f control.Fault) bool { return f.File == s.Config }):
			fmt.Fprintln(w, "a project's file is broken, running its last good:")
		default:
			fmt.Fprintln(w, "config error, running last good:")
		}
		printFaults(w, "  ", s.LastReload.Errors)
	}
	if s.LastReload != nil && len(s.LastReload.Warnings) > 0 {
		fmt.Fprintln(w, "warnings:")
		printFaults(w, "  ", s.LastReload.Warnings)
	}
	fmt.Fprintf(w, "%s, %s\n\n", counted(s.Prompts, "prompt"), counted(len(s.Sessions), "session"))
	if len(s.Upstreams) == 0 {
		fmt.Fprintln(w, "no upstream is declared; `harness help config` shows how")
	}
	var rows [][]string
	for _, u := range s.Upstreams {
		rows = append(rows, []string{u.Name, u.State, or(u.PID, "-"), fmt.Sprint(u.Tools), fmt.Sprint(u.Restarts), retryText(u.NextRetryMS), note(u)})
	}
	if err := table(w, []string{"UPSTREAM", "STATE", "PID", "TOOLS", "RESTARTS", "RETRY", "NOTE"}, rows); err != nil {
		return err
	}
	if len(s.Sessions) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	rows = nil
	for _, x := range s.Sessions {
		rows = append(rows, []string{x.ID, or(x.Client, "-"), or(x.Harness, "-"), time.Since(x.Since).Round(time.Second).String()})
	}
	return table(w, []string{"SESSION", "CLIENT", "HARNESS", "SINCE"}, rows)
}

// note says what is worth knowing of an upstream, and of one that is stopped,
// why it is.
func note(u control.UpstreamStatus) string {
	switch {
	case u.Pending != nil:
		return "pending: " + *u.Pending
	case u.Error != nil:
		return *u.Error
	case u.State != "stopped":
		return ""
	case u.Enabled:
		return "starts at its first use"
	}
	return "not enabled, in the file or by hand; `harness start mcp." + u.Name + "` starts it"
}

// counted returns "no prompts", "1 prompt" or "7 prompts".
func counted(n int, thing string) string {
	switch n {
	case 0:
		return "no " + thing + "s"
	case 1:
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func retryText(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// printFaults prints one fault a line: prefix, file, line, key, message.
func printFaults(w io.Writer, prefix string, faults []control.Fault) {
	for _, f := range faults {
		fmt.Fprintln(w, prefix+plain.Text(faultText(f)))
	}
}

func faultText(f control.Fault) string {
	text := f.File
	if f.Line != nil {
		text += fmt.Sprintf(":%d", *f.Line)
	}
	if f.Key != nil {
		text += ": " + *f.Key
	}
	return text + ": " + f.Message
}
