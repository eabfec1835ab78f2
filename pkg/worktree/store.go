package worktree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"harness/pkg/evidence"
)

// What the state directory has of worktrees, and a repository.
const (
	baseDir   = "worktrees"
	chainDir  = "records"
	chainName = "worktrees"
	inRepo    = ".worktrees"
	linkName  = ".harness-run"
)

// maxExclude bounds what is read of what git overlooks, in bytes.
const maxExclude = 1 << 20

// gitWithin bounds one call of git, outputWithin the wait for what it started
// that holds its output after it ended: a filter of a repository may.
const (
	gitWithin    = 2 * time.Minute
	outputWithin = 5 * time.Second
)

// Errors that callers tell apart.
var (
	ErrUnknown = errors.New("no such worktree")
	ErrName    = errors.New("a name of letters, digits, _ . and -, that does not begin with . or -, is needed")
	ErrTaken   = errors.New("there is a worktree of this name")
	ErrBranch  = errors.New("there is a branch of this name")
	ErrNoGit   = errors.New("git is not installed; install git")
)

// Refused is what git did not do, in a line of its own words.
type Refused struct{ Said string }

// Error implements error.
func (r *Refused) Error() string { return "git: " + r.Said }

// Lossy is why a worktree is not removed: it has what nothing else has.
type Lossy struct {
	Files   []string // changed, new or ignored, as git names them, in its order
	Commits []string // on no branch, tag or branch of a remote: each an abbreviated id and its subject
}

// Error implements error. It names some of what would be lost.
func (l *Lossy) Error() string {
	var all []string
	if len(l.Files) > 0 {
		all = append(all, "what is not committed: "+some(l.Files))
	}
	if len(l.Commits) > 0 {
		all = append(all, "commits that are on no branch: "+some(l.Commits))
	}
	return "it has " + strings.Join(all, "; and ")
}

// some is the first of a list, and how many more there are.
func some(list []string) string {
	const most = 5
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Worktree is one that was made.
type Worktree struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Repo   string          `json:"repo"`
	Path   string          `json:"path"`
	Branch string          `json:"branch"`
	Base   string          `json:"base"` // the commit that it was made from
	Head   string          `json:"head"`
	Actor  json.RawMessage `json:"actor"`
}

// Listed is a worktree as it is listed.
type Listed struct {
	Worktree
	Gone bool `json:"gone"` // its directory is not there
}

// Request asks for a worktree.
type Request struct {
	ID           string
	Repo         string // its top directory
	Name         string
	Base, Branch string // "" for HEAD, and for one of its own
	Actor        json.RawMessage
	Run          string // the directory of the evidence that it is linked to, "" for none
}

// Store knows the worktrees of one state directory, whose only writer it is.
type Store struct {
	ledger *evidence.Ledger

	working sync.Mutex // held while git works, and before mu: who reads does not wait for it

	mu  sync.Mutex // also of the chain's order
	all []Worktree // those that were not removed, in the order they were made
}

// The types of the chain's records.
const (
	typeCreated = "created"
	typeRemoved = "removed"
)

// Open opens the worktrees of a state directory.
func Open(state *evidence.Dir, log *slog.Logger, now time.Time) (*Store, error) {
	base, err := state.Ensure(baseDir)
	if err != nil {
		return nil, fmt.Errorf("open the worktrees: %w", err)
	}
	defer base.Close()
	made, err := base.Ensure(chainDir)
	if err != nil {
		return nil, fmt.Errorf("open the worktrees: %w", err)
	}
	made.Close()
	ledger, records, torn, err := evidence.OpenLedger(base, chainDir, chainName, now)
	if err != nil {
		return nil, fmt.Errorf("open the worktrees: %w", err)
	}
	if torn != nil {
		log.Warn("torn record of the worktrees set aside", "entry", torn.Entry, "aside", torn.Aside)
	}
	s := &Store{ledger: ledger}
	for _, r := range records {
		if err := s.apply(r); err != nil {
			return nil, errors.Join(err, ledger.Close())
		}
	}
	return s, nil
}

// apply takes one more record.
func (s *Store) apply(r evidence.Record) error {
	var w Worktree
	switch r.Type {
	case typeCreated:
		if err := json.Unmarshal(r.Body, &w); err != nil {
			return fmt.Errorf("read the worktrees: %w", err)
		}
		s.all = append(s.all, w)
	case typeRemoved:
		if err := json.Unmarshal(r.Body, &w); err != nil {
			return fmt.Errorf("read the worktrees: %w", err)
		}
		s.all = slices.DeleteFunc(s.all, func(one Worktree) bool { return one.ID == w.ID })
	}
	return nil
}

// Close lets go of the chain.
func (s *Store) Close() error { return s.ledger.Close() }

// List returns the worktrees, by name. Their chain is verified first; what is
// wrong with it is a [*evidence.Fault] (EVI-3).
func (s *Store) List() ([]Listed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.verify(); err != nil {
		return nil, err
	}
	var list []Listed
	for _, w := range s.all {
		list = append(list, Listed{w, gone(w.Path)})
	}
	slices.SortFunc(list, func(a, b Listed) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// gone reports whether there is nothing at a path.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// verify reads the chain again.
func (s *Store) verify() error {
	return evidence.Within(baseDir+"/"+chainDir, s.ledger.Verify(chainName))
}

// Find returns the worktree of an id. The chain is verified first.
func (s *Store) Find(id string) (w Worktree, found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.verify(); err != nil {
		return Worktree{}, false, err
	}
	i := slices.IndexFunc(s.all, func(w Worktree) bool { return w.ID == id })
	if i < 0 {
		return Worktree{}, false, nil
	}
	return s.all[i], true, nil
}

// Create makes a worktree.
func (s *Store) Create(ctx context.Context, r Request) (Worktree, error) {
	if !evidence.IsName(r.Name) || strings.HasSuffix(r.Name, ".lock") {
		return Worktree{}, ErrName
	}
	s.working.Lock()
	defer s.working.Unlock()
	if _, taken := s.named(r.Name); taken {
		return Worktree{}, ErrTaken
	}
	w := Worktree{ID: r.ID, Name: r.Name, Repo: r.Repo, Path: filepath.Join(r.Repo, inRepo, r.Name), Branch: r.Branch, Actor: r.Actor}
	if w.Branch == "" {
		w.Branch = "harness/" + r.Name
	}
	if err := s.make(ctx, &w, r); err != nil {
		return Worktree{}, err
	}
	return w, s.record(typeCreated, w)
}

// named returns the worktree of a name.
func (s *Store) named(name string) (w Worktree, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(w Worktree) bool { return w.Name == name })
	if i < 0 {
		return Worktree{}, false
	}
	return s.all[i], true
}

// record adds to the chain what was done.
func (s *Store) record(typ string, w Worktree) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	record, err := s.ledger.Append(typ, time.Now(), w)
	if err != nil {
		return err
	}
	return s.apply(record)
}

// make has git make it, unless a daemon did that ended before it could say so.
func (s *Store) make(ctx context.Context, w *Worktree, r Request) error {
	top, err := Git(ctx, w.Repo, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if resolved, err := filepath.EvalSymlinks(w.Repo); err != nil || top != resolved {
		return &Refused{"the path is not the top directory of a repository"}
	}
	base := r.Base
	if base == "" {
		base = "HEAD"
	}
	if w.Base, err = Git(ctx, w.Repo, "rev-parse", "--verify", "--quiet", "--end-of-options", base+"^{commit}"); err != nil {
		return refine(err, "there is no such base")
	}
	if _, err := Git(ctx, w.Repo, "check-ref-format", "--branch", w.Branch); err != nil {
		return refine(err, "that is not a name for a branch")
	}
	if err := exclude(ctx, w.Repo, "/"+inRepo+"/", linkName); err != nil {
		return err
	}
	if err := s.add(ctx, w); err != nil {
		return err
	}
	if w.Head, err = Git(ctx, w.Path, "rev-parse", "HEAD"); err != nil {
		return err
	}
	return link(w.Path, r.Run)
}

// add has git add the worktree.
func (s *Store) add(ctx context.Context, w *Worktree) error {
	for _, below := range []string{inRepo, filepath.Join(inRepo, w.Name)} {
		if info, err := os.Lstat(filepath.Join(w.Repo, below)); err == nil && !info.IsDir() {
			return &Refused{below + " is not a directory"} // git would write through a link
		}
	}
	if branch, err := Git(ctx, w.Path, "symbolic-ref", "--short", "HEAD"); err == nil && branch == w.Branch {
		if head, err := Git(ctx, w.Path, "rev-parse", "HEAD"); err == nil && head == w.Base {
			return nil
		}
	}
	if _, err := Git(ctx, w.Repo, "show-ref", "--verify", "--quiet", "refs/heads/"+w.Branch); err == nil {
		return fmt.Errorf("%w: %s", ErrBranch, w.Branch)
	}
	_, err := Git(ctx, w.Repo, "worktree", "add", "--quiet", "-b", w.Branch, "--end-of-options", w.Path, w.Base)
	return err
}

// link leads from the worktree to the evidence of the run that it was made for.
func link(path, run string) error {
	if run == "" {
		return nil
	}
	err := os.Symlink(run, filepath.Join(path, linkName))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// refine says in words of ours what git says with none.
func refine(err error, said string) error {
	if _, ok := errors.AsType[*Refused](err); ok {
		return &Refused{said}
	}
	return err
}

// exclude has git overlook what is ours in a repository.
func exclude(ctx context.Context, repo string, patterns ...string) error {
	file, err := Git(ctx, repo, "rev-parse", "--git-path", "info/exclude")
	if err != nil {
		return err
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(repo, file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // it is git's own
		return fmt.Errorf("have git overlook what is ours: %w", err)
	}
	dir, err := evidence.OpenDir(filepath.Dir(file)) // and follow no link to a file that is none of git's
	if err != nil {
		return &Refused{"its info directory is not a plain one"}
	}
	defer dir.Close()
	have, _, err := dir.Read(filepath.Base(file), maxExclude)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Refused{"its info/exclude is not a plain file"}
	}
	more := ""
	for _, p := range patterns {
		if !slices.Contains(strings.Split(string(have), "\n"), p) {
			more += p + "\n"
		}
	}
	if more == "" {
		return nil
	}
	if len(have) > 0 && !bytes.HasSuffix(have, []byte("\n")) {
		more = "\n" + more
	}
	f, err := dir.Append(filepath.Base(file))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = dir.Create(filepath.Base(file))
	}
	if err != nil {
		return fmt.Errorf("have git overlook what is ours: %w", err)
	}
	_, err = f.WriteString(more)
	return errors.Join(err, f.Close())
}

// Remove removes a worktree that has nothing which nothing else has: what it
// would lose is a [*Lossy]. Its branch stays. Of one whose directory is gone, git
// forgets that it was there.
func (s *Store) Remove(ctx context.Context, name string, actor json.RawMessage) (Worktree, error) {
	s.working.Lock()
	defer s.working.Unlock()
	w, found := s.named(name)
	if !found {
		return Worktree{}, ErrUnknown
	}
	remove := w.remove
	if gone(w.Path) {
		remove = w.forget
	}
	if err := remove(ctx); err != nil {
		return w, err
	}
	w.Actor = actor
	return w, s.record(typeRemoved, w)
}

// remove has git remove a worktree that is there.
func (w Worktree) remove(ctx context.Context) error {
	// A file that git overlooks is named too; of a directory that it overlooks, the
	// directory alone.
	said, err := Git(ctx, w.Path, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--ignored=matching")
	if err != nil {
		return err
	}
	var lost Lossy
	for entry := range strings.SplitSeq(said, "\x00") {
		if len(entry) > len("XY ") && entry != "!! "+linkName {
			lost.Files = append(lost.Files, entry[len("XY "):])
		}
	}
	// One that has no commit yet has none to lose.
	if head, err := Git(ctx, w.Path, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err == nil {
		if lost.Commits, err = loose(ctx, w.Path, head); err != nil {
			return err
		}
	}
	if lost.Files != nil || lost.Commits != nil {
		return &lost
	}
	if err := os.Remove(filepath.Join(w.Path, linkName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the link to its evidence: %w", err)
	}
	_, err = Git(ctx, w.Repo, "worktree", "remove", "--end-of-options", w.Path)
	return err
}

// forget has git forget a worktree whose directory is gone, and no other, so that
// its branch can be used again. What it had checked out may be known to git only
// by that.
func (w Worktree) forget(ctx context.Context) error {
	if gone(w.Repo) {
		return nil
	}
	said, err := Git(ctx, w.Repo, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return err
	}
	for one := range strings.SplitSeq(said, "\x00\x00") {
		lines := strings.Split(one, "\x00")
		if lines[0] != "worktree "+w.Path {
			continue
		}
		if head, ok := strings.CutPrefix(lines[min(1, len(lines)-1)], "HEAD "); ok && strings.Trim(head, "0") != "" {
			if commits, err := loose(ctx, w.Repo, head); err != nil || commits != nil {
				return cmp.Or[error](err, &Lossy{Commits: commits})
			}
		}
		_, err := Git(ctx, w.Repo, "worktree", "remove", "--end-of-options", w.Path)
		return err
	}
	return nil // it has been forgotten
}

// loose lists the commits that a commit has and no branch or tag.
func loose(ctx context.Context, dir, head string) ([]string, error) {
	said, err := Git(ctx, dir, "log", "--format=%h %s", "--max-count=100", head, "--not", "--branches", "--tags", "--remotes", "--")
	if err != nil || said == "" {
		return nil, err
	}
	return strings.Split(said, "\n"), nil
}

// Git runs git in a directory, without hooks, prompts and what the environment
// would have it do, and returns what it printed.
func Git(ctx context.Context, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, gitWithin)
	defer cancel()
	safe := []string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit", "--no-optional-locks"}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...) //nolint:gosec // arguments follow --end-of-options, or are ours
	cmd.Dir, cmd.Env = dir, environment(os.Environ())
	cmd.WaitDelay = outputWithin
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", ErrNoGit
	case errors.As(err, &exit):
		line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return "", &Refused{strings.TrimPrefix(line, "fatal: ")}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // git itself ended well
		return "", fmt.Errorf("run git: %w", err)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// environment is that of git: the daemon's, without what would have it look
// elsewhere or ask somebody.
func environment(environ []string) []string {
	env := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "HARNESS_")
	})
	return append(env, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
}
