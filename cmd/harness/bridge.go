package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"harness/pkg/bridge"
	"harness/pkg/control"
	"harness/pkg/plain"
)

// bridgeGrace is how long `harness mcp` waits for answers after the end of its
// input. It reads no config, so it is the default of [server] stop_grace.
const bridgeGrace = 5 * time.Second

const bridgeUsage = `usage: harness mcp [--socket PATH]

An MCP server on stdin and stdout, to be launched by an agent. It relays to the
harness daemon, waits for it where there is none, and outlives it.
`

// newMCPCmd documents the bridge; run decides for it before the tree is built.
func newMCPCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "mcp [--socket PATH]",
		Short:              "Serve MCP on stdin and stdout, for an agent to launch",
		Long:               strings.TrimPrefix(bridgeUsage, "usage: harness mcp [--socket PATH]\n\n"),
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := runBridge(args, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()}, os.Getenv); code != exitDone {
				return silentError{}
			}
			return nil
		},
	}
}

// runBridge is `harness mcp`: no config, no command tree, nothing but the
// bridge (PRF-3).
func runBridge(args []string, s streams, getenv func(string) string) int {
	flags, help, err := bridgeFlags(args)
	switch {
	case err != nil:
		return report(s.err, err)
	case help:
		fmt.Fprint(s.out, bridgeUsage)
		return exitDone
	}
	paths := findPaths(getenv, flags)
	token := getenv("HARNESS_MCP_TOKEN")
	err = bridge.Run(context.Background(), bridge.Options{
		In:         s.in,
		Out:        s.out,
		Dial:       func(ctx context.Context) (net.Conn, error) { return dialSession(ctx, paths, token) },
		Say:        func(text string) { fmt.Fprintln(s.err, "harness: "+plain.Text(text)) },
		Version:    programVersion,
		MaxMessage: largestAnswer,
		StopGrace:  bridgeGrace,
		Large:      sizes(uintptr(unix.Stdout)),
		Asked:      asked(),
		Handover:   getenv("HARNESS_MCP_COPY") == "",
	})
	return report(s.err, err)
}

// asked returns what is closed once a signal asks the bridge to end: a harness
// that has itself stopped is answered before it is, and the bridge gets the same
// signals as the rest of it. A second signal ends it at once.
func asked() <-chan struct{} {
	signals, closed := make(chan os.Signal, 1), make(chan struct{})
	// An agent may end it by SIGINT, also one that runs in the background of a
	// shell and has its children start with that ignored.
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		signal.Reset(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		close(closed)
	}()
	return closed
}

// sizes returns what follows the size of the answers that pass: a large pipe to
// the agent halves the switches that a large answer costs, but what all pipes of
// a user may hold is limited, so it is large only while it is of use.
//
// Once things are quiet it gives back what the start and large messages took,
// and keeps the heap of a process small that lives as long as its agent and
// holds little but two buffers. Nobody waits for an answer then (PRF-3).
func sizes(stdout uintptr) func(large bool) {
	const most = 1 << 20 // what any user may ask for
	usual, err := unix.FcntlInt(stdout, unix.F_GETPIPE_SZ, 0)
	isPipe := err == nil && usual < most
	return func(large bool) {
		size := usual
		if large {
			size = most
		}
		if isPipe {
			// One that is refused costs speed and nothing else.
			_, _ = unix.FcntlInt(stdout, unix.F_SETPIPE_SZ, size)
		}
		if !large {
			debug.SetGCPercent(25)
			debug.FreeOSMemory()
		}
	}
}

// bridgeFlags reads the few flags there are.
func bridgeFlags(args []string) (flags control.Flags, help bool, err error) {
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		switch name {
		case "--help", "-h":
			return flags, true, nil
		case "--socket", "--config":
			if !joined && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			if value == "" {
				return flags, false, usagef("%s needs a path", name)
			}
			if name == "--socket" {
				flags.Socket = value
			}
		default:
			return flags, false, usagef("mcp takes --socket PATH and nothing else; it was given %q", name)
		}
	}
	return flags, false, nil
}
