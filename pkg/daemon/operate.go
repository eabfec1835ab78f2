package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"harness/pkg/broker"
	"harness/pkg/control"
	"harness/pkg/evidence"
	"harness/pkg/facade"
	"harness/pkg/identity"
	"harness/pkg/ledger"
	"harness/pkg/run"
	"harness/pkg/wire"
)

// maxArguments bounds the arguments of an operation, in bytes (MUT-1).
const maxArguments = 64 << 10

// petitioner is who asks for an operation.
type petitioner struct {
	actor run.Actor
	// operator is true at the command line, which carries the user's own
	// authority (WHO-5).
	operator bool
}

// operation is one thing that can be asked for by name.
type operation func(ctx context.Context, raw json.RawMessage, who petitioner) (any, error)

// operations are those that agents have as tools, and that the command line has
// as verbs (MUT-1).
func (o *ops) operations() map[string]operation {
	return map[string]operation{
		facade.PackValidate:     o.packValidate,
		facade.WorktreeCreate:   o.worktreeCreate,
		facade.RunLaunch:        o.runLaunch,
		facade.WorkflowValidate: o.workflowValidate,
		facade.WorkflowStart:    o.workflowStart,
		facade.WorkflowStatus:   o.workflowStatus,
		facade.WorkflowResume:   o.workflowResume,
		facade.MessageProgress:  o.message(run.Progress),
		facade.MessageSteer:     o.message(run.Steer),
		facade.MessageAck:       o.message(run.Ack),
	}
}

// verbs are operations that only the command line has.
func (o *ops) verbs() map[string]operation {
	return map[string]operation{
		"runs": o.runList, "run": o.runShow, "wait": o.runWait, "verify": o.runVerify, "cancel": o.runCancel,
		facade.ContractBegin: o.contractBegin, facade.ContractHold: o.contractHold, facade.ContractEnd: o.contractEnd,
		"worktree_list": o.worktreeList, "worktree_remove": o.worktreeRemove,
	}
}

// Operate implements [control.Ops].
func (o *ops) Operate(ctx context.Context, name string, raw json.RawMessage, peer control.Peer) (any, error) {
	do, ok := o.operations()[name]
	if !ok {
		do, ok = o.verbs()[name]
	}
	if !ok {
		return nil, &control.Problem{Code: control.CodeUnknownPath, Message: fmt.Sprintf("there is no operation %.60q", name), Hint: "restart the daemon with this binary if it is an older one"}
	}
	who := petitioner{run.ByOperator(peer.UID), true}
	if owner, of := o.ids.Whose(identity.NewClaim(peer.Token, identity.Ancestors(peer.PID))); of {
		who.actor = actorOf(owner)
	}
	v, err := do(ctx, raw, who)
	return v, problem(err)
}

// Perform implements [facade.Ops].
func (o *ops) Perform(ctx context.Context, name string, raw json.RawMessage, asking broker.Caller) (any, error) {
	do, ok := o.operations()[name]
	if !ok {
		return nil, fmt.Errorf("perform %s: there is no such operation", name)
	}
	who := petitioner{actor: o.self}
	if c, known := asking.(*caller); known {
		if owner, of := c.ids.Whose(c.claim); of {
			who.actor = actorOf(owner)
		}
	}
	v, err := do(ctx, raw, who)
	return v, problem(err)
}

// actorOf is a harness that acts, whichever way it does.
func actorOf(owner identity.Owner) run.Actor {
	a := run.Named(run.ByHarness, owner.Name)
	a.Run = &owner.RunID
	return a
}

// problem says what an operation was refused for, with its code (MCP-7). Any
// other error is returned as it is.
func problem(err error) error {
	var f *evidence.Fault
	switch {
	case errors.As(err, &f):
		return &control.Problem{Code: wire.InvalidEvidence, Message: f.Error()}
	case errors.Is(err, run.ErrUnknown):
		return &control.Problem{Code: wire.UnknownRun, Message: "there is no such run", Hint: "`harness runs` lists them"}
	case errors.Is(err, run.ErrConflict):
		return &control.Problem{Code: wire.IdempotencyConflict, Message: run.ErrConflict.Error(), Hint: "use another key for another request"}
	case errors.Is(err, run.ErrKey), errors.Is(err, run.ErrNoSteer):
		return refusal(leaf(err, run.ErrKey, run.ErrNoSteer).Error())
	case errors.Is(err, run.ErrOver), errors.Is(err, run.ErrFull):
		return &control.Problem{Code: wire.OperationFailed, Message: leaf(err, run.ErrOver, run.ErrFull).Error()}
	}
	return err
}

// leaf is the first of some errors that err is.
func leaf(err error, of ...error) error {
	for _, one := range of {
		if errors.Is(err, one) {
			return one
		}
	}
	return err
}

// refusal is an argument that was not taken.
func refusal(message string) *control.Problem {
	return &control.Problem{Code: wire.InvalidArgument, Message: message}
}

// arguments reads the arguments of an operation: strictly, so that a misspelt
// one is not taken for none.
func arguments[T any](raw json.RawMessage) (T, error) {
	if len(raw) > maxArguments {
		var none T
		return none, tooLarge()
	}
	return decoded[T](raw)
}

func tooLarge() *control.Problem { return refusal("the request is larger than 64 KiB") }

// decoded reads arguments however large they are.
func decoded[T any](raw json.RawMessage) (v T, err error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return v, refusal("the arguments: " + wire.Misread(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return v, refusal("the arguments: something follows them")
	}
	return v, nil
}

// once does what is to be done once, whoever asks for it how often (MUT-1). What
// it does is not cut off when the petitioner goes.
func (o *ops) once(ctx context.Context, r run.Request) (json.RawMessage, error) {
	result, replayed, err := o.keys.Once(ctx, r)
	if err != nil || !replayed {
		return result, err
	}
	// A quote inside a string is escaped: this is the member, and nothing else.
	return bytes.ReplaceAll(result, []byte(`"replayed":false`), []byte(`"replayed":true`)), nil
}

// launchArgs is what a launch takes.
type launchArgs struct {
	Name       string `json:"name"`
	Role       string `json:"role,omitempty"`
	PromptFile string `json:"prompt_file,omitempty"`
	Timeout    string `json:"timeout,omitempty"`
	Key        string `json:"idempotency_key"`
	// Args are more arguments, which only the operator may give (MUT-5).
	Args []string `json:"args,omitempty"`
	// Prompt and Contract are the operator's too: the text in place of a file, and
	// the session of a contract whose work the run is.
	Prompt   *string `json:"prompt,omitempty"`
	Contract string  `json:"contract,omitempty"`
}

// maxPrompt bounds a prompt, in bytes; longest and standard are the bounds of a
// run.
const (
	maxPrompt       = 1 << 20
	longestTimeout  = 7 * 24 * time.Hour
	standardTimeout = time.Hour
)

// launched is the answer of a launch.
type launched struct {
	Run      run.Info `json:"run"`
	Replayed bool     `json:"replayed"`
}

// runLaunch begins a bounded run of a harness of the config.
func (o *ops) runLaunch(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := readLaunch(raw, who)
	if err != nil {
		return nil, err
	}
	if (a.Args != nil || a.Prompt != nil || a.Contract != "") && !who.operator {
		return nil, refusal("args, prompt and contract are the operator's to give, at the command line")
	}
	if problem := ledger.SessionProblem(a.Contract); a.Contract != "" && problem != "" {
		return nil, refusal("contract: " + problem)
	}
	if a.Contract != "" && who.actor.Kind == run.Operator {
		who.actor = run.Named(run.ByContract, a.Contract)
	}
	compared := a
	compared.Key = ""
	if d, err := time.ParseDuration(a.Timeout); err == nil {
		compared.Timeout = d.String() // however it is spelled
	}
	return o.once(ctx, run.Request{
		Key: a.Key, Operation: facade.RunLaunch, Arguments: compared, Actor: who.actor,
		Plan: func() string { return o.runs.NewID(time.Now()) },
		Find: func(id string) (any, bool, error) {
			if !o.runs.Has(id) {
				if removed, err := o.runs.Removed(id); err != nil || removed {
					return nil, false, cmp.Or(err, run.ErrUnknown)
				}
				return nil, false, nil
			}
			info, err := o.runs.Info(id)
			return launched{Run: info}, true, err
		},
		Do: func(id string) (any, error) {
			t, err := o.task(a, who.actor)
			if err != nil {
				return nil, err
			}
			t.id = id
			if _, err := o.bounded.start(ctx, t); errors.Is(err, context.Canceled) {
				return nil, stopping(err)
			} else if err != nil {
				return nil, &control.Problem{Code: wire.OperationFailed, Message: fmt.Sprintf("%s was not launched: %v", a.Name, err)}
			}
			info, err := o.runs.Info(id)
			return launched{Run: info}, err
		},
	})
}

// readLaunch reads the arguments of a launch. What a contract has a harness do is
// as long as a contract may be; everything else is as any operation takes it.
func readLaunch(raw json.RawMessage, who petitioner) (launchArgs, error) {
	if !who.operator || len(raw) <= maxArguments {
		return arguments[launchArgs](raw)
	}
	a, err := decoded[launchArgs](raw)
	if err != nil {
		return a, err
	}
	rest := a
	rest.Prompt = nil
	small, err := json.Marshal(rest)
	switch {
	case err != nil:
		return a, fmt.Errorf("encode arguments: %w", err)
	case a.Contract == "" || a.Prompt == nil || len(small) > maxArguments:
		return a, tooLarge()
	case len(*a.Prompt) > maxPrompt:
		return a, refusal("prompt: larger than 1 MiB")
	}
	return a, nil
}

// task checks what a launch is given.
func (o *ops) task(a launchArgs, actor run.Actor) (task, error) {
	t := task{more: a.Args, role: a.Role, key: a.Key, timeout: standardTimeout, actor: actor}
	if a.Name == "" {
		return t, refusal("name: which harness is to be run?")
	}
	d := o.loop.State().Desired
	agent, declared := d.Agents[a.Name]
	if !declared {
		return t, &control.Problem{Code: wire.UnknownHarness, Message: fmt.Sprintf("no harness is named %.100q", a.Name), Hint: o.otherNames(d, a.Name)}
	}
	t.launch = agent.Launch
	if a.Role != "" && !slices.Contains(run.Roles(), a.Role) {
		return t, refusal(fmt.Sprintf("role: %.40q is unknown; use one of %s", a.Role, strings.Join(run.Roles(), ", ")))
	}
	if a.Timeout != "" {
		d, err := time.ParseDuration(a.Timeout)
		if err != nil || d <= 0 || d > longestTimeout {
			return t, refusal(fmt.Sprintf("timeout: %.40q must be a duration of at most %s, such as \"10m\"", a.Timeout, longestTimeout))
		}
		t.timeout = d
	}
	if a.Prompt != nil {
		t.prompt = []byte(*a.Prompt)
	}
	if a.PromptFile != "" {
		prompt, err := o.readUnder("prompt_file", a.PromptFile, maxPrompt)
		if err != nil {
			return t, err
		}
		t.prompt = prompt
	}
	return t, nil
}

// runArgs names a run.
type runArgs struct {
	Run string `json:"run"`
}

// listArgs asks for a page of runs.
type listArgs struct {
	Name  string `json:"name"`
	After string `json:"after"`
	Limit int    `json:"limit"`
}

func (o *ops) runList(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[listArgs](raw)
	if err != nil {
		return nil, err
	}
	if a.Limit < 1 || a.Limit > 100 {
		return nil, refusal("limit: 1 to 100")
	}
	list, next, err := o.runs.List(a.Name, a.After, a.Limit)
	return facade.RunList{Runs: list, NextAfter: control.OrNull(next)}, pageProblem(err, "`harness runs --after %s`", "`--limit %d`")
}

func (o *ops) runInfo(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[runArgs](raw)
	if err != nil {
		return nil, err
	}
	info, err := o.runs.Info(a.Run)
	return launched{Run: info}, err
}

// shownRun is the answer about one run.
type shownRun struct {
	launched
	Messages control.List[run.Message] `json:"messages"`
}

// runShow is a run with its messages, which have no bodies (RES-3).
func (o *ops) runShow(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[runArgs](raw)
	if err != nil {
		return nil, err
	}
	info, err := o.runs.Info(a.Run)
	if err != nil {
		return nil, err
	}
	messages, err := o.runs.Messages(a.Run)
	return shownRun{launched{Run: info}, messages}, err
}

// runWait answers once a run has ended.
func (o *ops) runWait(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := arguments[runArgs](raw)
	if err != nil {
		return nil, err
	}
	r, live := o.runs.Live(a.Run)
	if !live {
		return o.runInfo(ctx, raw, who)
	}
	info, err := r.Wait(ctx)
	if ctx.Err() != nil && err != nil {
		return nil, stopping(err)
	}
	return launched{Run: info}, err
}

// verification is the answer of `harness runs ID verify --json`.
type verification struct {
	OK      bool       `json:"ok"`
	Entries int        `json:"entries"`
	Error   *badRecord `json:"error"`
}

type badRecord struct {
	Code    wire.Code `json:"code"`
	Entry   string    `json:"entry"`
	Message string    `json:"message"`
}

// runVerify checks the evidence of a run. What is wrong is its answer.
func (o *ops) runVerify(_ context.Context, raw json.RawMessage, _ petitioner) (any, error) {
	a, err := arguments[runArgs](raw)
	if err != nil {
		return nil, err
	}
	n, err := o.runs.Verify(a.Run)
	if f, ok := errors.AsType[*evidence.Fault](err); ok {
		return verification{Error: &badRecord{wire.InvalidEvidence, f.Entry, f.Message}}, nil
	}
	return verification{OK: true, Entries: n}, err
}

// runCancel ends a bounded run: the operator's interrupt, which no tool has
// (MUT-4). One that is over stays as it is (CLI-6).
func (o *ops) runCancel(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
	a, err := arguments[runArgs](raw)
	if err != nil {
		return nil, err
	}
	if _, live := o.runs.Live(a.Run); !o.bounded.cancel(a.Run) && live {
		return nil, &control.Problem{
			Code: wire.OperationFailed, Message: "the run is not one that `harness run` began",
			Hint: "`harness stop NAME` ends a harness, `harness contract cancel` a contract",
		}
	}
	return o.runWait(ctx, raw, who)
}

// Output implements [control.Ops].
func (o *ops) Output(ctx context.Context, id string, w io.Writer) error {
	return problem(o.runs.Follow(ctx, id, w))
}

// messageArgs is what a message takes.
type messageArgs struct {
	Run           string `json:"run"`
	Body          string `json:"body,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	Key           string `json:"idempotency_key"`
}

// sent is the answer of a message.
type sent struct {
	Message  shownMessage `json:"message"`
	Replayed bool         `json:"replayed"`
}

type shownMessage struct {
	run.Message
	Replayed bool `json:"replayed"`
}

// message makes the operation of one type of messages (MUT-2).
func (o *ops) message(typ string) operation {
	return func(ctx context.Context, raw json.RawMessage, who petitioner) (any, error) {
		a, err := arguments[messageArgs](raw)
		if err == nil {
			err = a.check(typ)
		}
		if err != nil {
			return nil, err
		}
		compared := a
		compared.Key = ""
		return o.once(ctx, run.Request{
			Key: a.Key, Operation: "message_" + typ, Arguments: compared, Actor: who.actor,
			Plan: func() string { return "m-" + token() },
			Find: func(id string) (any, bool, error) { return o.findMessage(a.Run, id) },
			Do: func(id string) (any, error) {
				r, live := o.runs.Live(a.Run)
				if !live {
					if _, err := o.runs.Info(a.Run); err != nil {
						return nil, err
					}
					return nil, run.ErrOver
				}
				n := run.Note{ID: id, Type: typ, Body: a.Body, CorrelationID: a.CorrelationID, Actor: who.actor}
				if n.CorrelationID == "" {
					n.CorrelationID = "c-" + strings.TrimPrefix(id, "m-")
				}
				m, err := r.Message(n, time.Now())
				return sent{Message: shownMessage{Message: m}}, err
			},
		})
	}
}

// check says what a message of a type lacks, or has too much.
func (a messageArgs) check(typ string) error {
	switch {
	case a.Run == "":
		return refusal("run: which run is the message about?")
	case typ == run.Ack && a.CorrelationID == "":
		return refusal("correlation_id: which message is acknowledged?")
	case typ == run.Ack && a.Body != "":
		return refusal("body: an acknowledgement has none")
	case typ != run.Ack && a.CorrelationID != "":
		return refusal("correlation_id: it is given to the message, not by it")
	case typ != run.Ack && a.Body == "":
		return refusal("body: what is the message?")
	case len(a.Body) > run.MaxBody:
		return refusal("body: larger than 32 KiB")
	}
	return nil
}

// findMessage looks for a message that was kept already.
func (o *ops) findMessage(id, message string) (any, bool, error) {
	list, err := o.runs.Messages(id)
	if errors.Is(err, run.ErrUnknown) {
		return nil, false, nil
	}
	for _, m := range list {
		if m.ID == message {
			return sent{Message: shownMessage{Message: m}}, true, nil
		}
	}
	return nil, false, err
}
