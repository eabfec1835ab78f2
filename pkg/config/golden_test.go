package config_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testEnv is the world of every test: a home, and variables of which some look
// like secrets.
func testEnv() config.Env {
	vars := map[string]string{
		"HOME_DIR": "/home/u",
		"EMPTY":    "",
		"TOKEN":    canary,
	}
	return config.Env{
		Home:   "/home/u",
		Lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
	}
}

const canary = "s3cr3t-canary"

// load loads text as the file the tests speak of.
func load(text string, kind config.Kind) (*config.Config, config.Warnings, config.Faults) {
	return config.Load(config.Source{Path: "/cfg/harness.toml", Data: []byte(text), Kind: kind}, testEnv())
}

// Every testdata/bad/*.bad.toml is refused with the faults of its .golden
// file, to the letter. A file named *.project.bad.toml is a project's.
func TestLoad_RefusesEachBadFileWithAllItsFaults(t *testing.T) {
	for name, data := range badFiles(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			cfg, warnings, faults := load(string(data), kindOfFile(name))
			if cfg != nil || len(faults) == 0 {
				t.Fatalf("Load accepted a bad file: config %v, faults %v", cfg, faults)
			}
			checkGolden(t, strings.TrimSuffix(name, ".toml")+".golden", report(warnings, faults))
		})
	}
}

func badFiles(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/bad/*.bad.toml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	return readFiles(t, names)
}

func readFiles(t testing.TB, names []string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

func kindOfFile(name string) config.Kind {
	if strings.Contains(name, ".project.") {
		return config.Project
	}
	return config.Global
}

// report is what a load has to say, one remark a line.
func report(warnings config.Warnings, faults config.Faults) []byte {
	var b bytes.Buffer
	for _, f := range faults {
		b.WriteString(f.String() + "\n")
	}
	for _, w := range warnings {
		b.WriteString("warning: " + w.String() + "\n")
	}
	return b.Bytes()
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("differs from %s (-want +got):\n%s", name, diff)
	}
}
