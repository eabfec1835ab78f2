package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// tornDir is where torn entries are, beside the directory of their chain.
const tornDir = "torn"

// Ledger is a chain of records in a directory. It is the only writer of its
// chain, and safe for use by many goroutines.
type Ledger struct {
	dir *Dir

	mu     sync.Mutex
	head   Head
	broken error // of a write that failed: what is on the disk is not known
}

// Torn is an entry that was set aside.
type Torn struct {
	Entry  string `json:"entry"`
	Aside  string `json:"aside"` // its path beside the chain's directory
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// NewLedger begins the chain of a name in an empty directory, which it owns.
func NewLedger(dir *Dir, chain string) *Ledger { return &Ledger{dir: dir, head: Genesis(chain)} }

// OpenLedger goes on with a chain in the directory sub of parent. A torn last
// record is moved to the directory torn of parent, and named by a record of that
// type in its place; it is returned for the log. Any other fault is an error.
func OpenLedger(parent *Dir, sub, chain string, now time.Time) (l *Ledger, records []Record, torn *Torn, err error) {
	dir, err := parent.Sub(sub)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			dir.Close()
		}
	}()
	records, head, err := readChain(dir, chain)
	var f *Fault
	if errors.As(err, &f) && f.Torn {
		torn, err = setAside(parent, dir, sub, f.Entry)
		if err == nil {
			records, head, err = readChain(dir, chain)
		}
	}
	if err != nil {
		return nil, nil, nil, Within(sub, err)
	}
	l = &Ledger{dir: dir, head: head}
	if torn == nil {
		return l, records, nil, nil
	}
	r, err := l.Append("torn", now, torn)
	if err != nil {
		return nil, nil, nil, err
	}
	return l, append(records, r), torn, nil
}

// setAside moves a torn entry out of the chain.
func setAside(parent, dir *Dir, sub, name string) (*Torn, error) {
	data, _, err := dir.Read(name, MaxRecord)
	if err != nil {
		return nil, err
	}
	aside, err := parent.Ensure(tornDir)
	if err != nil {
		return nil, err
	}
	defer aside.Close()
	as := sub + "-" + name
	for again := 2; ; again++ {
		err := dir.Rename(name, aside, as)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		as = fmt.Sprintf("%s-%s.%d", sub, name, again)
	}
	return &Torn{sub + "/" + name, tornDir + "/" + as, Digest(data), len(data)}, errors.Join(aside.Sync(), dir.Sync())
}

// ReadChain verifies the chain in the directory sub of parent, and returns its
// records. What is wrong with it is a [*Fault] that names the entry.
func ReadChain(parent *Dir, sub, chain string) ([]Record, Head, error) {
	dir, err := parent.Sub(sub)
	if err != nil {
		return nil, Head{}, &Fault{Entry: sub, Message: reason(err), missing: errors.Is(err, fs.ErrNotExist)}
	}
	defer dir.Close()
	records, head, err := readChain(dir, chain)
	return records, head, Within(sub, err)
}

func readChain(dir *Dir, chain string) ([]Record, Head, error) {
	list, err := dir.List()
	if err != nil {
		return nil, Head{}, err
	}
	type numbered struct {
		n    int
		info Info
	}
	all := make([]numbered, len(list))
	for i, info := range list {
		n, _, ok := ParseEntryName(info.Name)
		if !ok {
			return nil, Head{}, &Fault{Entry: info.Name, Message: "not the name of a record"}
		}
		if wrong := info.Sealed(); wrong != "" {
			return nil, Head{}, &Fault{Entry: info.Name, Message: wrong}
		}
		all[i] = numbered{n, info}
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Or(cmp.Compare(a.n, b.n), cmp.Compare(a.info.Name, b.info.Name)) })
	entries := make([]Entry, len(all))
	for i, one := range all {
		data, err := dir.ReadSealed(one.info.Name, MaxRecord)
		if err != nil {
			return nil, Head{}, err
		}
		entries[i] = Entry{one.info.Name, data}
	}
	return Verify(chain, entries)
}

// Append adds a record, which is on the disk when it returns. After an error
// nothing can be added any more.
func (l *Ledger) Append(typ string, at time.Time, body any) (Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return Record{}, fmt.Errorf("append to a chain that is broken: %w", l.broken)
	}
	e, next, err := l.head.Append(typ, at, body)
	if err != nil {
		return Record{}, err
	}
	if err := l.dir.Write(e.Name, e.Data); err != nil {
		l.broken = err
		return Record{}, fmt.Errorf("write a record: %w", err)
	}
	r, _, err := l.head.Check(e)
	l.head = next
	return r, err
}

// Verify reads the chain again: it has to be the records that were written. The
// error is a [*Fault] whose entry is in the chain's directory.
func (l *Ledger) Verify(chain string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, head, err := readChain(l.dir, chain)
	if err != nil {
		return err
	}
	return head.Holds(l.head)
}

// Head returns the end of the chain.
func (l *Ledger) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Close lets go of the directory.
func (l *Ledger) Close() error { return l.dir.Close() }

// Begin is Append of the first record to a directory that nobody knows of yet:
// it is on the disk once the returned function was called.
func (l *Ledger) Begin(typ string, at time.Time, body any) (Record, func() error, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, next, err := l.head.Append(typ, at, body)
	if err != nil {
		return Record{}, nil, err
	}
	sync, err := l.dir.Put(e.Name, e.Data)
	if err != nil {
		l.broken = err
		return Record{}, nil, fmt.Errorf("write a record: %w", err)
	}
	r, _, err := l.head.Check(e)
	l.head = next
	return r, func() error { return Together(sync, l.dir.Sync) }, err
}

// Together does all at once, and returns what went wrong.
func Together(all ...func() error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = one() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
