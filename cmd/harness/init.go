package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// starter returns the config that init writes.
func starter() []byte { return []byte(starterText) }

//go:embed starter.toml
var starterText string

func newInitCmd(g *globals) *cobra.Command {
	var show bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first harness.toml, if there is none",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if show {
				_, err := cmd.OutOrStdout().Write(starter())
				return err
			}
			path := g.paths().Config
			if err := writeNew(path, starter(), "`harness init --print` shows what would be written"); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; edit it, then run `harness daemon`\n", path)
			return nil
		},
	}
	cmd.Flags().BoolVar(&show, "print", false, "print it and write nothing")
	return cmd
}

// existsError says that a file is in the way, and what to do about it.
func existsError(path, hint string) error {
	return fmt.Errorf("%s exists and is left as it is; %s", path, hint)
}

// writeNew writes a file that must not exist (FIL-2). A file that cannot be
// written as a whole is not left behind.
func writeNew(path string, data []byte, hint string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the config directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return existsError(path, hint)
	}
	if err != nil {
		return fmt.Errorf("write the config: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the config: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}
