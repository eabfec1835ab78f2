package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// broken remarks on the expression at or after next that does not parse, makes
// a hole of it and returns the start of a line where reading can go on.
func (s *scanner) broken(next, offset int, message string) (resume int) {
	begin := s.lineStart(min(s.firstText(next), offset))
	line, at := s.lineOf(offset), s.keyAt(begin)
	header := at == ""
	switch later := line > s.lineOf(begin); {
	case later && offset == s.size-1:
		// Nothing closed the value before the end, so it is the place to mend.
		line, resume = s.lineOf(begin), s.resume(s.nextLine(begin), true)
	case later && looksLikeItem(s.lineText(offset)):
		message = fmt.Sprintf("the value is not closed before line %d", line)
		line, resume = s.lineOf(begin), s.lineStart(offset)
	default:
		open := bytes.Count(s.text[begin:offset], []byte("{")) > bytes.Count(s.text[begin:offset], []byte("}"))
		resume = s.resume(s.nextLine(offset), header || open)
	}
	s.remark(line, at, syntaxMessage(message))
	s.holes = append(s.holes, span{begin, resume})
	s.hurt[s.table] = s.hurt[s.table] || !header // a header is no line of the table before it
	s.torn = true
	return resume
}

// syntaxMessage puts a complaint of the parser into a fault's words.
func syntaxMessage(message string) string {
	unquoted := strings.HasSuffix(message, "at start of value") || strings.HasPrefix(message, "expected keyword") ||
		strings.HasPrefix(message, "expected newline") && strings.HasSuffix(message, "'")
	if unquoted {
		message += " (a string needs quotes)"
	}
	return "invalid TOML: " + message
}

// firstText is the offset of the first line at or after from that is neither
// blank nor a comment.
func (s *scanner) firstText(from int) int {
	for ; from < s.size-1; from = s.nextLine(from) {
		if line := bytes.TrimLeft(s.lineText(from), " \t"); len(line) > 0 && line[0] != '#' {
			break
		}
	}
	return min(from, s.size-1)
}

// keyAt is the place of the broken expression that begins at begin, as far as
// it can be told: its key, else its table, else (for a header) none.
func (s *scanner) keyAt(begin int) place {
	line := s.lineText(begin)
	if bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("[")) {
		return ""
	}
	head, _, ok := bytes.Cut(line, []byte("="))
	var p unstable.Parser
	p.Reset(slices.Concat(head, []byte("=0")))
	if !ok || !p.NextExpression() || p.Expression().Kind != unstable.KeyValue {
		return s.table
	}
	at := s.table
	for parts := p.Expression().Key(); parts.Next(); {
		at = at.key(string(parts.Node().Data))
	}
	return at
}

// resume is the first line at or after from that looks like a table header or,
// unless headersOnly, like a key with its value.
func (s *scanner) resume(from int, headersOnly bool) int {
	for ; from < s.size; from = s.nextLine(from) {
		line := s.lineText(from)
		if looksLikeHeader(line) || !headersOnly && looksLikeItem(line) {
			return from
		}
	}
	return s.size
}

// lineText is the line of offset without its end.
func (s *scanner) lineText(offset int) []byte {
	return bytes.TrimSuffix(s.text[s.lineStart(offset):s.nextLine(offset)], []byte("\n"))
}

// looksLikeItem tells whether a line begins a header or a key with its value,
// which a line inside a list of strings does not.
func looksLikeItem(line []byte) bool {
	head, _, ok := bytes.Cut(line, []byte("="))
	head = bytes.Trim(head, " \t")
	return looksLikeHeader(line) || ok && len(head) > 0 &&
		within(string(head), func(c byte) bool { return isWord(c) || strings.IndexByte(`."' `, c) >= 0 }) &&
		bytes.Count(head, []byte(`"`))%2 == 0 && bytes.Count(head, []byte(`'`))%2 == 0
}

// looksLikeHeader tells whether a line can be a table header on its own.
func looksLikeHeader(line []byte) bool {
	line, _, _ = bytes.Cut(line, []byte("#"))
	line = bytes.Trim(line, " \t")
	if len(line) < 3 || line[0] != '[' || line[len(line)-1] != ']' {
		return false
	}
	inner := bytes.Trim(line, "[] \t")
	return len(inner) > 0 && !bytes.ContainsAny(inner, "[],=")
}
