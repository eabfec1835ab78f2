package adapter

import (
	"strings"
	"testing"
)

// What the clients refuse was tried with the clients; a table of it is all that
// this can hold on to.
func TestLint_FindsWhatWouldCostTheWholeList(t *testing.T) {
	object := `"inputSchema":{"type":"object"}`
	for name, tt := range map[string]struct {
		tool   string
		says   string
		typed  bool // also for a client that reads into types
		claude bool // for Claude alone
	}{
		"plain":                 {tool: `{"name":"a",` + object + `}`},
		"unknown fields":        {tool: `{"name":"a","x":7,"inputSchema":{"type":"object","$schema":"s","x-y":[1]},"annotations":{"x":3}}`},
		"nested alternatives":   {tool: `{"inputSchema":{"type":"object","properties":{"a":{"anyOf":[{}]}}}}`},
		"no schema":             {tool: `{"name":"a"}`, says: "inputSchema", typed: true},
		"a schema that is true": {tool: `{"inputSchema":true}`, says: "inputSchema", typed: true},
		"no type":               {tool: `{"inputSchema":{}}`, says: "inputSchema.type"},
		"a list of types":       {tool: `{"inputSchema":{"type":["object"]}}`, says: "inputSchema.type"},
		"a property of true":    {tool: `{"inputSchema":{"type":"object","properties":{"a":{},"b":true}}}`, says: "properties.b"},
		"a required string":     {tool: `{"inputSchema":{"type":"object","required":"a"}}`, says: "required"},
		"a required number":     {tool: `{"inputSchema":{"type":"object","required":[1]}}`, says: "required"},
		"an output without":     {tool: `{` + object + `,"outputSchema":{"$ref":"#/x"}}`, says: "outputSchema.type"},
		"a number for a title":  {tool: `{"title":1,` + object + `}`, says: "title", typed: true},
		"no description":        {tool: `{"description":null,` + object + `}`, says: "description"},
		"a word for a hint":     {tool: `{` + object + `,"annotations":{"readOnlyHint":"yes"}}`, says: "readOnlyHint", typed: true},
		"a list of annotations": {tool: `{` + object + `,"annotations":[]}`, says: "annotations", typed: true},
		"alternatives on top":   {tool: `{"inputSchema":{"type":"object","anyOf":[{}]}}`, says: "anyOf", claude: true},
		"an odd property":       {tool: `{"inputSchema":{"type":"object","properties":{"a b":{}}}}`, says: "a b", claude: true},
		"a nameless property":   {tool: `{"inputSchema":{"type":"object","properties":{"":{}}}}`, says: "64", claude: true},
		"a property in umlauts": {tool: `{"inputSchema":{"type":"object","properties":{"ä":{}}}}`, says: "ä", claude: true},
		"the longest property":  {tool: `{"inputSchema":{"type":"object","properties":{"` + strings.Repeat("aZ09_.-x", 8) + `":{}}}}`},
		"a long property":       {tool: `{"inputSchema":{"type":"object","properties":{"` + strings.Repeat("x", 65) + `":{}}}}`, says: "64", claude: true},
	} {
		for cli, expects := range map[string]bool{
			"claude-code": tt.says != "", "opencode": tt.says != "" && !tt.claude, "gemini": tt.says != "" && !tt.claude,
			"codex": tt.typed, Generic: false, "": false,
		} {
			got := Lint(cli, []byte(tt.tool))
			if expects != (got != "") || expects && !strings.Contains(got, tt.says) {
				t.Errorf("%s, %s: %q", name, cli, got)
			}
		}
	}
}

func TestClientOf_KnowsTheCLIsByWhatTheyCallThemselves(t *testing.T) {
	for client, want := range map[string]string{
		"claude-code": "claude-code", "codex-mcp-client": "codex", "opencode": "opencode", "gemini-cli-mcp-client": "gemini", "Inspector": "", "": "",
	} {
		if got := ClientOf(client); got != want {
			t.Errorf("%q is %q", client, got)
		}
	}
}

func FuzzLint(f *testing.F) {
	f.Add(`{"inputSchema":{"type":"object","properties":{"a":true},"required":[null]},"annotations":{"title":1}}`)
	f.Fuzz(func(_ *testing.T, tool string) {
		// It may find what it likes, and must not panic.
		for _, c := range clis() {
			Lint(c.name, []byte(tool))
		}
	})
}
