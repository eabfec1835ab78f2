package worktree

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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
	if again, there, err := s.Find("1"); err != nil || !there || again.Path != w.Path {
		t.Errorf("%+v, %v", again, err)
	}
	if err := os.WriteFile(filepath.Join(w.Path, "work"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var lossy *Lossy
	if _, err := s.Remove(t.Context(), "one", nil); !errors.As(err, &lossy) || lossy.Error() != "it has what is not committed: work" {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(w.Path, "work")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Remove(t.Context(), "one", nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.Path); err == nil || len(listed(t, open(t, state))) != 0 {
		t.Error("it is there")
	}
	if _, err := Git(t.Context(), repo, "rev-parse", "--verify", "harness/one"); err != nil {
		t.Errorf("its branch is gone: %v", err)
	}
}

// git runs git as a person does.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=e"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// What only the worktree has keeps it from being removed, and is named: also
// what git overlooks, and commits that no branch has.
func TestStore_RemovesNothingThatWouldBeLost(t *testing.T) {
	t.Parallel()
	for what, one := range map[string]struct {
		lose func(t *testing.T, dir string)
		keep func(t *testing.T, dir string)
		want string
	}{
		"an ignored file": {
			func(t *testing.T, dir string) {
				write(t, dir, "a.log")
				write(t, dir, "cache/x/y.log")
			},
			func(t *testing.T, dir string) {
				if err := errors.Join(os.Remove(filepath.Join(dir, "a.log")), os.RemoveAll(filepath.Join(dir, "cache"))); err != nil {
					t.Fatal(err)
				}
			},
			"it has what is not committed: a.log, cache/",
		},
		"commits on no branch": {
			func(t *testing.T, dir string) {
				git(t, dir, "checkout", "-q", "--detach")
				git(t, dir, "commit", "-q", "--allow-empty", "-m", "only here")
			},
			func(t *testing.T, dir string) { git(t, dir, "branch", "kept") },
			"only here",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, s := repo(t), open(t, stateDir(t))
			if err := os.WriteFile(filepath.Join(r, ".gitignore"), []byte("*.log\ncache/\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			git(t, r, "add", ".gitignore")
			git(t, r, "commit", "-q", "-m", "second")
			w, err := s.Create(t.Context(), Request{ID: "1", Repo: r, Name: "one", Run: "/nowhere/run"})
			if err != nil {
				t.Fatal(err)
			}
			one.lose(t, w.Path)
			var lossy *Lossy
			if _, err := s.Remove(t.Context(), "one", nil); !errors.As(err, &lossy) || !strings.Contains(lossy.Error(), one.want) {
				t.Fatalf("%v", err)
			}
			if !exists(filepath.Join(w.Path, linkName)) {
				t.Error("its link was removed")
			}
			one.keep(t, w.Path)
			if _, err := s.Remove(t.Context(), "one", nil); err != nil || exists(w.Path) {
				t.Error(err)
			}
		})
	}
}

func write(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// A worktree whose directory somebody removed is listed as gone. Removing it has
// git forget it, and its branch can be checked out again; not where git knows of
// commits only by it.
func TestStore_ForgetsWhatIsGone(t *testing.T) {
	t.Parallel()
	r, s := repo(t), open(t, stateDir(t))
	w, err := s.Create(t.Context(), Request{ID: "1", Repo: r, Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	git(t, w.Path, "checkout", "-q", "--detach")
	git(t, w.Path, "commit", "-q", "--allow-empty", "-m", "only here")
	if list := listed(t, s); list[0].Gone {
		t.Errorf("%+v", list)
	}
	if err := os.RemoveAll(w.Path); err != nil {
		t.Fatal(err)
	}
	if list := listed(t, s); !list[0].Gone {
		t.Errorf("%+v", list)
	}
	var lossy *Lossy
	if _, err := s.Remove(t.Context(), "one", nil); !errors.As(err, &lossy) || len(lossy.Commits) != 1 {
		t.Fatalf("%v", err)
	}
	id, _, _ := strings.Cut(lossy.Commits[0], " ")
	git(t, r, "branch", "kept", id)
	if _, err := s.Remove(t.Context(), "one", nil); err != nil {
		t.Fatal(err)
	}
	git(t, r, "checkout", "-q", "harness/one")
	if list, err := Git(t.Context(), r, "worktree", "list"); err != nil || strings.Contains(list, "one ") || strings.Contains(list, "prunable") {
		t.Errorf("%s, %v", list, err)
	}
	if _, err := s.Create(t.Context(), Request{ID: "2", Repo: r, Name: "one"}); !errors.Is(err, ErrBranch) {
		t.Errorf("a name whose branch stayed: %v", err)
	}
	if _, err := s.Create(t.Context(), Request{ID: "3", Repo: r, Name: "one", Branch: "two"}); err != nil {
		t.Error(err)
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

// listed is every worktree of a store.
func listed(t *testing.T, s *Store) []Listed {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Nothing of a chain that was changed is shown (EVI-3).
func TestStore_BelievesNoRecordThatWasChanged(t *testing.T) {
	t.Parallel()
	state := stateDir(t)
	s := open(t, state)
	if _, err := s.Create(t.Context(), Request{ID: "1", Repo: repo(t), Name: "w"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(state, "worktrees/records/0001-created.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	var f *evidence.Fault
	if list, err := s.List(); !errors.As(err, &f) || f.Entry != "worktrees/records/0001-created.json" || list != nil {
		t.Errorf("%v, %v", list, err)
	}
	if _, _, err := s.Find("1"); !errors.As(err, &f) {
		t.Error(err)
	}
}

// What git overlooks is written to a file of the repository, and to none that a
// link leads to, and nobody waits for the other end of a pipe.
func TestStore_WritesThroughNoLinkOfARepository(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"link", "pipe", "dir"} {
		r, s := repo(t), open(t, stateDir(t))
		file, other := filepath.Join(r, ".git/info/exclude"), filepath.Join(t.TempDir(), "other")
		err := errors.Join(os.WriteFile(other, []byte("x\n"), 0o600), os.RemoveAll(filepath.Dir(file)))
		switch what {
		case "link":
			err = errors.Join(err, os.Mkdir(filepath.Dir(file), 0o700), os.Symlink(other, file))
		case "pipe":
			err = errors.Join(err, os.Mkdir(filepath.Dir(file), 0o700), syscall.Mkfifo(file, 0o600))
		default:
			err = errors.Join(err, os.Symlink(filepath.Dir(other), filepath.Dir(file)))
		}
		if err != nil {
			t.Fatal(err)
		}
		var refused *Refused
		if _, err := s.Create(t.Context(), Request{ID: "1", Repo: r, Name: "w"}); !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
		if data, err := os.ReadFile(other); err != nil || string(data) != "x\n" || exists(filepath.Join(filepath.Dir(other), "exclude")) {
			t.Errorf("%s: it was written to: %q, %v", what, data, err)
		}
	}
}

// A worktree is made below its repository, and nowhere that a link in its place
// leads to.
func TestStore_MakesNoWorktreeBehindALink(t *testing.T) {
	t.Parallel()
	for _, place := range []string{".worktrees", ".worktrees/w"} {
		r, s, other := repo(t), open(t, stateDir(t)), t.TempDir()
		path := filepath.Join(r, place)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.Symlink(other, path)); err != nil {
			t.Fatal(err)
		}
		var refused *Refused
		if _, err := s.Create(t.Context(), Request{ID: "1", Repo: r, Name: "w"}); !errors.As(err, &refused) || refused.Said != place+" is not a directory" {
			t.Errorf("%s: %v", place, err)
		}
		if found, err := os.ReadDir(other); err != nil || len(found) > 0 {
			t.Errorf("%s: it was written to: %v, %v", place, found, err)
		}
	}
}

// Who asks which worktrees there are does not wait for one that is being made.
func TestStore_IsReadWhileOneIsMade(t *testing.T) {
	t.Parallel()
	r, s := repo(t), open(t, stateDir(t))
	pipe := filepath.Join(r, ".git/pipe")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mkfifo(pipe, 0o600))
	must(os.WriteFile(filepath.Join(r, "f"), []byte("f"), 0o600))
	must(os.WriteFile(filepath.Join(r, ".git/info/attributes"), []byte("f filter=held\n"), 0o600))
	for _, args := range [][]string{{"add", "f"}, {"-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "second"}, {"config", "filter.held.smudge", "cat " + pipe}} {
		_, err := Git(t.Context(), r, args...)
		must(err)
	}
	made := make(chan error, 1)
	go func() {
		_, err := s.Create(t.Context(), Request{ID: "1", Repo: r, Name: "w"})
		made <- err
	}()
	held, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until git is at it
	must(err)
	list, err := s.List()
	if _, found, lost := s.Find("1"); err != nil || lost != nil || found || len(list) > 0 {
		t.Errorf("%v, %v, %v, %v", list, err, found, lost)
	}
	must(held.Close())
	must(<-made)
	if _, found, err := s.Find("1"); err != nil || !found {
		t.Error(found, err)
	}
}

// Nobody waits for what a filter of a repository leaves behind.
func TestGit_IsNotHeldUpByWhatItLeaves(t *testing.T) {
	t.Parallel()
	r := repo(t)
	alias := "!sleep 600 & echo $! >" + filepath.Join(r, "pid") + "; echo said"
	began := time.Now()
	said, err := Git(t.Context(), r, "-c", "alias.x="+alias, "x")
	if took := time.Since(began); err != nil || said != "said" || took > gitWithin/2 {
		t.Errorf("%q, %v, in %s", said, err, took)
	}
	data, err := os.ReadFile(filepath.Join(r, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
