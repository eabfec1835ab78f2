package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestExpand(t *testing.T) {
	env := Env{Home: "/home/u", Lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"A": "a", "EMPTY": "", "TILDE": "~/x", "DOLLAR": "${A}"}[name]
		return v, ok
	}}
	for in, want := range map[string]string{
		"":                "",
		"plain":           "plain",
		"~":               "/home/u",
		"~/":              "/home/u/",
		"~/x":             "/home/u/x",
		"~u":              "~u",
		" ~/x":            " ~/x",
		"x~/":             "x~/",
		"${A}":            "a",
		"${A}${A}":        "aa",
		"-${EMPTY}-":      "--",
		"$A":              "$A",
		"$":               "$",
		"$$":              "$$",
		"a$":              "a$",
		"$${A}":           "${A}",
		"$$${A}":          "$${A}",
		"$$A":             "$$A",
		"${TILDE}":        "~/x",
		"${DOLLAR}":       "${A}",
		"~/${A}":          "/home/u/a",
		"{A}":             "{A}",
		"pre${A}mid${A}$": "preamida$",
	} {
		got, problems := env.expand(in)
		if got != want || len(problems) > 0 {
			t.Errorf("expand(%q) = %q, %v, want %q", in, got, problems, want)
		}
	}
	root := Env{Home: "/"}
	if got, _ := root.expand("~/x"); got != "/x" {
		t.Errorf("~/x under / = %q", got)
	}
}

// Text that was escaped comes back as it was.
func TestExpand_UndoesEscaping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("${}A~/ü"))).Draw(t, "text")
		text = strings.TrimLeft(strings.ReplaceAll(text, "$$", "$"), "~")
		escaped := strings.ReplaceAll(text, "${", "$${")
		if got, problems := (Env{}).expand(escaped); got != text || len(problems) > 0 {
			t.Errorf("expand(%q) = %q, %v, want %q", escaped, got, problems, text)
		}
	})
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"1B": 1, "0B": 0, "2KB": 2000, "2KiB": 2048, "3MB": 3e6, "64MiB": 64 << 20, "1GB": 1e9, "4GiB": 4 << 30, "007B": 7,
	} {
		if got, ok := parseSize(in); !ok || got != want {
			t.Errorf("parseSize(%q) = %d, %v, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{
		"", "B", "1", "64", "64mib", "64 MiB", "-1B", "+1B", "1.5MiB", "1KIB", "1K", "1iB", "1TiB", "MiB1",
		"9223372036854775808B", "9223372036854775807KiB", "1BB", "1KiBB", "٣B",
	} {
		if got, ok := parseSize(in); ok {
			t.Errorf("parseSize(%q) = %d, want none", in, got)
		}
	}
}

func TestNearest(t *testing.T) {
	known := upstreamFields().names()
	for word, want := range map[string]string{
		"restart_dely":  "restart_delay",
		"restart-delay": "restart_delay",
		"restartdelay":  "restart_delay",
		"RESTART_DELAY": "restart_delay",
		"cdm":           "cmd",
		"cmnd":          "cmd",
		"command":       "cmd",
		"cwd":           "workdir",
		"arg":           "args",
		"isol":          "isolation",
		"enabeld":       "enabled",
		"xyzzy":         "",
		"":              "",
		"a":             "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestTypos_IsADistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"swap", "swp", 1}} {
		if got := typos(c.a, c.b); got != c.want {
			t.Errorf("typos(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-c]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if typos(a, b) != typos(b, a) || (typos(a, b) == 0) != (a == b) {
			t.Errorf("typos(%q, %q) = %d, the other way %d", a, b, typos(a, b), typos(b, a))
		}
	})
}

func TestKeyProblem(t *testing.T) {
	for _, key := range []string{"a", "A-1", "a_b", "a_b_c", "-", "a--b", "harnessed", "list", "get", "my-harness", strings.Repeat("x", 24)} {
		if problem := keyProblem(key); problem != "" {
			t.Errorf("%q is refused: %s", key, problem)
		}
	}
	for _, key := range []string{
		"", "_", "_a", "a_", "a__b", "a.b", "a b", "ü", "harness", "harness-", "harness_x", "harness_list",
		"list_trajectories", "list-trajectories", "get_trajectory", "get-trajectory", strings.Repeat("x", 25),
	} {
		if keyProblem(key) == "" {
			t.Errorf("%q is accepted", key)
		}
	}
}

func TestPlace_RendersAsInTheFile(t *testing.T) {
	for want, p := range map[string]place{
		"":                        "",
		"mcp":                     place("").key("mcp"),
		"mcp.up.args[12]":         place("").key("mcp").key("up").key("args").item(12),
		"a[0][1].b":               place("").key("a").item(0).item(1).key("b"),
		`mcp."node.js"`:           place("").key("mcp").key("node.js"),
		`"".""`:                   place("").key("").key(""),
		`"\x1b[31m\u202e"`:        place("").key("\x1b[31m\u202e"),
		"mcp.\"a\uFFFDb\uFFFDc\"": place("").key("mcp").key("a\x1fb\x1ec"),
	} {
		if got := p.String(); got != want {
			t.Errorf("%q renders as %s, want %s", string(p), got, want)
		}
	}
	p := place("").key("a").key("b").item(3)
	if got := p.parent().parent().String(); got != "a" {
		t.Errorf("parent of the parent of %s = %s", p, got)
	}
	if got := place("").parent(); got != "" {
		t.Errorf("parent of the file = %q", got)
	}
}

func TestShow_CutsAndEscapes(t *testing.T) {
	long := show(strings.Repeat("ü", 100))
	if len(long) > maxShown+8 || !strings.HasSuffix(long, `"…`) || strings.ContainsRune(long, '\uFFFD') {
		t.Errorf("show of a long text = %s", long)
	}
	if diff := cmp.Diff(`"a\n\x1b\u202e"`, show("a\n\x1b\u202e")); diff != "" {
		t.Errorf("show (-want +got):\n%s", diff)
	}
}

func TestLooksLikeHeader(t *testing.T) {
	for line, want := range map[string]bool{
		"[a]": true, "  [a.b] # c": true, "[[a]]": true, `["a b".c]`: true, "[ a ]": true,
		"": false, "[": false, "[]": false, "[a": false, "a]": false, "[a, b]": false, "[a=1]": false, "# [a]": false,
	} {
		if got := looksLikeHeader([]byte(line)); got != want {
			t.Errorf("looksLikeHeader(%q) = %v", line, got)
		}
	}
}

func TestLooksLikeItem(t *testing.T) {
	for line, want := range map[string]bool{
		"a = 1": true, "a.b=1": true, `"a b" = 1`: true, "'a' = 1": true, "[a]": true, "a =": true,
		`"A=b",`: false, `'A=b',`: false, "= 1": false, "a": false, "# a = 1": false, `"a", b = 1`: false,
	} {
		if got := looksLikeItem([]byte(line)); got != want {
			t.Errorf("looksLikeItem(%q) = %v", line, got)
		}
	}
}
