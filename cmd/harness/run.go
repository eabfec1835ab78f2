package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/delegate"
	"harness/pkg/plain"
	"harness/pkg/wire"
)

// Exit codes (CLI-2).
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
)

// version is what the program calls itself; the linker may set it with
// -X main.version=….
var version = ""

// programVersion is version, or what the toolchain recorded.
func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// usageError is a fault in how the program was called (exit 2).
type usageError struct{ error }

// exitError is how a command ends that has said everything: with a code of its
// own.
type exitError struct{ code int }

func (exitError) Error() string { return "ended" }

// silentError is a failure that has been reported already (exit 1).
type silentError struct{}

func (silentError) Error() string { return "failed" }

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// execute turns argv into a command, and returns its exit code.
func execute(args []string) int {
	io := streams{os.Stdin, os.Stdout, os.Stderr}
	if len(args) > 0 && args[0] == "mcp" {
		return runBridge(args[1:], io, os.Getenv)
	}
	if len(args) > 0 && args[0] == demoServer {
		return runDemoServer(args[1:], io.in, io.out)
	}
	if len(args) > 0 && args[0] == contractGuard {
		return runGuard(args[1:], io.in)
	}
	ctx, kill, stop := stopSignals()
	defer stop()
	root := newRoot(io, kill)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if _, said := errors.AsType[exitError](err); err != nil && ctx.Err() != nil && !said {
		err = errors.New("interrupted")
	}
	if err != nil && wantsJSON(root, args) {
		printRefusal(io.out, err)
	}
	return report(io.err, err)
}

// wantsJSON reports whether the command that args name was asked for JSON.
func wantsJSON(root *cobra.Command, args []string) bool {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return false
	}
	f := cmd.Flags().Lookup("json")
	// Flags behind one that is not understood are not looked at any more.
	return f != nil && (f.Value.String() == "true" || slices.Contains(rest, "--json") && !slices.Contains(rest, "--"))
}

// refusal is what is on stdout where a command that was asked for JSON did not
// come to its own (CLI-1).
type refusal struct {
	Error struct {
		Code    wire.Code `json:"code"`
		Message string    `json:"message"`
		Hint    *string   `json:"hint"`
		// RPC is the JSON-RPC error that it was, if it was one.
		RPC json.RawMessage `json:"rpc,omitempty"`
	} `json:"error"`
}

// printRefusal prints why nothing else is on stdout. What has been reported
// already has been printed as JSON too, as has what only its exit code is about.
func printRefusal(out io.Writer, err error) {
	var r refusal
	_, unwell := errors.AsType[unwell](err)
	if _, ended := errors.AsType[exitError](err); ended || unwell || errors.Is(err, silentError{}) {
		return
	}
	r.Error.Code, r.Error.Message = wire.OperationFailed, err.Error()
	if errors.Is(err, control.ErrUnreachable) {
		r.Error.Code, r.Error.Hint = wire.DaemonUnavailable, control.OrNull("start it with `harness daemon`")
	}
	if p, ok := asProblem(err); ok {
		r.Error.Code, r.Error.Hint = p.Code, control.OrNull(p.Hint)
	}
	if _, usage := errors.AsType[usageError](err); usage {
		r.Error.Code = wire.InvalidArgument
	}
	if rpc, ok := errors.AsType[rpcError](err); ok {
		r.Error.RPC = json.RawMessage(rpc)
	}
	// Whoever does not read it has the exit code.
	_ = printJSON(out, r)
}

// stopSignals returns a context that ends at the first signal to stop, and a
// channel that is closed at the second one (LIF-4). A third is the system's.
func stopSignals() (ctx context.Context, kill <-chan struct{}, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(context.Background())
	killed, over := make(chan struct{}), make(chan struct{})
	go func() {
		for _, act := range []func(){cancel, func() { close(killed) }} {
			select {
			case <-signals:
				act()
			case <-over:
				return
			}
		}
		signal.Stop(signals)
	}()
	return ctx, killed, func() {
		cancel()
		signal.Stop(signals)
		close(over)
	}
}

// report prints err as one line with what to do next, and returns the exit
// code it stands for.
func report(w io.Writer, err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, silentError{}):
		return exitFailed
	}
	if e, ok := errors.AsType[exitError](err); ok {
		return e.code
	}
	if u, ok := errors.AsType[unwell](err); ok {
		return u.code // all of it was printed
	}
	message, code := err.Error(), exitFailed
	if p, ok := asProblem(err); ok {
		message = problemText(p)
	}
	if errors.Is(err, control.ErrUnreachable) {
		message, code = err.Error()+"; start it with `harness daemon`", exitUnreachable
	}
	if _, ok := errors.AsType[usageError](err); ok {
		message, code = err.Error(), exitUsage
	}
	fmt.Fprintf(w, "harness: %s\n", plain.Text(strings.TrimSpace(message)))
	return code
}

// asProblem is err as a refusal with a code, where it is one.
func asProblem(err error) (*control.Problem, bool) {
	if code, ok := delegate.CodeOf(err); ok {
		return &control.Problem{Code: code, Message: err.Error()}, true
	}
	return errors.AsType[*control.Problem](err)
}

// problemText is a refusal in a line. The codes that scripts tell apart are said.
func problemText(p *control.Problem) string {
	text := p.Message
	switch p.Code {
	case wire.InvalidEvidence, wire.IdempotencyConflict, wire.UnknownRun, wire.OutputLimit:
		text = string(p.Code) + ": " + text
	default:
	}
	if p.Hint != "" {
		text += "; " + p.Hint
	}
	return text
}

// usagef returns a fault in how the program was called.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// verb is how a command is called, without the program.
func verb(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// exactly, atLeast and atMost check the number of arguments and say what is missing.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s; see `%s --help`", verb(cmd), what, cmd.CommandPath())
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%s takes %s; see `%s --help`", verb(cmd), what, cmd.CommandPath())
		}
		return nil
	}
}

func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes %s; see `%s --help`", verb(cmd), what, cmd.CommandPath())
		}
		return nil
	}
}
