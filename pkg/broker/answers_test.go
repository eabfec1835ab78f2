package broker_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"harness/pkg/broker"
)

// TestSession_AnswersOfTheEndpointItselfKeepTheirBytes holds what agents may
// have cached or pinned: the order of the members, and what is not escaped.
func TestSession_AnswersOfTheEndpointItselfKeepTheirBytes(t *testing.T) {
	raw := mcp.NewToolWithRawSchema("own", "does <b> & more", json.RawMessage(`{"type":"object","n":1.0}`))
	mcp.WithReadOnlyHintAnnotation(true)(&raw)
	mcp.WithRawOutputSchema(json.RawMessage(`{"type":"object"}`))(&raw)
	own := broker.OwnTool{Tool: raw, Handle: func(context.Context, *broker.OwnCall, json.RawMessage) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultStructured(json.RawMessage(`{"z":"<b> & c","a":1.0}`), `{"z":"<b> & c"}`), nil
	}}
	x := scoped(t, broker.Content{
		Own:     []broker.OwnTool{own},
		Offers:  []broker.Offer{{Key: "up", Instructions: "use <up> & \"more\"\nnow"}},
		Prompts: []broker.Prompt{greeting(), {Name: "plain", Render: func(map[string]string) (string, error) { return "x", nil }}},
	})
	a := x.greetedAs(broker.Unattributed())
	for _, c := range []struct{ request, result string }{
		{
			`"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`,
			`{"protocolVersion":"2025-03-26","capabilities":{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}},"serverInfo":{"name":"harness","version":"test"},"instructions":"up: use <up> & \"more\"\nnow"}`,
		},
		{
			`"method":"ping","params":{"_meta":{"x":1}}`,
			`{}`,
		},
		{
			`"method":"logging/setLevel","params":{"level":"debug"}`,
			`{}`,
		},
		{
			`"method":"tools/list"`,
			`{"tools":[{"annotations":{"readOnlyHint":true},"description":"does \u003cb\u003e \u0026 more","inputSchema":{"type":"object","n":1.0},"name":"own","outputSchema":{"type":"object"}}]}`,
		},
		{
			`"method":"tools/call","params":{"name":"own","arguments":{"n":1}}`,
			`{"content":[{"type":"text","text":"{\"z\":\"\u003cb\u003e \u0026 c\"}"}],"structuredContent":{"z":"\u003cb\u003e \u0026 c","a":1.0}}`,
		},
		{
			`"method":"prompts/list"`,
			`{"prompts":[{"name":"greet","title":"Greet","description":"greets","arguments":[{"name":"who","required":true},{"name":"tone"}]},{"name":"plain"}]}`,
		},
		{
			`"method":"prompts/get","params":{"name":"greet","arguments":{"who":"<me>","tone":"!"}}`,
			`{"description":"greets","messages":[{"role":"user","content":{"type":"text","text":"<hi> & <me>!"}}]}`,
		},
		{
			`"method":"prompts/get","params":{"name":"plain"}`,
			`{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`,
		},
	} {
		a.send(`{"jsonrpc":"2.0","id":"\u0041",` + c.request + `}`)
		a.want(`{"jsonrpc":"2.0","id":"\u0041","result":` + c.result + `}`)
	}
}
