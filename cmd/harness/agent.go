package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"harness/pkg/control"
	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// agent is an MCP session of the command line's own: `tools` and `call` see
// what an agent would.
type agent struct {
	conn *net.UnixConn
	in   *jsonrpc.Reader
	last int
}

// largestAnswer bounds what one answer may hold; the daemon has a limit of its
// own, and this one only has to be above it.
const largestAnswer = 1<<30 + 1<<20

// dialAgent opens a session and shakes hands.
func (g *globals) dialAgent(ctx context.Context) (*agent, error) {
	conn, err := dialSession(ctx, g.paths(), "")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	a := &agent{conn: conn, in: jsonrpc.NewReader(conn, 64<<10, largestAnswer)}
	params := append(wire.AppendQuoted([]byte(`{"protocolVersion":"`+wire.Latest+`","capabilities":{},"clientInfo":{"name":"harness","version":`), programVersion()), `}}`...)
	if _, err := a.request("initialize", params); err != nil {
		conn.Close()
		return nil, err
	}
	if _, err := conn.Write(append(wire.AppendNotification(nil, "notifications/initialized"), '\n')); err != nil {
		conn.Close()
		return nil, fmt.Errorf("speak to the daemon: %w", err)
	}
	return a, nil
}

// dialSession connects to the first socket that a daemon answers on.
func dialSession(ctx context.Context, paths control.Paths, token string) (*net.UnixConn, error) {
	var first error
	for _, socket := range paths.Sockets() {
		conn, err := control.DialSession(ctx, socket, token)
		if err == nil {
			return conn, nil
		}
		if first == nil || !errors.Is(err, control.ErrUnreachable) {
			first = err
		}
	}
	return nil, first
}

// request sends one request and returns the raw result. A JSON-RPC error is an
// error.
func (a *agent) request(method string, params []byte) ([]byte, error) {
	a.last++
	id := strconv.Itoa(a.last)
	line := append([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`), params...)
	if _, err := a.conn.Write(append(line, "}\n"...)); err != nil {
		return nil, fmt.Errorf("%w: it went away before %s (%w)", control.ErrUnreachable, method, err)
	}
	for {
		line, err := a.in.Next()
		if err != nil {
			return nil, fmt.Errorf("%w: it went away during %s (%w)", control.ErrUnreachable, method, err)
		}
		var m jsonrpc.Message
		if jsonrpc.Peek(line, &m) != nil || m.Kind() != jsonrpc.Response || string(m.ID.In(line)) != id {
			continue
		}
		if !m.Error.Present() {
			return m.Result.In(line), nil
		}
		return nil, rpcError(slices.Clone(m.Error.In(line)))
	}
}

// rpcError is a JSON-RPC error object as it arrived. An upstream's keeps its code
// and data (MCP-7).
type rpcError json.RawMessage

// Error is the message of the object.
func (e rpcError) Error() string {
	var said struct{ Message *string }
	if json.Unmarshal(e, &said) != nil || said.Message == nil {
		return string(e)
	}
	return *said.Message
}
