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
)

// Errors that callers tell apart.
var (
	ErrUnknown = errors.New("there is no such session")
	ErrExists  = errors.New("there is a session of that name")
	ErrBusy    = errors.New("the session is being written by another process")
)

const (
	chainName = "entries.jsonl"
	lockName  = "lock"
	textName  = "contract.toml"
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
func (s *Store) Dir(id string) string { return filepath.Join(s.dir, "sessions", id) }

// Opening is what a new chain begins with.
type Opening struct {
	Principal      Principal
	ContractSHA256 string
	Text           []byte         // of the contract
	Fields         map[string]any // of the first entry
}

// Create begins the chain of a new session and returns it for writing.
func (s *Store) Create(id string, o Opening) (*Log, error) {
	if problem := SessionProblem(id); problem != "" {
		return nil, errors.New(problem)
	}
	dir := s.Dir(id)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the ledger's directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the session's directory: %w", err)
	}
	l, err := s.lock(id)
	if err != nil {
		return nil, err
	}
	if _, err := readChain(dir); !errors.Is(err, ErrUnknown) {
		l.Close()
		return nil, ErrExists
	}
	if err := l.begin(o); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Write opens the chain of a session for writing, after a check of all of it.
func (s *Store) Write(id string) (*Log, error) {
	if problem := SessionProblem(id); problem != "" {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, problem)
	}
	if _, err := readChain(s.Dir(id)); err != nil {
		return nil, err
	}
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
		if l, err := s.tryLock(id); !errors.Is(err, ErrBusy) {
			return l, err
		}
		select {
		case <-late:
			return s.tryLock(id) // the one look before may have been long ago
		case <-time.After(lockPoll):
		}
	}
}

const (
	lockPatience = 100 * time.Millisecond
	lockPoll     = 5 * time.Millisecond
)

func (s *Store) tryLock(id string) (*Log, error) {
	lock := flock.New(filepath.Join(s.Dir(id), lockName), flock.SetPermissions(0o600))
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
	l, err := s.tryLock(id)
	if err != nil {
		return errors.Is(err, ErrBusy)
	}
	l.Close()
	return false
}

// Read returns the chain of a session, all of it checked, without what a crash
// may have left of a line at its end.
func (s *Store) Read(id string) ([]Entry, error) {
	if problem := SessionProblem(id); problem != "" {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, problem)
	}
	data, err := readChain(s.Dir(id))
	if err != nil {
		return nil, err
	}
	entries, _, err := s.parse(id, data)
	return entries, err
}

// Export returns the bundle of a session, checked like anybody else's.
func (s *Store) Export(id string) (*Bundle, error) {
	entries, err := s.Read(id)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(s.Dir(id), textName))
	if err != nil {
		return nil, faultf(1, "the contract's text cannot be read: %s", err)
	}
	ring, err := s.Ring()
	if err != nil {
		return nil, err
	}
	v, err := VerdictOf(entries)
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		Schema: BundleSchema, Session: id, Contract: string(text), Verdict: v, Entries: entries,
		PublicKeys: ring, HeadHash: entries[len(entries)-1].SHA256,
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
	found, err := os.ReadDir(filepath.Join(s.dir, "sessions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the ledger: %w", err)
	}
	var all []Session
	for _, d := range found {
		info, err := os.Stat(filepath.Join(s.Dir(d.Name()), chainName))
		if err != nil {
			continue // begun at this moment, or never
		}
		all = append(all, Session{d.Name(), info.ModTime()})
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}
