package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	// wholeLimit is the size up to which a file is read whole.
	wholeLimit = 16 << 20
	// firmAge is how long a file must have kept its identity before that
	// identity stands for its content: longer than any file system takes to
	// give a later write another time.
	firmAge = 4 * time.Second
)

// reader reads paths. A file whose identity has long been the same is not read
// again, except by a deep read: the identity misses a write through a shared
// mapping, and deep reads find that one.
type reader struct {
	whole int64 // wholeLimit, less in tests
	sum   hash.Hash
	buf   []byte
	seen  []view // reused
	round uint64
	files map[string]*memory
}

// memory is what the reader knows of one path.
type memory struct {
	identity identity
	first    time.Time // the look that met this identity
	firm     bool      // the content was read long after that, and stands
	reading  reading
	round    uint64
}

// identity changes whenever a file is replaced or written to, within the
// resolution of its file system's times. Its times are compared with each other
// only, never with a clock (a wall clock may jump).
type identity struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func newReader() *reader {
	return &reader{whole: wholeLimit, sum: sha256.New(), buf: make([]byte, 64<<10), files: map[string]*memory{}}
}

// views reads every target as the last survey found it. The result is valid
// until the next call.
func (r *reader) views(all []*target, now time.Time, deep bool) []view {
	r.round++
	r.seen = r.seen[:0]
	for _, t := range all {
		t.files = r.sight(t, t.files[:0], now, deep)
		r.seen = append(r.seen, view{item: t.item, known: t.known, files: t.files})
	}
	for path, m := range r.files {
		if m.round != r.round {
			delete(r.files, path)
		}
	}
	return r.seen
}

// sight reads one target and appends what it sees to files.
func (r *reader) sight(t *target, files []sighting, now time.Time, deep bool) []sighting {
	path := t.item.path
	if !t.item.dir {
		return append(files, sighting{path, r.read(path, now, deep)})
	}
	_, own := r.kindOf(path)
	switch {
	case t.list.err != nil:
		own = failure(t.list.err)
	case own.kind == regular:
		own = reading{kind: special}
	}
	files = append(files, sighting{path, own})
	for _, e := range t.list.entries {
		entry := join(path, e.Name())
		files = append(files, sighting{entry, r.read(entry, now, deep)})
	}
	return files
}

// kindOf tells what stands at path without opening it.
func (r *reader) kindOf(path string) (fs.FileInfo, reading) {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, failure(err)
	case fi.IsDir():
		return nil, reading{kind: directory}
	case !fi.Mode().IsRegular():
		return nil, typed(fi.Mode())
	}
	return fi, reading{kind: regular}
}

// read reads path, following symbolic links. What is no regular file is never
// opened: a FIFO would block and a device may act. Where this process has run
// out of descriptors the last reading stands.
func (r *reader) read(path string, now time.Time, deep bool) reading {
	fi, what := r.kindOf(path)
	if what.kind != regular {
		return what
	}
	m, before := r.recall(path), identify(fi)
	if m.identity != before {
		m.identity, m.first, m.firm = before, now, false
	}
	if m.firm && !deep {
		return m.reading
	}
	after, found, err := r.digest(path)
	switch {
	case exhausted(err) && m.reading.kind != absent:
		return m.reading
	case err != nil:
		found = failure(err)
	}
	m.reading = found
	m.firm = after == before && now.Sub(m.first) >= firmAge
	return found
}

// recall returns the memory of path, new when there is none.
func (r *reader) recall(path string) *memory {
	m := r.files[path]
	if m == nil {
		m = &memory{}
		r.files[path] = m
	}
	m.round = r.round
	return m
}

// digest reads the content of a regular file, and its identity after that.
func (r *reader) digest(path string) (identity, reading, error) {
	// Not blocking, in case something else has taken the place of the file.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return identity{}, reading{}, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return identity{}, reading{kind: special}, err
	}
	r.sum.Reset()
	n, err := io.CopyBuffer(r.sum, io.LimitReader(f, r.whole), r.buf)
	if err != nil {
		return identity{}, reading{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		return identity{}, reading{}, err
	}
	found := reading{kind: regular}
	if n == r.whole && fi.Size() > n {
		found.kind = large
		_ = binary.Write(r.sum, binary.BigEndian, [2]int64{fi.Size(), fi.ModTime().UnixNano()}) // a hash takes every write
	}
	r.sum.Sum(found.digest[:0])
	return identify(fi), found, nil
}

func identify(fi fs.FileInfo) identity {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}
	}
	return identity{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// typed is the reading of what is neither file nor directory.
func typed(mode fs.FileMode) reading {
	r := reading{kind: special}
	binary.BigEndian.PutUint32(r.digest[:], uint32(mode.Type()))
	return r
}

// exhausted reports that this process, not the file, is why err came.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// failure is the reading of a path that gave err.
func failure(err error) reading {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return reading{}
	}
	r := reading{kind: failed}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		binary.BigEndian.PutUint32(r.digest[:], uint32(errno))
	}
	return r
}
