package fakemodel_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// serve is the argument that makes the test binary an MCP server.
const serve = "serve-echo"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serve {
		echo()
		return
	}
	os.Exit(m.Run())
}

// echo is an MCP server on stdio with one tool. It speaks the revision that it
// is asked for: there are agents that know no newer one.
func echo() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Arguments       struct{ Text string }
			}
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		answer := object{"jsonrpc": "2.0", "id": req.ID}
		switch req.Method {
		case "initialize":
			answer["result"] = object{
				"protocolVersion": req.Params.ProtocolVersion, "capabilities": object{"tools": object{}},
				"serverInfo": object{"name": "echo", "version": "1"},
			}
		case "tools/list":
			answer["result"] = object{"tools": []any{object{
				"name": "echo", "description": "says it again",
				"inputSchema": object{"type": "object", "properties": object{"text": object{"type": "string"}}},
			}}}
		case "tools/call":
			answer["result"] = object{"content": []any{object{"type": "text", "text": "said " + req.Params.Arguments.Text}}}
		default:
			answer["error"] = object{"code": -32601, "message": "method not found"}
		}
		data, err := json.Marshal(answer)
		if err != nil {
			return
		}
		fmt.Println(string(data))
	}
}
