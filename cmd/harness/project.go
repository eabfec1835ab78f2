package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"harness/pkg/control"
	"harness/pkg/plain"
)

func newUpCmd(g *globals) *cobra.Command {
	var asJSON, yes bool
	cmd := &cobra.Command{
		Use:   "up [DIR]",
		Short: "Bring up the project of this directory: its harnesses and servers, for its own agents",
		Long:  "up finds the nearest harness.toml at or above the directory, shows what it would run,\nasks once, and then follows that file until `harness down`.",
		Args:  atMost(1, "one directory at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := g.projectFile(args)
			if err != nil {
				return err
			}
			c, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			result, err := bringUp(cmd, c, control.UpRequest{Path: path, Yes: yes}, asJSON)
			if err != nil {
				return err
			}
			return reportUp(cmd, result, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "approve what the file runs without being asked")
	return cmd
}

// projectFile finds the project of the directory that was named, or of this one.
func (g *globals) projectFile(args []string) (string, error) {
	dir, err := filepath.Abs(strings.Join(args, ""))
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	home, _ := os.UserHomeDir() // without one the search ends at the root
	path, err := control.FindProject(dir, home, g.paths().Config)
	if err != nil {
		return "", fmt.Errorf("%w; write one with a [harness.<name>] table", err)
	}
	return path, nil
}

// bringUp asks the daemon, and where nobody has approved the file yet, the
// person at the terminal (CLI-6).
func bringUp(cmd *cobra.Command, c *control.Client, req control.UpRequest, asJSON bool) (*control.UpResult, error) {
	result, err := c.Up(cmd.Context(), req)
	if err != nil || !result.Unapproved || asJSON {
		return result, err
	}
	if err := showRuns(cmd.ErrOrStderr(), result); err != nil {
		return nil, err
	}
	in, isFile := cmd.InOrStdin().(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return result, nil
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Run this, and what the file will hold until `harness down`? [y/N] ")
	if !saidYes(cmd.Context(), in) {
		return nil, errors.New("nothing was started")
	}
	req.Approve = result.SHA256
	result, err = c.Up(cmd.Context(), req)
	if err == nil && result.Unapproved {
		err = errors.New("the file was changed meanwhile; run `harness up` again")
	}
	return result, err
}

// saidYes reads one line. An interrupt is a no.
func saidYes(ctx context.Context, in io.Reader) bool {
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // no line is no answer
		answer <- line
	}()
	select {
	case line := <-answer:
		word := strings.ToLower(strings.TrimSpace(line))
		return word == "y" || word == "yes"
	case <-ctx.Done():
		return false
	}
}

// showRuns says what a project would have the daemon run.
func showRuns(w io.Writer, r *control.UpResult) error {
	fmt.Fprintf(w, "project %s, %s, runs:\n", plain.Text(or(r.Project, "?")), plain.Text(r.Path))
	var rows [][]string
	for _, one := range r.Runs {
		when := ""
		if !one.Enabled {
			when = "by hand"
		}
		rows = append(rows, []string{one.Kind, one.Name, strings.Join(append([]string{one.Cmd}, one.Args...), " "), one.Workdir, or(one.EnvFile, ""), strings.Join(one.Env, " "), when})
	}
	if err := table(w, []string{"KIND", "NAME", "COMMAND", "IN", "ENV FILE", "SETS", "STARTED"}, rows); err != nil {
		return err
	}
	for _, dir := range r.Prompts {
		fmt.Fprintf(w, "its agents are given the prompts in %s\n", plain.Text(dir))
	}
	return nil
}

func reportUp(cmd *cobra.Command, r *control.UpResult, asJSON bool) error {
	switch {
	case asJSON:
		if err := printJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	default:
		printFaults(cmd.ErrOrStderr(), "", r.Errors)
		printFaults(cmd.ErrOrStderr(), "warning: ", r.Warnings)
	}
	if r.Unapproved && !asJSON {
		return errors.New("this file was not approved yet; run `harness up --yes` to have it run")
	}
	if !r.OK {
		return silentError{}
	}
	if !asJSON {
		fmt.Fprintf(cmd.OutOrStdout(), "project %s is up\n", plain.Text(*r.Project))
	}
	return reportStates(cmd, r.Harnesses, "running", asJSON)
}

func newDownCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "down [PROJECT]",
		Short: "Stop and forget the project of this directory, or the one named",
		Args:  atMost(1, "one project at most"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, args []string) error {
			name, err := projectHere(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			if err := c.Down(cmd.Context(), name); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "project %s is down\n", plain.Text(name))
			return err
		}),
	}
}

func newPsCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ps [PROJECT]",
		Short: "List the harnesses of the project of this directory, or of the one named",
		Args:  atMost(1, "one project at most"),
		RunE: g.with(func(cmd *cobra.Command, c *control.Client, args []string) error {
			name, err := projectHere(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			list, err := c.List(cmd.Context(), name)
			if err != nil {
				return err
			}
			return printHarnesses(cmd, list, asJSON)
		}),
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// projectHere returns the project that was named, or the one that is up and
// that the working directory is in.
func projectHere(ctx context.Context, c *control.Client, args []string) (string, error) {
	list, err := c.Projects(ctx)
	if err != nil {
		return "", err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for _, p := range list {
		if len(args) == 1 && p.Name == args[0] {
			return p.Name, nil
		}
	}
	if p, here := control.ProjectAt(list, cwd); here && len(args) == 0 {
		return p.Name, nil
	}
	if len(args) == 1 {
		return "", control.NoProject(args[0], list)
	}
	return "", fmt.Errorf("no project is up at or above %s; %s", cwd, control.OtherProjects(list))
}
