package facade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"harness/pkg/broker"
	"harness/pkg/control"
	"harness/pkg/plain"
	"harness/pkg/run"
	"harness/pkg/wire"
)

// Limits of what one answer holds (WHO-3).
const (
	maxLines = 1000
	maxBytes = 256 << 10
	pageRuns = 100
	// selfWithin bounds what a harness has done to itself, after its answer.
	selfWithin = time.Minute
)

// Ops is what the tools do: the same methods that the control interface has.
type Ops interface {
	List(project string) []control.Harness
	Describe(name string) (*control.Description, error)
	Logs(ctx context.Context, req control.LogsRequest, w io.Writer) error
	Prompts(ctx context.Context, project string) ([]control.PromptInfo, error)
	// Render returns the text of a prompt file that a project's callers see.
	Render(project, name string, arguments map[string]string) (string, error)
	Start(ctx context.Context, names []string) ([]control.UnitState, error)
	Stop(ctx context.Context, names []string) ([]control.UnitState, error)
	Restart(ctx context.Context, names []string) ([]control.UnitState, error)
	Runs(harness, after string, n int) (runs []run.Info, next string, err error)
	Transcript(id string, offset int64) (text []byte, next int64, err error)
	// Perform does one of the tools whose arguments are the operation's own.
	Perform(ctx context.Context, name string, arguments json.RawMessage, who broker.Caller) (any, error)
}

// request is what a tool may be given; each takes some of it.
type request struct {
	Name      string            `json:"name"`
	Lines     *int              `json:"lines"`
	Arguments map[string]string `json:"arguments"`
	After     string            `json:"after"`
	Limit     *int              `json:"limit"`
	ID        string            `json:"id"`
	Offset    int64             `json:"offset"`
}

// handler does one tool. What it returns is shown as JSON.
type handler func(ctx context.Context, call *broker.OwnCall, r request) (any, error)

// tool is one entry of the table.
type tool struct {
	name, does string
	write      bool
	takes      map[string]string // the schemas of its arguments, by name
	needs      []string          // those of them it cannot do without
	do         handler
	// own is true where the operation reads the arguments itself.
	own bool
}

// The schemas of arguments.
const (
	aHarness   = `{"type":"string","description":"the full name of one harness, as harness_list gives it"}`
	aPrompt    = `{"type":"string","description":"the name of one prompt; without it all are listed"}`
	aLines     = `{"type":"integer","minimum":1,"maximum":1000,"description":"how many of the last lines (default 100)"}`
	aTextMap   = `{"type":"object","additionalProperties":{"type":"string"},"description":"the prompt's arguments"}`
	aPageAfter = `{"type":"string","description":"next_after of the page before"}`
	aPageLimit = `{"type":"integer","minimum":1,"maximum":100}`
	aRun       = `{"type":"string","description":"the id of one run, as list_trajectories gives it"}`
	anOffset   = `{"type":"integer","minimum":0,"description":"next_offset of the page before"}`
)

// table is every tool there is.
func table(ops Ops) []tool {
	return append(operations(), []tool{
		{name: "harness_list", does: "List the harnesses (supervised agents) of this machine and how each is.", do: func(context.Context, *broker.OwnCall, request) (any, error) {
			return control.HarnessList{Harnesses: ops.List("")}, nil
		}},
		{
			name: "harness_describe", does: "Show one harness and its definition, without the values of its environment.", takes: map[string]string{"name": aHarness}, needs: []string{"name"},
			do: func(_ context.Context, _ *broker.OwnCall, r request) (any, error) { return ops.Describe(r.Name) },
		},
		{
			name: "harness_logs", does: "Show the last lines that a harness printed, at most 1,000 and 256 KiB.", takes: map[string]string{"name": aHarness, "lines": aLines}, needs: []string{"name"},
			do: func(ctx context.Context, _ *broker.OwnCall, r request) (any, error) { return logs(ctx, ops, r) },
		},
		{
			name: "harness_prompts", does: "List the prompt files, or render one: for agents without MCP prompts.", takes: map[string]string{"name": aPrompt, "arguments": aTextMap},
			do: func(ctx context.Context, call *broker.OwnCall, r request) (any, error) {
				return prompts(ctx, ops, call, r)
			},
		},
		{
			name: "list_trajectories", does: "List the runs of the harnesses, newest first, by page.", takes: map[string]string{"name": aHarness, "after": aPageAfter, "limit": aPageLimit},
			do: func(_ context.Context, _ *broker.OwnCall, r request) (any, error) { return runs(ops, r) },
		},
		{
			name: "get_trajectory", does: "Show what one run printed, escaped, by page.", takes: map[string]string{"id": aRun, "offset": anOffset}, needs: []string{"id"},
			do: func(_ context.Context, _ *broker.OwnCall, r request) (any, error) { return transcript(ops, r) },
		},
		{name: "harness_start", does: "Start a harness and wait until it runs.", write: true, takes: map[string]string{"name": aHarness}, needs: []string{"name"}, do: act(ops, ops.Start, "running", false)},
		{name: "harness_stop", does: "Stop a harness. Stopping yourself is answered first.", write: true, takes: map[string]string{"name": aHarness}, needs: []string{"name"}, do: act(ops, ops.Stop, "stopped", true)},
		{name: "harness_restart", does: "Restart a harness. Restarting yourself is answered first.", write: true, takes: map[string]string{"name": aHarness}, needs: []string{"name"}, do: act(ops, ops.Restart, "running", true)},
	}...)
}

// Tools returns the tools over ops.
func Tools(ops Ops) []broker.OwnTool {
	var all []broker.OwnTool
	for _, t := range table(ops) {
		handle := t.handle
		if t.own {
			handle = t.perform(ops)
		}
		all = append(all, broker.OwnTool{Tool: t.define(), Write: t.write, Handle: handle})
	}
	return all
}

// define makes what is listed of a tool.
func (t tool) define() mcp.Tool {
	properties := map[string]json.RawMessage{}
	for name, schema := range t.takes {
		properties[name] = json.RawMessage(schema)
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(t.needs) > 0 {
		schema["required"] = t.needs
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		panic("facade: a schema that is no JSON: " + err.Error()) // met by every test
	}
	def := mcp.NewToolWithRawSchema(t.name, t.does, raw)
	mcp.WithReadOnlyHintAnnotation(!t.write)(&def)
	mcp.WithDestructiveHintAnnotation(t.write && !t.own && t.name != "harness_start")(&def)
	mcp.WithRawOutputSchema(json.RawMessage(`{"type":"object"}`))(&def)
	return def
}

// handle reads the arguments, does the tool, and shows what that gave.
func (t tool) handle(ctx context.Context, call *broker.OwnCall, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	r, err := t.read(arguments)
	if err != nil {
		return nil, err
	}
	v, err := t.do(ctx, call, r)
	return t.show(v, err)
}

// perform makes the handler of a tool whose operation reads the arguments.
func (t tool) perform(ops Ops) func(context.Context, *broker.OwnCall, json.RawMessage) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, call *broker.OwnCall, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		v, err := ops.Perform(ctx, t.name, arguments, call.Who)
		return t.show(v, err)
	}
}

// show makes the result of what a tool gave.
func (t tool) show(v any, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, explain(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the answer of %s: %w", t.name, err)
	}
	if len(text) > maxBytes+maxBytes/4 {
		return nil, wire.New(wire.OutputLimit, "the answer is larger than 256 KiB; ask for less")
	}
	return mcp.NewToolResultStructured(json.RawMessage(text), string(text)), nil
}

// read checks the arguments against what the tool takes: strictly, so that a
// misspelt one is not taken for none.
func (t tool) read(arguments json.RawMessage) (request, error) {
	var r request
	var given map[string]json.RawMessage
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	if err := json.Unmarshal(arguments, &given); err != nil {
		return r, wire.New(wire.InvalidArgument, t.name+": the arguments are not an object")
	}
	for key := range given {
		if _, known := t.takes[key]; !known {
			return r, wire.New(wire.InvalidArgument, fmt.Sprintf("%s takes no argument %.40q", t.name, key))
		}
	}
	for _, key := range t.needs {
		if raw := given[key]; len(raw) == 0 || string(raw) == "null" || string(raw) == `""` {
			return r, wire.New(wire.InvalidArgument, fmt.Sprintf("%s needs the argument %q", t.name, key))
		}
	}
	if err := json.Unmarshal(arguments, &r); err != nil {
		return r, wire.New(wire.InvalidArgument, t.name+": "+wire.Misread(err))
	}
	if r.Lines != nil && (*r.Lines < 1 || *r.Lines > maxLines) || r.Limit != nil && (*r.Limit < 1 || *r.Limit > pageRuns) || r.Offset < 0 {
		return r, wire.New(wire.InvalidArgument, t.name+": a number is out of its bounds; see its schema")
	}
	return r, nil
}

// explain turns why an operation was refused into what an agent is told.
func explain(err error) error {
	var p *control.Problem
	switch {
	case errors.As(err, &p) && p.Hint != "":
		return wire.New(p.Code, p.Message+"; "+p.Hint)
	case errors.As(err, &p):
		return wire.New(p.Code, p.Message)
	case errors.Is(err, run.ErrUnknown):
		return wire.New(wire.UnknownRun, "there is no such run; list_trajectories has their ids")
	}
	return err
}

func logs(ctx context.Context, ops Ops, r request) (any, error) {
	if _, err := ops.Describe(r.Name); err != nil {
		return nil, err // an upstream's log is not a harness's
	}
	n := 100
	if r.Lines != nil {
		n = *r.Lines
	}
	var out bytes.Buffer
	if err := ops.Logs(ctx, control.LogsRequest{Name: r.Name, Lines: n}, &out); err != nil {
		return nil, err
	}
	text := out.Bytes()
	if len(text) > maxBytes {
		text = text[len(text)-maxBytes:]
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	return control.NewLogged(r.Name, text), nil
}

// Rendered is the answer of harness_prompts for one prompt.
type Rendered struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func prompts(ctx context.Context, ops Ops, call *broker.OwnCall, r request) (any, error) {
	if r.Name == "" {
		list, err := ops.Prompts(ctx, call.Scope.Project)
		return control.PromptList{Prompts: list}, err
	}
	text, err := ops.Render(call.Scope.Project, r.Name, r.Arguments)
	return Rendered{r.Name, text}, err
}

// RunList is the answer of list_trajectories.
type RunList struct {
	Runs      control.List[run.Info] `json:"runs"`
	NextAfter *string                `json:"next_after"`
}

func runs(ops Ops, r request) (any, error) {
	n := 20
	if r.Limit != nil {
		n = *r.Limit
	}
	list, next, err := ops.Runs(r.Name, r.After, n)
	return RunList{Runs: list, NextAfter: control.OrNull(next)}, err
}

// Transcript is the answer of get_trajectory.
type Transcript struct {
	ID         string `json:"id"`
	Text       string `json:"text"`
	NextOffset *int64 `json:"next_offset"`
}

func transcript(ops Ops, r request) (any, error) {
	text, next, err := ops.Transcript(r.ID, r.Offset)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = plain.Text(strings.TrimSuffix(line, "\r"))
	}
	return Transcript{ID: r.ID, Text: strings.Join(lines, "\n"), NextOffset: control.OrNull(next)}, nil
}

// act makes the handler of a word. One about the caller itself is done once it
// was answered.
func act(ops Ops, do func(context.Context, []string) ([]control.UnitState, error), want string, ends bool) handler {
	return func(ctx context.Context, call *broker.OwnCall, r request) (any, error) {
		d, err := ops.Describe(r.Name)
		if err != nil {
			return nil, err // upstreams are not an agent's to stop
		}
		if ends && r.Name == call.Scope.Harness {
			call.Then(func() {
				// The session ends with its harness: nobody is left to be told.
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), selfWithin)
				defer cancel()
				_, _ = do(ctx, []string{r.Name})
			})
			return control.UnitStates{Units: []control.UnitState{{Name: r.Name, State: d.State, PID: d.PID}}}, nil
		}
		units, err := do(ctx, []string{r.Name})
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			if u.State != want {
				why := "no reason known"
				if u.Error != nil {
					why = *u.Error
				}
				return nil, wire.New(wire.OperationFailed, fmt.Sprintf("%s is %s: %s", u.Name, u.State, why))
			}
		}
		return control.UnitStates{Units: units}, nil
	}
}
