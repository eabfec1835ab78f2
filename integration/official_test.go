package integration

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// official is the official SDK's client on the endpoint of the fleet.
type official struct {
	*mcp.ClientSession
	t   testing.TB
	pid int // of its bridge

	mu      sync.Mutex
	updates []string // URIs of which it was told that they changed
}

// official is a session that presents a token; "" for none.
func (h *home) official(token string) *official {
	h.t.Helper()
	o := &official{t: h.t}
	cmd := h.command(context.Background(), "harness", "mcp")
	cmd.Stderr = os.Stderr
	cmd.Env = append(cmd.Env, "HARNESS_MCP_TOKEN="+token)
	client := mcp.NewClient(&mcp.Implementation{Name: "official", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.updates = append(o.updates, r.Params.URI)
		},
	})
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	s, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	o.ClientSession, o.pid = s, cmd.Process.Pid
	h.t.Cleanup(func() { s.Close() })
	return o
}

// boss is a session with the identity of the harness of that name.
func (h *home) boss() *official {
	h.t.Helper()
	return h.official(h.identityOf("boss", ""))
}

// call calls a tool and waits for its result.
func (o *official) call(tool string, arguments map[string]any) result {
	o.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*patience)
	defer stop()
	res, err := o.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		if _, ok := errors.AsType[*jsonrpc.Error](err); !ok {
			o.t.Errorf("%s: %v", tool, err)
		}
		return result{raw: []byte(err.Error()), err: &rpcError{Message: err.Error()}}
	}
	raw, err := json.Marshal(res)
	if err != nil {
		o.t.Errorf("%s: %v", tool, err)
	}
	return resultOf(o.t, message{Result: raw, raw: raw})
}

// read reads a resource: its text, or the code of why it is not shown.
func (o *official) read(uri string) (text, code string) {
	o.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	res, err := o.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
	if err == nil {
		if len(res.Contents) != 1 || res.Contents[0].MIMEType != "application/json" || res.Contents[0].URI != uri {
			o.t.Errorf("%s: %+v", uri, res.Contents)
			return "", "none"
		}
		return res.Contents[0].Text, ""
	}
	var e *jsonrpc.Error
	var data struct{ Code string }
	if !errors.As(err, &e) || json.Unmarshal(e.Data, &data) != nil || data.Code == "" {
		o.t.Errorf("%s: an error without its form: %v", uri, err)
	}
	return "", data.Code
}

// shown is a resource that has to be there.
func (o *official) shown(uri string) string {
	o.t.Helper()
	text, code := o.read(uri)
	if code != "" {
		o.t.Fatalf("%s: %s", uri, code)
	}
	return text
}

// wasTold reports whether it was told that a resource changed.
func (o *official) wasTold(uri string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.updates, uri)
}
