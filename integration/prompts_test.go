package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// promptNames lists the prompts. More than one page is a fault.
func (a *agent) promptNames() []string {
	a.t.Helper()
	names := []string{}
	for _, p := range a.prompts() {
		names = append(names, p.Name)
	}
	return names
}

// listedPrompt is one entry of prompts/list.
type listedPrompt struct {
	Name, Title, Description string
	Arguments                []struct {
		Name, Description string
		Required          bool
	}
}

func (a *agent) prompts() []listedPrompt {
	a.t.Helper()
	var list struct {
		Prompts    []listedPrompt
		NextCursor *string
	}
	m := a.ask("prompts/list", nil)
	if m.Error != nil || json.Unmarshal(m.Result, &list) != nil || list.NextCursor != nil {
		a.t.Fatalf("prompts/list: %.500s", m.raw)
	}
	return list.Prompts
}

// promptText is the text of a prompts/get answer.
func promptText(t testing.TB, m message) string {
	t.Helper()
	var got struct {
		Messages []struct {
			Role    string
			Content struct{ Type, Text string }
		}
	}
	if m.Error != nil || json.Unmarshal(m.Result, &got) != nil || len(got.Messages) != 1 {
		t.Fatalf("prompts/get: %.500s", m.raw)
	}
	return got.Messages[0].Content.Text
}

// prompt renders a prompt that has to be there.
func (a *agent) prompt(name string, args any) string {
	a.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	return promptText(a.t, a.ask("prompts/get", map[string]any{"name": name, "arguments": args}))
}

// prompting is the TOML that declares a directory of this home.
func (h *home) prompting(dirs ...string) string {
	var quoted []string
	for _, d := range dirs {
		quoted = append(quoted, fmt.Sprintf("%q", h.path(d)))
	}
	return "[mcp.prompts]\npaths = [" + strings.Join(quoted, ", ") + "]\n"
}

func TestC55_ArgumentsAreRequiredOptionalAndLiteral(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("prompts/greet.md", "---\ndescription: greets\narguments:\n  - name: who\n    required: true\n  - name: tone\n---\nHello {{who}}, {{ tone }}. {{other}} {{who}}!\n")
	h.write("prompts/plain.md", "no arguments\n")
	d := h.run(h.prompting("prompts"), h.upstream("ok"))
	a := d.connected()

	want := []listedPrompt{{Name: "greet", Description: "greets"}, {Name: "plain"}}
	want[0].Arguments = append(want[0].Arguments, struct {
		Name, Description string
		Required          bool
	}{Name: "who", Required: true}, struct {
		Name, Description string
		Required          bool
	}{Name: "tone"})
	if d := cmp.Diff(want, a.prompts()); d != "" {
		t.Errorf("list:\n%s", d)
	}
	for params, text := range map[string]string{
		`{"name":"greet","arguments":{"who":""}}`:                             "Hello , . {{other}} !\n",
		`{"name":"greet","arguments":{"who":"x","extra":"y"}}`:                "Hello x, . {{other}} x!\n",
		`{"name":"greet","arguments":{"who":"{{tone}}","tone":"$1 {{who}}"}}`: "Hello {{tone}}, $1 {{who}}. {{other}} {{tone}}!\n",
		`{"name":"plain"}`:                           "no arguments\n",
		`{"name":"plain","arguments":{}}`:            "no arguments\n",
		`{"name":"plain","arguments":{"who":"any"}}`: "no arguments\n",
	} {
		if got := promptText(t, a.ask("prompts/get", rawf("%s", params))); got != text {
			t.Errorf("%s: %q, not %q", params, got, text)
		}
	}
	for params, name := range map[string]string{
		`{"name":"greet","arguments":{}}`:                     "who",
		`{"name":"greet"}`:                                    "who",
		`{"name":"greet","arguments":{"who":5}}`:              "who",
		`{"name":"greet","arguments":{"who":"x","tone":{}}}`:  "tone",
		`{"name":"greet","arguments":{"who":null,"tone":""}}`: "who",
	} {
		m := a.ask("prompts/get", rawf("%s", params))
		if m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, name) {
			t.Errorf("%s: %s", params, m.raw)
		}
	}
	a.well("ok")
}

func TestC57_EncodingsOfPromptFiles(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("prompts/bom.md", "\ufeff---\r\ndescription: from Windows\r\narguments:\r\n  - name: who\r\n    required: true\r\n---\r\nHi {{who}}\r\n\r\nbye\r\n")
	h.write("prompts/blank.md", "\n---\ndescription: not front matter\n---\nbody\n")
	h.write("prompts/emoji.markdown", "---\ndescription: 语言 😀\n---\n你好 😀\u2028 no newline at the end")
	h.write("prompts/onlybom.md", "\ufeffjust text\n")
	d := h.run(h.prompting("prompts"), h.upstream("ok"))
	a := d.connected()

	if got, want := a.prompt("bom", map[string]any{"who": "x"}), "Hi x\r\n\r\nbye\r\n"; got != want {
		t.Errorf("BOM and CRLF: %q", got)
	}
	if got, want := a.prompt("blank", nil), "\n---\ndescription: not front matter\n---\nbody\n"; got != want {
		t.Errorf("a blank first line: %q", got)
	}
	if got, want := a.prompt("emoji", nil), "你好 😀\u2028 no newline at the end"; got != want {
		t.Errorf("emoji and CJK: %q", got)
	}
	if got := a.prompt("onlybom", nil); got != "just text\n" {
		t.Errorf("a BOM alone: %q", got)
	}
	for _, p := range a.prompts() {
		switch {
		case p.Name == "bom" && (p.Description != "from Windows" || len(p.Arguments) != 1),
			p.Name == "emoji" && p.Description != "语言 😀",
			p.Name == "blank" && p.Description != "":
			t.Errorf("listed as %+v", p)
		}
	}
	a.well("ok")
}

func TestC59_OnlyNamesInTheListAreServed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("secret.md", "secret")
	h.write("prompts/p1.md", "one\n")
	d := h.run(h.prompting("prompts"), h.upstream("ok"))
	a := d.connected()
	for _, name := range []string{
		"../secret", "../secret.md", "/etc/hostname", "..%2fsecret", "a\u0000b", "./p1", "p1.md", "P1", "", "p1/", "p1\u0000",
		strings.Repeat("a", 5000), h.path("prompts/p1.md"),
	} {
		m := a.ask("prompts/get", map[string]any{"name": name})
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%.40q: %.300s", name, m.raw)
		}
	}
	if got := a.prompt("p1", nil); got != "one\n" {
		t.Errorf("p1: %q", got)
	}
	a.well("ok")
}

func TestPrompts_AreFollowedByFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.prompting("early", "late"), h.upstream("ok")) // directories yet to come
	a, b := d.connected(), d.connected()
	if got := a.promptNames(); len(got) != 0 {
		t.Fatalf("prompts: %v", got)
	}
	n := 0
	changed := func(what string) {
		t.Helper()
		n++
		a.awaitCount(promptsChanged, n)
		b.awaitCount(promptsChanged, n)
		if got := a.count(promptsChanged); got != n {
			t.Errorf("%s: %d notifications, not %d", what, got, n)
		}
	}
	h.write("late/p.md", "late\n")
	changed("a directory that appears")
	h.write("late/p.md", "later\n")
	changed("a body alone")
	if got := a.prompt("p", nil); got != "later\n" {
		t.Errorf("p: %q", got)
	}
	h.write("early/p.md", "early\n")
	changed("an earlier directory")
	if got := a.prompt("p", nil); got != "early\n" {
		t.Errorf("p: %q", got)
	}
	h.remove("early/p.md")
	changed("its end")
	if got := a.prompt("p", nil); got != "later\n" {
		t.Errorf("p: %q", got)
	}
	for _, name := range []string{"late/.p.md.swp", "late/p.md~", "late/#p.md#", "late/.hidden.md", "late/notes.txt"} {
		h.write(name, "not a prompt\n")
	}
	d.mustReload()
	a.well("ok")
	if got := a.count(promptsChanged); got != n {
		t.Errorf("%d notifications, not %d", got, n)
	}
	if got := a.promptNames(); !slices.Equal(got, []string{"p"}) {
		t.Errorf("prompts: %v", got)
	}
	if a.count(toolsChanged) != 0 {
		t.Error("tools were said to have changed")
	}
}

func TestPrompts_ABadFileKeepsItsLastGoodAndIsAWarning(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("prompts/p.md", "good\n")
	d := h.run(h.prompting("prompts"), h.upstream("ok"))
	a := d.connected()
	h.write("prompts/p.md", "---\ndescription: [\n---\nbad\n")
	h.write("prompts/empty.md", "")
	h.write("prompts/a__b.md", "two underscores\n")
	h.write("prompts/latin1.md", "caf\xe9\n")
	h.write("prompts/new.md", "new\n")
	r := d.mustReload()
	for _, name := range []string{"p.md", "empty.md", "a__b.md", "latin1.md"} {
		if !slices.ContainsFunc(r.Warnings, func(f fault) bool { return strings.HasSuffix(f.File, "/"+name) && f.Message != "" }) {
			t.Errorf("no warning of %s: %+v", name, r.Warnings)
		}
	}
	if i := slices.IndexFunc(r.Warnings, func(f fault) bool { return strings.HasSuffix(f.File, "/p.md") }); i >= 0 && r.Warnings[i].Line == 0 {
		t.Errorf("a fault of front matter without its line: %+v", r.Warnings[i])
	}
	if got := a.promptNames(); !slices.Equal(got, []string{"new", "p"}) {
		t.Errorf("prompts: %v", got)
	}
	if got := a.prompt("p", nil); got != "good\n" {
		t.Errorf("p: %q", got)
	}
	h.write("prompts/p.md", "better\n")
	d.mustReload()
	if got := a.prompt("p", nil); got != "better\n" {
		t.Errorf("p: %q", got)
	}
	a.well("ok")
}

func TestPrompts_ALinkLeadsAnywhereThatIsTheUsers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("dotfiles/linked.md", "from elsewhere\n")
	h.write("prompts/own.md", "own\n")
	h.write("secret.txt", "not markdown\n")
	for link, target := range map[string]string{
		"linked.md": h.path("dotfiles/linked.md"), "dangling.md": h.path("nowhere.md"),
		"text.md": h.path("secret.txt"), "dir.md": h.path("dotfiles"), "device.md": "/dev/zero",
	} {
		if err := os.Symlink(target, h.path("prompts", link)); err != nil {
			t.Fatal(err)
		}
	}
	d := h.run(h.prompting("prompts"), h.upstream("ok"))
	a := d.connected()
	if got := a.promptNames(); !slices.Equal(got, []string{"linked", "own"}) {
		t.Errorf("prompts: %v", got)
	}
	h.write("dotfiles/linked.md", "changed elsewhere\n")
	a.awaitCount(promptsChanged, 1)
	if got := a.prompt("linked", nil); got != "changed elsewhere\n" {
		t.Errorf("linked: %q", got)
	}
	a.well("ok")
}
