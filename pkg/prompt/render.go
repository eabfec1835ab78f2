package prompt

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
)

// MaxRendered is the size in bytes of the largest text that Render makes. Many
// placeholders of one long value multiply; without a limit a file of 1 MiB and
// an argument of 1 MiB make 200 GiB.
const MaxRendered = 64 << 20

// ErrTooLarge is what Render returns when the text would exceed MaxRendered.
var ErrTooLarge = errors.New("rendered prompt is too large")

// ArgumentError is what Render returns when a required argument was not given.
type ArgumentError struct {
	Name string // of the argument
}

// Error names the argument.
func (e *ArgumentError) Error() string {
	return fmt.Sprintf("missing required argument %q", e.Name)
}

// Render returns the body with each `{{name}}` of a declared argument replaced
// by its value, once and literally: a value that looks like a placeholder is
// not looked at again (PRM-3). An argument that is in args counts as given,
// even if empty; an optional one that is not renders as nothing. Placeholders
// that are not declared stay as written, and args that are not declared are
// ignored. The text is the caller's own.
//
// The error is an *ArgumentError naming the first required argument, in the
// order of the file, that args lacks, or ErrTooLarge.
func (p *Prompt) Render(args map[string]string) (text []byte, err error) {
	values := make(map[string]string, len(p.Arguments))
	for _, a := range p.Arguments {
		value, given := args[a.Name]
		if !given && a.Required {
			return nil, &ArgumentError{Name: a.Name}
		}
		values[a.Name] = value
	}
	size := p.renderedSize(values)
	if size > MaxRendered {
		return nil, ErrTooLarge
	}
	text = make([]byte, 0, size)
	done := 0
	for ph := range placeholders(p.Body) {
		value, declared := values[string(ph.name)]
		if !declared {
			continue
		}
		text = append(text, p.Body[done:ph.start]...)
		text = append(text, value...)
		done = ph.end
	}
	return append(text, p.Body[done:]...), nil
}

// renderedSize is the length of the body once values are in it.
func (p *Prompt) renderedSize(values map[string]string) int {
	size := len(p.Body)
	for ph := range placeholders(p.Body) {
		if value, declared := values[string(ph.name)]; declared {
			size += len(value) - (ph.end - ph.start)
		}
	}
	return size
}

// placeholder is one `{{name}}` at body[start:end].
type placeholder struct {
	name       []byte // part of the body
	start, end int
}

// placeholders yields what looks like a placeholder in body, from left to
// right, declared or not.
func placeholders(body []byte) iter.Seq[placeholder] {
	return func(yield func(placeholder) bool) {
		for at := 0; ; {
			i := bytes.Index(body[at:], []byte("{{"))
			if i < 0 {
				return
			}
			start := at + i
			name, end := scanName(body, start+2)
			if end == 0 {
				at = start + 1 // "{{{name}}" holds a placeholder one byte on
				continue
			}
			if !yield(placeholder{name: name, start: start, end: end}) {
				return
			}
			at = end
		}
	}
}

// scanName reads `name}}` with blanks around the name at body[at:] and returns
// the name and the position behind it; the position is 0 if there is none.
func scanName(body []byte, at int) (name []byte, end int) {
	start := skip(body, at, isBlank)
	stop := skip(body, start, isNameByte)
	end = skip(body, stop, isBlank)
	if start == stop || !bytes.HasPrefix(body[end:], []byte("}}")) {
		return nil, 0
	}
	return body[start:stop], end + 2
}

// skip returns the first position from at on whose byte is not of the class.
func skip(body []byte, at int, class func(byte) bool) int {
	for at < len(body) && class(body[at]) {
		at++
	}
	return at
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isNameByte reports whether c may stand in an argument's name.
func isNameByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '_' || c == '-' || c == '.'
}

// isName reports whether s can be an argument's name.
func isName(s string) bool {
	return s != "" && skip([]byte(s), 0, isNameByte) == len(s)
}
