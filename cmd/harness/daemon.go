package main

import (
	"errors"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"harness/pkg/daemon"
	"harness/pkg/run"
)

// startPercent is GOGC until the daemon serves: the first collection comes at
// 16 MiB and not at 4.
const startPercent = 400

func newDaemonCmd(g *globals, kill <-chan struct{}) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Run the MCP servers and follow the config until told to stop",
		Long: "daemon runs in the foreground, logs to stderr and ends on SIGTERM or SIGINT,\n" +
			"with every process it started. `harness help systemd` has a unit file.",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return usagef("--log-format is text or json, not %q", format)
			}
			home, err := os.UserHomeDir()
			if err != nil && os.Getenv("HARNESS_STATE_DIR") == "" && os.Getenv("XDG_STATE_HOME") == "" {
				return errors.New("HOME is not set, so there is no place for the state; set HOME, or HARNESS_STATE_DIR and HARNESS_CONFIG")
			}
			// A collection while everything starts frees next to nothing, and costs
			// as much as the start of an upstream (PRF-4).
			percent := debug.SetGCPercent(startPercent)
			// Without a home a leading ~ in the config is a fault with its line.
			return daemon.Run(cmd.Context(), daemon.Options{
				Paths: g.paths(), Version: programVersion(), Home: home, Log: cmd.ErrOrStderr(), JSONLog: format == "json",
				Ready: func() { debug.SetGCPercent(percent) },
				Kill:  kill, Commands: func() (run.Catalog, error) { return catalogOf(cmd.Root()) },
			})
		},
	}
	cmd.Flags().StringVar(&format, "log-format", "text", "text or json")
	return cmd
}
