package config

import "strings"

// UpstreamKey is a key for an upstream that is called name elsewhere: name
// itself where it can be one, and what is nearest to it where it cannot. It ends
// in suffix, for which a long name is cut.
func UpstreamKey(name, suffix string) string {
	key := strings.Map(func(r rune) rune {
		if r < 0x80 && isWord(byte(r)) {
			return r
		}
		return ' '
	}, name)
	key = strings.Join(strings.Fields(key), "-")
	for strings.Contains(key, "__") {
		key = strings.ReplaceAll(key, "__", "_")
	}
	if key = strings.Trim(key, "_"); key == "" {
		key = "server"
	}
	if shadowsFacade(key) || key == promptsKey {
		key = "mcp-" + key
	}
	if room := maxKeyLen - len(suffix); len(key) > room {
		key = strings.TrimRight(key[:room], "_-")
	}
	return key + suffix
}

// SameKey reports whether two keys differ by - and _ at most, so that no file
// can have both.
func SameKey(a, b string) bool { return fold(a) == fold(b) }

// Literal spells text so that a file says just that: nothing in it is taken for
// a variable. A ~ at its start has no such spelling.
func Literal(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// FormatEnvFile writes the env_file that [ParseEnvFile] reads as vars. Their
// names must be valid, and no value may hold a NUL byte.
func FormatEnvFile(vars []EnvVar) []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var b strings.Builder
	for _, v := range vars {
		b.WriteString(v.Name + `="` + escape.Replace(v.Value.Reveal()) + "\"\n")
	}
	return []byte(b.String())
}

// EnvProblem says why no definition can set a variable to its value, or "". The
// answer does not repeat the value.
func EnvProblem(v EnvVar) (problem string) {
	if problem = envNameProblem(v.Name); problem == "" && strings.IndexByte(v.Value.Reveal(), 0) >= 0 {
		problem = "holds a NUL character, which no process can be given"
	}
	return problem
}
