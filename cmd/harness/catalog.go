package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness/pkg/run"
)

// The annotations of a command that the catalog is made of: what it does to the
// world, and for which roles it is (RES-2).
const (
	effectKey = "harness.effect"
	rolesKey  = "harness.roles"
)

// classify says what a command does, and for whom it is; all roles where none
// is named.
func classify(cmd *cobra.Command, effect string, roles []string) *cobra.Command {
	if len(roles) == 0 {
		roles = run.Roles()
	}
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[effectKey], cmd.Annotations[rolesKey] = effect, strings.Join(roles, " ")
	return cmd
}

// read, write and destroy classify a command. All roles may read.
func read(cmd *cobra.Command) *cobra.Command { return classify(cmd, run.Read, nil) }

func write(cmd *cobra.Command, roles ...string) *cobra.Command {
	return classify(cmd, run.Write, roles)
}

func destroy(cmd *cobra.Command, roles ...string) *cobra.Command {
	return classify(cmd, run.Destructive, roles)
}

// catalogOf lists the commands of a tree that do something. A command that
// nobody has classified is a fault of this program.
func catalogOf(root *cobra.Command) (run.Catalog, error) {
	root.InitDefaultCompletionCmd()
	c := run.Catalog{Version: programVersion()}
	for cmd := range leaves(root) {
		effect, roles := cmd.Annotations[effectKey], strings.Fields(cmd.Annotations[rolesKey])
		if !slices.Contains([]string{run.Read, run.Write, run.Destructive}, effect) || len(roles) == 0 {
			return c, fmt.Errorf("the command %q has no effect or no role", cmd.CommandPath())
		}
		for _, role := range roles {
			if !slices.Contains(run.Roles(), role) {
				return c, fmt.Errorf("the command %q has an unknown role: %q", cmd.CommandPath(), role)
			}
		}
		_, args, _ := strings.Cut(cmd.Use, " ")
		c.Commands = append(c.Commands, run.Command{
			Path: cmd.CommandPath(), Summary: cmd.Short, Args: args, Aliases: append([]string{}, cmd.Aliases...), Flags: flagsOf(cmd), Roles: roles, Effect: effect,
		})
	}
	return c, nil
}

// leaves yields the commands of a tree that have none below them.
func leaves(cmd *cobra.Command) func(yield func(*cobra.Command) bool) {
	return func(yield func(*cobra.Command) bool) {
		below := cmd.Commands()
		if len(below) == 0 {
			yield(cmd)
			return
		}
		for _, sub := range below {
			for leaf := range leaves(sub) {
				if !yield(leaf) {
					return
				}
			}
		}
	}
}

// flagsOf lists the flags that a command takes, by name.
func flagsOf(cmd *cobra.Command) []run.Flag {
	list := []run.Flag{}
	if cmd.DisableFlagParsing {
		return list // its usage spells those that it reads itself
	}
	cmd.InitDefaultHelpFlag()
	add := func(global bool) func(*pflag.Flag) {
		return func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			list = append(list, run.Flag{Name: f.Name, Shorthand: f.Shorthand, Type: f.Value.Type(), Default: f.DefValue, Usage: f.Usage, Global: global})
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(add(false))
	cmd.InheritedFlags().VisitAll(add(true))
	slices.SortFunc(list, func(a, b run.Flag) int { return strings.Compare(a.Name, b.Name) })
	return list
}
