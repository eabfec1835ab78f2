package adapter

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
//
// Version 0.61 skips a file of the system's, with a warning, unless it is root's
// alone, and a state directory seldom is. There is no other way in that leaves
// its own files alone, so then there is something to paste as well.
func gemini() cli {
	c := cli{
		name: "gemini", program: "gemini", packages: []string{"@google/gemini-cli"},
		rules: []func([]byte) string{sdkList},
		into:  "~/.gemini/settings.json", paste: pasteJSON("mcpServers", geminiServer),
		own: own{origins: geminiOrigins, decode: jsonTree, off: geminiOff, read: geminiOwn},
	}
	c.wire = func(a Adapter, l Launch) (Wiring, error) {
		text, system, err := geminiSystem(l)
		if err != nil {
			return Wiring{}, err
		}
		args, err := geminiArgs(a)
		name, path := file(l, ".gemini.json")
		w := Wiring{
			Args: args, Env: []string{geminiVariable + "=" + path}, Files: []File{{name, text}},
			How: "wired by " + geminiVariable + ", beside its own servers, in folders that it trusts",
		}
		if l.Env[geminiDefaults] == "" {
			// It looks for them beside the settings, wherever those are.
			w.Env = append(w.Env, geminiDefaults+"="+filepath.Join(filepath.Dir(system), "system-defaults.json"))
		}
		if !l.RootOnly(l.Dir) {
			w.How += "; version 0.61 ignores that unless " + l.Dir + " belongs to root alone"
			w.Paste, w.Into = c.paste(l.Bridge), c.into
		}
		return w, err
	}
	return c
}

// geminiSystem returns the settings of the system with our server in them, and
// the path of those without.
func geminiSystem(l Launch) (text []byte, system string, err error) {
	if err := literal(l.Bridge, "$"); err != nil {
		return nil, "", err
	}
	own := filepath.Join(cmp.Or(l.Env["GEMINI_CLI_HOME"], l.Env["HOME"]), ".gemini/settings.json")
	if text, err := l.ReadFile(l.abs(own)); err == nil {
		if d, err := parse(text); err == nil && d.has("mcpServers", server) {
			return nil, "", errors.New("its own settings have a server named " + server)
		}
	}
	system = l.abs(cmp.Or(l.Env[geminiVariable], geminiSettings))
	// A path of the user's may be from an env_file: it is in no message.
	named := geminiSettings
	if l.Env[geminiVariable] != "" {
		named = "the file of its own " + geminiVariable
	}
	text, err = l.ReadFile(system)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = []byte("{}\n")
	case err != nil:
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err
		}
		return nil, "", fmt.Errorf("%s cannot be read: %w", named, err)
	case l.RootOnly(system) && !l.RootOnly(l.Dir):
		return nil, "", fmt.Errorf("version 0.61 would ignore %s for a copy in %s, which does not belong to root alone", named, l.Dir)
	}
	if text, err = geminiMerge(text, l.Bridge); err != nil {
		return nil, "", fmt.Errorf("%s: %w", named, err)
	}
	return text, system, nil
}

// geminiMerge puts our server into the text of a settings file, and among those
// that it allows, if it names any.
func geminiMerge(text []byte, bridge []string) ([]byte, error) {
	d, err := parse(text)
	if err != nil {
		return nil, err
	}
	if d.has("mcpServers", server) {
		return nil, errors.New("there is a server named " + server)
	}
	if text, err = d.put(geminiServer(bridge), "mcpServers", server); err != nil {
		return nil, err
	}
	if d, err = parse(text); err != nil {
		return nil, err
	}
	m, ok := d.find("mcp", "allowed")
	if !ok {
		return text, nil
	}
	var allowed []string
	// What is no list of names allows none by its name, and stays as it is.
	if err := json.Unmarshal(d.plain[m.start:m.end], &allowed); err == nil && allowed != nil && !slices.Contains(allowed, server) {
		more := quote(server)
		if len(allowed) > 0 {
			more += ","
		}
		text = d.insert(m.start+1, more)
	}
	return text, nil
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

func geminiOrigins(w World) []origin {
	user, project := geminiFile(w, "settings.json"), path.Join(w.Dir, ".gemini/settings.json")
	list := []origin{{user, []string{"mcpServers"}, w.Dir, false}}
	if project != user {
		list = append(list, origin{project, []string{"mcpServers"}, w.Dir, true})
	}
	return list
}

func geminiFile(w World, name string) string {
	return w.directory("GEMINI_CLI_HOME", ".gemini/"+name, ".gemini/"+name)
}

func geminiOwn(w World, f *fields, s *OwnServer) {
	f.remote(s, "url", "httpUrl", "tcp")
	f.command(s, w.shell(dollar))
	s.CallTimeout = f.duration("timeout", time.Millisecond)
	s.Allow, s.Deny = f.strings("includeTools"), f.strings("excludeTools")
	for _, list := range [][]string{s.Allow, s.Deny} {
		for i, name := range list {
			list[i], _, _ = strings.Cut(name, "(")
		}
	}
}

// geminiOff says which servers it does not use: those that are excluded, or
// not among the allowed ones, and those that the user has switched off.
func geminiOff(w World, load func(string) map[string]any) func(OwnServer) bool {
	switches := load(geminiFile(w, "mcp-server-enablement.json"))
	var settings []map[string]any
	for _, o := range geminiOrigins(w) {
		settings = append(settings, load(o.file))
	}
	return func(s OwnServer) bool {
		state, _ := switches[strings.ToLower(strings.TrimSpace(s.Name))].(map[string]any)
		off := state["enabled"] == false
		for _, tree := range settings {
			excluded, _ := listed(tree, s.Name, "mcp", "excluded")
			allowed, some := listed(tree, s.Name, "mcp", "allowed")
			off = off || excluded || some && !allowed
		}
		return off
	}
}
