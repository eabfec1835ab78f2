package fakemodel_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/integration/fakemodel"
)

// agent speaks one API, as far as these tests need it.
type agent struct {
	path string
	// ask is a request with the results so far.
	ask func(stream bool, results []result) any
	// call finds the id and the name of the call in a JSON text of an answer.
	call func(doc map[string]any) (id, name string)
}

type (
	result struct{ id, text string }
	object = map[string]any
)

func agents() map[string]agent {
	return map[string]agent{
		"messages": {
			path: "/v1/messages",
			ask: func(stream bool, results []result) any {
				messages := []any{object{"role": "user", "content": "go on"}}
				for _, r := range results {
					messages = append(messages, object{"role": "user", "content": []any{
						object{"type": "tool_result", "tool_use_id": r.id, "content": []any{object{"type": "text", "text": r.text}}},
					}})
				}
				return object{"model": "m", "stream": stream, "messages": messages, "tools": []any{object{"name": "Bash"}, object{"name": "mcp__h__one"}, object{"name": "mcp__h__two"}}}
			},
			call: func(doc object) (string, string) {
				block, ok := doc["content_block"].(object)
				if list, whole := doc["content"].([]any); whole && len(list) > 0 {
					block, ok = list[0].(object)
				}
				if !ok || block["type"] != "tool_use" {
					return "", ""
				}
				return block["id"].(string), block["name"].(string)
			},
		},
		"responses": {
			path: "/v1/responses",
			ask: func(stream bool, results []result) any {
				input := []any{object{"type": "message"}}
				for _, r := range results {
					input = append(input, object{"type": "function_call_output", "call_id": r.id, "output": r.text})
				}
				return object{"model": "m", "stream": stream, "input": input, "tools": []any{
					object{"type": "web_search"},
					object{"type": "function", "name": "shell"},
					object{"type": "namespace", "name": "mcp__h", "tools": []any{object{"name": "one"}, object{"name": "two"}}},
				}}
			},
			call: func(doc object) (string, string) {
				item, ok := doc["item"].(object)
				if list, whole := doc["output"].([]any); whole && len(list) > 0 {
					item, ok = list[0].(object)
				}
				if !ok || item["type"] != "function_call" {
					return "", ""
				}
				return item["call_id"].(string), item["namespace"].(string) + "__" + item["name"].(string)
			},
		},
		"chat": {
			path: "/v1/chat/completions",
			ask: func(stream bool, results []result) any {
				messages := []any{object{"role": "user", "content": "go on"}}
				for _, r := range results {
					messages = append(messages, object{"role": "tool", "tool_call_id": r.id, "content": r.text})
				}
				var tools []any
				for _, name := range []string{"bash", "mcp__h__one", "mcp__h__two"} {
					tools = append(tools, object{"type": "function", "function": object{"name": name}})
				}
				return object{"model": "m", "stream": stream, "messages": messages, "tools": tools}
			},
			call: func(doc object) (string, string) {
				choice := doc["choices"].([]any)[0].(object)
				said, ok := choice["delta"].(object)
				if !ok {
					said = choice["message"].(object)
				}
				calls, ok := said["tool_calls"].([]any)
				if !ok {
					return "", ""
				}
				return calls[0].(object)["id"].(string), calls[0].(object)["function"].(object)["name"].(string)
			},
		},
		"gemini": {
			path: "/v1beta/models/m:",
			ask: func(_ bool, results []result) any {
				contents := []any{object{"role": "user", "parts": []any{object{"text": "go on"}}}}
				for _, r := range results {
					contents = append(contents, object{"parts": []any{object{"functionResponse": object{"id": r.id, "response": object{"output": r.text}}}}})
				}
				return object{"contents": contents, "tools": []any{
					object{"functionDeclarations": []any{object{"name": "shell"}, object{"name": "mcp__h__one"}}},
					object{"functionDeclarations": []any{object{"name": "mcp__h__two"}}},
				}}
			},
			call: func(doc object) (string, string) {
				part := doc["candidates"].([]any)[0].(object)["content"].(object)["parts"].([]any)[0].(object)
				call, ok := part["functionCall"].(object)
				if !ok {
					return "", ""
				}
				return call["id"].(string), call["name"].(string)
			},
		},
	}
}

// post sends one request and returns the JSON texts of the answer.
func post(t *testing.T, m *fakemodel.Model, path string, body any, stream bool) (docs []object) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(data))))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	texts := []string{w.Body.String()}
	if stream {
		texts = nil
		for line := range strings.Lines(w.Body.String()) {
			if text, ok := strings.CutPrefix(line, "data: "); ok && text != "[DONE]\n" {
				texts = append(texts, text)
			}
		}
	}
	for _, text := range texts {
		var doc object
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		docs = append(docs, doc)
	}
	return docs
}

// turn has the agent ask once, and returns the call in the answer.
func (a agent) turn(t *testing.T, m *fakemodel.Model, stream bool, results []result) (id, name string) {
	t.Helper()
	path := a.path
	if strings.HasSuffix(path, ":") {
		path += map[bool]string{true: "streamGenerateContent?alt=sse", false: "generateContent"}[stream]
	}
	for _, doc := range post(t, m, path, a.ask(stream, results), stream) {
		if doc["choices"] == nil && doc["candidates"] == nil && strings.Contains(a.path, "chat") {
			continue
		}
		if i, n := a.call(doc); n != "" {
			id, name = i, n
		}
	}
	return id, name
}

func TestModel_WorksOffItsPlanInEveryAPI(t *testing.T) {
	t.Parallel()
	for api, a := range agents() {
		for _, stream := range []bool{true, false} {
			m := fakemodel.New(fakemodel.Call{Tool: "__one", Args: `{"a":1}`}, fakemodel.Call{Tool: "two"})
			var results []result
			for n, want := range []string{"mcp__h__one", "mcp__h__two", ""} {
				if err := m.Err(); err == nil {
					t.Errorf("%s: done after %d of 2 calls", api, n)
				}
				id, name := a.turn(t, m, stream, results)
				if name != want {
					t.Fatalf("%s, turn %d: calls %q, want %q", api, n, name, want)
				}
				results = append(results, result{id, "said " + name})
			}
			if err := m.Err(); err != nil {
				t.Errorf("%s: %v", api, err)
			}
			want := []fakemodel.Result{{Tool: "mcp__h__one", Text: "said mcp__h__one"}, {Tool: "mcp__h__two", Text: "said mcp__h__two"}}
			if diff := cmp.Diff(want, m.Results()); diff != "" {
				t.Errorf("%s, results (-want +got):\n%s", api, diff)
			}
			turns := m.Turns()
			if len(turns) != 3 || turns[0].API != api || turns[1].Called != "mcp__h__two" || turns[2].Called != "" || !strings.Contains(string(turns[0].Body), "go on") && api != "responses" {
				t.Errorf("%s: turns %+v", api, turns)
			}
			if got := strings.Join(turns[0].Tools, " "); !strings.HasSuffix(got, " mcp__h__one mcp__h__two") {
				t.Errorf("%s: offered %s", api, got)
			}
		}
	}
}

func TestModel_SaysSoWhenAToolIsNotOffered(t *testing.T) {
	t.Parallel()
	for api, a := range agents() {
		m := fakemodel.New(fakemodel.Call{Tool: "three"}, fakemodel.Call{Tool: "one"})
		for range 2 {
			if _, name := a.turn(t, m, true, nil); name != "" {
				t.Errorf("%s: calls %s", api, name)
			}
		}
		if err := m.Err(); err == nil || !strings.Contains(err.Error(), `"three"`) {
			t.Errorf("%s: %v", api, err)
		}
	}
}

// What is not on offer yet is waited for, or called all the same.
func TestModel_WaitsForAToolOrCallsItUnlisted(t *testing.T) {
	t.Parallel()
	for api, a := range agents() {
		told := 0
		m := fakemodel.New(
			fakemodel.Call{Tool: "three", Like: "one"},
			fakemodel.Call{Tool: "two", Before: func() { told++ }},
			fakemodel.Call{Tool: "one", Until: "two", Gone: "one", Before: func() { told++ }},
			fakemodel.Call{Tool: "four", Until: "two", Before: func() { told++ }},
		)
		if id, name := a.turn(t, m, true, nil); id != "call_0" || name != "mcp__h__three" {
			t.Errorf("%s: unlisted: %s %s", api, id, name)
		}
		a.turn(t, m, true, nil)
		if told != 1 {
			t.Errorf("%s: told %d times before a call", api, told)
		}
		for n := 1; n <= 3; n++ {
			if id, name := a.turn(t, m, true, nil); id != fmt.Sprintf("spare_%d", n) || name != "mcp__h__two" {
				t.Errorf("%s: while it waits: %s %s", api, id, name)
			}
		}
		select {
		case <-m.Over():
			t.Errorf("%s: over before its end", api)
		default:
		}
		for range 250 {
			a.turn(t, m, true, nil)
		}
		<-m.Over()
		if err := m.Err(); err == nil || !strings.Contains(err.Error(), `"four"`) || told != 2 {
			t.Errorf("%s: %v", api, err)
		}
	}
}

func TestModel_SpeaksAsideWithoutATurn(t *testing.T) {
	t.Parallel()
	m := fakemodel.New(fakemodel.Call{Tool: "one"})
	docs := post(t, m, "/v1/chat/completions", object{"model": "m", "messages": []any{object{"role": "user", "content": "a title"}}}, false)
	if docs[0]["choices"].([]any)[0].(object)["message"].(object)["content"] != "fine" || len(m.Turns()) != 0 {
		t.Errorf("%v, turns %v", docs, m.Turns())
	}
	if docs := post(t, m, "/v1/messages/count_tokens", object{}, false); docs[0]["input_tokens"] != 1.0 {
		t.Errorf("%v", docs)
	}
	for _, tc := range []struct {
		method, path, body string
		code               int
	}{
		{http.MethodHead, "/", "", 200},
		{http.MethodGet, "/v1/models", "", 200},
		{http.MethodPost, "/v1beta/models/m:countTokens", "{}", 200},
		{http.MethodGet, "/v1/messages", "", 404},
		{http.MethodPost, "/v1/messages", "{", 400},
	} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
		if w.Code != tc.code {
			t.Errorf("%s %s: %d", tc.method, tc.path, w.Code)
		}
	}
	if diff := cmp.Diff([]string{"GET /v1/messages"}, m.Strays()); diff != "" {
		t.Errorf("strays (-want +got):\n%s", diff)
	}
	if err := m.Err(); err == nil || !strings.Contains(err.Error(), "messages") {
		t.Errorf("a broken request: %v", err)
	}
}
