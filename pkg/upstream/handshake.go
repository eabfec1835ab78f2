package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"harness/pkg/wire"
)

// statelessRevision is the first revision without initialize. Servers that
// speak it alone are recognised, not served.
const statelessRevision = "2026-07-28"

// maxPages bounds one listing, against a server that never ends it.
const maxPages = 1000

// greeting is what an upstream said of itself in initialize.
type greeting struct {
	instructions string
	revision     string
	tools        bool // it announced tools
}

// initializeParams returns the params of initialize (MCP-0): the newest
// handshake revision, and no capabilities, since nothing a shared upstream
// asks could be relayed.
func initializeParams(version string) []byte {
	b := []byte(`{"protocolVersion":"` + wire.Latest + `","capabilities":{},"clientInfo":{"name":"` +
		wire.ServerName + `","version":`)
	return append(wire.AppendQuoted(b, version), "}}"...)
}

// discoverParams returns the params of server/discover, which carry in _meta
// what initialize would have said.
func discoverParams(version string) []byte {
	const prefix = "io.modelcontextprotocol/"
	b := []byte(`{"_meta":{"` + prefix + `protocolVersion":"` + statelessRevision + `","` +
		prefix + `clientCapabilities":{},"` + prefix + `clientInfo":{"name":"` + wire.ServerName + `","version":`)
	return append(wire.AppendQuoted(b, version), "}}}"...)
}

// parseGreeting reads the result of initialize. Keys are matched exactly.
func parseGreeting(result []byte) (greeting, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(result, &fields); err != nil || fields == nil {
		return greeting{}, errors.New("the answer to initialize is not an object")
	}
	var g greeting
	// What is missing or of a wrong type counts as not said.
	_ = json.Unmarshal(fields["instructions"], &g.instructions)
	_ = json.Unmarshal(fields["protocolVersion"], &g.revision)
	var capabilities map[string]json.RawMessage
	_ = json.Unmarshal(fields["capabilities"], &capabilities)
	tools, ok := capabilities["tools"]
	g.tools = ok && string(tools) != "null"
	return g, nil
}

// parseDiscovery returns the revisions that an answer to server/discover
// names.
func parseDiscovery(result []byte) string {
	var fields map[string]json.RawMessage
	var versions []string
	// An answer that names none is an answer all the same.
	_ = json.Unmarshal(result, &fields)
	_ = json.Unmarshal(fields["supportedVersions"], &versions)
	return quoted(strings.Join(versions, ", "))
}

// greet performs the handshake within timeout and returns what the upstream
// said of itself.
func (l *life) greet(timeout time.Duration) (greeting, error) {
	end := time.Now().Add(timeout)
	answer, err := l.ask("initialize", initializeParams(l.unit.opt.Version), end)
	if errors.Is(err, errTimeout) {
		return greeting{}, fmt.Errorf("no answer to initialize within start_timeout (%s)", timeout)
	}
	if err != nil {
		return greeting{}, err
	}
	if message, refused := answer.refusal(); refused {
		return greeting{}, l.discover(message, end)
	}
	g, err := parseGreeting(answer.m.Result.In(answer.line))
	if err != nil {
		return greeting{}, err
	}
	l.log().Debug("initialized", "revision", quoted(g.revision), "tools", g.tools)
	l.conn.write([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return g, nil
}

// discover finds out whether an upstream that refused initialize speaks a
// stateless revision (MCP-0). It always returns why the start failed.
func (l *life) discover(refusal string, end time.Time) error {
	answer, err := l.ask("server/discover", discoverParams(l.unit.opt.Version), end)
	if err != nil && !errors.Is(err, errTimeout) {
		return err
	}
	if _, refused := answer.refusal(); err != nil || refused {
		return fmt.Errorf("initialize was refused: %s", refusal)
	}
	versions := parseDiscovery(answer.m.Result.In(answer.line))
	if versions != "" {
		versions = " (" + versions + ")"
	}
	return fmt.Errorf("it speaks only stateless revisions of MCP%s, which are not relayed yet; it refused initialize: %s",
		versions, refusal)
}

// list fetches all pages of the upstream's tools, each within timeout.
func (l *life) list(g greeting, timeout time.Duration) (*Offer, error) {
	list := toolList{}
	if !g.tools {
		return newOffer(nil, g.instructions), nil
	}
	params, seen, size := []byte("{}"), map[string]bool{}, int64(0)
	for range maxPages {
		p, n, err := l.page(params, timeout)
		if err != nil {
			return nil, err
		}
		list.add(p)
		size += int64(n)
		switch {
		case p.next == nil:
			l.reportOdd(list.odd)
			return newOffer(list.tools, g.instructions), nil
		case seen[string(p.next)]:
			return nil, errors.New("tools/list: a cursor came twice")
		case size > l.maxMessage:
			return nil, errors.New("tools/list: the pages together are longer than max_message")
		}
		seen[string(p.next)] = true
		params = append(append([]byte(`{"cursor":`), p.next...), '}')
	}
	return nil, fmt.Errorf("tools/list: more than %d pages", maxPages)
}

// page fetches one page and says how long its line was.
func (l *life) page(params []byte, timeout time.Duration) (page, int, error) {
	answer, err := l.ask("tools/list", params, time.Now().Add(timeout))
	if errors.Is(err, errTimeout) {
		return page{}, 0, fmt.Errorf("no answer to tools/list within %s", timeout)
	}
	if err != nil {
		return page{}, 0, err
	}
	if message, refused := answer.refusal(); refused {
		return page{}, 0, fmt.Errorf("tools/list was refused: %s", message)
	}
	p, err := parsePage(answer.m.Result.In(answer.line))
	if err != nil {
		return page{}, 0, fmt.Errorf("tools/list: %w", err)
	}
	return p, len(answer.line), nil
}

// reportOdd warns about the tools that were left out of a list.
func (l *life) reportOdd(odd []string) {
	for i, why := range odd {
		if i == 5 {
			l.log().Warn("more tools were left out", "count", len(odd)-i)
			return
		}
		l.log().Warn("a tool was left out", "reason", quoted(why))
	}
}
