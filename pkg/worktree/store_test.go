package worktree

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harness/pkg/evidence"
)

// repo makes a repository with one commit and a hook that must not run.
func repo(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git/hooks/post-checkout"), []byte("#!/bin/sh\ntouch "+dir+"/hooked\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	state, err := evidence.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(state, slog.New(slog.NewTextHandler(t.Output(), nil)), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		state.Close()
	})
	return s
}

func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStore_MakesRemembersAndRemoves(t *testing.T) {
	t.Parallel()
	repo, state := repo(t), stateDir(t)
	s := open(t, state)
	w, err := s.Create(t.Context(), Request{ID: "1", Repo: repo, Name: "one", Run: "/nowhere/run"})
	if err != nil {
		t.Fatal(err)
	}
	if w.Branch != "harness/one" || len(w.Base) != 40 || w.Head != w.Base || w.Path != filepath.Join(repo, ".worktrees/one") {
		t.Errorf("%+v", w)
	}
	if to, err := os.Readlink(filepath.Join(w.Path, linkName)); err != nil || to != "/nowhere/run" {
		t.Errorf("the link to its evidence: %q, %v", to, err)
	}
	for _, dir := range []string{repo, w.Path} {
		if dirty, err := Git(t.Context(), dir, "status", "--porcelain"); err != nil || dirty != "" {
			t.Errorf("git sees what is ours in %s: %q, %v", dir, dirty, err)
		}
	}
	if _, err := os.Stat(filepath.Join(repo, "hooked")); err == nil {
		t.Error("a hook ran")
	}
	if _, err := s.Create(t.Context(), Request{ID: "2", Repo: repo, Name: "one"}); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	s = open(t, state)
	if again, there := s.Find("1"); !there || again.Path != w.Path {
		t.Errorf("%+v", s.List())
	}
	if err := os.WriteFile(filepath.Join(w.Path, "work"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), "one", nil); !errors.Is(err, ErrDirty) {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(w.Path, "work")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), "one", nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.Path); err == nil || len(open(t, state).List()) != 0 {
		t.Error("it is there")
	}
	if _, err := Git(t.Context(), repo, "rev-parse", "--verify", "harness/one"); err != nil {
		t.Errorf("its branch is gone: %v", err)
	}
}

// A daemon that ended between git and the record: the next one takes what git
// made.
func TestStore_TakesWhatWasMadeAlready(t *testing.T) {
	t.Parallel()
	repo := repo(t)
	before, err := open(t, stateDir(t)).Create(t.Context(), Request{ID: "1", Repo: repo, Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := open(t, stateDir(t)).Create(t.Context(), Request{ID: "1", Repo: repo, Name: "one"})
	if err != nil || w.Path != before.Path || w.Base != before.Base {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestStore_RefusesWhatIsNoRepositoryNameOrBase(t *testing.T) {
	t.Parallel()
	repo := repo(t)
	sub := filepath.Join(repo, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, stateDir(t))
	for what, r := range map[string]Request{
		"no repository":   {Repo: stateDir(t), Name: "x"},
		"below its top":   {Repo: sub, Name: "x"},
		"a path":          {Repo: repo, Name: "../x"},
		"a hidden name":   {Repo: repo, Name: ".x"},
		"an option":       {Repo: repo, Name: "--x"},
		"no base":         {Repo: repo, Name: "x", Base: "nothing"},
		"a base's option": {Repo: repo, Name: "x", Base: "--all"},
		"no branch":       {Repo: repo, Name: "x", Branch: "a..b"},
		"an option's":     {Repo: repo, Name: "x", Branch: "-D"},
	} {
		_, err := s.Create(t.Context(), r)
		var refused *Refused
		if !errors.As(err, &refused) && !errors.Is(err, ErrName) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if dirty, err := Git(t.Context(), repo, "branch", "--list"); err != nil || strings.Contains(dirty, "harness") {
		t.Errorf("%q, %v", dirty, err)
	}
	if _, err := s.Remove(t.Context(), "x", nil); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

func TestGit_ThatIsMissingSaysSo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Git(t.Context(), t.TempDir(), "version"); !errors.Is(err, ErrNoGit) {
		t.Error(err)
	}
}
