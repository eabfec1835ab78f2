package prompt

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestParse_Golden holds a verdict for each file in testdata/parse: what is
// served of it, or why it is not.
func TestParse_Golden(t *testing.T) {
	files, err := filepath.Glob("testdata/parse/*.m*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := verdict(Parse("dir/"+filepath.Base(file), data))
			golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

// verdict renders the results of Parse, a thing a line.
func verdict(p *Prompt, warnings []Fault, fault *Fault) string {
	var b strings.Builder
	if fault != nil {
		fmt.Fprintf(&b, "skipped: %s\n", fault)
	}
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	if p == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "name: %s\ntitle: %q\ndescription: %q\n", p.Name, p.Title, p.Description)
	for _, a := range p.Arguments {
		fmt.Fprintf(&b, "argument: %+v\n", a)
	}
	fmt.Fprintf(&b, "body: %q\n", p.Body)
	return b.String()
}

// TestParse_ServesTheBodyByteForByte builds files around arbitrary bodies.
func TestParse_ServesTheBodyByteForByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mark := rapid.SampledFrom([]string{"", "\ufeff"}).Draw(t, "mark")
		end := rapid.SampledFrom([]string{"\n", "\r\n", " \t\n"}).Draw(t, "line end")
		body := genBody().Draw(t, "body")
		data := mark + "---" + end + "title: t" + end + "---" + end + body
		p, _, fault := Parse("p.md", []byte(data))
		if fault != nil {
			t.Fatal(fault)
		}
		if string(p.Body) != body || p.Title != "t" {
			t.Errorf("title %q, body %q; want body %q", p.Title, p.Body, body)
		}
	})
}

// genBody draws text that is rich in what could be taken for something else.
func genBody() *rapid.Generator[string] {
	piece := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"---\n", "---\r\n", "\n", "\r", "-", "{{a}}", "{{ b }}", "{{", "}}", "\ufeff", "\x00", "title: u\n", "```\n", "\t", "...\n",
	}))
	return rapid.Map(rapid.SliceOf(piece), func(pieces []string) string { return strings.Join(pieces, "") })
}

func TestParse_WithoutFrontMatterServesTheWholeFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SampledFrom([]string{"-", "--", "----", "--- x", " ---", "\n---", "x", "\u00a0---"}).Draw(t, "start") +
			"\n" + genBody().Draw(t, "rest")
		p, _, fault := Parse("p.md", []byte(body))
		if fault != nil {
			t.Fatal(fault)
		}
		if string(p.Body) != body {
			t.Errorf("body %q, want %q", p.Body, body)
		}
	})
}

func TestParse_TakesFilesUpToTheLimit(t *testing.T) {
	data := bytes.Repeat([]byte("x"), MaxFile+1)
	if _, _, fault := Parse("p.md", data[:MaxFile]); fault != nil {
		t.Errorf("MaxFile bytes: %v", fault)
	}
	_, _, fault := Parse("p.md", data)
	if fault == nil || fault.String() != "p.md:1: larger than 1048576 bytes" {
		t.Errorf("MaxFile+1 bytes: %v", fault)
	}
}

func TestParse_RefusesHugeFrontMatter(t *testing.T) {
	data := "---\ndescription: " + strings.Repeat("x", maxFront) + "\n---\nx\n"
	_, _, fault := Parse("p.md", []byte(data))
	if fault == nil || !strings.Contains(fault.Message, "front matter is larger") {
		t.Errorf("fault %v", fault)
	}
}

// TestParse_C57_ReadsFilesOfWindowsEditors: byte order mark and CRLF.
func TestParse_C57_ReadsFilesOfWindowsEditors(t *testing.T) {
	data := "\ufeff---\r\ndescription: d\r\narguments:\r\n  - name: who\r\n    required: true\r\n---\r\n\r\nHi {{who}}\r\n"
	p, warnings, fault := Parse("p.md", []byte(data))
	if fault != nil || warnings != nil {
		t.Fatal(fault, warnings)
	}
	want := []Argument{{Name: "who", Required: true}}
	if diff := cmp.Diff(want, p.Arguments); diff != "" || p.Description != "d" {
		t.Errorf("description %q, arguments (-want +got):\n%s", p.Description, diff)
	}
	text, err := p.Render(map[string]string{"who": "Ann"})
	if err != nil || string(text) != "\r\nHi Ann\r\n" {
		t.Errorf("text %q, %v", text, err)
	}
}

func TestParse_DigestFollowsWhatIsServed(t *testing.T) {
	const base = "---\ntitle: t\ndescription: d\narguments: [{name: a, description: e, required: true}]\n---\n{{a}}\n"
	digestOf := func(file, data string) [32]byte {
		p, _, fault := Parse(file, []byte(data))
		if fault != nil {
			t.Fatal(fault)
		}
		return p.Digest
	}
	want := digestOf("d/p.md", base)
	for _, same := range []string{
		strings.Replace(base, "title: t", "title: 't' # a comment", 1),
		strings.Replace(base, "title: t\ndescription: d", "description: d\ntitle: t", 1),
		"\ufeff" + base,
	} {
		if digestOf("d/p.md", same) != want {
			t.Errorf("another digest for %q", same)
		}
	}
	seen := map[[32]byte]string{want: base}
	for _, other := range []string{
		strings.Replace(base, "title: t", "title: u", 1),
		strings.Replace(base, "title: t\ndescription: d", "title: td", 1),
		strings.Replace(base, "name: a", "name: b", 1),
		strings.Replace(base, "required: true", "required: false", 1),
		strings.Replace(base, "description: e", "description: f", 1),
		base + "\n",
	} {
		got := digestOf("d/p.md", other)
		if before, ok := seen[got]; ok {
			t.Errorf("one digest for %q and %q", before, other)
		}
		seen[got] = other
	}
	if digestOf("e/p.md", base) == want || digestOf("d/q.md", base) == want {
		t.Error("the file is not part of the digest")
	}
}

func TestGuard_MakesAPanicAFault(t *testing.T) {
	r := &report{file: "p.md", last: 3}
	guard(r, func() { panic("attempted to parse unknown event: none") })
	_, fault := r.result()
	want := `p.md:1: front matter: the YAML decoder broke on it: "attempted to parse unknown event: none"`
	if fault == nil || fault.String() != want {
		t.Errorf("fault %v, want %s", fault, want)
	}
}

func TestFault_StringNamesThePlace(t *testing.T) {
	for want, fault := range map[string]Fault{
		"a.md:3: why": {File: "a.md", Line: 3, Message: "why"},
		"dir: why":    {File: "dir", Message: "why"},
	} {
		if got := fault.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestQuote_EscapesAndCutsAtARune(t *testing.T) {
	if got := quote("a\x1b\u202e\n"); got != `"a\x1b\u202e\n"` {
		t.Errorf("got %s", got)
	}
	if got := quote(strings.Repeat("é", maxQuoted)); got != `"`+strings.Repeat("é", maxQuoted/2)+`"…` {
		t.Errorf("got %s", got)
	}
	if got := quote("x" + strings.Repeat("é", maxQuoted)); !strings.HasSuffix(got, `é"…`) {
		t.Errorf("got %s", got)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/parse/*.m*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		p, warnings, fault := Parse("dir/name.md", data)
		if !bytes.Equal(before, data) {
			t.Fatal("the data was changed")
		}
		checkFaults(t, data, warnings, fault)
		if (p == nil) != (fault != nil) {
			t.Fatalf("prompt %v with fault %v", p, fault)
		}
		if p != nil {
			checkPrompt(t, data, p)
		}
		again, _, _ := Parse("dir/name.md", data)
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("read twice (-first +second):\n%s", diff)
		}
	})
}

// checkFaults holds the places of faults to the lines that there are, and their
// words to one printable line.
func checkFaults(t *testing.T, data []byte, warnings []Fault, fault *Fault) {
	t.Helper()
	all := slices.Clone(warnings)
	if fault != nil {
		all = append(all, *fault)
	}
	for _, w := range all {
		if w.Line < 1 || w.Line > lineAt(data, len(data)) || w.File != "dir/name.md" {
			t.Errorf("place of %v", w)
		}
		if len(w.Message) > 1000 || strings.ContainsAny(w.Message, "\n\r\x1b\u202e") || !utf8.ValidString(w.Message) {
			t.Errorf("message %q", w.Message)
		}
	}
	if !slices.IsSortedFunc(warnings, func(a, b Fault) int { return a.Line - b.Line }) {
		t.Errorf("warnings out of order: %v", warnings)
	}
	if len(warnings) > maxWarnings+1 {
		t.Errorf("%d warnings", len(warnings))
	}
}

// checkPrompt holds a prompt to what every prompt is.
func checkPrompt(t *testing.T, data []byte, p *Prompt) {
	t.Helper()
	if !bytes.HasSuffix(data, p.Body) {
		t.Errorf("body %q is not the end of the file", p.Body)
	}
	for _, s := range []string{p.Title, p.Description, string(p.Body)} {
		if !utf8.ValidString(s) {
			t.Errorf("%q is not UTF-8", s)
		}
	}
	names := map[string]bool{}
	for _, a := range p.Arguments {
		if !isName(a.Name) || names[a.Name] {
			t.Errorf("argument name %q", a.Name)
		}
		names[a.Name] = true
	}
}
