package run

import (
	"cmp"
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
	last string // the newest id
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
	output *os.File
}

// Begin makes the directory of a run that is about to begin.
func (s *Store) Begin(harness string, at time.Time) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.number(at)
	r := &Run{store: s, path: filepath.Join(s.dir, id), info: Info{ID: id, Harness: harness, State: Running, StartedAt: at.UTC()}}
	if err := os.MkdirAll(r.path, 0o700); err != nil {
		return nil, fmt.Errorf("make the run's directory: %w", err)
	}
	var err error
	r.output, err = os.OpenFile(filepath.Join(r.path, outputFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the run's output: %w", err)
	}
	if err := r.save(); err != nil {
		return nil, errors.Join(err, r.output.Close())
	}
	s.live[id] = r
	s.prune(harness)
	return r, nil
}

// number returns an id that is after every one before.
func (s *Store) number(at time.Time) string {
	var b [4]byte
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[:])
	for {
		id := at.UTC().Format("20060102T150405.000000") + "-" + hex.EncodeToString(b[:])
		if id > s.last {
			s.last = id
			return id
		}
		at = at.Add(time.Microsecond)
	}
}

// known reports whether id could be one of ours, and so a path.
func known(id string) bool {
	ok, err := regexp.MatchString(`^\d{8}T\d{6}\.\d{6}-[0-9a-f]{8}$`, id)
	return ok && err == nil
}

// ID returns the run's id.
func (r *Run) ID() string { return r.info.ID }

// Write keeps what was printed, up to a limit. It always takes all of p.
func (r *Run) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := limit - r.info.Bytes
	if r.output == nil || room <= 0 {
		return len(p), nil
	}
	n, err := r.output.Write(p[:min(int64(len(p)), room)])
	r.info.Bytes += int64(n)
	if err != nil {
		r.store.log.Warn("output of a run not kept", "run", r.info.ID, "error", err)
		r.info.Bytes = limit // nothing follows a hole
	}
	return len(p), nil
}

// End notes how the run ended. From now on its output does not change.
func (r *Run) End(at time.Time, code int, signal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.output == nil {
		return
	}
	at = at.UTC()
	r.info.State, r.info.EndedAt = Exited, &at
	if signal != "" {
		r.info.Signal = &signal
	} else {
		r.info.ExitCode = &code
	}
	err := errors.Join(r.output.Chmod(0o400), r.output.Sync(), r.output.Close(), r.save())
	r.output = nil
	if err != nil {
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

// prune removes the oldest runs of a harness that are over, beyond what is
// kept.
func (s *Store) prune(harness string) {
	ids, err := s.ids()
	if err != nil {
		s.log.Warn("old runs not removed", "error", err)
		return
	}
	keep := cmp.Or(max(s.keep(), 0), 1)
	for _, id := range slices.Backward(ids) {
		if s.live[id] != nil {
			if s.live[id].info.Harness == harness {
				keep--
			}
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.dir, id, statusFile))
		var info Info
		// Without a status it was never begun.
		begun := !errors.Is(err, fs.ErrNotExist)
		if begun && (err != nil || json.Unmarshal(data, &info) != nil || info.Harness != harness) {
			continue
		}
		if begun {
			keep--
		}
		if begun && keep >= 0 {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, id)); err != nil {
			s.log.Warn("old run not removed", "run", id, "error", err)
		}
	}
}
