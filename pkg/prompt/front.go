package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"

	meta "github.com/yuin/goldmark-meta"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"gopkg.in/yaml.v2"
)

// maxFront is the size in bytes of the largest front matter that is read. YAML
// costs up to a microsecond a byte, and all files are read in one goroutine.
const maxFront = 64 << 10

// readFront takes title, description and arguments from the front matter.
func readFront(r *report, p *Prompt, front []byte) {
	if len(front) > maxFront {
		r.fail(1, "front matter is larger than %d bytes", maxFront)
		return
	}
	// An empty line in the place of the opening fence makes the lines that the
	// YAML parser counts those of the file, and its first line one that it names.
	front = append([]byte("\n"), front...)
	guard(r, func() { decodeFront(r, p, front) })
}

// guard makes a panic of f a fault. yaml.v2 panics where it finds itself in a
// state that it takes for impossible, and nobody mends it any more: such a file
// is to be skipped like any other that does not parse.
func guard(r *report, f func()) {
	defer func() {
		if v := recover(); v != nil {
			r.fail(1, "front matter: the YAML decoder broke on it: %s", quote(fmt.Sprint(v)))
		}
	}()
	f()
}

// decodeFront is readFront on lines that are counted as in the file.
func decodeFront(r *report, p *Prompt, front []byte) {
	values, items, err := decodeMeta(front)
	if err != nil {
		failYAML(r, front, err)
		return
	}
	if err := checkEnd(front); err != nil {
		failYAML(r, front, err)
		return
	}
	lines := sync.OnceValue(func() node { return locate(front) })
	checkDuplicates(r, items, lines)
	fill(p, mapping{r: r, values: values, lines: lines})
}

// decodeMeta has goldmark-meta decode YAML: once into a map, in which merge keys
// are resolved, and once into items, in which duplicate keys are visible.
func decodeMeta(front []byte) (map[string]any, yaml.MapSlice, error) {
	md := parser.NewParser(parser.WithBlockParsers(util.Prioritized(block{meta.NewParser()}, 0)))
	pc := parser.NewContext()
	md.Parse(text.NewReader(append([]byte("---\n"), front...)), parser.WithContext(pc))
	items, err := meta.TryGetItems(pc)
	return meta.Get(pc), items, err
}

// block is goldmark-meta's parser for a source that is front matter to its end.
// Left alone it would end at the first line of nothing but dashes, be that a
// list item or a line of a block scalar.
type block struct{ parser.BlockParser }

// Continue implements [parser.BlockParser].
func (block) Continue(node ast.Node, reader text.Reader, _ parser.Context) parser.State {
	_, segment := reader.PeekLine()
	node.Lines().Append(segment)
	return parser.Continue | parser.NoChildren
}

// secondError is what checkEnd returns.
type secondError struct {
	line int
}

// Error says so.
func (secondError) Error() string { return "there is more after the first YAML document" }

// checkEnd fails if something follows the one YAML document that decodeMeta
// reads, for instance what stands behind a line of `...`.
func checkEnd(front []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(front))
	var none struct{}
	err := dec.Decode(&none)
	if err == nil {
		if err = dec.Decode(&none); !errors.Is(err, io.EOF) {
			return secondError{line: secondLine(front, err)}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// secondLine finds where the document after the first starts, by its marker or
// by the error that it gave.
func secondLine(front []byte, err error) int {
	marked := lineOf(front, func(l []byte) bool { return hasAnyPrefix(string(l), "---", "...") })
	if marked > 0 || err == nil {
		return marked
	}
	line, message := yamlPlace(err)
	return line + lineShift(message)
}

// failYAML reports an error of the YAML decoder.
func failYAML(r *report, front []byte, err error) {
	line, message := yamlPlace(err)
	if second, ok := errors.AsType[secondError](err); ok {
		line = second.line
	} else if line == 0 {
		line = yamlLine(front, message)
	} else {
		line += lineShift(message)
	}
	r.fail(line, "front matter: %s", explain(message))
}

// explain puts what yaml.v2 says in words of the file, not of Go.
func explain(message string) string {
	notPrintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case strings.HasPrefix(message, "invalid map key"), strings.HasSuffix(message, "into string"):
		return "a key is not text"
	case strings.HasPrefix(message, "cannot unmarshal"):
		return "is not made of `key: value` lines"
	case len(message) > maxQuoted, strings.ContainsFunc(message, notPrintable):
		return quote(message)
	}
	return message
}

// yamlPlace splits an error of the YAML decoder, `yaml: line 3: why` or a list
// of such, into the first line and what is said about it; without a line, 0.
func yamlPlace(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if typeErr, ok := errors.AsType[*yaml.TypeError](err); ok {
		message = typeErr.Errors[0]
	}
	placed, ok := strings.CutPrefix(message, "line ")
	number, why, _ := strings.Cut(placed, ": ")
	line, atoiErr := strconv.Atoi(number)
	if !ok || atoiErr != nil {
		return 0, message
	}
	return line, why
}

// lineShift corrects the line of a syntax error. yaml.v2 counts from 0 in what
// its parser finds and from 1 in what its scanner finds, and a key that lacks
// its colon is missed at the next token.
func lineShift(message string) int {
	switch {
	case hasAnyPrefix(message, "did not find expected <", "did not find expected node", "did not find expected '-'",
		"did not find expected key", "did not find expected ','", "found undefined", "found duplicate", "found incompatible"):
		return 1
	case strings.HasPrefix(message, "could not find expected ':'"):
		return -1
	}
	return 0
}

// yamlLine finds the line of an error for which the decoder tells none; 0 if
// it stays unknown.
func yamlLine(front []byte, message string) int {
	if name, ok := strings.CutPrefix(message, "unknown anchor '"); ok {
		alias := []byte("*" + strings.TrimSuffix(name, "' referenced"))
		return lineOf(front, func(l []byte) bool { return bytes.Contains(l, alias) })
	}
	if strings.HasPrefix(message, "control characters") {
		return lineOf(front, func(l []byte) bool { return bytes.ContainsFunc(l, isForbidden) })
	}
	return 0
}

// isForbidden reports whether YAML does not allow r.
func isForbidden(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == '\u0085':
		return false
	case r < ' ', '\u007f' <= r && r < '\u00a0', r == '\ufffe', r == '\uffff':
		return true
	}
	return false
}

// lineOf returns the number of the first line that is one of those sought, or 0.
func lineOf(front []byte, sought func(line []byte) bool) int {
	n := 1
	for line := range bytes.Lines(front) {
		if sought(line) {
			return n
		}
		n++
	}
	return 0
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
