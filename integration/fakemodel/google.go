package fakemodel

import (
	"encoding/json"
	"net/http"
	"strings"
)

// gemini is the API of Gemini CLI. The path says the model and whether to
// stream.
func gemini() api {
	return api{
		name: "gemini",
		asks: func(r *http.Request) bool {
			return posted(":generateContent")(r) || posted(":streamGenerateContent")(r)
		},
		parse: parseGemini, whole: candidate,
		stream: func(s *stream, q ask, r reply) { s.event("", candidate(q, r)) },
	}
}

func parseGemini(path string, body []byte) (ask, error) {
	var req struct {
		Tools []struct {
			FunctionDeclarations []struct{ Name string }
		}
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct {
					ID       string
					Response any
				}
			}
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return ask{}, err
	}
	model, verb, _ := strings.Cut(path[strings.LastIndex(path, "/")+1:], ":")
	q := ask{model: model, stream: strings.HasPrefix(verb, "stream")}
	for _, t := range req.Tools {
		for _, f := range t.FunctionDeclarations {
			q.tools = append(q.tools, tool{name: f.Name})
		}
	}
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if f := p.FunctionResponse; f != nil {
				q.results = append(q.results, outcome{f.ID, texts(f.Response)})
			}
		}
	}
	return q, nil
}

func candidate(q ask, r reply) any {
	part := object{"text": r.text}
	if r.tool.name != "" {
		part = object{"functionCall": object{"id": r.id, "name": r.tool.name, "args": r.args}}
	}
	return object{
		"candidates":    []any{object{"index": 0, "finishReason": "STOP", "content": object{"role": "model", "parts": []any{part}}}},
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
		"modelVersion":  q.model,
	}
}
