package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness/pkg/contract"
	"harness/pkg/control"
	"harness/pkg/daemon"
	"harness/pkg/ledger"
	"harness/pkg/run"
	"harness/pkg/wire"
)

// verdictCode is the exit code of what a session came to. One that goes on is
// no failure, one that was interrupted came to nothing.
func verdictCode(a contract.Answer) error {
	outcome := contract.Error
	switch {
	case a.Status == contract.Running:
		return nil
	case a.Verdict != nil:
		outcome = a.Verdict.Outcome
	}
	if code := contract.ExitCode(outcome); code != exitDone {
		return exitError{code}
	}
	return nil
}

func newContractCmd(g *globals, kill <-chan struct{}) *cobra.Command {
	cmd := group("contract", "Run work that must hold, and get a signed verdict", "validate, run, status or cancel",
		read(newContractValidateCmd(g)), write(newContractRunCmd(g, kill), run.Orchestrator), read(newContractStatusCmd(g)), destroy(newContractCancelCmd(g), run.Orchestrator))
	cmd.Long = "A contract is a file that says what must hold; running it gives a verdict that can be\nchecked anywhere. Exit 0: pass, 1: fail, 4: error, 5: timeout, 6: cancelled.\n`harness help contracts` has the whole of it."
	return cmd
}

// contractValidation is the answer of `harness contract validate --json`.
type contractValidation struct {
	validation
	ContractSHA256 *string `json:"contract_sha256"` // null for one that is not valid
}

func newContractValidateCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a contract, all faults at once",
		Long:  "validate checks a contract, all faults at once. Where a daemon runs, it warns of work by a\nharness that this does not have. With --json it prints the digest that a verdict on it has.",
		Args:  exactly(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := contractValidation{validation: validation{OK: true}}
			text, err := daemon.ReadRegular(args[0])
			if err != nil {
				v.validation = validation{Errors: []control.Fault{{File: args[0], Message: "not readable: " + err.Error()}}}
			} else if spec, faults := contract.Parse(args[0], text); len(faults) > 0 {
				v.validation = validation{Errors: toFaults(faults)}
			} else {
				digest, err := spec.Digest()
				if err != nil {
					return err
				}
				v.ContractSHA256 = &digest
				if spec.Work != nil && spec.Work.Harness != "" {
					v.Warnings = g.doubtHarness(cmd.Context(), args[0], spec.Work.Harness)
				}
			}
			if !asJSON {
				return reportValidation(cmd, args[0], v.validation, false)
			}
			if err := printJSON(cmd.OutOrStdout(), v); err != nil || v.OK {
				return err
			}
			return silentError{}
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// doubtHarness warns of work by a harness that a daemon which runs does not have.
// Where none answers, there is nothing to say.
func (g *globals) doubtHarness(ctx context.Context, file, name string) []control.Fault {
	ctx, stop := context.WithTimeout(ctx, fleetPatience)
	defer stop()
	c, err := g.client(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	_, err = c.Describe(ctx, name)
	p, refused := errors.AsType[*control.Problem](err)
	if !refused || p.Code != wire.UnknownHarness {
		return nil
	}
	return []control.Fault{{File: file, Key: control.OrNull("work.harness"), Message: problemText(p)}}
}

func newContractRunCmd(g *globals, kill <-chan struct{}) *cobra.Command {
	var asJSON bool
	var session string
	var standalone bool
	cmd := &cobra.Command{
		Use:   "run FILE | SESSION",
		Short: "Run a contract, or go on with a session that was interrupted",
		Long:  "run runs a contract's work and checks, each confined to the contract's directory, and\nprints the verdict. With the name of a session it joins one that runs, or goes on with\none that was interrupted: what is recorded is not run again. An interrupt from the\nkeyboard cancels it.\n\nExit 0: pass, 1: fail, 4: error, 5: timeout, 6: cancelled.",
		Args:  exactly(1, "one file or session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if session == "" && cmd.Flags().Changed("session") {
				return usagef("--session: a session's name is empty; leave it out for a new one")
			}
			r, closeRunner, err := g.runner(cmd.Context(), g.principal("", ""), standalone, cmd)
			if err != nil {
				return err
			}
			defer closeRunner()
			req, err := requestOf(r, args[0], session)
			if err != nil {
				return err
			}
			x, err := r.Run(cmd.Context(), req)
			if invalid, ok := errors.AsType[*contract.Invalid](err); ok {
				return reportValidation(cmd, args[0], validation{Errors: toFaults(invalid.Faults)}, asJSON)
			}
			if err != nil {
				return err
			}
			shown := watchContract(cmd, x, asJSON)
			a, err := waitFor(cmd.Context(), kill, r, x)
			shown()
			if err != nil {
				return err
			}
			return reportAnswer(cmd, g.ledger(), a, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&session, "session", "", "the session's name (default: a new one)")
	cmd.Flags().BoolVar(&standalone, "standalone", false, "do without a daemon, also where one runs")
	return cmd
}

// waitFor waits for a session. The first signal cancels it, the second
// interrupts it.
func waitFor(ctx context.Context, kill <-chan struct{}, r *contract.Runner, x *contract.Execution) (contract.Answer, error) {
	select {
	case <-x.Done():
	case <-ctx.Done():
		x.Cancel()
		select {
		case <-x.Done():
		case <-kill:
			r.Stop()
		}
	}
	return x.Wait(context.Background())
}

// requestOf finds the contract that is meant: a file, or a session's own.
func requestOf(r *contract.Runner, arg, session string) (contract.Request, error) {
	text, err := daemon.ReadRegular(arg)
	if err == nil {
		dir, err := filepath.Abs(filepath.Dir(arg))
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err != nil {
			return contract.Request{}, fmt.Errorf("find the directory of %q: %w", arg, err)
		}
		return contract.Request{Session: session, Name: arg, Text: text, Root: dir}, nil
	}
	if !errors.Is(err, os.ErrNotExist) || ledger.SessionProblem(arg) != "" {
		return contract.Request{}, fmt.Errorf("read the contract %q: %w", arg, err)
	}
	if session != "" {
		return contract.Request{}, usagef("--session names the session of a file, and %q is not a file", arg)
	}
	text, root, err := r.Text(arg)
	if err != nil {
		return contract.Request{}, unknown(fmt.Sprintf("there is neither a file nor a session %q", arg), err)
	}
	return contract.Request{Session: arg, Name: arg, Text: text, Root: root, Own: true}, nil
}

// unknownSession says what an argument is not.
func unknownSession(arg string, err error) error {
	return unknown(fmt.Sprintf("there is no session %q", arg), err)
}

func unknown(what string, err error) error {
	if errors.Is(err, ledger.ErrUnknown) {
		return &control.Problem{Code: wire.UnknownRun, Message: what, Hint: "`harness ledger list` names the sessions"}
	}
	return err
}

func newContractStatusCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status SESSION",
		Short: "Tell what a session has come to",
		Long:  "status tells whether a session is running, done or interrupted, and its verdict.\n\nExit 0: pass, or it runs, 1: fail, 4: error or interrupted, 5: timeout, 6: cancelled.",
		Args:  exactly(1, "one session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &contract.Runner{Ledger: g.ledger(), Principal: g.principal("", "")}
			a, err := r.Status(args[0])
			if err != nil {
				return unknownSession(args[0], err)
			}
			return reportAnswer(cmd, g.ledger(), a, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newContractCancelCmd(g *globals) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cancel SESSION",
		Short: "End a session, whoever runs it, with the verdict cancelled",
		Long:  "cancel ends what a session runs and has that recorded. One that is done stays as it is.\n\nIts exit code is that of the verdict: 6 where it was cancelled.",
		Args:  exactly(1, "one session"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, closeRunner, err := g.runner(cmd.Context(), g.principal("", ""), false, cmd)
			if err != nil {
				return err
			}
			defer closeRunner()
			a, err := r.Cancel(cmd.Context(), args[0])
			if err != nil {
				return unknownSession(args[0], err)
			}
			return reportAnswer(cmd, g.ledger(), a, asJSON)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// reportAnswer prints what a session has come to and returns its exit code.
func reportAnswer(cmd *cobra.Command, kept *ledger.Store, a contract.Answer, asJSON bool) error {
	if asJSON {
		if err := printJSON(cmd.OutOrStdout(), a); err != nil {
			return err
		}
		return verdictCode(a)
	}
	if err := printAnswer(cmd.OutOrStdout(), kept, a); err != nil {
		return err
	}
	return verdictCode(a)
}

// ledger is that of the state directory.
func (g *globals) ledger() *ledger.Store {
	return ledger.Open(filepath.Join(g.paths().State, "ledger"))
}

// principal is on whose behalf this process runs contracts: what it was told,
// else the user that it runs as.
func (g *globals) principal(tenant, name string) ledger.Principal {
	p := contract.Local()
	return ledger.Principal{Tenant: cmp.Or(tenant, p.Tenant), User: cmp.Or(name, p.User)}
}

// runner makes what runs contracts in this process. closeRunner ends all that
// is left of them.
func (g *globals) runner(ctx context.Context, p ledger.Principal, standalone bool, cmd *cobra.Command) (r *contract.Runner, closeRunner func(), err error) {
	state := g.paths().State
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the state directory: %w", err)
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	hosts := filepath.Join(state, contract.HostsDir)
	host, closeHost, err := contract.OpenHost(ctx, hosts, log)
	if err != nil {
		return nil, nil, err
	}
	unguard := func() {}
	guard := func() {
		stop, err := startGuard(host.Dir())
		if err != nil {
			log.Warn("what a contract runs outlives this process, should that be killed", "error", err)
			return
		}
		unguard = stop
	}
	r = &contract.Runner{
		Engine: &contract.Engine{Host: host, Lookup: os.LookupEnv, Log: log, Guard: guard},
		Ledger: g.ledger(), Principal: p,
		Reap: func(ctx context.Context) { contract.ReapHosts(ctx, hosts, log) },
	}
	if !standalone {
		r.Fleet = fleet{g}
	}
	return r, func() {
		r.Stop()
		closeHost()
		unguard()
	}, nil
}
