package facade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"harness/pkg/broker"
	"harness/pkg/control"
	"harness/pkg/run"
	"harness/pkg/wire"
)

// paper is a fleet of one harness, a.
type paper struct {
	did     []string
	becomes string // of whatever it is told; "" for what it is told
}

func (p *paper) List(string) []control.Harness {
	return []control.Harness{{Name: "a", State: "running"}}
}

func (p *paper) Describe(name string) (*control.Description, error) {
	if name != "a" {
		return nil, &control.Problem{Code: wire.UnknownHarness, Message: "nobody", Hint: "there are: a"}
	}
	return &control.Description{Harness: p.List("")[0]}, nil
}

func (p *paper) Logs(_ context.Context, req control.LogsRequest, w io.Writer) error {
	for i := range req.Lines {
		fmt.Fprintf(w, "line %d %s\r\n", i, strings.Repeat("x", 600))
	}
	return nil
}

func (p *paper) Prompts(context.Context, string) ([]control.PromptInfo, error) {
	return []control.PromptInfo{{Name: "p"}}, nil
}

func (p *paper) Render(project, name string, arguments map[string]string) (string, error) {
	if name != "p" {
		return "", wire.New(wire.InvalidArgument, "unknown prompt")
	}
	return project + " " + arguments["who"], nil
}

func (p *paper) word(word string, names []string) ([]control.UnitState, error) {
	p.did = append(p.did, word+" "+strings.Join(names, " "))
	if p.becomes != "" {
		return []control.UnitState{{Name: names[0], State: p.becomes}}, nil
	}
	return []control.UnitState{{Name: names[0], State: map[string]string{"stop": "stopped"}[word] + map[string]string{"start": "running", "restart": "running"}[word]}}, nil
}

func (p *paper) Start(_ context.Context, names []string) ([]control.UnitState, error) {
	return p.word("start", names)
}

func (p *paper) Stop(_ context.Context, names []string) ([]control.UnitState, error) {
	return p.word("stop", names)
}

func (p *paper) Restart(_ context.Context, names []string) ([]control.UnitState, error) {
	return p.word("restart", names)
}

func (p *paper) Runs(harness, after string, n int) ([]run.Info, string, error) {
	return []run.Info{{ID: fmt.Sprintf("%s|%s|%d", harness, after, n), StartedAt: time.Unix(0, 0).UTC()}}, "next", nil
}

func (p *paper) Transcript(id string, offset int64) ([]byte, int64, error) {
	if id != "r" {
		return nil, 0, run.ErrUnknown
	}
	return []byte("a\x1b[31m\r\nb"), offset + 7, nil
}

func (p *paper) Perform(_ context.Context, name string, arguments json.RawMessage, _ broker.Caller) (any, error) {
	p.did = append(p.did, name+" "+string(arguments))
	return map[string]bool{"done": true}, nil
}

// call calls a tool as the harness a.
func call(t *testing.T, ops Ops, name, arguments string) (*mcp.CallToolResult, error) {
	t.Helper()
	for _, tool := range Tools(ops) {
		if tool.Tool.Name == name {
			return tool.Handle(t.Context(), &broker.OwnCall{Scope: broker.NewScope("a", "shop", nil, true)}, json.RawMessage(arguments))
		}
	}
	t.Fatalf("no tool %s", name)
	return nil, nil
}

func TestTools_AreTheseAndSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	want := map[string]bool{ // whether it writes
		"harness_list": false, "harness_describe": false, "harness_logs": false, "harness_prompts": false, "list_trajectories": false,
		"get_trajectory": false, "harness_start": true, "harness_stop": true, "harness_restart": true,
		PackValidate: false, WorktreeCreate: true, RunLaunch: true, WorkflowValidate: false, WorkflowStart: true, WorkflowStatus: false, WorkflowResume: true,
		MessageProgress: true, MessageSteer: true, MessageAck: true,
	}
	got := map[string]bool{}
	for _, tool := range Tools(&paper{}) {
		got[tool.Tool.Name] = tool.Write
		raw, err := json.Marshal(tool.Tool)
		if err != nil {
			t.Fatal(err)
		}
		var def struct {
			InputSchema struct {
				Type                 string
				AdditionalProperties *bool
			}
			OutputSchema struct{ Type string }
			Annotations  struct{ ReadOnlyHint, DestructiveHint *bool }
		}
		if err := json.Unmarshal(raw, &def); err != nil || def.InputSchema.Type != "object" || def.InputSchema.AdditionalProperties == nil || def.OutputSchema.Type != "object" {
			t.Errorf("%s: %s, %v", tool.Tool.Name, raw, err)
		}
		if a := def.Annotations; a.ReadOnlyHint == nil || *a.ReadOnlyHint == tool.Write || a.DestructiveHint == nil {
			t.Errorf("%s is annotated %+v", tool.Tool.Name, a)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

func TestTools_ShowWhatTheOperationReturns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tool, arguments, want string }{
		{"harness_list", "", `"harnesses":[{"name":"a"`},
		{"harness_describe", `{"name":"a"}`, `"definition":{`},
		{"harness_logs", `{"name":"a","lines":2}`, `"name":"a","lines":["line 0`},
		{"harness_prompts", `{}`, `{"prompts":[{"name":"p"`},
		{"harness_prompts", `{"name":"p","arguments":{"who":"me"}}`, `{"name":"p","text":"shop me"}`},
		{RunLaunch, `{"name":"a","extra":1}`, `"done":true`}, // what it takes is the operation's to say
		{"list_trajectories", `{"name":"a","after":"z","limit":7}`, `"id":"a|z|7"`},
		{"get_trajectory", `{"id":"r","offset":1}`, `"text":"a\\x1b[31m\nb","next_offset":8`},
		{"harness_start", `{"name":"a"}`, `{"units":[{"name":"a","state":"running"`},
	} {
		r, err := call(t, &paper{}, c.tool, c.arguments)
		if err != nil {
			t.Errorf("%s: %v", c.tool, err)
			continue
		}
		raw, err := json.Marshal(r.StructuredContent)
		if err != nil || !strings.Contains(string(raw), c.want) {
			t.Errorf("%s gives %s, %v; want %s", c.tool, raw, err, c.want)
		}
		if text, ok := r.Content[0].(mcp.TextContent); !ok || text.Text != string(raw) {
			t.Errorf("%s: the text is another: %v", c.tool, r.Content)
		}
	}
	if r, err := call(t, &paper{}, "harness_logs", `{"name":"a","lines":1000}`); err != nil || len(r.Content[0].(mcp.TextContent).Text) > maxBytes+maxBytes/4 {
		t.Errorf("a long log: %v", err)
	}
}

func TestTools_RefuseWhatTheyDoNotTake(t *testing.T) {
	t.Parallel()
	ops := &paper{}
	for _, c := range []struct {
		tool, arguments string
		code            error
	}{
		{"harness_describe", `{"name":"mcp.up"}`, wire.ErrUnknownHarness},
		{"harness_stop", `{"name":"mcp.up"}`, wire.ErrUnknownHarness},
		{"harness_describe", `{}`, wire.ErrInvalidArgument},
		{"harness_describe", `{"name":""}`, wire.ErrInvalidArgument},
		{"harness_describe", `{"name":7}`, wire.ErrInvalidArgument},
		{"harness_describe", `{"nmae":"a"}`, wire.ErrInvalidArgument},
		{"harness_list", `[]`, wire.ErrInvalidArgument},
		{"harness_list", `{"name":"a"}`, wire.ErrInvalidArgument},
		{"harness_logs", `{"name":"a","lines":1001}`, wire.ErrInvalidArgument},
		{"harness_logs", `{"name":"a","lines":0}`, wire.ErrInvalidArgument},
		{"list_trajectories", `{"limit":101}`, wire.ErrInvalidArgument},
		{"get_trajectory", `{"id":"../x"}`, wire.ErrUnknownRun},
		{"get_trajectory", `{"id":"r","offset":-1}`, wire.ErrInvalidArgument},
		{"harness_prompts", `{"name":"q"}`, wire.ErrInvalidArgument},
	} {
		if r, err := call(t, ops, c.tool, c.arguments); !errors.Is(err, c.code) {
			t.Errorf("%s %s gives %v, %v; want %v", c.tool, c.arguments, r, err, c.code)
		}
	}
	if len(ops.did) > 0 {
		t.Errorf("done all the same: %v", ops.did)
	}
}

// What did not come to be is an error, as it is on the command line.
func TestTools_FailWhereAWordWasOvertaken(t *testing.T) {
	t.Parallel()
	for tool, becomes := range map[string]string{"harness_start": "stopped", "harness_stop": "running", "harness_restart": "failed"} {
		tools := Tools(&paper{becomes: becomes})
		i := slices.IndexFunc(tools, func(one broker.OwnTool) bool { return one.Tool.Name == tool })
		_, err := tools[i].Handle(t.Context(), &broker.OwnCall{Scope: broker.NewScope("b", "", nil, true)}, json.RawMessage(`{"name":"a"}`))
		if !errors.Is(err, wire.ErrOperationFailed) || !strings.Contains(err.Error(), "a is "+becomes) {
			t.Errorf("%s that leaves it %s: %v", tool, becomes, err)
		}
	}
}

func TestTools_AnswerBeforeTheyEndTheirCaller(t *testing.T) {
	t.Parallel()
	ops := &paper{}
	for _, word := range []string{"stop", "restart"} {
		r, err := call(t, ops, "harness_"+word, `{"name":"a"}`)
		if err != nil || len(ops.did) != 0 {
			t.Errorf("%s: %v, %v after %v", word, r, err, ops.did)
		}
	}
	if _, err := call(t, ops, "harness_start", `{"name":"a"}`); err != nil || cmp.Diff([]string{"start a"}, ops.did) != "" {
		t.Errorf("start: %v after %v", err, ops.did)
	}
}
