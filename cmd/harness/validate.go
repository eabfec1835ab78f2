package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness/pkg/config"
	"harness/pkg/control"
	"harness/pkg/daemon"
)

// validation is the answer of `harness validate --json` (CLI-3).
type validation struct {
	OK       bool                        `json:"ok"`
	Errors   control.List[control.Fault] `json:"errors"`
	Warnings control.List[control.Fault] `json:"warnings"`
}

func newValidateCmd(g *globals) *cobra.Command {
	var asJSON, project bool
	cmd := &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a harness.toml without a daemon, all faults at once",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("validate takes one file at most; see `harness validate --help`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := g.paths().Config
			if len(args) == 1 {
				abs, err := filepath.Abs(args[0])
				if err != nil {
					return fmt.Errorf("find %q: %w", args[0], err)
				}
				path = abs
			} else if project {
				var err error
				if path, err = g.projectFile(nil); err != nil {
					return err
				}
			}
			kind := config.Global
			if project {
				kind = config.Project
			}
			return reportValidation(cmd, path, validate(path, kind), asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&project, "project", false, "check it as a project's file; without FILE, the one of this directory")
	return cmd
}

func validate(path string, kind config.Kind) validation {
	data, err := daemon.ReadRegular(path)
	if err != nil {
		// A file that cannot be read is a finding like any other (CLI-1).
		message := "not readable: " + err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			message = "no such file; write one with `harness init`"
		}
		return validation{Errors: []control.Fault{{File: path, Message: message}}}
	}
	// Without a home a leading ~ is a fault, which says so with its line.
	home, _ := os.UserHomeDir()
	cfg, warnings, faults := config.Load(config.Source{Path: path, Data: data, Kind: kind}, config.Env{Home: home, Lookup: os.LookupEnv})
	if warning, wide := daemon.WideOpen(path); wide {
		warnings = append(warnings, warning)
	}
	if len(faults) == 0 {
		warnings = append(warnings, daemon.Doubts(cfg)...)
		if cfg.Empty {
			warnings = append(warnings, config.Fault{File: path, Message: "the file is empty: a daemon that has another one in force keeps that; a comment in it means no servers"})
		}
	}
	return validation{OK: len(faults) == 0, Errors: toFaults(faults), Warnings: toFaults(warnings)}
}

func toFaults(list []config.Fault) []control.Fault {
	out := make([]control.Fault, len(list))
	for i, f := range list {
		out[i] = control.Fault{File: f.File, Line: control.OrNull(f.Line), Key: control.OrNull(f.Key), Message: f.Message}
	}
	return out
}

func reportValidation(cmd *cobra.Command, path string, v validation, asJSON bool) error {
	if asJSON {
		if err := printJSON(cmd.OutOrStdout(), v); err != nil {
			return err
		}
	} else {
		printFaults(cmd.ErrOrStderr(), "", v.Errors)
		printFaults(cmd.ErrOrStderr(), "warning: ", v.Warnings)
		if v.OK {
			fmt.Fprintln(cmd.OutOrStdout(), path+" is valid")
		}
	}
	if !v.OK {
		return silentError{}
	}
	return nil
}
