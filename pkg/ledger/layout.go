package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Clients decode a bundle and encode it again, each in its own way: with blanks
// or without, indented, with more escapes than needed. All of that means the
// same and is accepted, as long as it is done alike everywhere: then a byte that
// was changed, added or removed shows.

// A layout is one way to write JSON.
type layout struct {
	comma, colon string              // what follows them on a line
	indent       string              // of each level; lines is set then
	lines        bool                // one line for each element
	quote        func(string) []byte // how strings are escaped
}

// uniform reports whether data is one JSON value written in one way throughout.
// A newline at its end is no part of it.
func uniform(data []byte) bool {
	data = bytes.TrimSuffix(data, []byte("\n"))
	for _, quote := range []func(string) []byte{quoteLeast, quoteHTML, quoteASCII} {
		l := detect(data)
		l.quote = quote
		if out, err := l.write(data); err == nil && bytes.Equal(out, data) {
			return true
		}
	}
	return false
}

// detect looks at how the beginning is written.
func detect(data []byte) layout {
	l := layout{}
	if rest, ok := bytes.CutPrefix(data, []byte("{\n")); ok {
		l.lines = true
		l.indent = string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
	}
	if i := bytes.IndexByte(data, ':'); i >= 0 && i+1 < len(data) && data[i+1] == ' ' {
		l.colon = " "
	}
	if !l.lines {
		l.comma = l.colon
	}
	return l
}

// write writes the value that data is in the layout.
func (l layout) write(data []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var out bytes.Buffer
	if err := l.value(dec, &out, 0); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return out.Bytes(), nil
}

func (l layout) value(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		return l.list(dec, out, t, depth)
	case string:
		out.Write(l.quote(t))
	case json.Number:
		// Bundles hold whole numbers only, and each has one spelling.
		n, err := strconv.ParseInt(t.String(), 10, 64)
		if err != nil {
			return err
		}
		out.WriteString(strconv.FormatInt(n, 10))
	case bool:
		out.WriteString(strconv.FormatBool(t))
	case nil:
		out.WriteString("null")
	}
	return nil
}

// list writes an object or an array whose opening bracket was read.
func (l layout) list(dec *json.Decoder, out *bytes.Buffer, open json.Delim, depth int) error {
	out.WriteByte(byte(open))
	first := true
	for ; dec.More(); first = false {
		if !first {
			out.WriteString("," + l.comma)
		}
		l.newline(out, depth+1)
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			out.Write(l.quote(key.(string)))
			out.WriteString(":" + l.colon)
		}
		if err := l.value(dec, out, depth+1); err != nil {
			return err
		}
	}
	end, err := dec.Token()
	if err != nil {
		return err
	}
	if !first {
		l.newline(out, depth)
	}
	out.WriteByte(byte(end.(json.Delim)))
	return nil
}

func (l layout) newline(out *bytes.Buffer, depth int) {
	if l.lines {
		out.WriteString("\n" + strings.Repeat(l.indent, depth))
	}
}

// quoteLeast escapes what JSON demands, as RFC 8785 does.
func quoteLeast(s string) []byte {
	if !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
		return append(append([]byte{'"'}, s...), '"') // most are
	}
	out, _ := Canonical(s) // a decoded string can be encoded
	return out
}

// quoteHTML escapes as encoding/json does by default.
func quoteHTML(s string) []byte {
	out, _ := json.Marshal(s) // as above
	return out
}

// quoteASCII escapes whatever is not ASCII, as Python does by default.
func quoteASCII(s string) []byte {
	var out []byte
	for _, c := range string(quoteLeast(s)) {
		if c < utf8.RuneSelf {
			out = append(out, byte(c))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, c) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}
