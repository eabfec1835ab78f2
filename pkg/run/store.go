package run

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"harness/pkg/evidence"
)

const (
	// limit bounds the output that is kept of one run, in bytes.
	limit = 4 << 20
	// Page is how many bytes of a transcript are given out at once.
	Page = 64 << 10

	// settleWithin is how long a page waits for what was printed before.
	settleWithin = time.Second
)

// What a run has on disk, in its directory (EVI-1).
const (
	contractFile = "launch-contract.json"
	catalogFile  = "command-catalog.json"
	cardFile     = "command-card.md"
	receiptsDir  = "receipts"
	messagesFile = "messages.jsonl"
	outputFile   = "output.log"
	statusFile   = "status.json"
	statusNew    = "status.json.new" // while it is replaced
	finalFile    = "final-receipt.json"
	tornDir      = "torn"
)

// What the state directory has of runs.
const (
	runsDir      = "runs"
	asideDir     = "runs-aside"    // what began to be a run and never was one
	removingDir  = "runs-removing" // what is no run any more, and not gone yet
	retentionDir = "retention"     // holds the chain of what was removed
	removedDir   = "removed-runs"  // that chain
)

// ErrUnknown is what is returned for a run that there is not.
var ErrUnknown = errors.New("no such run")

// Options is what a [Store] needs from outside.
type Options struct {
	// Keep says how many runs of each harness are kept.
	Keep func() int
	Log  *slog.Logger
	// Knowledge is sealed with each run.
	Knowledge *Knowledge
	// Self is the actor of what nobody asked for.
	Self Actor
	// Changed says that a run is not as it was; nil for nobody. It must neither
	// block nor call the store.
	Changed func(id string)
}

// Store is the runs of one state directory, whose only writer it is.
type Store struct {
	opt   Options
	state *evidence.Dir
	dir   *evidence.Dir
	since time.Time // it is open
	// retention is the chain of what was removed. It is opened when something is
	// first: it only grows, and no start waits for it. nil while it is not open.
	retention *evidence.Ledger
	retaining sync.Mutex // of retention
	removals  sync.WaitGroup
	surveying sync.Mutex // held to learn whose the runs are

	mu       sync.Mutex
	live     map[string]*Run
	last     time.Time // of the newest id
	all      []string  // every id on the disk or live, oldest first
	kept     map[string][]string
	surveyed bool
	read     map[string]cached
}

// OpenStore opens the runs of a state directory, which is shared, and ends those
// that a daemon left that was killed (EVI-3). now is the time of that end.
func OpenStore(state *evidence.Dir, now time.Time, opt Options) (*Store, error) {
	if opt.Changed == nil {
		opt.Changed = func(string) {}
	}
	s := &Store{opt: opt, state: state, since: time.Now(), live: map[string]*Run{}, kept: map[string][]string{}, read: map[string]cached{}}
	var err error
	if s.dir, err = state.Ensure(runsDir); err != nil {
		return nil, fmt.Errorf("open the runs: %w", err)
	}
	if err := s.index(); err != nil {
		return nil, errors.Join(err, s.dir.Close())
	}
	if err := s.sweep(); err != nil {
		opt.Log.Warn("old runs not removed", "error", err)
	}
	s.recover(now)
	return s, nil
}

// openRetention opens the chain of what was removed.
func (s *Store) openRetention() (*evidence.Ledger, error) {
	parent, err := s.state.Ensure(retentionDir)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	made, err := parent.Ensure(removedDir)
	if err != nil {
		return nil, err
	}
	made.Close()
	chain, _, torn, err := evidence.OpenLedger(parent, removedDir, "removed runs", time.Now())
	if torn != nil {
		s.opt.Log.Warn("torn record set aside", "entry", torn.Entry, "aside", torn.Aside)
	}
	return chain, err
}

// record adds a run to the chain of what was removed. After an error it is opened
// again: what was in the way may pass.
func (s *Store) record(r removed) error {
	s.retaining.Lock()
	defer s.retaining.Unlock()
	if s.retention == nil {
		chain, err := s.openRetention()
		if err != nil {
			return err
		}
		s.retention = chain
	}
	_, err := s.retention.Append("removed", time.Now(), r)
	if err != nil {
		err = errors.Join(err, s.retention.Close())
		s.retention = nil
	}
	return err
}

// Close waits for what is being removed. Runs under way must have ended.
func (s *Store) Close() error {
	s.removals.Wait()
	if s.retention == nil {
		return s.dir.Close()
	}
	return errors.Join(s.retention.Close(), s.dir.Close())
}

// index reads which runs there are, once: what begins later is known.
func (s *Store) index() error {
	infos, err := s.dir.Names()
	if err != nil {
		return fmt.Errorf("list the runs: %w", err)
	}
	for _, name := range infos {
		if Known(name) {
			s.all = append(s.all, name)
		}
	}
	if len(s.all) > 0 {
		newest := s.all[len(s.all)-1]
		if at, err := time.Parse(idTime, newest[:len(idTime)]); err == nil {
			s.last = at
		}
	}
	return nil
}

// idTime is how an id begins.
const idTime = "20060102T150405.000000"

// NewID returns an id that is after every one before, also where the clock was
// set back.
func (s *Store) NewID(at time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Known reports whether id could be one of ours, and so a path.
func Known(id string) bool {
	const shape = "00000000T000000.000000-xxxxxxxx"
	if len(id) != len(shape) {
		return false
	}
	for i := range len(shape) {
		digit := id[i] >= '0' && id[i] <= '9'
		switch shape[i] {
		case '0':
			if !digit {
				return false
			}
		case 'x':
			if !digit && (id[i] < 'a' || id[i] > 'f') {
				return false
			}
		default:
			if id[i] != shape[i] {
				return false
			}
		}
	}
	return true
}

// enter adds a run that is about to be.
func (s *Store) enter(r *Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, there := slices.BinarySearch(s.all, r.id)
	if there {
		return fmt.Errorf("begin a run: %w", fs.ErrExist)
	}
	s.all = slices.Insert(s.all, at, r.id)
	s.live[r.id] = r
	if s.surveyed {
		s.kept[r.contract.Harness] = append(s.kept[r.contract.Harness], r.id)
	}
	return nil
}

// leave takes out what is no run any more.
func (s *Store) leave(id, harness string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
	delete(s.read, id)
	if at, there := slices.BinarySearch(s.all, id); there {
		s.all = slices.Delete(s.all, at, at+1)
	}
	s.kept[harness] = slices.DeleteFunc(s.kept[harness], func(one string) bool { return one == id })
}

// settle notes that a run has ended, and removes beside it the oldest of its
// harness beyond what is kept: each as a whole.
func (s *Store) settle(r *Run) {
	s.survey()
	s.mu.Lock()
	delete(s.live, r.id)
	harness := r.contract.Harness
	all := s.kept[harness]
	beyond := max(len(all)-max(s.opt.Keep(), 1), 0)
	var old []string
	kept := make([]string, 0, len(all))
	for i, id := range all {
		if i < beyond && s.live[id] == nil {
			old = append(old, id) // it is nobody else's to remove
		} else {
			kept = append(kept, id)
		}
	}
	s.kept[harness] = kept
	s.mu.Unlock()
	if len(old) > 0 {
		s.removals.Go(func() { s.retire(harness, old) })
	}
}

// survey learns whose each run is, once.
func (s *Store) survey() {
	s.surveying.Lock()
	defer s.surveying.Unlock()
	s.mu.Lock()
	known, ids := s.surveyed, slices.Clone(s.all)
	s.mu.Unlock()
	if known {
		return
	}
	owners := map[string]string{}
	for _, id := range ids {
		c, err := s.contractOf(id)
		if err != nil {
			s.opt.Log.Warn("a run's evidence is not valid; it is kept", "run", id, "error", err)
			continue
		}
		owners[id] = c.Harness
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.surveyed = true
	for _, id := range s.all {
		harness, known := owners[id]
		if r := s.live[id]; r != nil {
			harness, known = r.contract.Harness, true
		}
		if known {
			s.kept[harness] = append(s.kept[harness], id)
		}
	}
}

// removed is the record of a run that was removed.
type removed struct {
	Run                string  `json:"run"`
	Harness            string  `json:"harness"`
	FinalReceiptSHA256 *string `json:"final_receipt_sha256"` // null where it could not be verified
	Reason             string  `json:"reason"`
}

// retire removes runs from the disk, and records each before. One that cannot be
// is kept, and is among the oldest when the next run ends.
func (s *Store) retire(harness string, ids []string) {
	for _, id := range ids {
		record := removed{Run: id, Harness: harness, Reason: "keep_runs"}
		if v, err := s.view(id); err == nil {
			record.FinalReceiptSHA256 = v.info.FinalReceiptSHA256
		}
		if err := s.record(record); err != nil {
			s.opt.Log.Warn("old run not removed: that could not be recorded", "run", id, "error", err)
			s.retain(id, harness)
			continue
		}
		s.leave(id, harness) // before it is half there
		moved, err := s.discard(id)
		if err != nil {
			s.opt.Log.Warn("old run not removed", "run", id, "error", err)
		}
		if !moved {
			s.retain(id, harness)
		}
	}
}

// retain keeps a run that was to be removed.
func (s *Store) retain(id, harness string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	insert := func(list []string) []string {
		at, there := slices.BinarySearch(list, id)
		if there {
			return list
		}
		return slices.Insert(list, at, id)
	}
	s.all, s.kept[harness] = insert(s.all), insert(s.kept[harness])
}

// Removed reports whether there was a run that is not kept any more.
func (s *Store) Removed(id string) (bool, error) {
	if _, err := s.state.Stat(retentionDir + "/" + removedDir); errors.Is(err, fs.ErrNotExist) {
		return false, nil // nothing ever was
	}
	parent, err := s.state.Sub(retentionDir)
	if err != nil {
		return false, err
	}
	defer parent.Close()
	records, _, err := evidence.ReadChain(parent, removedDir, "removed runs")
	return slices.ContainsFunc(records, func(r evidence.Record) bool {
		var one removed
		return json.Unmarshal(r.Body, &one) == nil && one.Run == id
	}), err
}

// discard removes a run as a whole: once it was moved out of the way it is none,
// whatever is left of it.
func (s *Store) discard(id string) (moved bool, err error) {
	dir, err := s.state.Ensure(removingDir)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	if err := s.dir.Rename(id, dir, id); err != nil {
		return false, err
	}
	return true, dir.Remove(id)
}

// sweep ends what a daemon began to remove that was killed.
func (s *Store) sweep() error {
	dir, err := s.state.Ensure(removingDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	for _, name := range names {
		err = errors.Join(err, dir.Remove(name))
	}
	return err
}

// gone reports whether a run is none any more.
func (s *Store) gone(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := slices.BinarySearch(s.all, id)
	return !there
}

// Unfit is why a page of runs is not shown: one of them is not valid.
type Unfit struct {
	Run   string // after it the page after it begins
	Newer int    // how many runs of the page are before it
	err   error
}

// Error implements error.
func (u *Unfit) Error() string { return u.err.Error() }

// Unwrap returns the [*evidence.Fault].
func (u *Unfit) Unwrap() error { return u.err }

// List returns at most n runs, newest first, of one harness or of all (""),
// those before the id after; and what to give as after to go on, "" at the end.
// One whose evidence is not valid is a [*Unfit], and nothing is returned (EVI-3).
func (s *Store) List(harness, after string, n int) (runs []Info, next string, err error) {
	if after != "" && !Known(after) {
		return nil, "", fmt.Errorf("list the runs: %w", ErrUnknown)
	}
	var ids []string
	for _, id := range s.before(after) {
		if harness != "" && !s.of(id, harness) {
			continue
		}
		if len(ids) == n {
			next = ids[n-1]
			break
		}
		ids = append(ids, id)
	}
	if runs, err = s.infos(ids); err != nil {
		return nil, "", err
	}
	return runs, next, nil
}

// infos verifies runs, some at a time: each is a hundred calls of the kernel. One
// that was removed meanwhile is left out; of several that are not valid the first
// is the error.
func (s *Store) infos(ids []string) ([]Info, error) {
	all, errs := make([]Info, len(ids)), make([]error, len(ids))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(len(ids), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(ids)); i = next.Add(1) - 1 {
				all[i], errs[i] = s.Info(ids[i])
			}
		})
	}
	wg.Wait()
	runs := all[:0]
	for i, err := range errs {
		switch {
		case err == nil:
			runs = append(runs, all[i])
		case !errors.Is(err, ErrUnknown):
			return nil, &Unfit{ids[i], len(runs), err}
		}
	}
	return runs, nil
}

// before yields the ids before one, newest first; all for "".
func (s *Store) before(after string) func(yield func(int, string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := len(s.all)
	if after != "" {
		end, _ = slices.BinarySearch(s.all, after)
	}
	return slices.Backward(slices.Clone(s.all[:end]))
}

// of reports whether a run is of a harness, or is such that this cannot be told.
func (s *Store) of(id, harness string) bool {
	s.mu.Lock()
	r, c := s.live[id], s.read[id]
	s.mu.Unlock()
	switch {
	case r != nil:
		return r.contract.Harness == harness
	case c.view != nil:
		return c.view.info.Harness == harness
	}
	contract, err := s.contractOf(id)
	return err != nil || contract.Harness == harness
}

// contractOf reads the contract of a run that is not under way.
func (s *Store) contractOf(id string) (Contract, error) {
	var c Contract
	data, err := s.dir.ReadSealed(id+"/"+contractFile, maxSealed)
	if err != nil {
		return c, err
	}
	if err := evidence.DecodeCanonical(data, &c); err != nil {
		return c, &evidence.Fault{Entry: id + "/" + contractFile, Message: err.Error()}
	}
	return c, nil
}
