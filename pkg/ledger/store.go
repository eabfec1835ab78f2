package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"harness/pkg/durable"
)

// Errors that callers tell apart.
var (
	ErrUnknown = errors.New("there is no such session")
	ErrExists  = errors.New("there is a session of that name")
	ErrBusy    = errors.New("the session is being written by another process")
)

const (
	sessionsName = "sessions"
	// making begins the name of a session that is being made: none that is has it.
	// It is beside them since Landlock, where it holds this process, lets nothing be
	// moved between directories.
	making = "."
)

// Store is the ledger directory of a user. It may be used by any number of
// processes; each session has one writer at a time.
type Store struct {
	dir string
	now func() time.Time
}

// Open names the directory, which need not exist: it is made by what writes.
func Open(dir string) *Store { return &Store{dir, time.Now} }

// At is the same directory by another clock.
func (s *Store) At(now func() time.Time) *Store { return &Store{s.dir, now} }

// BadName is what a session that is to be made cannot be called, and why.
type BadName string

// Error says why.
func (b BadName) Error() string { return string(b) }

// SessionProblem says why id cannot name a session, or "".
func SessionProblem(id string) string {
	const most = 64
	ok := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	switch {
	case id == "":
		return "a session's name is empty"
	case len(id) > most:
		return fmt.Sprintf("a session's name is longer than %d characters", most)
	case strings.ContainsFunc(id, func(c rune) bool { return !ok(c) }):
		return "a session's name may hold letters, digits, - and _ only"
	}
	return ""
}

// Dir is the directory of a session, for what its writer keeps beside the chain.
func (s *Store) Dir(id string) string { return filepath.Join(s.dir, sessionsName, id) }

// Opening is what a new chain begins with.
type Opening struct {
	Principal      Principal
	ContractSHA256 string
	Text           []byte         // of the contract
	Fields         map[string]any // of the first entry
}

// Create begins the chain of a new session and returns it for writing. The
// session is there as a whole, or not at all: what a crash leaves of its making
// has no place among the sessions, and so a session without a chain is one that
// lost it.
func (s *Store) Create(id string, o Opening) (*Log, error) {
	if problem := SessionProblem(id); problem != "" {
		return nil, BadName(problem)
	}
	if err := s.vacate(id); err != nil {
		return nil, err
	}
	sessions := filepath.Dir(s.Dir(id))
	if err := os.MkdirAll(sessions, 0o700); err != nil {
		return nil, fmt.Errorf("make the ledger's directory: %w", err)
	}
	sweep(sessions)
	dir, err := os.MkdirTemp(sessions, making+id+".")
	if err != nil {
		return nil, fmt.Errorf("make the session's directory: %w", err)
	}
	l, err := s.createIn(dir, id, o)
	if err != nil {
		_ = os.RemoveAll(dir) // else sweep does
		return nil, err
	}
	return l, nil
}

// createIn begins a chain in a directory of its own, and puts that in its place.
func (s *Store) createIn(dir, id string, o Opening) (*Log, error) {
	l, err := s.tryLock(dir, id)
	if err != nil {
		return nil, err
	}
	if err = l.begin(dir, o); err == nil {
		if err = os.Rename(dir, s.Dir(id)); errors.Is(err, fs.ErrExist) {
			err = ErrExists // made by another process meanwhile
		}
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(s.Dir(id)))
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// vacate makes room for a session. It is ErrExists, or ErrBusy, where there is
// one, also one that lost its chain; what has nothing but a lock never was one.
func (s *Store) vacate(id string) error {
	there, err := begun(s.Dir(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the session's directory: %w", err)
	}
	if dir, err := s.OpenDir(id); err == nil {
		dir.Close()
	} else if !errors.Is(err, ErrUnknown) {
		return ErrExists // and no lock is made where a link leads to
	}
	l, err := s.lock(id)
	if err != nil {
		return err
	}
	defer l.Close()
	if there {
		return ErrExists
	}
	return os.RemoveAll(s.Dir(id))
}

// begun reports whether what is at a path has anything of a session, as has
// whatever is no directory.
func begun(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return err == nil, err
	}
	found, err := os.ReadDir(path)
	return slices.ContainsFunc(found, func(d fs.DirEntry) bool { return d.Name() != lockName }), err
}

// leftAfter is the age from which what is being made was left by a crash.
const leftAfter = time.Hour

// sweep removes what crashes left of sessions that were being made.
func sweep(sessions string) {
	found, _ := os.ReadDir(sessions) // whoever makes something there says why it cannot
	for _, d := range found {
		if !strings.HasPrefix(d.Name(), making) {
			continue
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > leftAfter {
			_ = os.RemoveAll(filepath.Join(sessions, d.Name())) // tried again the next time
		}
	}
}

// Write opens the chain of a session for writing, after a check of all of it. To
// one that has its verdict nothing can be added.
func (s *Store) Write(id string) (*Log, error) {
	dir, err := s.OpenDir(id)
	if err != nil {
		return nil, err
	}
	dir.Close() // there is a session: what is in it is for whoever has the lock
	l, err := s.lock(id)
	if err != nil {
		return nil, err
	}
	if err := l.resume(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// lock takes the session's lock for as long as the Log is open. The kernel lets
// go of it when the process dies.
func (s *Store) lock(id string) (*Log, error) {
	// Busy holds the lock for a moment, and must not be taken for a writer.
	for late := time.After(lockPatience); ; {
		if l, err := s.tryLock(s.Dir(id), id); !errors.Is(err, ErrBusy) {
			return l, err
		}
		select {
		case <-late:
			return s.tryLock(s.Dir(id), id) // the one look before may have been long ago
		case <-time.After(lockPoll):
		}
	}
}

const (
	lockPatience = 100 * time.Millisecond
	lockPoll     = 5 * time.Millisecond
)

// tryLock is lock of a session in dir, without patience.
func (s *Store) tryLock(dir, id string) (*Log, error) {
	lock := flock.New(filepath.Join(dir, lockName), flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock the session: %w", err)
	case !got:
		return nil, ErrBusy
	}
	return &Log{store: s, id: id, lock: lock}, nil
}

// Busy reports whether some process is writing the session.
func (s *Store) Busy(id string) bool {
	dir, err := s.OpenDir(id)
	if err != nil {
		return false
	}
	defer dir.Close()
	l, err := s.tryLock(s.Dir(id), id)
	if err != nil {
		return errors.Is(err, ErrBusy)
	}
	l.Close()
	return false
}

// Read returns the chain of a session, all of it checked, without what a crash
// may have left of a line at its end.
func (s *Store) Read(id string) ([]Entry, error) {
	c, err := s.load(id)
	return c.entries, err
}

// Export returns the bundle of a session, checked like anybody else's.
func (s *Store) Export(id string) (*Bundle, error) {
	c, err := s.load(id)
	if err != nil {
		return nil, err
	}
	ring, err := s.Ring()
	if err != nil {
		return nil, err
	}
	v, err := VerdictOf(c.entries)
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		Schema: BundleSchema, Session: id, Contract: string(c.text), Verdict: v, Entries: c.entries,
		PublicKeys: ring, HeadHash: c.entries[len(c.entries)-1].SHA256,
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	return b, nil
}

// Session is one line of a list.
type Session struct {
	ID string
	At time.Time // when its chain was last written
}

// List names all sessions, the one written last first.
func (s *Store) List() ([]Session, error) {
	found, err := os.ReadDir(filepath.Join(s.dir, sessionsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the ledger: %w", err)
	}
	var all []Session
	for _, d := range found {
		if there, err := begun(s.Dir(d.Name())); SessionProblem(d.Name()) != "" || err == nil && !there {
			continue
		}
		info, err := os.Lstat(filepath.Join(s.Dir(d.Name()), chainName))
		if err != nil {
			info, err = d.Info() // of a session that lost its chain
		}
		if err != nil {
			continue // removed at this moment
		}
		all = append(all, Session{d.Name(), info.ModTime()})
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}
