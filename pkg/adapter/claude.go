package adapter

import (
	"errors"
	"strings"
)

// claude is Claude Code. Its --mcp-config and --allowedTools take any number of
// words and may be repeated, so ours add to the user's. Written with "=" they
// take one word, and leave a prompt alone that comes next. That it asks nobody
// before it calls a tool is said with the tools' common name.
func claude() cli {
	return cli{
		name: "claude-code", program: "claude", packages: []string{"@anthropic-ai/claude-code"},
		rules: []func([]byte) string{sdkList, anthropicSchema},
		wire: func(a Adapter, l Launch) (Wiring, error) {
			if err := literal(l.Bridge, "${"); err != nil {
				return Wiring{}, err
			}
			for _, o := range options(a.own(), true, "--mcp-config") {
				if definesServer(l, o.value) {
					return Wiring{}, errors.New("its own --mcp-config has a server named " + server)
				}
			}
			name, path := file(l, ".claude.json")
			args, err := a.insert(0, "--mcp-config="+path, "--allowedTools=mcp__"+server)
			return Wiring{
				Args:  args,
				Files: []File{{name, []byte(nested(stdioServer(l.Bridge), []string{"mcpServers", server}) + "\n")}},
				How:   "wired by --mcp-config and --allowedTools, which add to its own",
			}, err
		},
		into: "~/.claude.json, or .mcp.json in its working directory", paste: pasteJSON("mcpServers", stdioServer),
	}
}

// definesServer reports whether a value of --mcp-config, JSON or the path of a
// file with it, has a server of our name.
func definesServer(l Launch, value string) bool {
	text := []byte(value)
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		var err error
		if text, err = l.ReadFile(l.abs(value)); err != nil {
			return false
		}
	}
	d, err := parse(text)
	return err == nil && d.has("mcpServers", server)
}
