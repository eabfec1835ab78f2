package adapter

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

const (
	geminiVariable = "GEMINI_CLI_SYSTEM_SETTINGS_PATH"
	geminiDefaults = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"
	geminiSettings = "/etc/gemini-cli/settings.json" // where it looks without the variable
)

// gemini is Gemini CLI. It merges the user's settings with those of the system,
// whose path is in a variable: ours is a copy of that file with one server
// more, which is trusted. Whether it uses any server in a folder is up to the
// user, who is asked whether the folder is to be trusted.
func gemini() cli {
	return cli{
		name: "gemini", program: "gemini", packages: []string{"@google/gemini-cli"},
		wire: func(a Adapter, l Launch) (Wiring, error) {
			if err := literal(l.Bridge, "$"); err != nil {
				return Wiring{}, err
			}
			system := l.abs(cmp.Or(l.Env[geminiVariable], geminiSettings))
			text, err := l.ReadFile(system)
			if errors.Is(err, fs.ErrNotExist) {
				text, err = []byte("{}\n"), nil
			}
			if err != nil {
				return Wiring{}, fmt.Errorf("read its system settings: %w", err)
			}
			if text, err = geminiMerge(text, l.Bridge); err != nil {
				return Wiring{}, fmt.Errorf("%s: %w", system, err)
			}
			args, err := geminiArgs(a)
			name, path := file(l, ".gemini.json")
			env := []string{geminiVariable + "=" + path}
			if l.Env[geminiDefaults] == "" {
				// It looks for them beside the settings, wherever those are.
				env = append(env, geminiDefaults+"="+filepath.Join(filepath.Dir(system), "system-defaults.json"))
			}
			return Wiring{
				Args: args, Env: env, Files: []File{{name, text}},
				How: "wired by " + geminiVariable + ", beside its own servers, in folders that it trusts",
			}, err
		},
		into: "~/.gemini/settings.json", paste: pasteJSON("mcpServers", geminiServer),
	}
}

// geminiMerge puts our server into the text of a settings file, and among those
// that it allows, if it names any.
func geminiMerge(text []byte, bridge []string) ([]byte, error) {
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	if _, ok := d.find("mcpServers", server); ok {
		return nil, errors.New("there is a server named " + server)
	}
	if text, err = d.put(geminiServer(bridge), "mcpServers", server); err != nil {
		return nil, err
	}
	if d, err = parse(text); err != nil {
		return nil, err
	}
	m, ok := d.find("mcp", "allowed")
	var allowed []string
	if !ok || json.Unmarshal(d.plain[m.start:m.end], &allowed) != nil || allowed == nil || slices.Contains(allowed, server) {
		return text, nil
	}
	more := quote(server)
	if len(allowed) > 0 {
		more += ","
	}
	return d.insert(m.start+1, more), nil
}

// geminiArgs adds our server to those that the arguments allow, if they name
// any. The flag may be repeated.
func geminiArgs(a Adapter) ([]string, error) {
	const flag = "--allowed-mcp-server-names"
	allowed := options(a.own(), false, flag, "--allowedMcpServerNames")
	if len(allowed) == 0 {
		return slices.Clone(a.args), nil
	}
	for _, o := range allowed {
		if slices.Contains(strings.Split(o.value, ","), server) {
			return slices.Clone(a.args), nil
		}
	}
	return a.insert(0, flag+"="+server)
}

func geminiServer(bridge []string) string {
	return strings.TrimSuffix(stdioServer(bridge), "}") + `,"trust":true}`
}
