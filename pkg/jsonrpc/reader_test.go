package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// chunks is a source that returns at most sizes[i] bytes from its i-th read,
// round and round, and counts its reads.
type chunks struct {
	data  []byte
	sizes []byte
	reads int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := len(c.data)
	if len(c.sizes) > 0 {
		n = int(c.sizes[c.reads%len(c.sizes)])
	}
	c.reads++
	n = copy(p[:min(len(p), n)], c.data)
	c.data = c.data[n:]
	return n, nil
}

// readAll reads all lines, and writes a line that is too long as the text of
// its TooLong.
func readAll(r *Reader) (lines []string, err error) {
	for {
		line, err := r.Next()
		var long *TooLong
		switch {
		case errors.As(err, &long):
			lines = append(lines, describe(long))
		case err != nil:
			return lines, err
		default:
			lines = append(lines, string(line))
		}
	}
}

func describe(t *TooLong) string {
	return fmt.Sprintf("too long: id %s, method %s, response %t", t.ID, t.Method, t.Response)
}

func TestReader_ReturnsLinesAsTheyWereSent(t *testing.T) {
	long := strings.Repeat("a", 5000)
	tests := []struct {
		name, data string
		want       []string
	}{
		{"nothing", "", nil},
		{"one line", "a\n", []string{"a"}},
		{"no newline at the end", "a\nb", []string{"a", "b"}},
		{"carriage returns", "a\r\nb\r\r\n\r\nc\r", []string{"a", "b\r", "", "c"}},
		{"empty lines (C03)", "\n\na\n\n", []string{"", "", "a", ""}},
		{"lines beyond the buffer", long + "\n" + "b\n" + long + long + "\nc", []string{long, "b", long + long, "c"}},
		{"separators of other languages (C01)", "a\u2028b\u0085\v\f\n", []string{"a\u2028b\u0085\v\f"}},
	}
	for _, tt := range tests {
		for _, size := range []byte{1, 7, 255} {
			t.Run(fmt.Sprintf("%s by %d", tt.name, size), func(t *testing.T) {
				lines, err := readAll(NewReader(&chunks{data: []byte(tt.data), sizes: []byte{size}}, 0, 0))
				if !errors.Is(err, io.EOF) {
					t.Errorf("error is %v, want %v", err, io.EOF)
				}
				if diff := cmp.Diff(tt.want, lines); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestReader_TellsALastLineWithoutItsNewline(t *testing.T) {
	for data, want := range map[string]bool{"a\nb\n": false, "a\nb": true, "b\r": true} {
		r := NewReader(strings.NewReader(data), 0, 0)
		for {
			_, err := r.Next()
			if err != nil {
				break
			}
		}
		if r.Torn() != want {
			t.Errorf("%q: torn is %v", data, r.Torn())
		}
	}
}

func TestReader_NamesTheMessageItDrops(t *testing.T) {
	big := strings.Repeat("x", 3000)
	tests := []struct{ name, line, want string }{
		{"the id first", `{"id":1,"method":"tools/call","params":"` + big + `"}`, `too long: id 1, method "tools/call", response false`},
		{"the id last, as some servers send it", `{"result":{"id":2,"content":["` + big + `\"}"]},"jsonrpc":"2.0","id":"a-1"}`, `too long: id "a-1", method , response true`},
		{"an error", `{"error":{"message":"` + big + `"},"id":3}`, `too long: id 3, method , response true`},
		{"a notification", `{"method":"notifications/progress","params":{"id":4,"x":"` + big + `"}}`, `too long: id , method "notifications/progress", response false`},
		{"an escaped key", `{"x":"` + big + `","\u0069d":5}`, `too long: id 5, method , response false`},
		{"white space", ` { "x" : [ "` + big + "\" ] ,\t\"id\" : 6 } ", `too long: id 6, method , response false`},
		{"an id that is no id", `{"x":"` + big + `","id":{"id":1}}`, `too long: id , method , response false`},
		{"an id nobody would send", `{"id":"` + big + `"}`, `too long: id , method , response false`},
		{"a batch", `[{"id":7,"x":"` + big + `"}]`, `too long: id , method , response false`},
		{"no JSON", big, `too long: id , method , response false`},
		{"cut off", `{"id":8,"x":"` + big, `too long: id 8, method , response false`},
		{"a request that names a result", `{"result":1,"method":"m","id":9,"x":"` + big + `"}`, `too long: id 9, method "m", response false`},
	}
	for _, tt := range tests {
		for _, size := range []byte{1, 100, 255} {
			t.Run(fmt.Sprintf("%s by %d", tt.name, size), func(t *testing.T) {
				data := "before\n" + tt.line + "\r\nafter\n" + tt.line
				lines, _ := readAll(NewReader(&chunks{data: []byte(data), sizes: []byte{size}}, 0, 1000))
				if diff := cmp.Diff([]string{"before", tt.want, "after", tt.want}, lines); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestReader_AllowsExactlyItsLimit(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "", "\r"} {
		for size := range 5 {
			fits, over := strings.Repeat("a", 1000), strings.Repeat("a", 1001)
			for line, want := range map[string]string{fits: fits, over: describe(&TooLong{})} {
				lines, _ := readAll(NewReader(&chunks{data: []byte(line + end), sizes: []byte{byte(248 + size)}}, 0, 1000))
				if diff := cmp.Diff([]string{want}, lines); diff != "" {
					t.Errorf("%d bytes and %q (-want +got):\n%s", len(line), end, diff)
				}
			}
		}
	}
}

func TestReader_SaysWhenToFlush(t *testing.T) {
	source := &chunks{data: []byte("a\nb\nc\nd"), sizes: []byte{5, 2}}
	r := NewReader(source, 0, 0)
	var got []string
	for {
		line, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%s more %t", line, r.More()))
	}
	want := []string{"a more true", "b more false", "c more false", "d more false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestReader_ReportsTheErrorOfItsSource(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name   string
		source io.Reader
		want   error
	}{
		{"an error behind a line", io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)), broken},
		{"an error with a line", iotest.DataErrReader(io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken))), broken},
		{"a source that returns nothing", io.MultiReader(strings.NewReader("a\n"), &stuck{}), io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(tt.source, 0, 0)
			lines, err := readAll(r)
			if diff := cmp.Diff([]string{"a"}, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if _, again := r.Next(); !errors.Is(err, tt.want) || !errors.Is(again, tt.want) {
				t.Errorf("errors are %v and %v, want %v", err, again, tt.want)
			}
		})
	}
}

type stuck struct{}

func (*stuck) Read([]byte) (int, error) { return 0, nil }

func TestReader_GivesLargeBuffersBack(t *testing.T) {
	const size = 4 << 10
	large := strings.Repeat("x", 1<<20)
	r := NewReader(io.MultiReader(strings.NewReader(large+"\n"), strings.NewReader("small\n"), strings.NewReader(large)), size, 0)
	for _, want := range []string{large, "small", large} {
		line, err := r.Next()
		if err != nil || string(line) != want {
			t.Fatalf("read %d bytes, error %v, want %d", len(line), err, len(want))
		}
		if want != "small" {
			continue
		}
		if len(r.buf) != size {
			t.Errorf("the buffer has %d bytes, want %d", len(r.buf), size)
		}
		if runtime.GC(); r.spare.held.Value() != nil {
			t.Error("the large buffer outlives the collector")
		}
	}
}

func TestReader_ReusesLargeBuffers(t *testing.T) {
	line := strings.Repeat("x", 1<<20) + "\n"
	r := NewReader(&repeated{line: []byte(line)}, 4<<10, 0)
	before := allocated()
	for range 50 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if got := allocated() - before; got > 20<<20 {
		t.Errorf("50 lines of 1 MiB took %d MiB of allocations", got>>20)
	}
}

func allocated() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

func TestReader_DropsALongLineInBoundedMemory(t *testing.T) {
	const limit = 64 << 10
	piece := `["` + strings.Repeat("x", 1000) + `"],`
	source := io.MultiReader(
		strings.NewReader(`{"result":{"content":[`),
		io.LimitReader(&repeated{line: []byte(piece)}, int64(len(piece))*20_000),
		strings.NewReader("1]},\"id\":77}\nnext\n"),
	)
	before := allocated()
	lines, _ := readAll(NewReader(source, 4<<10, limit))
	if diff := cmp.Diff([]string{"too long: id 77, method , response true", "next"}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if got := allocated() - before; got > 1<<20 {
		t.Errorf("20 MB dropped took %d bytes of allocations", got)
	}
}

// FuzzReader checks that how a stream is cut into reads never shows.
func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nb\r\n\nc"), []byte{1, 2}, uint16(0), uint16(0))
	f.Add([]byte(`{"id":1,"method":"m"}`+"\n"+`{"result":{"id":2},"id":"3"}`+"\nx"), []byte{5}, uint16(0), uint16(10))
	for _, seed := range peekSeeds {
		f.Add([]byte(seed+"\n"+seed), []byte{3, 200}, uint16(0), uint16(8))
	}
	f.Fuzz(func(t *testing.T, data, sizes []byte, size, limit uint16) {
		sizes = slices.DeleteFunc(sizes, func(n byte) bool { return n == 0 })
		source := &chunks{data: data, sizes: sizes}
		r := NewReader(source, int(size), int64(limit))
		want := bytes.Split(data, []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1]
		}
		for _, line := range want {
			more, reads := r.More(), source.reads
			got, err := r.Next()
			if more && source.reads != reads {
				t.Fatal("More said that there was a line, and Next had to read")
			}
			checkLine(t, bytes.TrimSuffix(line, []byte("\r")), got, err, int(limit))
		}
		if line, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("behind the last line there is %q, error %v", line, err)
		}
	})
}

// checkLine checks what Next made of a line.
func checkLine(t *testing.T, want, got []byte, err error, limit int) {
	t.Helper()
	if limit == 0 || len(want) <= limit {
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("read %q, error %v, want %q", got, err, want)
		}
		return
	}
	var long *TooLong
	if !errors.As(err, &long) {
		t.Fatalf("read %q, error %v, want a TooLong", got, err)
	}
	var m Message
	if PeekValid(want, &m) != nil {
		return // there is nobody to answer, or it cannot be told whom
	}
	if id := m.ID.In(want); isID(id) && len(id) <= tokenLimit && !bytes.Equal(id, long.ID) {
		t.Errorf("dropped %q, id %q", want, long.ID)
	}
	if method := m.Method.In(want); bytes.HasPrefix(method, []byte(`"`)) && len(method) <= tokenLimit && !bytes.Equal(method, long.Method) {
		t.Errorf("dropped %q, method %q", want, long.Method)
	}
	if m.Kind() != Invalid && long.Response != (m.Kind() == Response) && len(m.Method.In(want)) <= tokenLimit {
		t.Errorf("dropped %q, a %v, response %t", want, m.Kind(), long.Response)
	}
}
