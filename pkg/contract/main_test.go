package contract

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harness/pkg/ledger"
	"harness/pkg/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a runner with a ledger of its own, over an empty root.
type bench struct {
	*Runner
	root string
}

// hosts is one for all tests: orphans belong to a process as a whole.
func newHost(t testing.TB) *proc.Host {
	t.Helper()
	host, closeHost, err := OpenHost(t.Context(), filepath.Join(t.TempDir(), "hosts"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeHost)
	return host
}

func newBench(t testing.TB) *bench {
	t.Helper()
	// Not below /tmp alone: links on the way to it are the machine's.
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{root: root, Runner: &Runner{
		Engine:    &Engine{Host: newHost(t), Lookup: os.LookupEnv, Log: slog.New(slog.DiscardHandler)},
		Ledger:    ledger.Open(filepath.Join(t.TempDir(), "ledger")),
		Principal: ledger.Principal{Tenant: "acme", User: "ann"},
	}}
	t.Cleanup(b.Stop)
	return b
}

// file writes a file below the root.
func (b *bench) file(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// begin runs a contract and returns at once.
func (b *bench) begin(t testing.TB, session, text string) *Execution {
	t.Helper()
	x, err := b.Run(t.Context(), Request{Session: session, Name: "c.toml", Text: []byte(text), Root: b.root})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// run runs a contract to its end.
func (b *bench) run(t testing.TB, text string) Answer {
	t.Helper()
	return wait(t, b.begin(t, "", text))
}

func wait(t testing.TB, x *Execution) Answer {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	a, err := x.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// evidence is what the session kept of its first check.
func (b *bench) evidence(t testing.TB, session string) (out, stderr, problem string) {
	t.Helper()
	entries, err := b.Ledger.Read(session)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(b.Ledger.Dir(session), "evidence", "*.json"))
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	type stream struct {
		Base64 []byte `json:"base64"`
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Step           int     `json:"step"`
			Problem        *string `json:"problem"`
			Stdout, Stderr stream
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		if e.Step == 1 {
			if e.Problem != nil {
				problem = *e.Problem
			}
			return string(e.Stdout.Base64), string(e.Stderr.Base64), problem
		}
	}
	t.Fatal("no evidence of step 1")
	return "", "", ""
}

// sh is a contract of one check that runs a shell.
func sh(script string, more ...string) string {
	return "[contract]\nname = 'test'\nenv = ['PATH']\n" + strings.Join(more, "\n") +
		"\n[[check]]\nname = 'it'\ncmd = 'sh'\nargs = ['-c', '''\n" + script + "''']\n"
}
