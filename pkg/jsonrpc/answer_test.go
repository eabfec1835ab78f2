package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAppendErrorPrefix_TouchesTheMessageAlone(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{
			"code, data and unknown keys stay", `{"jsonrpc":"2.0","id":4,"error":{"code":-32001,"message":"no \u00e4\n","data":{"n":1.0,"message":"m"},"x":1}}`,
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32001,"message":"upstream \"k\": no \u00e4\n","data":{"n":1.0,"message":"m"},"x":1}}`,
		},
		{"an empty message", `{"error":{"message":""},"id":4}`, `{"error":{"message":"upstream \"k\": "},"id":"a"}`},
		{"no message", `{"id":4,"error":{"code":1}}`, `{"id":"a","error":{"code":1}}`},
		{"a message that is no string", `{"id":4,"error":{"message":5}}`, `{"id":"a","error":{"message":5}}`},
		{"an error that is a string", `{"id":4,"error":"no"}`, `{"id":"a","error":"no"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m Message
			if err := Peek([]byte(tt.line), &m); err != nil {
				t.Fatal(err)
			}
			got := AppendErrorPrefix(nil, []byte(tt.line), &m, []byte(`"a"`), `upstream "k": `)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAppendUpstreamMark_AddsTwoThingsAndKeepsTheRest(t *testing.T) {
	const item = `{"type":"text","text":"upstream git"}`
	tests := []struct{ name, result, want string }{
		{"content alone", `{"content":[{"type":"text","text":"no"}],"isError":true}`, `{"content":[{"type":"text","text":"no"},` + item + `],"isError":true,"_meta":{"harness/upstream":"git"}}`},
		{"both there", `{"_meta":{"a":1.0},"isError":true,"content":[1]}`, `{"_meta":{"a":1.0,"harness/upstream":"git"},"isError":true,"content":[1,` + item + `]}`},
		{"both empty", `{"_meta":{ },"isError":true,"content":[ ]}`, `{"_meta":{ "harness/upstream":"git"},"isError":true,"content":[ ` + item + `]}`},
		{"both null", `{"_meta":null,"isError":true,"content":null}`, `{"_meta":{"harness/upstream":"git"},"isError":true,"content":[` + item + `]}`},
		{"both missing", `{"isError":true,"toolResult":1e400}`, `{"isError":true,"toolResult":1e400,"_meta":{"harness/upstream":"git"},"content":[` + item + `]}`},
		{"content missing", `{"isError":true,"_meta":{}}`, `{"isError":true,"_meta":{"harness/upstream":"git"},"content":[` + item + `]}`},
		{"content of a wrong type", `{"isError":true,"content":"no"}`, `{"isError":true,"content":"no","_meta":{"harness/upstream":"git"}}`},
		{"_meta of a wrong type", `{"isError":true,"content":[],"_meta":[]}`, `{"isError":true,"content":[` + item + `],"_meta":[]}`},
		{"marked before", `{"isError":true,"content":[],"_meta":{"harness/upstream":"other","b":2}}`, `{"isError":true,"content":[` + item + `],"_meta":{"harness/upstream":"git","b":2}}`},
		{"marked twice before", `{"isError":true,"content":[],"_meta":{"harness/upstream":1,"harness/upstream":2}}`, `{"isError":true,"content":[` + item + `],"_meta":{"harness/upstream":1,"harness/upstream":2}}`},
		{"a result that is empty", `{}`, `{"_meta":{"harness/upstream":"git"},"content":[` + item + `]}`},
		{"a result that is no object", `[]`, `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := `{"jsonrpc":"2.0", "result":` + tt.result + `,"id":4}`
			want := `{"jsonrpc":"2.0", "result":` + tt.want + `,"id":"a"}`
			var m Message
			if err := Peek([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			got := string(AppendUpstreamMark(nil, []byte(line), &m, []byte(`"a"`), "git"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAppendUpstreamMark_StaysValidForAnyResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := []byte(`{"id":1,"result":` + value(4).Draw(t, "result") + `}`)
		var m Message
		if Peek(line, &m) != nil {
			return // a duplicate key: no answer to pass on
		}
		got := AppendUpstreamMark(nil, line, &m, []byte("2"), "k\"ey")
		if !json.Valid(got) {
			t.Fatalf("%q became %q", line, got)
		}
		if strings.HasPrefix(strings.TrimSpace(string(m.Result.In(line))), "{") && m.ResultMeta.In(line) == nil && !strings.Contains(string(got), `"_meta":{"harness/upstream":"k\"ey"}`) {
			t.Errorf("%q became %q, which is not marked", line, got)
		}
	})
}
