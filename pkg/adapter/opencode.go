package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
	}
}

func opencodeServer(bridge []string) string {
	return `{"type":"local","command":` + quoteAll(bridge) + `,"enabled":true}`
}
