package config

import (
	"bytes"
	"fmt"
	"strings"
)

// EnvFault is what is wrong with an env_file, at a line of it. It names
// neither values nor names, since in a line that does not parse either can be
// part of a secret (CFG-5).
type EnvFault struct {
	// Line counts from 1.
	Line int
	// Message says what is wrong and what was expected.
	Message string
}

// Error implements error.
func (e *EnvFault) Error() string {
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

// ParseEnvFile reads an env_file (CFG-5): lines of NAME=value, blank lines and
// comments. A name may be preceded by "export" and stand apart from its "=".
//
// An unquoted value ends at a blank followed by #, and is trimmed. In single
// quotes everything is literal, in double quotes \n, \" and \\ are a line
// feed, a quote and a backslash, and any other backslash is itself. A quoted
// value ends on the line it begins on. Nothing is expanded. A byte order mark
// and CRLF are accepted.
//
// The variables come in the order of their first appearance; of a name set
// twice the later value counts, as in a shell. The error is an *EnvFault, the
// first one of the file.
func ParseEnvFile(data []byte) ([]EnvVar, error) {
	if name := foreignEncoding(data); name != "" {
		return nil, &EnvFault{1, fmt.Sprintf("file is encoded in %s, expected UTF-8", name)}
	}
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	var vars []EnvVar
	place := map[string]int{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		v, problem := parseEnvLine(strings.TrimRight(line, "\r\n"))
		if problem != "" {
			return nil, &EnvFault{n, problem}
		}
		if v.Name == "" {
			continue
		}
		i, seen := place[v.Name]
		if !seen {
			i = len(vars)
			place[v.Name] = i
			vars = append(vars, EnvVar{})
		}
		vars[i] = v
	}
	return vars, nil
}

// parseEnvLine reads one line without its end. A blank line and a comment have
// no name.
func parseEnvLine(line string) (v EnvVar, problem string) {
	line = strings.Trim(line, blanks)
	if line == "" || line[0] == '#' {
		return EnvVar{}, ""
	}
	if strings.IndexByte(line, 0) >= 0 {
		return EnvVar{}, "line holds a NUL byte"
	}
	name, value, ok := strings.Cut(line, "=")
	if !ok {
		return EnvVar{}, "no = in the line, expected NAME=value"
	}
	name = strings.Trim(name, blanks)
	if rest, ok := strings.CutPrefix(name, "export"); ok && strings.Trim(rest, blanks) != rest {
		name = strings.Trim(rest, blanks)
	}
	if !validEnvName(name) {
		return EnvVar{}, "name before = must be letters, digits and _ only, and no digit first"
	}
	value, problem = parseEnvValue(value)
	return EnvVar{name, Secret(value)}, problem
}

// blanks are what may stand around a name and a value.
const blanks = " \t"

// parseEnvValue reads what follows the "=".
func parseEnvValue(raw string) (value, problem string) {
	text := strings.TrimLeft(raw, blanks)
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return strings.Trim(raw[:commentStart(raw)], blanks), ""
	}
	value, rest, ok := unquoteEnv(text[1:], text[0])
	if !ok {
		return "", "quote is not closed on its line; a line feed in double quotes is written \\n"
	}
	if strings.Trim(rest[:commentStart(rest)], blanks) != "" {
		return "", "text after the closing quote, expected the end of the line or a comment"
	}
	return value, ""
}

// commentStart is where a comment, which is a # after a blank, begins in s; the
// end of s when there is none.
func commentStart(s string) int {
	for i := 1; i < len(s); i++ {
		if s[i] == '#' && strings.IndexByte(blanks, s[i-1]) >= 0 {
			return i
		}
	}
	return len(s)
}

// unquoteEnv reads up to the closing quote and returns what follows it.
func unquoteEnv(s string, quote byte) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			return b.String(), s[i+1:], true
		case c == '\\' && quote == '"' && i+1 < len(s) && strings.IndexByte(`n"\`, s[i+1]) >= 0:
			i++
			b.WriteByte(unescaped(s[i]))
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

func unescaped(c byte) byte {
	if c == 'n' {
		return '\n'
	}
	return c
}
