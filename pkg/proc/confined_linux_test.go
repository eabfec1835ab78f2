package proc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// confined is spec in a directory that is open, with a limit.
func confined(t *testing.T, spec Spec) (Spec, string) {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	spec.Confined = &Confined{Dir: dir, Limits: []Limit{{Resource: unix.RLIMIT_CORE}}}
	return spec, path
}

func TestConfined_IsStartedAsAnyOther(t *testing.T) {
	h := newHost(t)
	spec, dir := confined(t, helperSpec("args", "", "-x"))
	spec.Argv0 = "mytool"
	if diff := cmp.Diff([]string{`["mytool" "helper" "args" "" "-x"] in ` + dir}, said(t, h, spec)); diff != "" {
		t.Error(diff)
	}
	spec, _ = confined(t, helperSpec("env"))
	spec.Env = []string{"A=1", "B=two words"}
	if diff := cmp.Diff(spec.Env, said(t, h, spec)); diff != "" {
		t.Error(diff)
	}
}

func TestConfined_HasItsPipesAndLimitsAndNothingElse(t *testing.T) {
	spec, _ := confined(t, Spec{Path: "/bin/sh", Args: []string{"-c", "for f in /proc/self/fd/*; do readlink $f | cut -d: -f1; done; ulimit -c; ulimit -n; grep -E '^(SigBlk|SigIgn|NoNewPrivs)' /proc/self/status"}})
	got := strings.Join(said(t, newHost(t), spec), " ")
	// What the shell itself opened to list them is gone by the time that is read.
	want := "pipe pipe pipe 0 1024 SigBlk: 0000000000000000 SigIgn: 0000000000000000 NoNewPrivs: 1"
	if diff := cmp.Diff(want, strings.Join(strings.Fields(got), " ")); diff != "" {
		t.Error(diff)
	}
}

func TestConfined_SaysWhatItCouldNotDo(t *testing.T) {
	h := newHost(t)
	spec, _ := confined(t, Spec{Path: "/nowhere/at/all"})
	_, err := h.Start(spec)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, unconfined := errors.AsType[*Unconfined](err); unconfined {
		t.Errorf("it was confined: %v", err)
	}
	spec, _ = confined(t, helperSpec("echo"))
	spec.Confined.Ruleset, err = os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer spec.Confined.Ruleset.Close()
	_, err = h.Start(spec)
	if u, unconfined := errors.AsType[*Unconfined](err); !unconfined || u.What != "hold it to its directories" {
		t.Errorf("rules that are none: %v", err)
	}
	if n := len(h.live()); n > 0 {
		t.Errorf("%d are left", n)
	}
}

// Whoever kills this process at any moment finds a step in the record: it is there
// before the step has run anything.
func TestConfined_IsInTheRecordBeforeItRuns(t *testing.T) {
	h := newHost(t)
	for range 20 {
		spec, _ := confined(t, Spec{Path: "/bin/cat", Args: []string{h.record.path}, Name: "contract.it"})
		p, err := h.Start(spec)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(p.Stdout)
		if err != nil {
			t.Error(err)
		}
		if r, err := decodeRecord(text); err != nil || !slices.ContainsFunc(r.Groups, func(g leftover) bool {
			return g.PID == p.PID() && g.Start == p.StartTime() && g.Name == "contract.it" && len(g.Pipes) == 3
		}) {
			t.Errorf("process %d is not in %s (%v)", p.PID(), text, err)
		}
		p.Kill()
		p.Stdout.Close()
		p.Stderr.Close()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.unborn) > 0 {
		t.Errorf("still to be born: %v", h.unborn)
	}
}
