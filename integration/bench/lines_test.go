package bench

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// intake cuts a stream into lines of any length.
type intake struct {
	src      io.Reader
	buf      []byte
	from, to int // the part of buf that was read and not handed out
}

func newIntake(src io.Reader, size int) *intake { return &intake{src: src, buf: make([]byte, size)} }

// next returns the next line with its newline, valid until the call after.
func (in *intake) next() ([]byte, error) {
	for looked := 0; ; {
		if at := bytes.IndexByte(in.buf[in.from+looked:in.to], '\n'); at >= 0 {
			line := in.buf[in.from : in.from+looked+at+1]
			in.from += len(line)
			return line, nil
		}
		looked = in.to - in.from
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
}

// ready reports whether next would return a line without reading.
func (in *intake) ready() bool { return bytes.IndexByte(in.buf[in.from:in.to], '\n') >= 0 }

// fill reads once, after making room for it.
func (in *intake) fill() error {
	switch {
	case in.from == in.to:
		in.from, in.to = 0, 0
	case in.to == len(in.buf) && in.from > 0:
		in.to = copy(in.buf, in.buf[in.from:in.to])
		in.from = 0
	case in.to == len(in.buf):
		in.buf = append(in.buf, make([]byte, len(in.buf))...)
	}
	n, err := in.src.Read(in.buf[in.to:])
	in.to += n
	if n > 0 {
		return nil
	}
	return err
}

// idWithin is how far into a line its id begins at the latest: every process
// that is measured writes jsonrpc and id first, and a line that does not is an
// error of the run.
const idWithin = 64

// idOf finds the raw id of a line. A notification has none.
func idOf(line []byte) (from, to int, ok bool) {
	at := bytes.Index(line[:min(len(line), idWithin)], []byte(`"id":`))
	if at < 0 {
		return 0, 0, false
	}
	from = at + len(`"id":`)
	size := bytes.IndexAny(line[from:], ",}")
	return from, from + size, size > 0
}

// withID appends line to dst, with the id between from and to replaced.
func withID(dst, line []byte, from, to int, id []byte) []byte {
	dst = append(dst, line[:from]...)
	dst = append(dst, id...)
	return append(dst, line[to:]...)
}

// number reads an id that is an integer.
func number(raw []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

func TestIntake_CutsLinesOfAnyLength(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	text := "a\n\n" + long + "\nbcd\n" + long + long + "\ntorn"
	for name, src := range map[string]io.Reader{
		"at once":        strings.NewReader(text),
		"byte by byte":   iotest.OneByteReader(strings.NewReader(text)),
		"half at a time": iotest.HalfReader(strings.NewReader(text)),
	} {
		in := newIntake(src, 16)
		var got []string
		for line, err := in.next(); err == nil; line, err = in.next() {
			got = append(got, string(line))
		}
		want := []string{"a\n", "\n", long + "\n", "bcd\n", long + long + "\n"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestIDOf_FindsWhatTheFloorReplaces(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":17,"method":"ping","params":{}}`:             `{"jsonrpc":"2.0","id":5,"method":"ping","params":{}}`,
		`{"jsonrpc":"2.0","id":"h17","result":{}}`:                          `{"jsonrpc":"2.0","id":5,"result":{}}`,
		`{"jsonrpc":"2.0","id":17}`:                                         `{"jsonrpc":"2.0","id":5}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`:     "",
		`{"jsonrpc":"2.0","method":"` + strings.Repeat("m", 99) + `","id":`: "",
	} {
		got := ""
		if from, to, ok := idOf([]byte(line)); ok {
			got = string(withID(nil, []byte(line), from, to, []byte("5")))
		}
		if got != want {
			t.Errorf("%s becomes %q, not %q", line, got, want)
		}
	}
}
