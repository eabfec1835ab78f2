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

// greeting is what an upstream said of itself in initialize.
type greeting struct {
	instructions string
	revision     string
	announced    map[string]bool // the members that it has lists of
	can          Can
}

// sharedCapabilities are what a shared upstream may ask while it works for one
// session (MCP-5). Roots are not among them: those are asked for at the start,
// when it works for nobody. Nor are pages to be visited: that they are done with
// is told after the call, when it cannot be known to whom.
const sharedCapabilities = `{"elicitation":{"form":{}},"sampling":{}}`

// initializeParams returns the params of initialize (MCP-0): the newest
// handshake revision, and what can be asked.
func initializeParams(version, capabilities string) []byte {
	b := []byte(`{"protocolVersion":"` + wire.Latest + `","capabilities":` + capabilities + `,"clientInfo":{"name":"` +
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
	has := func(name string) bool {
		raw, ok := capabilities[name]
		return ok && string(raw) != "null"
	}
	var resources map[string]json.RawMessage
	_ = json.Unmarshal(capabilities["resources"], &resources)
	g.announced = map[string]bool{"tools": has("tools"), "prompts": has("prompts"), "resources": has("resources"), "resourceTemplates": has("resources")}
	g.can = Can{Complete: has("completions"), Subscribe: string(resources["subscribe"]) == "true", Log: has("logging"), Resources: has("resources")}
	if raw := capabilities["tasks"]; has("tasks") && raw[0] == '{' {
		g.can.Tasks = string(raw)
	}
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
	answer, err := l.ask("initialize", initializeParams(l.unit.opt.Version, l.unit.capabilities()), end)
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
	l.conn.logs.Store(g.can.Log)
	l.log().Debug("initialized", "revision", quoted(g.revision))
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
