package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"harness/pkg/control"
)

// globals are the flags that every command takes.
type globals struct {
	config string
	socket string
}

func (g *globals) flags(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&g.config, "config", "", "the global harness.toml (default $HARNESS_CONFIG, or in the config directory)")
	cmd.PersistentFlags().StringVar(&g.socket, "socket", "", "the daemon's socket (default $HARNESS_SOCKET, or in the runtime directory)")
}

// paths says where everything is for this call.
func (g *globals) paths() control.Paths {
	return findPaths(os.Getenv, control.Flags{Config: g.config, Socket: g.socket})
}

func findPaths(getenv func(string) string, flags control.Flags) control.Paths {
	// Without a home or a working directory, what is relative to them is
	// relative to nothing; the files are then not found and named so.
	home, _ := os.UserHomeDir()
	cwd, _ := os.Getwd()
	return control.Find(control.Env{Get: getenv, Home: home, Cwd: cwd}, flags)
}

// client connects to the daemon.
func (g *globals) client(ctx context.Context) (*control.Client, error) {
	var first error
	for _, socket := range g.paths().Sockets() {
		c, err := control.Dial(ctx, socket)
		if err == nil {
			return c, nil
		}
		if first == nil || !errors.Is(err, control.ErrUnreachable) {
			first = err
		}
	}
	return nil, first
}

// with makes what a command does of what it does with the daemon.
func (g *globals) with(do func(cmd *cobra.Command, c *control.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := g.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd, c, args)
	}
}
