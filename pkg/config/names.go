package config

import (
	"path"
	"strings"
)

const (
	maxKeyLen  = 24 // of an upstream: MCP-2 has to fit key, tool and the agent's own prefix into 64
	maxNameLen = 64 // of a harness, a profile and a project

	// promptsKey is the [mcp.*] key that declares directories, not a server.
	promptsKey = "prompts"
)

// keyProblem says why name cannot be the key of an upstream, or "".
func keyProblem(name string) string {
	switch {
	case name == "":
		return "key is empty"
	case len(name) > maxKeyLen:
		return "key is longer than 24 characters"
	case !within(name, isWord):
		return "key may hold letters, digits, - and single _ inside only"
	case name[0] == '_', name[len(name)-1] == '_', strings.Contains(name, "__"):
		return "key may hold _ singly and inside only, since __ divides key and tool"
	case shadowsFacade(name):
		return "key is reserved for harness's own tools"
	}
	return ""
}

// shadowsFacade tells whether tools or prompts of an upstream of that key
// could be taken for the facade's (MCP-2): by name, or by a prefix that the
// facade's names have. Agents that fold - and _ must not be misled either.
func shadowsFacade(key string) bool {
	switch name := fold(key); name {
	case "harness", "list_trajectories", "get_trajectory":
		return true
	default:
		return strings.HasPrefix(name, "harness_")
	}
}

// memberProblem accepts any text: that a member exists is checked when all
// tables are known.
func memberProblem(string) string { return "" }

// nameProblem says why name cannot name a harness, a profile or a project, or
// "".
func nameProblem(name string) string {
	switch {
	case name == "":
		return "name is empty"
	case len(name) > maxNameLen:
		return "name is longer than 64 characters"
	case !within(name, isWord):
		return "name may hold letters, digits, - and _ only"
	}
	return ""
}

// fold makes keys equal that differ by - and _ alone.
func fold(name string) string {
	return strings.ReplaceAll(name, "-", "_")
}

// defaultProject is the name of a project whose file is in dir and does not
// say one.
func defaultProject(dir string) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && isWord(byte(r)) {
			return r
		}
		return '-'
	}, path.Base(dir))
	return name[:min(len(name), maxNameLen)]
}

// validEnvName tells whether name can name a variable of a process: letters,
// digits and _, not beginning with a digit.
func validEnvName(name string) bool {
	return name != "" && !isDigit(name[0]) && within(name, func(c byte) bool { return isWord(c) && c != '-' })
}

// envNameProblem says why a definition cannot set or let through the variable,
// or "". HARNESS_* says who a process is, which is not for a file to say.
func envNameProblem(name string) string {
	switch {
	case !validEnvName(name):
		return "not the name of a variable: letters, digits and _ only, and no digit first"
	case strings.HasPrefix(name, "HARNESS_"):
		return "HARNESS_* is set by harness itself"
	}
	return ""
}

func within(s string, in func(byte) bool) bool {
	for i := range len(s) {
		if !in(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '-'
}
