package adapter

import (
	"errors"
	"path"
	"strings"
	"time"
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
		own: own{origins: claudeOrigins, decode: jsonTree, off: claudeOff, read: func(w World, f *fields, s *OwnServer) {
			f.remote(s, "url")
			f.command(s, w.shell(braced))
			// It does not heed one of less than a second.
			if d := f.duration("timeout", time.Millisecond); d >= time.Second {
				s.CallTimeout = d
			}
		}},
	}
}

// claudeOrigins are the user's file, then those of the repository, then what the
// user's file has for the repository alone.
func claudeOrigins(w World) []origin {
	user := w.directory("CLAUDE_CONFIG_DIR", ".claude.json", ".claude.json")
	list := []origin{{user, []string{"mcpServers"}, w.Dir, false}}
	for _, dir := range here(w) {
		list = append(list, origin{path.Join(dir, ".mcp.json"), []string{"mcpServers"}, dir, true})
	}
	for _, dir := range here(w) {
		list = append(list, origin{user, []string{"projects", dir, "mcpServers"}, dir, true})
	}
	return list
}

// claudeOff says which servers of the repository the user has switched off in
// it. What is switched off here is on elsewhere, so it says nothing of others.
func claudeOff(w World, load func(string) map[string]any) func(OwnServer) bool {
	user := load(w.directory("CLAUDE_CONFIG_DIR", ".claude.json", ".claude.json"))
	settings := []map[string]any{load(w.directory("CLAUDE_CONFIG_DIR", "settings.json", ".claude/settings.json"))}
	for _, dir := range here(w) {
		settings = append(settings, load(path.Join(dir, ".claude/settings.json")), load(path.Join(dir, ".claude/settings.local.json")))
	}
	return func(s OwnServer) bool {
		if !s.Project {
			return false
		}
		const shared = "disabledMcpjsonServers"
		off := false
		for _, dir := range here(w) {
			one, _ := listed(user, s.Name, "projects", dir, "disabledMcpServers")
			other, _ := listed(user, s.Name, "projects", dir, shared)
			off = off || one || other && path.Base(s.File) == ".mcp.json"
		}
		for _, tree := range settings {
			one, _ := listed(tree, s.Name, shared)
			off = off || one && path.Base(s.File) == ".mcp.json"
		}
		return off
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
