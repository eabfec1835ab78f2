package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harness/pkg/control"
	"harness/pkg/facade"
	"harness/pkg/plain"
	"harness/pkg/run"
)

// newKey makes an idempotency key for a command that was given none.
func newKey() string { return "cli-" + rand.Text() }

// keyFlag adds --idempotency-key.
func keyFlag(cmd *cobra.Command, key *string) {
	cmd.Flags().StringVar(key, "idempotency-key", "", "a name for this request: a repeat returns the first result (default: a new one)")
}

// keyOf is the key that was given, or a new one.
func keyOf(cmd *cobra.Command, key string) string {
	if cmd.Flags().Changed("idempotency-key") {
		return key
	}
	return newKey()
}

// absolute makes a path of the command line one that the daemon can open.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	return abs, nil
}

// ranAnswer is the answer of everything about one run.
type ranAnswer struct {
	Run      run.Info `json:"run"`
	Replayed bool     `json:"replayed"`
}

// runOptions are the flags of `harness run`.
type runOptions struct {
	role, prompt, key string
	timeout           time.Duration
	detach, asJSON    bool
}

func newRunCmd(g *globals) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run NAME [-- ARGS...]",
		Short: "Run a harness once, bounded and recorded, and wait for its end",
		Long: "run runs a harness of the config once: without a terminal, in a clean environment,\n" +
			"bounded in time and output. What was launched, by whom and what came of it is kept as\n" +
			"evidence; see `harness help runs`. It exits 0 when the run exited with code 0.",
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); len(args) < 1 || n == 0 || n < 0 && len(args) > 1 || n > 1 {
				return usagef("run takes the name of one harness, and its own arguments after --; see `harness run --help`")
			}
			return nil
		},
		ValidArgsFunction: g.completeHarnesses,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd, g, args) },
	}
	cmd.Flags().StringVar(&o.role, "role", "", "orchestrator, implementation or review: which commands its card shows")
	cmd.Flags().StringVar(&o.prompt, "prompt-file", "", "a file for its standard input, under the roots or in a project that is up")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Hour, "when it is ended")
	cmd.Flags().BoolVarP(&o.detach, "detach", "d", false, "do not wait for its end, and print its id")
	keyFlag(cmd, &o.key)
	jsonFlag(cmd, &o.asJSON)
	return cmd
}

// check says what no run can be launched with.
func (o runOptions) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case given("prompt-file") && o.prompt == "":
		return usagef("--prompt-file is empty; see `harness run --help`")
	case given("timeout") && o.timeout <= 0:
		return usagef("--timeout is more than 0, such as 10m; see `harness run --help`")
	case given("role") && !slices.Contains(run.Roles(), o.role):
		return usagef("--role is one of %s, not %q", strings.Join(run.Roles(), ", "), o.role)
	}
	return nil
}

// run launches, shows what is printed, and reports the end.
func (o runOptions) run(cmd *cobra.Command, g *globals, args []string) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	prompt, err := absolute(o.prompt)
	if err != nil {
		return err
	}
	arguments := map[string]any{"name": args[0], "idempotency_key": keyOf(cmd, o.key)}
	if o.role != "" {
		arguments["role"] = o.role
	}
	if prompt != "" {
		arguments["prompt_file"] = prompt
	}
	if cmd.Flags().Changed("timeout") {
		arguments["timeout"] = o.timeout.String()
	}
	if len(args) > 1 {
		arguments["args"] = args[1:]
	}
	c, err := g.client(cmd.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	var first, last ranAnswer
	if err := c.Operate(cmd.Context(), facade.RunLaunch, arguments, &first); err != nil {
		return err
	}
	if o.detach {
		if !o.asJSON {
			fmt.Fprintln(cmd.OutOrStdout(), first.Run.ID) // for a script to take
		}
		return o.report(cmd, first)
	}
	if !o.asJSON {
		// Whoever loses the daemon, or the terminal, can ask for it by this.
		fmt.Fprintf(cmd.ErrOrStderr(), "harness: run %s %s\n", first.Run.ID, map[bool]string{false: "begins", true: "is replayed"}[first.Replayed])
	}
	err = o.follow(cmd, c, first.Run.ID)
	if err == nil {
		err = c.Operate(cmd.Context(), "wait", map[string]string{"run": first.Run.ID}, &last)
	}
	if cancelled(cmd.Context()) {
		return o.interrupted(cmd, c, first)
	}
	if err != nil {
		return fmt.Errorf("wait for run %s: %w", first.Run.ID, err)
	}
	last.Run.Replayed, last.Replayed = first.Replayed, first.Replayed
	return o.report(cmd, last)
}

// follow shows what a run prints, made safe for the terminal (CFG-6).
func (o runOptions) follow(cmd *cobra.Command, c *control.Client, id string) error {
	if o.asJSON {
		return nil
	}
	w := newCleaner(cmd.OutOrStdout(), plainLine)
	return errors.Join(c.Output(cmd.Context(), id, w), w.Close())
}

// interrupted ends the run that this command began: whoever waits for it in the
// foreground has it end with the command.
func (o runOptions) interrupted(cmd *cobra.Command, c *control.Client, first ranAnswer) error {
	if first.Replayed {
		return cmd.Context().Err() // another's
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), time.Minute)
	defer cancel()
	var last ranAnswer
	if err := c.Operate(ctx, "cancel", map[string]string{"run": first.Run.ID}, &last); err != nil {
		return err
	}
	return o.report(cmd, last)
}

// report prints how a run is, and fails where it did.
func (o runOptions) report(cmd *cobra.Command, a ranAnswer) error {
	if o.asJSON {
		if err := printJSON(cmd.OutOrStdout(), a); err != nil {
			return err
		}
	} else {
		text := stateText(a.Run)
		switch {
		case a.Replayed && !run.Over(a.Run.State):
			text = fmt.Sprintf("replayed: it was %s when it was launched; `harness runs %s` says how it is", a.Run.State, a.Run.ID)
		case a.Replayed:
			text += " (replayed)"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "harness: run %s %s\n", a.Run.ID, plain.Text(text))
	}
	if a.Run.Truncated {
		fmt.Fprintf(cmd.ErrOrStderr(), "harness: output cut at %d bytes\n", a.Run.Bytes)
	}
	if run.Over(a.Run.State) && (a.Run.State != run.Exited || a.Run.ExitCode == nil || *a.Run.ExitCode != 0) {
		return silentError{}
	}
	return nil
}

// stateText says how a run is, or ended.
func stateText(i run.Info) string {
	text := i.State
	switch {
	case i.Signal != nil:
		text += " by " + *i.Signal
	case i.ExitCode != nil:
		text += fmt.Sprintf(" with code %d", *i.ExitCode)
	}
	if i.Reason != nil {
		text += ": " + *i.Reason
	}
	return text
}

func newRunsCmd(g *globals) *cobra.Command {
	var name, after string
	var limit int
	var asJSON, output bool
	cmd := &cobra.Command{
		Use:   "runs [ID [verify]]",
		Short: "List the runs, show one, or check its evidence",
		Long:  "runs lists the runs of the harnesses, newest first. With an id it shows one, and with\nthe word verify it checks every file of its evidence; --output is what it printed, of\none under way until its end. Evidence is checked before it is\nshown: what is not as it was written is an error that names the file.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 || len(args) == 2 && args[1] != "verify" {
				return usagef("runs takes nothing, an id, or an id and the word verify; see `harness runs --help`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 100 {
				return usagef("--limit is 1 to 100")
			}
			if output && (len(args) != 1 || asJSON) {
				return usagef("--output is that of one run, as it was printed; see `harness runs --help`")
			}
			c, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			switch {
			case output:
				return showOutput(cmd, c, args[0])
			case len(args) == 0:
				return listRuns(cmd, c, map[string]any{"name": name, "after": after, "limit": limit}, asJSON)
			case len(args) == 1:
				return showRun(cmd, c, args[0], asJSON)
			}
			return verifyRun(cmd, c, args[0], asJSON)
		},
	}
	cmd.Flags().StringVar(&name, "harness", "", "only the runs of this one")
	cmd.Flags().StringVar(&after, "after", "", "go on after this id")
	cmd.Flags().IntVar(&limit, "limit", 20, "at most this many, up to 100")
	cmd.Flags().BoolVar(&output, "output", false, "what the run printed")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func listRuns(cmd *cobra.Command, c *control.Client, arguments map[string]any, asJSON bool) error {
	raw, err := c.OperateRaw(cmd.Context(), "runs", arguments)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), raw)
	}
	var list facade.RunList
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("read the runs: %w", err)
	}
	if len(list.Runs) == 0 {
		none := "nothing has run yet"
		if name, _ := arguments["name"].(string); name != "" {
			none = "no run of " + plain.Text(name) + " is kept"
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), none)
		return err
	}
	var rows [][]string
	for _, i := range list.Runs {
		rows = append(rows, []string{i.ID, i.Harness, firstLine(stateText(i), 40), i.StartedAt.Local().Format(time.DateTime), tookText(i), actorText(i.Actor)})
	}
	if err := table(cmd.OutOrStdout(), []string{"RUN", "HARNESS", "STATE", "STARTED", "TOOK", "BY"}, rows); err != nil {
		return err
	}
	if list.NextAfter != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "more: harness runs --after %s\n", *list.NextAfter)
	}
	return nil
}

func tookText(i run.Info) string {
	if i.EndedAt == nil {
		return "-"
	}
	return i.EndedAt.Sub(i.StartedAt).Round(time.Millisecond).String()
}

// actorText names an actor in a word or two.
func actorText(a run.Actor) string {
	switch {
	case a.Kind == run.Instance:
		return "daemon"
	case a.Name != nil:
		return a.Kind + " " + *a.Name
	}
	return a.Kind
}

func showRun(cmd *cobra.Command, c *control.Client, id string, asJSON bool) error {
	raw, err := c.OperateRaw(cmd.Context(), "run", map[string]string{"run": id})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), raw)
	}
	var a struct {
		Run      run.Info
		Messages []run.Message
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("read the run: %w", err)
	}
	i := a.Run
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "%-16s %s\n", name, plain.Text(value))
		}
	}
	row("run", i.ID)
	row("harness", i.Harness)
	row("state", stateText(i))
	row("started", i.StartedAt.Local().Format(time.DateTime))
	row("took", tookText(i))
	row("role", or(i.Role, ""))
	row("by", actorText(i.Actor))
	row("key", or(i.IdempotencyKey, ""))
	row("output", fmt.Sprintf("%d bytes", i.Bytes)+map[bool]string{true: ", cut there"}[i.Truncated])
	row("catalog", or(i.CatalogSHA256, ""))
	row("final receipt", or(i.FinalReceiptSHA256, ""))
	for n, m := range a.Messages {
		if pending := m.Disposition == run.Pending; pending || n >= len(a.Messages)-shownMessages {
			row(m.Type, fmt.Sprintf("%s %s, correlation id %s, %d bytes", m.ID, m.Disposition, m.CorrelationID, m.Bytes))
		}
	}
	return nil
}

// shownMessages is how many messages of a run are shown, beside those that wait
// for an answer.
const shownMessages = 20

// showOutput prints what a run printed, once its evidence was checked, made safe
// for the terminal (CFG-6).
func showOutput(cmd *cobra.Command, c *control.Client, id string) error {
	if _, err := c.OperateRaw(cmd.Context(), "run", map[string]string{"run": id}); err != nil {
		return err
	}
	w := newCleaner(cmd.OutOrStdout(), plainLine)
	return errors.Join(c.Output(cmd.Context(), id, w), w.Close())
}

// verified is the answer of `harness runs ID verify --json`.
type verified struct {
	OK      bool      `json:"ok"`
	Entries int       `json:"entries"`
	Error   *badEntry `json:"error"`
}

type badEntry struct {
	Code    string  `json:"code"`
	Entry   *string `json:"entry"` // null where it is about none
	Message string  `json:"message"`
}

func verifyRun(cmd *cobra.Command, c *control.Client, id string, asJSON bool) error {
	var v verified
	err := c.Operate(cmd.Context(), "verify", map[string]string{"run": id}, &v)
	if p, refused := errors.AsType[*control.Problem](err); refused && asJSON {
		v.Error = &badEntry{Code: string(p.Code), Message: p.Message}
	} else if err != nil {
		return err
	}
	switch {
	case asJSON:
		if err := printJSON(cmd.OutOrStdout(), v); err != nil {
			return err
		}
	case v.OK:
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %d entries, all as they were written\n", id, v.Entries)
	default:
		fmt.Fprintf(cmd.ErrOrStderr(), "harness: run %s: %s: %s: %s\n", id, v.Error.Code, plain.Text(or(v.Error.Entry, ".")), plain.Text(v.Error.Message))
	}
	if !v.OK {
		return silentError{}
	}
	return nil
}

func newMessageCmd(g *globals) *cobra.Command {
	return group("message", "Send messages about and to a run", "progress, steer or ack",
		write(newSendCmd(g, "progress RUN TEXT", "Note how far a run is", facade.MessageProgress, "body"), run.Orchestrator, run.Implementation, run.Review),
		write(newSendCmd(g, "steer RUN TEXT", "Tell a run to do something else; it is pending until the run acknowledges it", facade.MessageSteer, "body"), run.Orchestrator),
		write(newSendCmd(g, "ack RUN CORRELATION_ID", "Acknowledge a message to a run", facade.MessageAck, "correlation_id"), run.Orchestrator, run.Implementation, run.Review))
}

// needsVerb is what a command does that only has commands below it.
func needsVerb(verbs string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("%s has no command %q; take %s", verb(cmd), args[0], verbs)
		}
		return usagef("%s takes a command: %s; see `%s --help`", verb(cmd), verbs, cmd.CommandPath())
	}
}

// newSendCmd makes the command of one type of messages, whose second argument is
// the named one.
func newSendCmd(g *globals, use, short, operation, second string) *cobra.Command {
	var key string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  exactly(2, "a run's id and one more argument"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			raw, err := c.OperateRaw(cmd.Context(), operation, map[string]string{"run": args[0], second: args[1], "idempotency_key": keyOf(cmd, key)})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			var sent struct{ Message run.Message }
			if err := json.Unmarshal(raw, &sent); err != nil {
				return fmt.Errorf("read the message: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s, correlation id %s\n", sent.Message.ID, sent.Message.Disposition, sent.Message.CorrelationID)
			return err
		},
	}
	keyFlag(cmd, &key)
	jsonFlag(cmd, &asJSON)
	return cmd
}
