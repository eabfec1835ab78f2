package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/facade"
	"harness/pkg/plain"
	"harness/pkg/run"
)

// operate does one operation and prints its answer: as JSON, or by show.
func (g *globals) operate(cmd *cobra.Command, name string, arguments any, asJSON bool, show func(raw json.RawMessage) error) error {
	c, err := g.client(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.OperateRaw(cmd.Context(), name, arguments)
	if err != nil {
		return err
	}
	if asJSON {
		if err := printJSON(cmd.OutOrStdout(), raw); err != nil {
			return err
		}
	}
	return show(raw)
}

// group makes a command that only has commands below it.
func group(use, short, verbs string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: needsVerb(verbs)}
	cmd.AddCommand(below...)
	return cmd
}

// faulty is what the answers to checks have in common.
type faulty struct {
	OK     bool            `json:"ok"`
	Errors []control.Fault `json:"errors"`
}

// reportFaults prints what is wrong, a line each, and fails where something is.
func reportFaults(cmd *cobra.Command, raw json.RawMessage, asJSON bool, fine func() error) error {
	var f faulty
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if f.OK {
		return fine()
	}
	for _, one := range f.Errors {
		if !asJSON {
			place := one.File
			if one.Line != nil {
				place += fmt.Sprintf(":%d", *one.Line)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", plain.Text(place), plain.Text(strings.TrimPrefix(or(one.Key, "")+": "+one.Message, ": ")))
		}
	}
	return silentError{}
}

func newPackCmd(g *globals) *cobra.Command {
	var asJSON bool
	validate := &cobra.Command{
		Use:   "validate DIR",
		Short: "Check a prompt pack: its files, sizes, digests and the order of its tickets",
		Args:  exactly(1, "the directory of a pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := absolute(args[0])
			if err != nil {
				return err
			}
			return g.operate(cmd, facade.PackValidate, map[string]string{"dir": dir}, asJSON, func(raw json.RawMessage) error {
				return reportFaults(cmd, raw, asJSON, func() error { return printPack(cmd, raw, asJSON) })
			})
		},
	}
	jsonFlag(validate, &asJSON)
	return group("pack", "Prompt packs: directories of prompts with an order", "validate", read(validate))
}

func printPack(cmd *cobra.Command, raw json.RawMessage, asJSON bool) error {
	var a struct {
		Pack struct {
			Name, Version string
			Tickets       []struct{ ID, File, Role string }
		}
	}
	if err := json.Unmarshal(raw, &a); err != nil || asJSON {
		return err
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s: %d tickets\n", plain.Text(a.Pack.Name), plain.Text(a.Pack.Version), len(a.Pack.Tickets))
	return err
}

func newWorktreeCmd(g *globals) *cobra.Command {
	return group("worktree", "Git worktrees, each on a branch of its own", "create, list or remove",
		write(newWorktreeCreateCmd(g), run.Orchestrator), read(newWorktreeListCmd(g)), destroy(newWorktreeRemoveCmd(g), run.Orchestrator))
}

// tree is a worktree as commands print it.
type tree struct {
	Name, Path, Branch, Base string
	Gone                     bool
}

func newWorktreeCreateCmd(g *globals) *cobra.Command {
	var base, branch, key string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create REPO NAME",
		Short: "Make a worktree of a repository",
		Long:  "create makes a worktree of a repository, in its .worktrees, on a new branch from a\ncommit that is recorded.",
		Args:  exactly(2, "a repository and a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			repo, err := absolute(args[0])
			if err != nil {
				return err
			}
			arguments := map[string]string{"repo": repo, "name": args[1], "idempotency_key": keyOf(cmd, key)}
			if base != "" {
				arguments["base"] = base
			}
			if branch != "" {
				arguments["branch"] = branch
			}
			return g.operate(cmd, facade.WorktreeCreate, arguments, asJSON, func(raw json.RawMessage) error {
				var a struct{ Worktree tree }
				if err := json.Unmarshal(raw, &a); err != nil || asJSON {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s on %s\n", plain.Text(a.Worktree.Path), plain.Text(a.Worktree.Branch))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&base, "base", "", "what it is made from (default HEAD)")
	cmd.Flags().StringVar(&branch, "branch", "", "the new branch (default harness/NAME)")
	keyFlag(cmd, &key)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newWorktreeListCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the worktrees that were made",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.operate(cmd, "worktree_list", nil, asJSON, func(raw json.RawMessage) error {
				var a struct{ Worktrees []tree }
				if err := json.Unmarshal(raw, &a); err != nil || asJSON {
					return err
				}
				var rows [][]string
				for _, w := range a.Worktrees {
					if w.Gone {
						w.Path += " (gone)"
					}
					rows = append(rows, []string{w.Name, w.Branch, w.Base[:min(12, len(w.Base))], w.Path})
				}
				if len(rows) == 0 {
					_, err := fmt.Fprintln(cmd.OutOrStdout(), "there is no worktree")
					return err
				}
				return table(cmd.OutOrStdout(), []string{"WORKTREE", "BRANCH", "BASE", "PATH"}, rows)
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newWorktreeRemoveCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a worktree that has nothing in it which is not committed; its branch stays",
		Long: "remove removes a worktree; its branch stays. What would be lost keeps it from that and\nis named: changes, new files, files that git ignores, and commits that no branch has.\n" +
			"Of one whose directory is gone, git forgets that it was there.",
		Args: exactly(1, "the name of a worktree"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.operate(cmd, "worktree_remove", map[string]string{"name": args[0]}, asJSON, func(json.RawMessage) error {
				if asJSON {
					return nil
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is removed\n", plain.Text(args[0]))
				return err
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newWorkflowCmd(g *globals) *cobra.Command {
	lead := run.Orchestrator
	var approve []string
	resume := newFlowCmd(g, "resume FILE|ID", "Go on with a workflow: try again what failed, and approve the nodes that are named", facade.WorkflowResume, true)
	resume.Flags().StringArrayVar(&approve, "approve", nil, "give the approval of this node (may be repeated; without it, approvals wait on)")
	return group("workflow", "Workflows: graphs of runs and approvals", "validate, start, status or resume",
		read(newFlowValidateCmd(g)),
		write(newFlowCmd(g, "start FILE", "Start a workflow; its runs go on by themselves", facade.WorkflowStart, true), lead),
		read(newFlowCmd(g, "status FILE|ID", "Show how far a workflow is", facade.WorkflowStatus, false)),
		write(resume, lead))
}

func newFlowValidateCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a workflow, and list its nodes",
		Args:  exactly(1, "the file of a workflow"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := absolute(args[0])
			if err != nil {
				return err
			}
			return g.operate(cmd, facade.WorkflowValidate, map[string]string{"file": file}, asJSON, func(raw json.RawMessage) error {
				return reportFaults(cmd, raw, asJSON, func() error { return printFlow(cmd, raw, asJSON) })
			})
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// newFlowCmd makes a command about one workflow, by its file or its id.
func newFlowCmd(g *globals, use, short, operation string, once bool) *cobra.Command {
	var key string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  exactly(1, "a workflow"),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := flowNamed(args[0], operation == facade.WorkflowStart)
			if err != nil {
				return err
			}
			if once {
				arguments["idempotency_key"] = keyOf(cmd, key)
			}
			if given, err := cmd.Flags().GetStringArray("approve"); err == nil && len(given) > 0 {
				arguments["approve"] = given
			}
			return g.operate(cmd, operation, arguments, asJSON, func(raw json.RawMessage) error { return printFlow(cmd, raw, asJSON) })
		},
	}
	if once {
		keyFlag(cmd, &key)
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// flowNamed is how a workflow is named: by a file that is there, or by its id.
func flowNamed(arg string, isFile bool) (map[string]any, error) {
	if _, err := os.Stat(arg); !isFile && errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(arg, "wf-") {
		return map[string]any{"id": arg}, nil
	}
	file, err := absolute(arg)
	return map[string]any{"file": file}, err
}

func printFlow(cmd *cobra.Command, raw json.RawMessage, asJSON bool) error {
	var a struct {
		Workflow struct {
			ID     *string
			Name   string
			State  string
			Reason *string
			Nodes  []struct {
				ID, State string
				Run       *string
				Attempts  int
				Reason    *string
			}
		}
	}
	if err := json.Unmarshal(raw, &a); err != nil || asJSON {
		return err
	}
	w := a.Workflow
	fmt.Fprintf(cmd.OutOrStdout(), "%s\n", plain.Text(strings.TrimSpace(w.Name+" "+w.State+" "+or(w.ID, ""))))
	var rows [][]string
	for _, n := range w.Nodes {
		rows = append(rows, []string{n.ID, n.State, fmt.Sprint(n.Attempts), or(n.Run, "-"), or(n.Reason, "")})
	}
	if err := table(cmd.OutOrStdout(), []string{"NODE", "STATE", "TRIES", "RUN", "WHY"}, rows); err != nil {
		return err
	}
	for _, n := range w.Nodes {
		if n.State == "waiting" && w.ID != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "waits for an approval: harness workflow resume %s --approve %s\n", *w.ID, plain.Text(n.ID))
		}
	}
	if w.Reason != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", w.State, plain.Text(*w.Reason))
	}
	if w.ID != nil && (w.State == "failed" || w.State == "interrupted") {
		fmt.Fprintf(cmd.ErrOrStderr(), "`harness workflow resume %s` tries again what did not come to an end, `harness runs RUN` says how each ended\n", *w.ID)
	}
	return nil
}
