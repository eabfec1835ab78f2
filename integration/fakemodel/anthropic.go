package fakemodel

import "encoding/json"

// messages is the API of Claude Code.
func messages() api {
	return api{
		name: "messages", asks: posted("/v1/messages"), parse: parseMessages,
		whole: func(q ask, r reply) any {
			m := message(q, r)
			m["content"], m["stop_reason"] = []any{block(r, r.args)}, stopReason(r)
			return m
		},
		stream: func(s *stream, q ask, r reply) {
			delta := object{"type": "text_delta", "text": r.text}
			start := block(r, object{})
			if r.tool.name != "" {
				delta = object{"type": "input_json_delta", "partial_json": string(r.args)}
			} else {
				start["text"] = ""
			}
			s.event("message_start", object{"type": "message_start", "message": message(q, r)})
			s.event("content_block_start", object{"type": "content_block_start", "index": 0, "content_block": start})
			s.event("content_block_delta", object{"type": "content_block_delta", "index": 0, "delta": delta})
			s.event("content_block_stop", object{"type": "content_block_stop", "index": 0})
			s.event("message_delta", object{
				"type": "message_delta", "usage": object{"output_tokens": 1},
				"delta": object{"stop_reason": stopReason(r), "stop_sequence": nil},
			})
			s.event("message_stop", object{"type": "message_stop"})
		},
	}
}

func parseMessages(_ string, body []byte) (ask, error) {
	var req struct {
		Model  string
		Stream bool
		Tools  []struct{ Name string }
		// Content is a string or a list of blocks.
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, err
	}
	q := ask{model: req.Model, stream: req.Stream}
	for _, t := range req.Tools {
		q.tools = append(q.tools, tool{name: t.Name})
	}
	for _, m := range req.Messages {
		var blocks []struct {
			Type      string
			ToolUseID string `json:"tool_use_id"`
			Content   any
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			continue // a string
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				q.results = append(q.results, outcome{b.ToolUseID, texts(b.Content)})
			}
		}
	}
	return q, nil
}

// message is the frame of an answer.
func message(q ask, r reply) object {
	return object{
		"id": "msg_" + r.id, "type": "message", "role": "assistant", "model": q.model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 1, "output_tokens": 1},
	}
}

// block is the one block in an answer.
func block(r reply, input any) object {
	if r.tool.name == "" {
		return object{"type": "text", "text": r.text}
	}
	return object{"type": "tool_use", "id": r.id, "name": r.tool.name, "input": input}
}

func stopReason(r reply) string {
	if r.tool.name == "" {
		return "end_turn"
	}
	return "tool_use"
}
