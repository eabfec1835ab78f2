package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// opencode is opencode. It merges its settings files with the JSON of one
// variable, in which ours is one member more.
func opencode() cli {
	const variable = "OPENCODE_CONFIG_CONTENT"
	return cli{
		name: "opencode", program: "opencode", packages: []string{"opencode-ai"},
		rules: []func([]byte) string{sdkList},
		wire: func(a Adapter, l Launch) (Wiring, error) {
			if err := literal(l.Bridge, "{env:", "{file:"); err != nil {
				return Wiring{}, err
			}
			d, err := parse([]byte(cmp.Or(l.Env[variable], "{}")))
			if err != nil {
				return Wiring{}, fmt.Errorf("its own %s is %w", variable, err)
			}
			if d.has("mcp", server) {
				return Wiring{}, errors.New("its own " + variable + " has a server named " + server)
			}
			text, err := d.put(opencodeServer(l.Bridge), "mcp", server)
			if err != nil {
				return Wiring{}, fmt.Errorf("in its own %s %w", variable, err)
			}
			return Wiring{Args: slices.Clone(a.args), Env: []string{variable + "=" + string(text)}, How: "wired by " + variable + ", beside its own servers"}, nil
		},
		into: "~/.config/opencode/opencode.json", paste: pasteJSON("mcp", opencodeServer),
		own: own{origins: opencodeOrigins, decode: jsonTree, layered: true, read: func(_ World, f *fields, s *OwnServer) {
			f.remote(s, "url")
			if argv := f.words("command", f.strings("command"), inBraces); len(argv) > 0 {
				s.Cmd, s.Args = argv[0], argv[1:]
			}
			s.Env = f.variables("environment", inBraces)
			s.Workdir = f.text("cwd", f.string("cwd"), inBraces)
			// It bounds calls too, but goes on with each sign of progress, which
			// call_timeout does not.
			s.StartTimeout = f.duration("timeout", time.Millisecond)
		}},
	}
}

func opencodeOrigins(w World) []origin {
	var list []origin
	for _, name := range []string{"opencode.json", "opencode.jsonc"} {
		list = append(list, origin{w.directory("XDG_CONFIG_HOME", "opencode/"+name, ".config/opencode/"+name), []string{"mcp"}, w.Dir, false})
	}
	for _, dir := range here(w) {
		for _, name := range []string{"opencode.json", "opencode.jsonc"} {
			list = append(list, origin{path.Join(dir, name), []string{"mcp"}, dir, true})
		}
	}
	return list
}

func opencodeServer(bridge []string) string {
	return `{"type":"local","command":` + quoteAll(bridge) + `,"enabled":true}`
}
