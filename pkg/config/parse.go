package config

import (
	"errors"
	"slices"
	"strings"

	tomlparser "github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/pelletier/go-toml/v2"
)

// maxMends bounds how many errors beyond the scanner's are looked for, since
// each costs a parse of the whole file. Such errors are rare (a number out of
// range, a table that is also a dotted key), a file with more is refused with
// those found.
const maxMends = 32

// tree parses what the scanner found whole. koanf is only ever given bytes and
// asked for its raw map: its flat paths would split keys, and its file watch
// and Unmarshal are not what this package promises.
func (s *scanner) tree() map[string]any {
	text := slices.Clone(s.text)
	for _, hole := range s.holes {
		blank(text, hole)
	}
	for range maxMends {
		k := koanf.New(keySep)
		err := k.Load(rawbytes.Provider(text), tomlparser.Parser())
		if err == nil {
			return k.Raw()
		}
		blank(text, s.mend(err))
	}
	return nil
}

// blank overwrites part of text with spaces, so that the rest keeps its lines.
func blank(text []byte, hole span) {
	for i := hole.start; i < hole.end; i++ {
		if text[i] != '\n' {
			text[i] = ' '
		}
	}
}

// mend remarks on what the parser refused and the scanner did not, and returns
// the part without which the rest may parse: an expression, or a header with
// all that is below it.
func (s *scanner) mend(err error) span {
	s.torn = true
	e, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		s.remark(1, "", "invalid TOML: the file cannot be parsed")
		return span{0, s.size}
	}
	line, _ := e.Position()
	i := s.keptAt(line)
	if i < 0 {
		s.remark(line, "", refusal(e))
		return span{s.starts[line-1], s.nextLine(s.starts[line-1])}
	}
	found := s.kept[i]
	s.remark(line, found.at, refusal(e))
	s.hurt[found.at.parent()] = true
	if !found.header {
		return found.span
	}
	end := s.size
	if next := slices.IndexFunc(s.kept[i+1:], func(e expression) bool { return e.header }); next >= 0 {
		end = s.kept[i+1+next].start
	}
	return span{found.start, end}
}

// keptAt is the expression that line is part of, or -1.
func (s *scanner) keptAt(line int) int {
	i, _ := slices.BinarySearchFunc(s.kept, line, func(e expression, line int) int {
		return s.lineOf(e.start) - line - 1 // below zero up to line: finds the first after it
	})
	if i == 0 || s.lineOf(s.kept[i-1].end-1) < line {
		return -1
	}
	return i - 1
}

// refusal words what the parser found. Its own words can repeat a value, which
// may be a secret, or a key as it stands in the file, control characters and
// all; they are used only where they do neither.
func refusal(e *toml.DecodeError) string {
	message := strings.TrimPrefix(e.Error(), "toml: ")
	switch {
	case strings.Contains(message, " already ") || strings.Contains(message, "should be a"):
		return "defined twice, or both as a table and as a value"
	case strings.Contains(message, "parse float"):
		return "invalid TOML: number is not a 64-bit float"
	default:
		return syntaxMessage(message)
	}
}
