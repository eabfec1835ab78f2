package daemon

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/reconcile"
)

// newState is a state directory with the log it writes to.
func newState(t *testing.T) (*stateDir, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s, err := openState(filepath.Join(t.TempDir(), "state"), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return s, &log
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestState_IsPrivateWhateverWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "state")
	if err := os.MkdirAll(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := openState(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := s.sub("logs")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "state.json")
	write(t, file, "old")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state.json", "last-good/x.json"} {
		if err := s.save(name, 1); err != nil {
			t.Fatal(err)
		}
		if got := mode(t, filepath.Join(path, name)); got != 0o600 {
			t.Errorf("%s has mode %o", name, got)
		}
	}
	for _, dir := range []string{path, sub, filepath.Join(path, "last-good")} {
		if got := mode(t, dir); got != 0o700 {
			t.Errorf("%s has mode %o", dir, got)
		}
	}
	left, err := filepath.Glob(path + "/*")
	if err != nil || len(left) != 3 {
		t.Errorf("in it are %v: %v", left, err)
	}
}

func TestState_ThatIsAFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	write(t, path, "mine")
	if _, err := openState(path, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file was taken for a state directory")
	}
	if text, err := os.ReadFile(path); string(text) != "mine" {
		t.Errorf("it holds %q: %v", text, err)
	}
}

func TestState_IsWhatWasSaved(t *testing.T) {
	s, log := newState(t)
	want := reconcile.Kept{Generation: 4, Digest: "d", Intents: reconcile.Intents{"mcp.a": {File: true, Nonce: 2}}}
	if err := s.save(stateFile, fleetState{Schema: stateSchema, Config: "/a.toml", Kept: want}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, s.loadFleet("/a.toml")); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	// Intents are about the names of one file; the number goes on for all.
	want.Intents = nil
	if diff := cmp.Diff(want, s.loadFleet("/b.toml")); diff != "" {
		t.Errorf("loaded for another config (-want +got):\n%s", diff)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log)
	}
}

func TestState_SetsATornOrForeignFileAside(t *testing.T) {
	tests := map[string]string{
		"torn":    `{"schema":"harness/state/v1","config":"/a.toml","generation":9,"int`,
		"empty":   "",
		"foreign": `{"generation":9,"digest":"x"}`,
		"another": `[1,2]`,
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			s, log := newState(t)
			path := filepath.Join(s.path, stateFile)
			write(t, path, text)
			if diff := cmp.Diff(reconcile.Kept{}, s.loadFleet("/a.toml")); diff != "" {
				t.Errorf("loaded (-want +got):\n%s", diff)
			}
			if aside, err := os.ReadFile(path + ".bad"); string(aside) != text {
				t.Errorf("set aside: %q, %v", aside, err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("the file: %v", err)
			}
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "state.json.bad") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func TestLastGood_IsForItsOwnPathAlone(t *testing.T) {
	s, _ := newState(t)
	text := []byte("[mcp.a]\ncmd = \"a\"\n\xff")
	if err := s.save(lastGoodName("/a.toml"), newLastGood("/a.toml", text)); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.loadLastGood("/a.toml"); !ok || !bytes.Equal(got, text) {
		t.Errorf("loaded %q, %v", got, ok)
	}
	if got, ok := s.loadLastGood("/b.toml"); ok {
		t.Errorf("for another path: %q", got)
	}
	// Under the name of one, the text of another.
	if err := s.save(lastGoodName("/b.toml"), newLastGood("/a.toml", text)); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.loadLastGood("/b.toml"); ok || got != nil {
		t.Errorf("what is of another path: %q", got)
	}
	bad := newLastGood("/c.toml", text)
	bad.Text = []byte("[mcp.a]")
	if err := s.save(lastGoodName("/c.toml"), bad); err != nil {
		t.Fatal(err)
	}
	if got, ok := s.loadLastGood("/c.toml"); ok || got != nil {
		t.Errorf("what does not match its digest: %q", got)
	}
}
