package adapter

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

// codex is Codex. Settings come as -c key=value, later ones over earlier ones,
// so ours are first and the user's can tune them. A turn would begin without a
// server that is not required, and calls be refused that need to be approved.
func codex() cli {
	return cli{
		name: "codex", program: "codex", packages: []string{"@openai/codex"},
		rules: []func([]byte) string{typedList},
		wire: func(a Adapter, l Launch) (Wiring, error) {
			at := 0
			for _, o := range options(a.own(), false, "-c", "--config") {
				key, value, _ := strings.Cut(o.value, "=")
				switch key = strings.TrimSpace(key); {
				case slices.Contains([]string{codexTable, codexTable + ".command", codexTable + ".url"}, key),
					key == "mcp_servers" && slices.Contains(tableKeys(value), server):
					return Wiring{}, errors.New("its own -c has a server named " + server)
				case key == "mcp_servers":
					at = o.end // it replaces all servers before it
				}
			}
			args, err := a.insert(at, "-c", codexTable+"={command="+quote(l.Bridge[0])+",args="+quoteAll(l.Bridge[1:])+
				`,required=true,default_tools_approval_mode="approve"}`)
			return Wiring{Args: args, How: "wired by -c " + codexTable + ", beside its own servers"}, err
		},
		into: "~/.codex/config.toml",
		paste: func(bridge []string) string {
			return "[" + codexTable + "]\ncommand = " + quote(bridge[0]) + "\nargs = " + quoteAll(bridge[1:]) +
				"\nrequired = true\ndefault_tools_approval_mode = \"approve\"\n"
		},
		own: own{decode: tomlTree, read: codexServer, origins: func(w World) []origin {
			return []origin{{w.directory("CODEX_HOME", "config.toml", ".codex/config.toml"), []string{"mcp_servers"}, w.Dir, false}}
		}},
	}
}

// codexServer takes words as they stand. What a server is let through of the
// environment need not be said: one of harness's has all of it.
func codexServer(_ World, f *fields, s *OwnServer) {
	f.remote(s, "url")
	f.command(s, literally)
	s.StartTimeout = cmp.Or(f.duration("startup_timeout_sec", time.Second), f.duration("startup_timeout_ms", time.Millisecond))
	s.CallTimeout = f.duration("tool_timeout_sec", time.Second)
	s.Allow, s.Deny = f.strings("enabled_tools"), f.strings("disabled_tools")
}

const codexTable = "mcp_servers." + server

// tableKeys lists the keys of an inline table of TOML, as far as it is one. Of
// a dotted key it is the first part.
func tableKeys(text string) []string {
	var keys []string
	var key strings.Builder
	depth, value := 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"' || c == '\'':
			n := tomlString(text[i:])
			if depth == 1 && !value {
				key.WriteString(text[i+1 : max(i+1, i+n-1)])
			}
			i += n - 1
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case depth != 1:
		case c == ',':
			value = false
		case (c == '=' || c == '.') && !value:
			keys = append(keys, key.String())
			key.Reset()
			value = true
		case !value && strings.IndexByte(" \t\r\n", c) < 0:
			key.WriteByte(c)
		}
	}
	return keys
}

// tomlString returns the length of the string that text begins with.
func tomlString(text string) int {
	if text[0] == '"' {
		return stringEnd([]byte(text))
	}
	if i := strings.IndexByte(text[1:], '\''); i >= 0 {
		return i + 2
	}
	return len(text)
}
