package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// core answers what the endpoint itself serves, for one catalog. It is
// immutable after newCore.
type core struct{ mcp *server.MCPServer }

func newCore(version, instructions string, prompts []*Prompt, own []OwnTool) *core {
	s := server.NewMCPServer(wire.ServerName, version,
		server.WithToolCapabilities(true),
		server.WithPromptCapabilities(true),
		server.WithResourceCapabilities(false, true),
		server.WithLogging(),
		server.WithInstructions(instructions),
	)
	for _, p := range prompts {
		s.AddPrompt(describe(p), render(p))
	}
	for _, t := range own {
		s.AddTool(t.Tool, t.handle)
	}
	return &core{s}
}

// describe returns p as the protocol lists it.
func describe(p *Prompt) mcp.Prompt {
	out := mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
	for _, a := range p.Arguments {
		out.Arguments = append(out.Arguments, mcp.PromptArgument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return out
}

// render returns the handler of prompts/get for p. Arguments were checked
// before, because the library answers a handler's error with a code of its own.
func render(p *Prompt) server.PromptHandlerFunc {
	return func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		text, err := p.Render(req.Params.Arguments)
		if err != nil {
			return nil, err
		}
		return mcp.NewGetPromptResult(p.Description, []mcp.PromptMessage{
			mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text)),
		}), nil
	}
}

// handle answers one request with the library and splices the agent's own id
// into the answer, which ends without a newline. params is raw JSON or nil; it
// must not carry a _meta, which could switch the library to another era.
func (c *core) handle(ctx context.Context, dst, id []byte, method string, params []byte) (out []byte, err error) {
	// HandleMessage does not recover, and a request must never cost the daemon.
	defer func() {
		if r := recover(); r != nil {
			out, err = dst, fmt.Errorf("%s: panic: %v", method, r)
		}
	}()
	request := append([]byte(`{"jsonrpc":"2.0","id":0,"method":`), wire.AppendQuoted(nil, method)...)
	if params != nil {
		request = append(append(request, `,"params":`...), params...)
	}
	answer := c.mcp.HandleMessage(ctx, append(request, '}'))
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(answer); err != nil {
		return dst, fmt.Errorf("encode the answer to %s: %w", method, err)
	}
	line := bytes.TrimSpace(b.Bytes())
	var m jsonrpc.Message
	if err := jsonrpc.Peek(line, &m); err != nil || !m.ID.Present() {
		return dst, fmt.Errorf("%s was not answered: %v", method, err)
	}
	return jsonrpc.Splice(dst, line, jsonrpc.Edit{At: m.ID, With: id}), nil
}

// promptsList returns the raw result of prompts/list.
func (c *core) promptsList() ([]byte, error) {
	line, err := c.handle(context.Background(), nil, []byte("0"), "prompts/list", nil)
	if err != nil {
		return nil, err
	}
	var m jsonrpc.Message
	if err := jsonrpc.Peek(line, &m); err != nil || !m.Result.Present() {
		return nil, fmt.Errorf("unexpected answer: %v", err)
	}
	return m.Result.In(line), nil
}

// coreSession is what the library knows of a session. It lives as long as the
// session does, while cores come and go.
type coreSession struct {
	id    string
	mu    sync.Mutex
	level mcp.LoggingLevel
}

var _ server.SessionWithLogging = (*coreSession)(nil)

// Initialize does nothing: notifications are ours and have a gate of their own.
func (s *coreSession) Initialize() {}

// Initialized is always true for the library; see Initialize.
func (s *coreSession) Initialized() bool { return true }

// NotificationChannel returns nil: the library sends no notification here.
func (s *coreSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return nil }

// SessionID returns the session's id.
func (s *coreSession) SessionID() string { return s.id }

// SetLogLevel remembers the level that the agent asked for.
func (s *coreSession) SetLogLevel(level mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

// GetLogLevel returns the level that the agent asked for, "" for none.
func (s *coreSession) GetLogLevel() mcp.LoggingLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}
