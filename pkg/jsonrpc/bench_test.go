package jsonrpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// call returns a tools/call request of about n bytes.
func call(n int) string { return fillCall(n, "x") }

// fillCall is call with its text made of filler.
func fillCall(n int, filler string) string {
	head, tail := `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`, `"},"_meta":{"progressToken":17}}}`
	return head + strings.Repeat(filler, max(0, n-len(head)-len(tail))/len(filler)) + tail
}

// answerOf returns a result of about n bytes whose content is filler.
func answerOf(n int, filler string) string {
	head, tail := `{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"`, `"}]}}`
	return head + strings.Repeat(filler, max(0, n-len(head)-len(tail))/len(filler)) + tail
}

// benchLine is one line to measure with.
type benchLine struct{ name, line string }

func benchLines() []benchLine {
	const mib = 1 << 20
	code := `\tif err != nil {\n\t\treturn fmt.Errorf(\"read %q: %w\", name, err)\n\t}\n`
	members := `"},{"type":"text","annotations":{"priority":0.5,"audience":["user"]},"text":"some words`
	return []benchLine{
		{"150B", fillCall(150, "x")},
		{"10kB", answerOf(10_000, "x")},
		{"1MiB", answerOf(mib, "x")},
		{"1MiB-code", answerOf(mib, code)},
		{"1MiB-json", answerOf(mib, members)},
		{"1MiB-chinese", answerOf(mib, "漢字かな")},
	}
}

// benchEach runs f for each line.
func benchEach(b *testing.B, f func(line []byte)) {
	for _, l := range benchLines() {
		b.Run(l.name, func(b *testing.B) {
			line := []byte(l.line)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				f(line)
			}
		})
	}
}

// BenchmarkMemchr is the least a pass over a line can cost.
func BenchmarkMemchr(b *testing.B) {
	benchEach(b, func(line []byte) { bytes.IndexByte(line, '\n') })
}

func BenchmarkPeek(b *testing.B) {
	var m Message
	benchEach(b, func(line []byte) { _ = Peek(line, &m) })
}

// BenchmarkPeekByDecoding is Peek as encoding/json would do it.
func BenchmarkPeekByDecoding(b *testing.B) {
	benchEach(b, func(line []byte) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name string
				Meta json.RawMessage `json:"_meta"`
			}
			Result json.RawMessage
		}
		_ = json.Unmarshal(line, &m)
	})
}

func BenchmarkPeekValid(b *testing.B) {
	var m Message
	benchEach(b, func(line []byte) { _ = PeekValid(line, &m) })
}

func BenchmarkValidThenPeek(b *testing.B) {
	var m Message
	benchEach(b, func(line []byte) {
		if Valid(line) == nil {
			_ = Peek(line, &m)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	benchEach(b, func(line []byte) { _ = Valid(line) })
}

func BenchmarkValidByEncodingJSON(b *testing.B) {
	benchEach(b, func(line []byte) { _ = json.Valid(line) && utf8.Valid(line) })
}

func BenchmarkSplice(b *testing.B) {
	var m Message
	var dst []byte
	id, name := []byte("123456"), []byte(`"other"`)
	benchEach(b, func(line []byte) {
		_ = Peek(line, &m)
		dst = Splice(dst[:0], line, Edit{m.ID, id}, Edit{m.Name, name}, Edit{m.ProgressToken, id})
	})
}

// BenchmarkSpliceByDecoding replaces the id through raw members.
func BenchmarkSpliceByDecoding(b *testing.B) {
	benchEach(b, func(line []byte) {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(line, &members)
		members["id"] = json.RawMessage("123456")
		_, _ = json.Marshal(members)
	})
}

func BenchmarkCopy(b *testing.B) {
	var dst []byte
	benchEach(b, func(line []byte) { dst = append(dst[:0], line...) })
}

// repeated is a source of n copies of one line.
type repeated struct {
	line []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.line[r.at:])
	r.at = (r.at + n) % len(r.line)
	return n, nil
}

// benchReads reads three kinds of line from memory with next.
func benchReads(b *testing.B, open func(r io.Reader) (next func() ([]byte, error))) {
	for _, l := range benchLines()[:3] {
		b.Run(l.name, func(b *testing.B) {
			next := open(&repeated{line: []byte(l.line + "\n")})
			b.SetBytes(int64(len(l.line)))
			b.ReportAllocs()
			for b.Loop() {
				if line, err := next(); err != nil || len(line) != len(l.line) {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReader(b *testing.B) {
	benchReads(b, func(r io.Reader) func() ([]byte, error) {
		lines := NewReader(r, 16<<10, 16<<20)
		return func() ([]byte, error) {
			line, err := lines.Next()
			lines.More()
			return line, err
		}
	})
}

// BenchmarkReaderByScanner has a buffer of 16 kB that grows and stays.
func BenchmarkReaderByScanner(b *testing.B) {
	benchReads(b, func(r io.Reader) func() ([]byte, error) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 16<<10), 16<<20)
		return func() ([]byte, error) {
			lines.Scan()
			return lines.Bytes(), lines.Err()
		}
	})
}
