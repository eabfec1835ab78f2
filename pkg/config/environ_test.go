package config

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnviron_IsTheDaemonsThenTheFilesThenTheDefinitions(t *testing.T) {
	got := Environ([]string{"PATH=/bin", "A=base", "B=base", "odd"},
		[]EnvVar{{Name: "B", Value: "first"}, {Name: "B", Value: "file"}, {Name: "C", Value: "file"}},
		map[string]string{"C": "definition", "D": "x=y"})
	want := []string{"PATH=/bin", "A=base", "odd", "B=file", "C=definition", "D=x=y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadEnvFile_NamesFileAndLineAndNoValue(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		err  error
		want string
	}{
		"missing":   {"", os.ErrNotExist, "read env_file /x.env: file does not exist"},
		"malformed": {"A=1\nB='s3cr3t", nil, "env_file /x.env:2: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadEnvFile("/x.env", func(string) ([]byte, error) { return []byte(tc.text), tc.err })
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error: %v", err)
			}
		})
	}
	if vars, err := ReadEnvFile("", nil); vars != nil || err != nil {
		t.Errorf("no file: %v, %v", vars, err)
	}
}
