package config_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

// checkReport loads text and holds the report against what every report
// promises: a configuration or faults, in line order, at lines there are, and
// nothing in them that a terminal would take for an order.
func checkReport(t *testing.T, text string, kind config.Kind) (*config.Config, string) {
	t.Helper()
	cfg, warnings, faults := load(text, kind)
	if (cfg == nil) != (len(faults) > 0) {
		t.Fatalf("config %v beside faults %v", cfg, faults)
	}
	last := 1 + strings.Count(text, "\n")
	for _, list := range [][]config.Fault{faults, warnings} {
		before := 1
		for _, f := range list {
			if f.Line < before || f.Line > last || f.Message == "" || f.File != "/cfg/harness.toml" {
				t.Fatalf("fault %+v, after line %d of %d", f, before, last)
			}
			if i := strings.IndexFunc(f.String(), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Fatalf("fault %q is not printable at %d", f, i)
			}
			before = f.Line
		}
	}
	return cfg, string(report(warnings, faults))
}

func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.toml", "testdata/good/*.toml"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, data := range readFiles(f, names) {
			f.Add(data, false)
			f.Add(data, true)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, project bool) {
		kind := config.Global
		if project {
			kind = config.Project
		}
		text := string(data)
		cfg, report := checkReport(t, text, kind)
		checkLineEnds(t, text, kind, cfg, report)
		checkNoSecret(t, text, kind)
	})
}

// checkLineEnds loads text with a byte order mark and CRLF: nothing changes.
func checkLineEnds(t *testing.T, text string, kind config.Kind, cfg *config.Config, report string) {
	t.Helper()
	encoded := strings.HasPrefix(text, "\xEF\xBB\xBF") || strings.HasPrefix(text, "\xFF\xFE") || strings.HasPrefix(text, "\xFE\xFF")
	if encoded || strings.ContainsAny(text, "\r\x00") {
		return
	}
	other, otherReport := checkReport(t, "\xEF\xBB\xBF"+strings.ReplaceAll(text, "\n", "\r\n"), kind)
	if diff := cmp.Diff(report, otherReport); diff != "" {
		t.Fatalf("report with CRLF (-plain +CRLF):\n%s", diff)
	}
	if cfg != nil && !cmp.Equal(cfg, other) {
		t.Fatal("the config with CRLF is another")
	}
}

// checkNoSecret puts a definition with a secret before and behind text: no
// report shows it.
func checkNoSecret(t *testing.T, text string, kind config.Kind) {
	t.Helper()
	if strings.Contains(text, canary) {
		return
	}
	secret := "\n[mcp.holder]\ncmd = 'x'\nenv = { TOKEN = '" + canary + "' }\nenv.OTHER = '${TOKEN}'\n"
	for _, both := range []string{secret + text, text + secret} {
		if _, report := checkReport(t, both, kind); strings.Contains(report, canary) {
			t.Fatalf("the secret is in the report: %s", report)
		}
	}
}

func FuzzParseEnvFile(f *testing.F) {
	for _, seed := range []string{
		"", "A=b", "export A='b' # c\r\nB=\"x\\n\\\"\\\\\"\r\n", "\xEF\xBB\xBFA=b\n", "A=\"open", "no equals", "1A=b", "A\x00=\x00",
		"A='x' y", "# c\n\nA= # c\nA=#c\n", "export\tA = b\t# c", "export=1",
	} {
		f.Add([]byte(seed))
	}
	messages := envMessages()
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, err := config.ParseEnvFile(data)
		if err != nil {
			fault, ok := errors.AsType[*config.EnvFault](err)
			if !ok || vars != nil || fault.Line < 1 || fault.Line > 1+bytes.Count(data, []byte("\n")) || !messages[fault.Message] {
				t.Fatalf("%v, %v", vars, err)
			}
			return
		}
		seen := map[string]bool{}
		for _, v := range vars {
			if v.Name == "" || seen[v.Name] || strings.ContainsRune(v.Value.Reveal(), 0) || strings.ContainsAny(v.Name, "= \t\n\r") {
				t.Fatalf("variable %q of %q", v.Name, data)
			}
			seen[v.Name] = true
		}
	})
}

// envMessages are all the messages there are: none is made of what a file
// holds.
func envMessages() map[string]bool {
	all := map[string]bool{
		"no = in the line, expected NAME=value":                                       true,
		"name before = must be letters, digits and _ only, and no digit first":        true,
		`quote is not closed on its line; a line feed in double quotes is written \n`: true,
		"text after the closing quote, expected the end of the line or a comment":     true,
		"line holds a NUL byte": true,
	}
	for _, encoding := range []string{"UTF-16", "UTF-32"} {
		all["file is encoded in "+encoding+" (little endian), expected UTF-8"] = true
		all["file is encoded in "+encoding+" (big endian), expected UTF-8"] = true
	}
	return all
}
