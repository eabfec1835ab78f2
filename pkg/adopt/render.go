package adopt

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"harness/pkg/config"
	"harness/pkg/plain"
)

// TOML is the text of the harness.toml. dir is the directory of the env_files.
func (p Plan) TOML(dir string) string {
	var b strings.Builder
	b.WriteString("# The MCP servers that agents had of their own, by `harness import`.\n")
	for _, s := range p.Servers {
		b.WriteString("\n" + s.head())
		table := s.table(dir)
		if s.Held != "" {
			b.WriteString(comment("harness would refuse it as it is: " + s.Held))
			table = "# " + strings.ReplaceAll(strings.TrimSuffix(table, "\n"), "\n", "\n# ") + "\n"
		}
		b.WriteString(table)
	}
	return b.String()
}

// EnvFile is the name and the text of the server's env_file; there is none where
// it has no secrets.
func (s Server) EnvFile() (name string, text []byte, ok bool) {
	return s.Key + ".env", config.FormatEnvFile(s.Secrets), len(s.Secrets) > 0
}

// head says where the server is from.
func (s Server) head() string {
	var b strings.Builder
	for _, source := range s.Sources {
		text := source.Agent + ", " + source.File
		if source.Name != s.Key {
			text += ": " + quote(source.Name)
		}
		b.WriteString(comment(text))
	}
	return b.String()
}

// table is the server's own, with comments.
func (s Server) table(dir string) string {
	var b strings.Builder
	set := func(key, value string) { b.WriteString(key + " = " + value + "\n") }
	fmt.Fprintf(&b, "[mcp.%s]\n", s.Key)
	set("cmd", quote(s.Cmd))
	if len(s.Args) > 0 {
		set("args", list(s.Args))
	}
	if name, _, ok := s.EnvFile(); ok {
		b.WriteString(comment("sets " + strings.Join(s.secretNames(), ", ") + ", as in " + s.Sources[0].File))
		set("env_file", quote(path.Join(config.Literal(dir), name)))
	}
	if len(s.Env) > 0 {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			pairs = append(pairs, name+" = "+quote(s.Env[name]))
		}
		set("env", "{ "+strings.Join(pairs, ", ")+" }")
	}
	if s.Workdir != "" {
		set("workdir", quote(s.Workdir))
	}
	if s.StartTimeout > 0 {
		set("start_timeout", quote(duration(s.StartTimeout)))
	}
	if s.CallTimeout > 0 {
		set("call_timeout", quote(duration(s.CallTimeout)))
	}
	if !s.Enabled {
		set("enabled", "false")
	}
	if s.Allow != nil || len(s.Deny) > 0 {
		allow := s.Allow
		if allow == nil {
			allow = []string{"*"}
		}
		set("tools", "{ allow = "+list(allow)+", deny = "+list(s.Deny)+" }")
	}
	return b.String()
}

func (s Server) secretNames() []string {
	var names []string
	for _, v := range s.Secrets {
		names = append(names, v.Name)
	}
	return names
}

// comment is text on a line of its own that nobody reads as anything else.
func comment(text string) string { return "# " + plain.Text(text) + "\n" }

// quote returns s as a string of TOML, in which nothing acts on a terminal
// (CFG-6). What is no UTF-8 in it is replaced.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Strings can always be encoded.
	_ = enc.Encode(s)
	return plain.Text(strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`))
}

func list(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// duration is d without units that say nothing.
func duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
