package jsonrpc

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// raw is a Message with the values themselves, which is how tests read it.
func raw(line string, m *Message) map[string]string {
	values := map[string]string{}
	for _, f := range oracleFields(m) {
		if f.span.Present() {
			values[strings.Join(f.path, ".")] = line[f.span.Start:f.span.End]
		}
	}
	return values
}

func TestPeek_FindsWhatARelayNeeds(t *testing.T) {
	tests := []struct {
		name, line string
		kind       Kind
		want       map[string]string
	}{
		{
			"a call", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"name":"no","id":2},"_meta":{"progressToken":"t"}}}`, Request,
			map[string]string{
				"id": "1", "method": `"tools/call"`, "params": `{"name":"echo","arguments":{"name":"no","id":2},"_meta":{"progressToken":"t"}}`,
				"params.name": `"echo"`, "params._meta": `{"progressToken":"t"}`, "params._meta.progressToken": `"t"`,
			},
		},
		{
			"ids as spelled (C25)", `{"id":9007199254740993,"method":"ping"}`, Request,
			map[string]string{"id": "9007199254740993", "method": `"ping"`},
		},
		{
			"white space everywhere", " { \"id\" : \"1\" ,\t\"result\" : { } } \r", Response,
			map[string]string{"id": `"1"`, "result": "{ }"},
		},
		{
			"the id behind a result that has one too", `{"result":{"id":3,"x":["}","\"]",{"id":4}]},"id":5}`, Response,
			map[string]string{"id": "5", "result": `{"id":3,"x":["}","\"]",{"id":4}]}`},
		},
		{
			"escaped keys", `{"\u0069d":0,"m\u0065thod":"tools/call","param\u0073":{"n\u0061me":"x"}}`, Request,
			map[string]string{"id": "0", "method": `"tools/call"`, "params": `{"n\u0061me":"x"}`, "params.name": `"x"`},
		},
		{
			"a failed result", `{"id":1,"result":{"content":[],"isError":true,"_meta":null}}`, Response,
			map[string]string{"id": "1", "result": `{"content":[],"isError":true,"_meta":null}`, "result.content": "[]", "result.isError": "true", "result._meta": "null"},
		},
		{
			"an error", `{"id":1,"error":{"code":-32001,"message":"no","data":{"message":"x"}}}`, Response,
			map[string]string{"id": "1", "error": `{"code":-32001,"message":"no","data":{"message":"x"}}`, "error.message": `"no"`},
		},
		{
			"progress", `{"method":"notifications/progress","params":{"progressToken":7,"progress":0.5}}`, Notification,
			map[string]string{"method": `"notifications/progress"`, "params": `{"progressToken":7,"progress":0.5}`, "params.progressToken": "7"},
		},
		{
			"a cancellation", `{"method":"notifications/cancelled","params":{"requestId":"r","reason":"user"}}`, Notification,
			map[string]string{"method": `"notifications/cancelled"`, "params": `{"requestId":"r","reason":"user"}`, "params.requestId": `"r"`},
		},
		{
			"a cursor that is empty (C13)", `{"id":1,"method":"tools/list","params":{"cursor":""}}`, Request,
			map[string]string{"id": "1", "method": `"tools/list"`, "params": `{"cursor":""}`, "params.cursor": `""`},
		},
		{
			"params that are no object", `{"id":1,"method":"x","params":["name"]}`, Request,
			map[string]string{"id": "1", "method": `"x"`, "params": `["name"]`},
		},
		{
			"a null id beside a method", `{"id":null,"method":"x"}`, Invalid,
			map[string]string{"id": "null", "method": `"x"`},
		},
		{
			"an id that is an object", `{"id":{},"method":"x"}`, Invalid,
			map[string]string{"id": "{}", "method": `"x"`},
		},
		{
			"a method that is no string", `{"id":1,"method":7}`, Invalid,
			map[string]string{"id": "1", "method": "7"},
		},
		{
			"keys left empty by the writer", `{"id":1,"method":null,"params":null,"result":5}`, Response,
			map[string]string{"id": "1", "method": "null", "params": "null", "result": "5"},
		},
		{
			"both a request and a response", `{"id":1,"method":"x","result":{}}`, Invalid,
			map[string]string{"id": "1", "method": `"x"`, "result": "{}"},
		},
		{"nothing", `{}`, Invalid, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, peek := range peeks {
				var m Message
				if err := peek([]byte(tt.line), &m); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := cmp.Diff(tt.want, raw(tt.line, &m)); diff != "" {
					t.Errorf("%s found (-want +got):\n%s", name, diff)
				}
				if m.Kind() != tt.kind {
					t.Errorf("%s: kind is %v, want %v", name, m.Kind(), tt.kind)
				}
			}
		})
	}
}

var peeks = map[string]func([]byte, *Message) error{"Peek": Peek, "PeekValid": PeekValid}

func TestPeek_SaysWhatIsWrongWithALine(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+1)
	tests := []struct {
		name, line string
		want       error
		message    string // of a syntax error
	}{
		{"empty", "", ErrEmpty, ""},
		{"white space", " \t\r", ErrEmpty, ""},
		{"a batch", ` [{"id":1}]`, ErrBatch, ""},
		{"a scalar", `"id"`, ErrNotObject, ""},
		{"a number", `1`, ErrNotObject, ""},
		{"two ids", `{"id":1,"id":2}`, ErrDuplicate, ""},
		{"two ids, one escaped", `{"id":1,"\u0069d":2}`, ErrDuplicate, ""},
		{"two names", `{"params":{"name":"a","x":1,"name":"b"}}`, ErrDuplicate, ""},
		{"two tokens", `{"params":{"_meta":{"progressToken":1,"progressToken":1}}}`, ErrDuplicate, ""},
		{"two isErrors", `{"result":{"isError":false,"isError":true}}`, ErrDuplicate, ""},
		{"two of what nobody reads", `{"x":1,"x":2,"params":{"arguments":{"name":1,"name":2}}}`, nil, ""},
		{"a banner (C03)", `Server v1 starting…`, ErrSyntax, "invalid JSON at byte 0: a value is malformed"},
		{"a word that begins like a literal", `true story`, ErrSyntax, "invalid JSON at byte 5: something follows the value"},
		{"cut off in a string", `{"id":1,"result":{"x":"abc`, ErrSyntax, "invalid JSON at byte 22: a string has no end"},
		{"cut off in an escape", `{"id":1,"result":{"x":"abc\`, ErrSyntax, ""},
		{"cut off in an object", `{"id":1,"result":{"x":1`, ErrSyntax, ""},
		{"cut off behind a colon", `{"id":`, ErrSyntax, "invalid JSON at byte 6: a value is missing"},
		{"cut off behind a comma", `{"id":1,`, ErrSyntax, "invalid JSON at byte 8: a key is missing"},
		{"brackets that do not match", `{"params":{"a":[1}]}`, ErrSyntax, ""},
		{"a bracket too many", `{"id":1}}`, ErrSyntax, "invalid JSON at byte 8: something follows the value"},
		{"two messages", `{"id":1}{"id":2}`, ErrSyntax, ""},
		{"a trailing comma", `{"id":1,}`, ErrSyntax, "invalid JSON at byte 8: a key is missing"},
		{"no comma", `{"id":1 "x":2}`, ErrSyntax, "invalid JSON at byte 8: a comma or a closing bracket is missing"},
		{"no colon", `{"id" 1}`, ErrSyntax, "invalid JSON at byte 6: a colon is missing"},
		{"a key that is no string", `{id:1}`, ErrSyntax, "invalid JSON at byte 1: a key is missing"},
		{"a malformed id", `{"id":01}`, ErrSyntax, ""},
		{"too deep", `{"params":` + deep, ErrSyntax, "invalid JSON at byte 10009: values are nested too deeply"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, peek := range peeks {
				err := peek([]byte(tt.line), new(Message))
				if !errors.Is(err, tt.want) {
					t.Errorf("%s: error is %v, want %v", name, err, tt.want)
				}
				if tt.message != "" && err != nil && err.Error() != tt.message {
					t.Errorf("%s: error is %q, want %q", name, err, tt.message)
				}
			}
		})
	}
}

func TestPeek_LooksAtNoMoreThanItMust(t *testing.T) {
	lines := []string{
		"{\"id\":1,\"result\":{\"content\":\"\xff\"}}",
		`{"id":1,"result":{"content":[1 2,tru]}}`,
		"{\"id\":1,\"result\":\"\\q\x01\"}",
	}
	for _, line := range lines {
		var m Message
		if err := Peek([]byte(line), &m); err != nil || m.Kind() != Response {
			t.Errorf("Peek(%q) is a %v with error %v", line, m.Kind(), err)
		}
		if err := PeekValid([]byte(line), &m); !errors.Is(err, ErrSyntax) {
			t.Errorf("PeekValid(%q): error is %v, want %v", line, err, ErrSyntax)
		}
	}
}

func TestPeek_KeepsWhatItFoundBeforeAFault(t *testing.T) {
	tests := []struct{ name, line, id string }{
		{"a broken answer", `{"id":7,"result":{"content":[}`, "7"},
		{"a doubled key", `{"result":{"content":1,"content":2},"id":8,"id":9}`, "8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var m Message
			if err := Peek([]byte(tt.line), &m); err == nil {
				t.Error("the line is accepted")
			}
			if got := string(m.ID.In([]byte(tt.line))); got != tt.id {
				t.Errorf("id is %q, want %q", got, tt.id)
			}
		})
	}
}

func TestPeek_DoesNotAllocate(t *testing.T) {
	line := []byte(call(1000))
	for name, peek := range peeks {
		var m Message
		if n := testing.AllocsPerRun(100, func() { _ = peek(line, &m) }); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// peekSeeds are lines that take Peek's odd ways.
var peekSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":"t"}}}`,
	`{"result":{"isError":true,"content":[{"type":"text","text":"\\\""}],"_meta":{"a":[[],{}]}},"id":"x"}`,
	`{"error":{"code":-1,"message":"m","data":[1,2.5e-3,true,false,null,"\u00e4\ud800"]},"id":0}`,
	`{"\u0069d":1,"i\u0064":2}`, `{"params":{"cursor":"","requestId":1,"progressToken":2,"name":{}}}`,
	`[]`, `1`, ` `, `{"id":1`, `{"a":[1}`, "{\"a\":\"\xff\"}", `{"i\d":1}`, `{"":{"":[]}}`, `{"id":"\\"}`,
	`{"x":"1234567890123456789012345678901234567890\"\\\\\"1234567890123456789012345678"}`,
	"{\"x\":\"äöüß 漢字 😀 \x7f\"}", `{"id":-0.0E+1,"method":"\""}`, "\ufeff{}", strings.Repeat("[", 70) + strings.Repeat("]", 70),
}

func FuzzPeek(f *testing.F) {
	for _, seed := range peekSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var loose, strict Message
		looseErr, strictErr := Peek(line, &loose), PeekValid(line, &strict)
		if !oracleValid(line) {
			if !errors.Is(strictErr, ErrSyntax) && !errors.Is(strictErr, ErrEmpty) {
				t.Errorf("PeekValid: error is %v", strictErr)
			}
			return
		}
		want, wantErr := oraclePeek(line)
		if !errors.Is(looseErr, wantErr) || !errors.Is(strictErr, wantErr) {
			t.Fatalf("errors are %v and %v, want %v", looseErr, strictErr, wantErr)
		}
		if wantErr != nil {
			return
		}
		if diff := cmp.Diff(want, &loose, cmp.AllowUnexported(Message{})); diff != "" {
			t.Errorf("Peek (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, &strict, cmp.AllowUnexported(Message{})); diff != "" {
			t.Errorf("PeekValid (-want +got):\n%s", diff)
		}
	})
}
