package jsonrpc

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSplice_ChangesNothingButTheEdits(t *testing.T) {
	line := `{"id":1, "params":{"name":"echo","_meta":{"progressToken":9007199254740993}},"x":1.0}`
	var m Message
	if err := Peek([]byte(line), &m); err != nil {
		t.Fatal(err)
	}
	edit := func(at Span, with string) Edit { return Edit{at, []byte(with)} }
	before := Span{m.Name.Start, m.Name.Start}
	tests := []struct {
		name  string
		edits []Edit
		want  string
	}{
		{"no edit", nil, line},
		{"an absent span", []Edit{edit(m.Cursor, "7")}, line},
		{"any order", []Edit{edit(m.ProgressToken, "2"), edit(m.ID, `"one"`)}, `{"id":"one", "params":{"name":"echo","_meta":{"progressToken":2}},"x":1.0}`},
		{"nothing instead", []Edit{edit(m.Name, "")}, strings.Replace(line, `"echo"`, "", 1)},
		{"two at one place", []Edit{edit(before, "1"), edit(before, "2"), edit(m.Name, "3")}, strings.Replace(line, `"echo"`, "123", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Splice([]byte("before "), []byte(line), tt.edits...)
			if diff := cmp.Diff("before "+tt.want, string(got)); diff != "" {
				t.Errorf("spliced (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplice_DoesNotAllocate(t *testing.T) {
	line, id := []byte(call(1000)), []byte("7")
	var m Message
	if err := Peek(line, &m); err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 2000)
	if n := testing.AllocsPerRun(100, func() { dst = Splice(dst[:0], line, Edit{m.ProgressToken, id}, Edit{m.ID, id}) }); n != 0 {
		t.Errorf("Splice allocates %v times", n)
	}
}

func TestRename_ReplacesTheNameAlone(t *testing.T) {
	tests := []struct {
		name, tool, want string
		fails            error
	}{
		{"the name", `{"name":"a","inputSchema":{"name":"a"}}`, `{"name":"up__\"a\"","inputSchema":{"name":"a"}}`, nil},
		{"where it stands", `{ "x-y": 1e400, "name" : "a" }`, `{ "x-y": 1e400, "name" : "up__\"a\"" }`, nil},
		{"an escaped key", `{"n\u0061me":"a"}`, `{"n\u0061me":"up__\"a\""}`, nil},
		{"no name", `{"title":"a"}`, "", errNoName},
		{"a name that is no string", `{"name":1}`, "", errNoName},
		{"a null name", `{"name":null}`, "", errNoName},
		{"two names", `{"name":"a","name":"b"}`, "", ErrDuplicate},
		{"no object", `"name"`, "", errNoObject},
		{"an array", `["name","a"]`, "", errNoObject},
		{"nothing", ``, "", errNoObject},
		{"no JSON", `{"name":"a","x":01}`, "", ErrSyntax},
		{"cut off", `{"name":"a"`, "", ErrSyntax},
		{"no UTF-8", "{\"name\":\"a\",\"x\":\"\xff\"}", "", ErrSyntax},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Rename([]byte("before "), []byte(tt.tool), "name", `up__"a"`)
			if !errors.Is(err, tt.fails) {
				t.Errorf("error is %v, want %v", err, tt.fails)
			}
			if diff := cmp.Diff("before "+tt.want, string(got)); diff != "" {
				t.Errorf("renamed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMember_AgreesWithItsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := value(3).Draw(t, "object")
		for _, key := range []string{"id", "name", "absent", ""} {
			want, twice := oracleFind([]byte(object), []string{key})
			at, found, err := Member([]byte(object), key)
			switch {
			case strings.TrimLeft(object, " \t\r\n")[0] != '{':
				if err == nil {
					t.Errorf("%q is taken for an object", object)
				}
			case twice != errors.Is(err, ErrDuplicate):
				t.Errorf("%q in %q: error is %v, want duplicate %t", key, object, err, twice)
			case !twice && (at != want || found != want.Present()):
				t.Errorf("%q in %q is at %v (%t), want %v", key, object, at, found, want)
			}
		}
	})
}

func TestText_DecodesAsEncodingJSON(t *testing.T) {
	for _, raw := range append([]string{`1`, `null`, `"a`, `"a"b"`, `"a" `, ` "a"`}, validSeeds...) {
		var want string
		wantErr := json.Unmarshal([]byte(raw), &want)
		text, err := Text([]byte(raw))
		switch {
		case len(raw) == 0 || raw[0] != '"' || wantErr != nil:
			if err == nil && raw != `"a" ` {
				t.Errorf("Text(%q) is %q, want an error", raw, text)
			}
		case err != nil:
			t.Errorf("Text(%q): %v", raw, err)
		case string(text) != want:
			t.Errorf("Text(%q) is %q, want %q", raw, text, want)
		}
	}
}

func TestText_SharesWhatHasNoEscapes(t *testing.T) {
	raw := []byte(`"tools/call"`)
	if n := testing.AllocsPerRun(100, func() { _, _ = Text(raw) }); n != 0 {
		t.Errorf("Text allocates %v times", n)
	}
}

func TestAppendQuoted_IsWhatUnquoteReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "text")
		quoted := AppendQuoted(nil, want)
		if err := Valid(quoted); err != nil {
			t.Fatalf("%q: %v", quoted, err)
		}
		if got, err := Unquote(quoted); err != nil || got != want {
			t.Errorf("%q reads as %q, want %q (error %v)", quoted, got, want, err)
		}
	})
}

// FuzzSplice checks that a result differs from its line in the edits alone:
// taking them back gives the line.
func FuzzSplice(f *testing.F) {
	for _, seed := range peekSeeds {
		f.Add([]byte(seed), []byte(`"new"`), uint8(0b101))
	}
	f.Fuzz(func(t *testing.T, line, with []byte, chosen uint8) {
		var m Message
		if Peek(line, &m) != nil {
			return
		}
		var edits, back []Edit
		shift := 0
		for i, at := range ascending(m.ID, m.Method, m.Name, m.Cursor, m.RequestID, m.ProgressToken, m.Content, m.ErrMessage) {
			if chosen>>i&1 == 0 {
				continue
			}
			edits = append(edits, Edit{at, with})
			start := at.Start + shift
			back = append(back, Edit{Span{start, start + len(with)}, line[at.Start:at.End]})
			shift += len(with) - (at.End - at.Start)
		}
		spliced := Splice(nil, line, edits...)
		if len(spliced) != len(line)+shift {
			t.Errorf("%d bytes became %d, want %d", len(line), len(spliced), len(line)+shift)
		}
		if diff := cmp.Diff(string(line), string(Splice(nil, spliced, back...))); diff != "" {
			t.Errorf("line after the edits were taken back (-want +got):\n%s", diff)
		}
	})
}

// ascending returns the spans that are present in the order of the line.
func ascending(spans ...Span) []Span {
	var present []Span
	for _, s := range spans {
		if s.Present() {
			present = append(present, s)
		}
	}
	slices.SortFunc(present, func(a, b Span) int { return a.Start - b.Start })
	return present
}
