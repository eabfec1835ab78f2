package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"harness/pkg/durable"
)

// Log is the chain of one session, open for its one writer. Its methods may be
// called by any goroutine.
type Log struct {
	store *Store
	id    string
	lock  *flock.Flock

	mu      sync.Mutex
	file    *os.File
	signer  *signer
	head    Head // of the next entry, but for its time
	entries []Entry
	noted   bool  // the last entry is not on the disk yet
	broken  error // a write that failed: what is on the disk is not known any more
}

// begin writes the contract and the first entry.
func (l *Log) begin(o Opening) error {
	var err error
	if l.signer, err = l.store.signer(); err != nil {
		return err
	}
	if err := durable.Write(filepath.Join(l.Dir(), textName), o.Text); err != nil {
		return err
	}
	if err := l.openFile(os.O_CREATE | os.O_TRUNC); err != nil {
		return err
	}
	l.head = Head{Session: l.id, Principal: o.Principal, ContractSHA256: o.ContractSHA256}
	fields := map[string]any{"text_sha256": SHA256(o.Text)}
	maps.Copy(fields, o.Fields)
	if _, err := l.Append(Opened, fields); err != nil {
		return err
	}
	return durable.SyncDir(l.Dir())
}

// resume reads what is there. What a crash left of a line is moved aside, and an
// entry says so.
func (l *Log) resume() error {
	data, err := readChain(l.Dir())
	if err != nil {
		return err
	}
	entries, torn, err := l.store.parse(l.id, data)
	if err != nil {
		return err
	}
	if l.signer, err = l.store.signer(); err != nil {
		return err
	}
	if l.head, err = entries[0].Head(); err != nil {
		return err
	}
	l.entries = entries
	if err := l.openFile(0); err != nil {
		return err
	}
	if len(torn) == 0 {
		return nil
	}
	if err := durable.Write(filepath.Join(l.Dir(), fmt.Sprintf("torn-%d", len(entries)+1)), torn); err != nil {
		return err
	}
	if err := l.file.Truncate(int64(len(data) - len(torn))); err != nil {
		return fmt.Errorf("cut off a torn entry: %w", err)
	}
	_, err = l.Append(Torn, map[string]any{"bytes": len(torn), "sha256": SHA256(torn)})
	return err
}

func (l *Log) openFile(flags int) error {
	f, err := os.OpenFile(filepath.Join(l.Dir(), chainName), os.O_WRONLY|os.O_APPEND|flags, 0o600)
	if err != nil {
		return fmt.Errorf("open the chain: %w", err)
	}
	l.file = f
	return nil
}

// Dir is the session's directory.
func (l *Log) Dir() string { return l.store.Dir(l.id) }

// As makes p the principal of what is appended from now on.
func (l *Log) As(p Principal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head.Principal = p
}

// Entries returns the chain so far.
func (l *Log) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Append signs an entry and returns when it is on the disk, and all before it.
// fields are what its body has beside the [Head].
func (l *Log) Append(kind string, fields map[string]any) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.append(kind, fields, l.file.Sync)
	l.noted = l.noted && err != nil
	return e, err
}

// Note is Append of an entry that nothing has to wait for: it is on the disk when
// the next Append returns, or Close.
func (l *Log) Note(kind string, fields map[string]any) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted = true
	return l.append(kind, fields, func() error { return nil })
}

// append writes an entry. The caller holds mu.
func (l *Log) append(kind string, fields map[string]any, sync func() error) (Entry, error) {
	if l.broken != nil {
		return Entry{}, l.broken
	}
	e, err := l.seal(kind, fields)
	if err != nil {
		return Entry{}, fmt.Errorf("seal an entry: %w", err)
	}
	if _, err = l.file.Write(append(e.line(), '\n')); err == nil {
		err = sync()
	}
	if err != nil {
		l.broken = fmt.Errorf("write the chain: %w", err)
		return Entry{}, l.broken
	}
	l.entries = append(l.entries, e)
	return e, nil
}

func (l *Log) seal(kind string, fields map[string]any) (Entry, error) {
	head := l.head
	head.At = l.store.now().UTC().Format(time.RFC3339Nano)
	head.Key = l.signer.fingerprint()
	var last *Entry
	if n := len(l.entries); n > 0 {
		last = &l.entries[n-1]
	}
	return seal(last, kind, head, fields, l.signer.key)
}

// Decide signs the verdict and ends the chain with it.
func (l *Log) Decide(v Verdict) (*Verdict, error) {
	if err := v.sign(l.id, l.signer.key); err != nil {
		return nil, fmt.Errorf("sign the verdict: %w", err)
	}
	if _, err := l.Append(Decided, map[string]any{"verdict": v}); err != nil {
		return nil, err
	}
	return &v, nil
}

// Close lets the next writer in.
func (l *Log) Close() error {
	var err error
	if l.file != nil {
		if l.noted {
			err = l.file.Sync()
		}
		err = errors.Join(err, l.file.Close())
	}
	return errors.Join(err, l.lock.Close())
}

// VerdictOf returns the verdict that ends a chain, nil where there is none yet.
func VerdictOf(entries []Entry) (*Verdict, error) {
	last := entries[len(entries)-1]
	if last.Type != Decided {
		return nil, nil
	}
	var body struct {
		Verdict *Verdict `json:"verdict"`
	}
	if err := json.Unmarshal(last.Body, &body); err != nil || body.Verdict == nil {
		return nil, faultf(last.N, "its body is not that of a verdict")
	}
	return body.Verdict, nil
}

// readChain reads the file, which must be one, and nobody else's to write. One
// without a whole line is of a session that never began.
func readChain(dir string) ([]byte, error) {
	path := filepath.Join(dir, chainName)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrUnknown
	case err != nil:
		return nil, fmt.Errorf("look at the chain: %w", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0:
		return nil, faultf(0, "the chain's file is no regular file, or open to others")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the chain: %w", err)
	}
	if bytes.IndexByte(data, '\n') < 0 {
		return nil, ErrUnknown
	}
	return data, nil
}

// parse reads and checks lines. torn is what stands behind the last of them.
func (s *Store) parse(id string, data []byte) (entries []Entry, torn []byte, err error) {
	ring, err := s.Ring()
	if err != nil {
		return nil, nil, err
	}
	var lines [][]byte
	end := bytes.LastIndexByte(data, '\n') + 1
	for line := range bytes.Lines(data[:end]) {
		var e Entry
		err := json.Unmarshal(line, &e)
		if err != nil {
			return nil, nil, faultf(len(entries)+1, "it is torn or foreign")
		}
		entries, lines = append(entries, e), append(lines, line[:len(line)-1])
	}
	again, err := settle(entries)
	if err != nil {
		return nil, nil, err
	}
	for i := range again {
		if !bytes.Equal(again[i], lines[i]) {
			return nil, nil, faultf(i+1, "it is torn or foreign")
		}
	}
	if err := checkChain(id, entries, ring); err != nil {
		return nil, nil, err
	}
	return entries, data[end:], nil
}
