package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// demoServer is the hidden command that the demo declares as an upstream: an
// MCP server with three tools, so that the demo needs nothing installed.
const demoServer = "demo-server"

// runDemoServer serves on stdin and stdout until its input ends. Its one
// argument is what it calls its version.
func runDemoServer(args []string, in io.Reader, out io.Writer) int {
	version := strings.Join(args, " ")
	tools := fmt.Sprintf(`{"tools":[`+
		`{"name":"version","description":"Says which version answers: %[1]s.","inputSchema":{"type":"object"}},`+
		`{"name":"work","description":"Answers after so many milliseconds.","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"}}}},`+
		`{"name":"crash","description":"Ends the process.","inputSchema":{"type":"object"}}]}`, version)
	var mu sync.Mutex
	answer := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		// The daemon that stopped reading is gone, and so is this process soon.
		_, _ = out.Write(append(line, '\n'))
	}
	r := jsonrpc.NewReader(in, 4<<10, 1<<20)
	for {
		line, err := r.Next()
		if err != nil {
			return exitDone
		}
		var m jsonrpc.Message
		if jsonrpc.Peek(line, &m) != nil || m.Kind() != jsonrpc.Request {
			continue
		}
		id := append([]byte(nil), m.ID.In(line)...)
		method, err := jsonrpc.Unquote(m.Method.In(line))
		switch {
		case err != nil:
		case method == "initialize":
			answer(wire.AppendResult(nil, id, []byte(`{"protocolVersion":"`+wire.Latest+`","capabilities":{"tools":{}},"serverInfo":{"name":"demo","version":"1"}}`)))
		case method == "tools/list":
			answer(wire.AppendResult(nil, id, []byte(tools)))
		case method == "tools/call":
			demoCall(id, append([]byte(nil), m.Params.In(line)...), version, answer)
		default:
			answer(wire.AppendPlainError(nil, id, wire.MethodNotFound, "not served"))
		}
	}
}

// demoCall answers a call once its work is done, beside what comes next.
func demoCall(id, params []byte, version string, answer func([]byte)) {
	var p struct {
		Name      string
		Arguments struct{ MS int }
	}
	if json.Unmarshal(params, &p) != nil || p.Name == "crash" {
		os.Exit(3)
	}
	time.AfterFunc(time.Duration(p.Arguments.MS)*time.Millisecond, func() {
		text := wire.AppendQuoted(nil, version+", pid "+strconv.Itoa(os.Getpid()))
		answer(wire.AppendResult(nil, id, fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, text)))
	})
}
