package prompt

import (
	"bytes"
	"cmp"
	"slices"
	"unicode/utf8"
)

// Parse makes a prompt from the content of a file, whose base name without the
// extension is the prompt's name. file is used as it is in faults and in
// Prompt.File; whether its name is one that Matches is the caller's to ask.
//
// A fault means that the file is to be skipped, and no prompt is returned; of
// several it is the first in the file. Warnings are in the order of lines, the
// last of very many says how many more there are, and they come with a fault
// too. The prompt keeps data, which must not change afterwards.
func Parse(file string, data []byte) (p *Prompt, warnings []Fault, fault *Fault) {
	r := &report{file: file, last: lineAt(data, len(data))}
	p = parse(r, data)
	warnings, fault = r.result()
	if fault != nil {
		return nil, warnings, fault
	}
	p.Digest = digest(p)
	return p, warnings, nil
}

// parse is Parse with its findings in r; the prompt counts only without faults.
func parse(r *report, data []byte) *Prompt {
	p := &Prompt{Name: nameOf(r.file), File: r.file}
	text := bytes.TrimPrefix(data, []byte("\ufeff"))
	if !checkText(r, data, text) {
		return p
	}
	parts, closed := split(text)
	if !closed {
		r.fail(1, "front matter is opened by `---` and never closed")
		return p
	}
	p.Body = parts.body
	if parts.front != nil {
		readFront(r, p, parts.front)
	}
	if len(r.faults) == 0 {
		checkBody(r, p, parts.bodyLine)
	}
	return p
}

// checkText reports whether a file is text that can be served. text is data
// without its byte order mark.
func checkText(r *report, data, text []byte) bool {
	switch {
	case len(data) > MaxFile:
		r.fail(1, "larger than %d bytes", MaxFile)
	case isUTF16(data):
		r.fail(1, "is UTF-16; save it as UTF-8")
	case !utf8.Valid(text):
		r.fail(lineAt(text, invalidAt(text)), "is not valid UTF-8")
	case len(bytes.TrimSpace(text)) == 0:
		r.fail(1, "is empty")
	default:
		return true
	}
	return false
}

// isUTF16 reports whether data starts with a UTF-16 byte order mark.
func isUTF16(data []byte) bool {
	return bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff})
}

// invalidAt returns the position of the first byte that is not UTF-8.
func invalidAt(text []byte) int {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// lineAt returns the line of a position, from 1.
func lineAt(text []byte, at int) int { return 1 + bytes.Count(text[:at], []byte("\n")) }

// parts are the two parts of a file. Both are pieces of its text.
type parts struct {
	front    []byte // what stands between the fences; nil without front matter
	body     []byte
	bodyLine int // line of the file on which the body starts
}

// split finds the front matter (PRM-2). closed is false if it has no end.
func split(text []byte) (p parts, closed bool) {
	line, rest := cutLine(text)
	if !isFence(line) {
		return parts{body: text, bodyLine: 1}, true
	}
	front := rest
	for n := 2; len(rest) > 0; n++ {
		at := len(front) - len(rest)
		line, rest = cutLine(rest)
		if isFence(line) {
			return parts{front: front[:at:at], body: rest, bodyLine: n + 1}, true
		}
	}
	return parts{}, false
}

// cutLine returns the first line of text with its end, and what follows.
func cutLine(text []byte) (line, rest []byte) {
	end := bytes.IndexByte(text, '\n') + 1
	if end == 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// isFence reports whether a line is `---`, blanks and line end aside.
func isFence(line []byte) bool {
	return string(bytes.TrimRight(line, " \t\r\n")) == "---"
}

// checkBody warns about placeholders that will stay as they are, once a name.
func checkBody(r *report, p *Prompt, line int) {
	if len(bytes.TrimSpace(p.Body)) == 0 {
		r.warn(line-1, "there is nothing after the front matter")
	}
	known := map[string]bool{}
	for _, a := range p.Arguments {
		known[a.Name] = true
	}
	done := 0
	for ph := range placeholders(p.Body) {
		line += bytes.Count(p.Body[done:ph.start], []byte("\n"))
		done = ph.start
		if name := string(ph.name); !known[name] {
			known[name] = true
			r.warn(line, "placeholder %s is not a declared argument and stays as written", quote(name))
		}
	}
}

// result returns what was found, in the order of lines.
func (r *report) result() (warnings []Fault, fault *Fault) {
	byLine := func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) }
	slices.SortStableFunc(r.warnings, byLine)
	slices.SortStableFunc(r.faults, byLine)
	if r.dropped > 0 {
		last := r.warnings[len(r.warnings)-1].Line
		r.warnings = append(r.warnings, r.fault(last, "and %d more warnings", r.dropped))
	}
	if len(r.faults) > 0 {
		fault = &r.faults[0]
	}
	return r.warnings, fault
}
