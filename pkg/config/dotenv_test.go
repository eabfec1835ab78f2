package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

// revealed parses an env_file and gives its variables as the child would get
// them.
func revealed(t *testing.T, text string) []string {
	t.Helper()
	vars, err := config.ParseEnvFile([]byte(text))
	if err != nil {
		t.Fatalf("ParseEnvFile(%q): %v", text, err)
	}
	var out []string
	for _, v := range vars {
		out = append(out, v.Name+"="+v.Value.Reveal())
	}
	return out
}

func TestParseEnvFile_ReadsEachFormOfLine(t *testing.T) {
	for text, want := range map[string]string{
		"A=b":                               "A=b",
		"A=":                                "A=",
		"A= ":                               "A=",
		"  A=b  ":                           "A=b",
		"A = b":                             "A=b",
		"A=b c":                             "A=b c",
		"A=b=c":                             "A=b=c",
		"A==":                               "A==",
		"_a1=x":                             "_a1=x",
		"export A=b":                        "A=b",
		"export\tA=b":                       "A=b",
		"export=b":                          "export=b",
		"export =b":                         "export=b",
		"exportA=b":                         "exportA=b",
		"A=b # c":                           "A=b",
		"A=b\t# c":                          "A=b",
		"A=b#c":                             "A=b#c",
		"A=#c":                              "A=#c",
		"A= # c":                            "A=",
		"A=b # c # d":                       "A=b",
		`A='b # c'`:                         "A=b # c",
		`A='b\n$HOME"'`:                     `A=b\n$HOME"`,
		`A='' # c`:                          "A=",
		`A="b # c"`:                         "A=b # c",
		`A="b" # c`:                         "A=b",
		`A="b"   `:                          "A=b",
		`A= "b"`:                            "A=b",
		`A="a\nb"`:                          "A=a\nb",
		`A="a\"b\\c"`:                       `A=a"b\c`,
		`A="C:\dir\t"`:                      `A=C:\dir\t`,
		`A="\\n"`:                           `A=\n`,
		`A="it's"`:                          "A=it's",
		`A=it's`:                            "A=it's",
		`A=say "hi"`:                        `A=say "hi"`,
		"A=$HOME ${HOME} ~/x":               "A=$HOME ${HOME} ~/x",
		"A=ü€":                              "A=ü€",
		"\xEF\xBB\xBFA=b":                   "A=b",
		"A=b\r":                             "A=b",
		"A=\"b\"\r":                         "A=b",
		"HARNESS_API_KEY=theirs":            "HARNESS_API_KEY=theirs",
		"A=" + strings.Repeat("x", 200_000): "A=" + strings.Repeat("x", 200_000),
	} {
		if diff := cmp.Diff([]string{want}, revealed(t, text)); diff != "" {
			t.Errorf("%.40q (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseEnvFile_ReadsWholeFiles(t *testing.T) {
	text := "# secrets\n\n  # more\nexport A=1\nB='2'\n\nA=3\nC=4"
	want := []string{"A=3", "B=2", "C=4"}
	for _, text := range []string{text, text + "\n", strings.ReplaceAll(text, "\n", "\r\n"), "\xEF\xBB\xBF" + text} {
		if diff := cmp.Diff(want, revealed(t, text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"", "\n", "# none", "\xEF\xBB\xBF"} {
		if got := revealed(t, text); got != nil {
			t.Errorf("%q gives %v", text, got)
		}
	}
}

func TestParseEnvFile_NamesTheLineAndNeverTheValue(t *testing.T) {
	for text, want := range map[string]string{
		"A=b\ns3cr3t\n":              "line 2: no = in the line, expected NAME=value",
		"export s3cr3t":              "line 1: no = in the line, expected NAME=value",
		"\n\n1s3cr3t=s3cr3t":         "line 3: name before = must be letters, digits and _ only, and no digit first",
		"s3-cr3t=x":                  "line 1: name before = must be letters, digits and _ only, and no digit first",
		"=s3cr3t":                    "line 1: name before = must be letters, digits and _ only, and no digit first",
		"A B=s3cr3t":                 "line 1: name before = must be letters, digits and _ only, and no digit first",
		"A=\"s3cr3t\r\nB=x":          `line 1: quote is not closed on its line; a line feed in double quotes is written \n`,
		"A='s3cr3t":                  `line 1: quote is not closed on its line; a line feed in double quotes is written \n`,
		`A="s3cr3t\"`:                `line 1: quote is not closed on its line; a line feed in double quotes is written \n`,
		`A="s3cr3t\`:                 `line 1: quote is not closed on its line; a line feed in double quotes is written \n`,
		`A="x"s3cr3t`:                "line 1: text after the closing quote, expected the end of the line or a comment",
		`A='x' s3cr3t`:               "line 1: text after the closing quote, expected the end of the line or a comment",
		`A="x"#s3cr3t`:               "line 1: text after the closing quote, expected the end of the line or a comment",
		"A=s3cr3t\x00":               "line 1: line holds a NUL byte",
		"\xFF\xFEA\x00=\x00b\x00":    "line 1: file is encoded in UTF-16 (little endian), expected UTF-8",
		"A\x00=\x00b\x00\n\x00":      "line 1: file is encoded in UTF-16 (little endian), expected UTF-8",
		"A=b\n# c\nB=\"s3cr3t\nC=\"": `line 3: quote is not closed on its line; a line feed in double quotes is written \n`,
	} {
		vars, err := config.ParseEnvFile([]byte(text))
		fault, ok := errors.AsType[*config.EnvFault](err)
		if !ok || vars != nil {
			t.Errorf("%q: %v, %v, want an *EnvFault alone", text, vars, err)
			continue
		}
		if diff := cmp.Diff(want, fault.Error()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
