package run

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"harness/pkg/durable"
)

const (
	// limit bounds the output that is kept of one run, in bytes.
	limit = 4 << 20
	// Page is how many bytes of a transcript are given out at once.
	Page = 64 << 10

	// settleWithin is how long a page waits for what was printed before.
	settleWithin = time.Second

	outputFile = "output.log"
	statusFile = "status.json"
)

// ErrUnknown is what is returned for a run that there is not.
var ErrUnknown = errors.New("no such run")

// The states of a run.
const (
	Running = "running"
	Exited  = "exited"
)

// Info is one run as far as it is known. One that has exited without an end is
// of a daemon that was killed: its process ended with it (LIF-4), unseen.
type Info struct {
	ID        string     `json:"id"`
	Harness   string     `json:"harness"`
	State     string     `json:"state"` // running or exited
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"`  // null while it runs, and where nobody saw the end
	ExitCode  *int       `json:"exit_code"` // null where a signal ended it
	Signal    *string    `json:"signal"`
	Bytes     int64      `json:"bytes"` // of its output that was kept
}

// Store is the runs of one state directory.
type Store struct {
	dir  string
	keep func() int
	log  *slog.Logger

	mu   sync.Mutex
	live map[string]*Run
	last time.Time           // of the newest id
	kept map[string][]string // the ids of each harness, oldest first; nil until they were read
}

// NewStore keeps runs below dir, of each harness the newest keep().
func NewStore(dir string, keep func() int, log *slog.Logger) *Store {
	return &Store{dir: dir, keep: keep, log: log, live: map[string]*Run{}}
}

// Run is one spawn under way.
type Run struct {
	store *Store
	path  string

	mu     sync.Mutex
	info   Info
	file   *os.File // of its output; nil once it has ended
	output output
}

// Begin makes the directory of a run that is about to begin, and removes the
// oldest of the harness beyond what is kept.
func (s *Store) Begin(harness string, at time.Time) (*Run, error) {
	r, old := s.add(harness, at)
	if err := r.create(); err != nil {
		s.forget(r)
		return nil, err
	}
	s.remove(old)
	return r, nil
}

// add numbers a run, and returns the ids of those that are kept no longer.
func (s *Store) add(harness string, at time.Time) (r *Run, old []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		old = s.surveyLocked()
	}
	id := s.numberLocked(at)
	r = &Run{store: s, path: filepath.Join(s.dir, id), info: Info{ID: id, Harness: harness, State: Running, StartedAt: at.UTC()}}
	s.live[id] = r
	all := append(s.kept[harness], id)
	beyond := max(len(all)-max(s.keep(), 1), 0)
	var kept []string
	for i, id := range all {
		if i < beyond && s.live[id] == nil {
			old = append(old, id)
		} else {
			kept = append(kept, id)
		}
	}
	s.kept[harness] = kept
	return r, old
}

// create makes what a run has on disk when it begins.
func (r *Run) create() (err error) {
	if err := os.MkdirAll(r.path, 0o700); err != nil {
		return fmt.Errorf("make the run's directory: %w", err)
	}
	r.file, err = os.OpenFile(filepath.Join(r.path, outputFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make the run's output: %w", err)
	}
	r.output.to = r.file
	if err := r.save(); err != nil {
		return errors.Join(err, r.file.Close())
	}
	return nil
}

// forget takes back a run that could not begin.
func (s *Store) forget(r *Run) {
	s.mu.Lock()
	id, harness := r.info.ID, r.info.Harness
	delete(s.live, id)
	s.kept[harness] = slices.DeleteFunc(s.kept[harness], func(one string) bool { return one == id })
	s.mu.Unlock()
	s.remove([]string{id})
}

// remove removes runs from the disk.
func (s *Store) remove(ids []string) {
	for _, id := range ids {
		if err := os.RemoveAll(filepath.Join(s.dir, id)); err != nil {
			s.log.Warn("old run not removed", "run", id, "error", err)
		}
	}
}

// surveyLocked reads which runs there are, once: what begins later is known. It
// returns the ids of what never began. One that is torn is left alone.
func (s *Store) surveyLocked() (never []string) {
	s.kept = map[string][]string{}
	ids, err := s.ids()
	if err != nil {
		s.log.Warn("old runs are not known", "error", err)
		return nil
	}
	for _, id := range ids {
		var info Info
		switch data, err := os.ReadFile(filepath.Join(s.dir, id, statusFile)); {
		case errors.Is(err, fs.ErrNotExist):
			never = append(never, id)
		case err == nil && json.Unmarshal(data, &info) == nil:
			s.kept[info.Harness] = append(s.kept[info.Harness], id)
		}
		if at, err := time.Parse(idTime, id[:len(idTime)]); err == nil && at.After(s.last) {
			s.last = at
		}
	}
	return never
}

// idTime is how an id begins.
const idTime = "20060102T150405.000000"

// numberLocked returns an id that is after every one before, also where the
// clock was set back.
func (s *Store) numberLocked(at time.Time) string {
	at = at.UTC().Truncate(time.Microsecond) // and without its monotonic part
	if !at.After(s.last) {
		at = s.last.Add(time.Microsecond)
	}
	s.last = at
	var b [4]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[:])
	return at.Format(idTime) + "-" + hex.EncodeToString(b[:])
}

// known reports whether id could be one of ours, and so a path.
func known(id string) bool {
	ok, err := regexp.MatchString(`^\d{8}T\d{6}\.\d{6}-[0-9a-f]{8}$`, id)
	return ok && err == nil
}

// ID returns the run's id.
func (r *Run) ID() string { return r.info.ID }

// Write keeps what was printed, up to a limit. It always takes all of p, and
// never waits.
func (r *Run) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if room := limit - r.info.Bytes; r.file != nil && room > 0 {
		kept := p[:min(int64(len(p)), room)]
		r.info.Bytes += int64(len(kept))
		r.output.add(kept)
	}
	return len(p), nil
}

// End notes how the run ended. From now on its output does not change.
func (r *Run) End(at time.Time, code int, signal string) {
	r.mu.Lock()
	file := r.file
	r.file = nil
	r.mu.Unlock()
	if file == nil {
		return
	}
	written, err := r.output.settle(0)
	err = errors.Join(err, file.Chmod(0o400), file.Sync(), file.Close())
	at = at.UTC()
	r.mu.Lock()
	r.info.State, r.info.EndedAt, r.info.Bytes = Exited, &at, written
	if signal != "" {
		r.info.Signal = &signal
	} else {
		r.info.ExitCode = &code
	}
	r.mu.Unlock()
	if err = errors.Join(err, r.save()); err != nil {
		r.store.log.Warn("end of a run not kept", "run", r.info.ID, "error", err)
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	delete(r.store.live, r.info.ID)
}

// save writes what is known of the run.
func (r *Run) save() error {
	data, err := json.Marshal(r.info)
	if err != nil {
		return fmt.Errorf("encode the run: %w", err)
	}
	return durable.Write(filepath.Join(r.path, statusFile), append(data, '\n'))
}

// List returns at most n runs, newest first, of one harness or of all (""),
// those before the id after; and what to give as after to go on, "" at the end.
func (s *Store) List(harness, after string, n int) (runs []Info, next string, err error) {
	ids, err := s.ids()
	if err != nil {
		return nil, "", err
	}
	for _, id := range slices.Backward(ids) {
		if after != "" && id >= after {
			continue
		}
		info, err := s.Info(id)
		if err != nil || harness != "" && info.Harness != harness {
			continue // a torn one is no run; another daemon may be removing it
		}
		if len(runs) == n {
			return runs, runs[n-1].ID, nil
		}
		runs = append(runs, info)
	}
	return runs, "", nil
}

// ids lists the runs on disk, oldest first.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the runs: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && known(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// Info returns what is known of one run.
func (s *Store) Info(id string) (Info, error) {
	if !known(id) {
		return Info{}, ErrUnknown
	}
	s.mu.Lock()
	r := s.live[id]
	s.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.info, nil
	}
	data, err := os.ReadFile(filepath.Join(s.dir, id, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, ErrUnknown
	}
	if err != nil {
		return Info{}, fmt.Errorf("read the run: %w", err)
	}
	var info Info
	if err := json.Unmarshal(data, &info); err != nil {
		return Info{}, fmt.Errorf("read the run: %w", err)
	}
	info.State = Exited // it is none of ours that are alive
	if file, err := os.Stat(filepath.Join(s.dir, id, outputFile)); err == nil {
		info.Bytes = file.Size() // a daemon that was killed has not noted it
	}
	return info, nil
}

// Transcript returns at most Page bytes of a run's output from offset on, and
// the offset of what follows, 0 at the end.
func (s *Store) Transcript(id string, offset int64) (text []byte, next int64, err error) {
	if !known(id) {
		return nil, 0, ErrUnknown
	}
	s.mu.Lock()
	r := s.live[id]
	s.mu.Unlock()
	if r != nil {
		_, _ = r.output.settle(settleWithin) // what is not there yet comes with the next page
	}
	f, err := os.Open(filepath.Join(s.dir, id, outputFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrUnknown
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the run: %w", err)
	}
	defer f.Close()
	text = make([]byte, Page)
	n, err := f.ReadAt(text, max(offset, 0))
	switch {
	case err == nil:
		text = whole(text[:n])
		return text, max(offset, 0) + int64(len(text)), nil
	case errors.Is(err, io.EOF):
		return text[:n], 0, nil
	default:
		return nil, 0, fmt.Errorf("read the run: %w", err)
	}
}

// whole returns text without the beginning of a character that the next page
// has the rest of.
func whole(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}
