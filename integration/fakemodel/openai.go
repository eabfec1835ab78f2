package fakemodel

import "encoding/json"

// responses is the API of Codex. A server's tools are a space of their own.
func responses() api {
	return api{
		name: "responses", asks: posted("/responses"), parse: parseResponses,
		whole: response,
		stream: func(s *stream, q ask, r reply) {
			s.event("response.created", object{"type": "response.created", "response": object{"id": "resp_" + r.id}})
			s.event("response.output_item.done", object{"type": "response.output_item.done", "output_index": 0, "item": item(r)})
			s.event("response.completed", object{"type": "response.completed", "response": response(q, r)})
		},
	}
}

func parseResponses(_ string, body []byte) (ask, error) {
	type declared struct {
		Name, Type string
		Tools      []struct{ Name string }
	}
	var req struct {
		Model  string
		Stream bool
		Tools  []declared
		// Input is a string or a list of items.
		Input json.RawMessage
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, err
	}
	q := ask{model: req.Model, stream: req.Stream}
	for _, t := range req.Tools {
		switch {
		case t.Tools != nil:
			for _, inner := range t.Tools {
				q.tools = append(q.tools, tool{t.Name, inner.Name})
			}
		case t.Name != "":
			q.tools = append(q.tools, tool{name: t.Name})
		default:
			q.tools = append(q.tools, tool{name: t.Type}) // a tool of the API's own
		}
	}
	var items []struct {
		Type   string
		CallID string `json:"call_id"`
		Output any
	}
	_ = json.Unmarshal(req.Input, &items) // a string has none
	for _, i := range items {
		if i.Type == "function_call_output" {
			q.results = append(q.results, outcome{i.CallID, texts(i.Output)})
		}
	}
	return q, nil
}

func response(q ask, r reply) any {
	return object{
		"id": "resp_" + r.id, "object": "response", "status": "completed", "model": q.model, "output": []any{item(r)},
		"usage": object{"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2},
	}
}

// item is the one item in a response.
func item(r reply) object {
	if r.tool.name == "" {
		return object{
			"type": "message", "id": "msg_" + r.id, "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": r.text, "annotations": []any{}}},
		}
	}
	o := object{"type": "function_call", "id": "fc_" + r.id, "call_id": r.id, "name": r.tool.name, "arguments": string(r.args), "status": "completed"}
	if r.tool.space != "" {
		o["namespace"] = r.tool.space
	}
	return o
}

// chat is the API of whatever calls itself compatible with OpenAI: of
// opencode's, here.
func chat() api {
	return api{
		name: "chat", asks: posted("/chat/completions"), parse: parseChat,
		whole: func(q ask, r reply) any {
			o := completion(q, r, "chat.completion")
			o["choices"] = []any{object{"index": 0, "message": said(r), "finish_reason": finish(r)}}
			return o
		},
		stream: func(s *stream, q ask, r reply) {
			part, end := completion(q, r, "chat.completion.chunk"), completion(q, r, "chat.completion.chunk")
			part["choices"] = []any{object{"index": 0, "delta": said(r), "finish_reason": nil}}
			end["choices"] = []any{object{"index": 0, "delta": object{}, "finish_reason": finish(r)}}
			s.event("", part)
			s.event("", end)
			s.write("data: [DONE]\n\n")
		},
	}
}

func parseChat(_ string, body []byte) (ask, error) {
	var req struct {
		Model    string
		Stream   bool
		Tools    []struct{ Function struct{ Name string } }
		Messages []struct {
			Role       string
			ToolCallID string `json:"tool_call_id"`
			Content    any
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, err
	}
	q := ask{model: req.Model, stream: req.Stream}
	for _, t := range req.Tools {
		q.tools = append(q.tools, tool{name: t.Function.Name})
	}
	for _, m := range req.Messages {
		if m.Role == "tool" {
			q.results = append(q.results, outcome{m.ToolCallID, texts(m.Content)})
		}
	}
	return q, nil
}

// completion is the frame of an answer.
func completion(q ask, r reply, kind string) object {
	return object{
		"id": "chat_" + r.id, "object": kind, "created": 1, "model": q.model,
		"usage": object{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	}
}

// said is the message of an answer, or the whole change to it.
func said(r reply) object {
	if r.tool.name == "" {
		return object{"role": "assistant", "content": r.text}
	}
	return object{"role": "assistant", "content": nil, "tool_calls": []any{
		object{"index": 0, "id": r.id, "type": "function", "function": object{"name": r.tool.name, "arguments": string(r.args)}},
	}}
}

func finish(r reply) string {
	if r.tool.name == "" {
		return "stop"
	}
	return "tool_calls"
}
