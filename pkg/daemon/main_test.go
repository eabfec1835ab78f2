package daemon

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays the upstreams too: called with this word it is one.
const serverRole = "mcp-server"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serverRole {
		serveTools(os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

// serveTools is a minimal MCP server on stdio.
func serveTools(args []string) {
	f := flag.NewFlagSet(serverRole, flag.ExitOnError)
	tools := f.String("tools", "echo", "names of its tools")
	delay := f.Duration("delay", 0, "wait before answering initialize")
	mute := f.Bool("mute", false, "never answer initialize")
	exit := f.Bool("exit", false, "exit when initialize arrives")
	_ = f.Parse(args)
	fmt.Fprintln(os.Stderr, "serving", *tools)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments struct{ Text string }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		var result any
		switch m.Method {
		case "initialize":
			if *exit {
				os.Exit(1)
			}
			if *mute {
				continue
			}
			time.Sleep(*delay)
			result = map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": serverRole, "version": "1"}}
		case "tools/list":
			list := []map[string]any{}
			for _, name := range strings.Split(*tools, ",") {
				list = append(list, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
			}
			result = map[string]any{"tools": list}
		case "tools/call":
			if m.Params.Name == "die" {
				os.Exit(3)
			}
			text := m.Params.Arguments.Text
			if name, env := strings.CutPrefix(text, "$"); env {
				text = os.Getenv(name)
			}
			result = map[string]any{"content": []map[string]any{{"type": "text", "text": text}}}
		}
		line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
		fmt.Printf("%s\n", line)
	}
}
