package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"harness/pkg/evidence"
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

// begin writes the contract and the first entry to a directory.
func (l *Log) begin(path string, o Opening) error {
	var err error
	if l.signer, err = l.store.signer(); err != nil {
		return err
	}
	dir, err := openDir(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	sync, err := dir.Put(textName, o.Text)
	if err != nil {
		return fmt.Errorf("write the contract: %w", err)
	}
	if l.file, err = dir.Create(chainName); err != nil {
		return errors.Join(fmt.Errorf("make the chain: %w", err), sync())
	}
	l.head = Head{Session: l.id, Principal: o.Principal, ContractSHA256: o.ContractSHA256}
	fields := map[string]any{"text_sha256": SHA256(o.Text)}
	maps.Copy(fields, o.Fields)
	if _, err := l.Note(Opened, fields); err != nil {
		return errors.Join(err, sync())
	}
	if err := evidence.Together(sync, l.file.Sync, dir.Sync); err != nil {
		return fmt.Errorf("write the session: %w", err)
	}
	l.noted = false
	return nil
}

// errOver is why nothing is appended to a chain that has its verdict.
var errOver = errors.New("the session has its verdict, and nothing follows that")

// resume reads what is there. What a crash left of a line is moved aside, and an
// entry says so.
func (l *Log) resume() error {
	c, err := l.store.load(l.id)
	if err != nil {
		return err
	}
	if l.signer, err = l.store.signer(); err != nil {
		return err
	}
	if l.head, err = c.entries[0].Head(); err != nil {
		return err
	}
	l.entries = c.entries
	if c.over() {
		l.broken = errOver
		return nil
	}
	dir, err := l.store.OpenDir(l.id)
	if err != nil {
		return err
	}
	defer dir.Close()
	if l.file, err = dir.Append(chainName); err != nil {
		return fmt.Errorf("open the chain: %w", err)
	}
	if len(c.torn) == 0 {
		return nil
	}
	if err := dir.ReplaceSynced(fmt.Sprintf("%s%d", tornPrefix, len(c.entries)+1), tornNew, c.torn); err != nil {
		return fmt.Errorf("set a torn entry aside: %w", err)
	}
	if err := l.file.Truncate(c.size - int64(len(c.torn))); err != nil {
		return fmt.Errorf("cut off a torn entry: %w", err)
	}
	_, err = l.Append(Torn, map[string]any{"bytes": len(c.torn), "sha256": SHA256(c.torn)})
	return err
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
	e, err := l.append(kind, fields, func() error { return l.file.Sync() })
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

// Decide signs the verdict and ends the chain with it, which is sealed then.
func (l *Log) Decide(v Verdict) (*Verdict, error) {
	if err := v.sign(l.id, l.signer.key); err != nil {
		return nil, fmt.Errorf("sign the verdict: %w", err)
	}
	if _, err := l.Append(Decided, map[string]any{"verdict": v}); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = errOver
	// Where a crash comes first, it stays as it is: nobody can tell that from a
	// session of before chains were sealed.
	if err := l.file.Chmod(sealedMode); err != nil {
		return nil, fmt.Errorf("seal the chain: %w", err)
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
