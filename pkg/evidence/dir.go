package evidence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Modes of what is kept (FIL-1).
const (
	sealedMode = 0o400
	openMode   = 0o600
	dirMode    = 0o700
)

// ErrLink is wrapped by the error of a path that has a symbolic link in it, or
// leads out of its directory.
var ErrLink = errors.New("a component of the path is a symbolic link, or leads out of its directory")

// ErrIrregular is wrapped by the error of a path that leads to no regular file.
var ErrIrregular = errors.New("not a regular file")

// ErrTooLarge is wrapped by the error of a file over the limit it is read with.
var ErrTooLarge = errors.New("too large")

// Dir is a directory that is open. What is below it is reached without
// following a link in any component of a path (EVI-4). It is safe for use by
// many goroutines, until it is closed.
type Dir struct {
	f *os.File
	// walk opens one component after the other, as where there is no openat2.
	walk bool

	mu sync.Mutex
}

// OpenDir opens the directory at an absolute path, no component of which may
// be a link.
func OpenDir(path string) (*Dir, error) {
	root, err := os.Open("/")
	if err != nil {
		return nil, fmt.Errorf("open a directory: %w", err)
	}
	defer root.Close()
	rel := strings.TrimPrefix(filepath.Clean(path), "/")
	if rel == "" {
		rel = "."
	}
	return (&Dir{f: root}).Sub(rel)
}

// Name is the directory's path as it was opened, for messages.
func (d *Dir) Name() string { return d.f.Name() }

// Close closes the directory. What was opened below it stays open.
func (d *Dir) Close() error { return d.f.Close() }

// at runs call with the directory's descriptor.
func (d *Dir) at(call func(fd int) error) error {
	raw, err := d.f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// open opens a path below the directory. flags have O_CLOEXEC and O_NOFOLLOW
// added, and O_NONBLOCK where it opens what may be no directory: nothing waits for the other
// end of a pipe.
func (d *Dir) open(rel string, flags int, mode uint32) (*os.File, error) {
	fd, err := d.descriptor(rel, flags, mode)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.f.Name(), rel)), nil
}

// descriptor is open without a file around what it returns, which the caller
// closes.
func (d *Dir) descriptor(rel string, flags int, mode uint32) (int, error) {
	if !local(rel) {
		return -1, &fs.PathError{Op: "open", Path: rel, Err: ErrLink}
	}
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	if flags&(unix.O_DIRECTORY|unix.O_PATH) == 0 {
		flags |= unix.O_NONBLOCK
	}
	fd := -1
	err := d.at(func(at int) (err error) {
		fd, err = d.openat(at, rel, flags, mode)
		return err
	})
	if err != nil {
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
			err = ErrLink
		}
		return -1, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	return fd, nil
}

// local reports whether rel is a clean path that stays below.
func local(rel string) bool {
	return rel == "." || filepath.IsLocal(rel) && path.Clean(rel) == rel && !strings.ContainsRune(rel, 0)
}

func (d *Dir) openat(at int, rel string, flags int, mode uint32) (int, error) {
	if !d.walk {
		how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
		if flags&unix.O_CREAT != 0 {
			how.Mode = uint64(mode)
		}
		for {
			fd, err := unix.Openat2(at, rel, &how)
			switch {
			case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // a rename was under way
			case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
				return walk(at, rel, flags, mode) // an old kernel, or a filter
			default:
				return fd, err
			}
		}
	}
	return walk(at, rel, flags, mode)
}

// walk opens a clean path one component after the other.
func walk(at int, rel string, flags int, mode uint32) (int, error) {
	parts := strings.Split(rel, "/")
	for i, part := range parts[:len(parts)-1] {
		next, err := unix.Openat(at, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOTDIR) && isLink(at, part) {
			err = unix.ELOOP // what a link is, opened so, is not told from a file
		}
		if i > 0 {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	fd, err := unix.Openat(at, parts[len(parts)-1], flags, mode)
	if len(parts) > 1 {
		unix.Close(at)
	}
	return fd, err
}

// isLink reports whether the name is that of a symbolic link.
func isLink(at int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// Sub opens a directory below.
func (d *Dir) Sub(rel string) (*Dir, error) {
	f, err := d.OpenDirectory(rel)
	if err != nil {
		return nil, err
	}
	return &Dir{f: f, walk: d.walk}, nil
}

// OpenDirectory opens a directory below as a file, for a process to work in.
func (d *Dir) OpenDirectory(rel string) (*os.File, error) {
	return d.open(rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// Make makes a directory directly below, 0700, and opens it. It fails where
// there is something of that name.
func (d *Dir) Make(name string) (*Dir, error) {
	if err := d.at(func(fd int) error { return unix.Mkdirat(fd, name, dirMode) }); err != nil {
		return nil, &fs.PathError{Op: "make", Path: name, Err: err}
	}
	return d.Sub(name)
}

// Ensure opens a directory directly below, and makes it where it is not there.
func (d *Dir) Ensure(name string) (*Dir, error) {
	sub, err := d.Make(name)
	if errors.Is(err, fs.ErrExist) {
		return d.Sub(name)
	}
	if err != nil {
		return nil, err
	}
	return sub, d.Sync()
}

// Create makes a file that is written to later on, 0600, where none was.
func (d *Dir) Create(rel string) (*os.File, error) {
	return d.open(rel, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_APPEND, openMode)
}

// Append opens a file of its own for what is appended.
func (d *Dir) Append(rel string) (*os.File, error) {
	f, err := d.open(rel, unix.O_WRONLY|unix.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	if _, err := regular(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Put writes a file once, 0400, where none was. It is on the disk once the
// returned function was called and the directory synced: several are synced at
// once in the time of one.
func (d *Dir) Put(rel string, data []byte) (sync func() error, err error) {
	f, err := d.open(rel, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, sealedMode)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(data); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(f.Sync(), f.Close()) }, nil
}

// Write is Put of a file in this directory that is on the disk when it returns.
func (d *Dir) Write(name string, data []byte) error {
	done, err := d.Put(name, data)
	if err != nil {
		return err
	}
	return Together(done, d.Sync)
}

// Replace makes data the content of a file that is no evidence, 0600: whole, but
// not at once on the disk. aside is the name of the file until then.
func (d *Dir) Replace(name, aside string, data []byte) error {
	return d.replace(name, aside, data, func(*os.File) error { return nil })
}

// ReplaceSynced is Replace of a file that is on the disk when it returns.
func (d *Dir) ReplaceSynced(name, aside string, data []byte) error {
	if err := d.replace(name, aside, data, (*os.File).Sync); err != nil {
		return err
	}
	return d.Sync()
}

func (d *Dir) replace(name, aside string, data []byte, settle func(*os.File) error) error {
	f, err := d.open(aside, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, openMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = settle(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return d.at(func(fd int) error { return unix.Renameat(fd, aside, fd, name) })
}

// Sync has the names in the directory on the disk.
func (d *Dir) Sync() error { return d.f.Sync() }

// Info is what a file is, without its content.
type Info struct {
	Name         string
	Size         int64
	Mode         fs.FileMode
	Inode, Links uint64
	UID          uint32
	Changed      int64 // nanoseconds
	Modified     int64
}

// infoOf makes an Info of what the kernel says.
func infoOf(name string, st *unix.Stat_t) Info {
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	default:
		mode |= fs.ModeIrregular
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX) != 0 {
		mode |= fs.ModeSticky
	}
	return Info{name, st.Size, mode, st.Ino, uint64(st.Nlink), st.Uid, st.Ctim.Nano(), st.Mtim.Nano()} //nolint:unconvert // of another width elsewhere
}

// Append appends all that an Info says: two are alike where that is.
func (i Info) Append(b []byte) []byte {
	for _, n := range []int64{i.Size, int64(i.Mode), int64(i.Inode), int64(i.Links), int64(i.UID), i.Changed, i.Modified} { //nolint:gosec // only to be compared
		b = append(strconv.AppendInt(b, n, 36), ' ')
	}
	return append(b, '\n')
}

// Sealed returns what is wrong with a file that should be sealed, "" for
// nothing.
func (i Info) Sealed() string { return i.like(sealedMode) }

// Open returns what is wrong with a file that should be written to still.
func (i Info) Open() string { return i.like(openMode) }

func (i Info) like(mode fs.FileMode) string {
	switch {
	case i.Mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case !i.Mode.IsRegular():
		return "not a regular file"
	case i.Links != 1:
		return "it has another name too"
	case i.UID != uint32(os.Geteuid()): //nolint:gosec // never negative
		return "it belongs to another user"
	case i.Mode.Perm() != mode || i.Mode&^fs.ModePerm != 0:
		return fmt.Sprintf("its mode is %04o, not %04o", i.Mode.Perm(), mode)
	}
	return ""
}

// List returns what is directly in the directory, by name.
func (d *Dir) List() ([]Info, error) {
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	list := make([]Info, len(names))
	err = d.at(func(fd int) error {
		for i, name := range names {
			var st unix.Stat_t
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return &fs.PathError{Op: "look at", Path: name, Err: err}
			}
			list[i] = infoOf(name, &st)
		}
		return nil
	})
	return list, err
}

// Stat returns what a file below is, in a directory that nobody but the owner of
// this one writes to: it is not opened, and a link in its directory's path is
// followed.
func (d *Dir) Stat(rel string) (info Info, err error) {
	var st unix.Stat_t
	if err := d.at(func(fd int) error { return unix.Fstatat(fd, rel, &st, unix.AT_SYMLINK_NOFOLLOW) }); err != nil {
		return Info{}, &fs.PathError{Op: "look at", Path: rel, Err: err}
	}
	return infoOf(filepath.Base(rel), &st), nil
}

// Look returns what there is at a path below, of any kind but a link: it need not
// be readable, and nothing waits for it.
func (d *Dir) Look(rel string) (Info, error) {
	fd, err := d.descriptor(rel, unix.O_PATH, 0)
	if err != nil {
		return Info{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = ErrLink // opened so, the last component may be one
	}
	if err != nil {
		return Info{}, &fs.PathError{Op: "look at", Path: rel, Err: err}
	}
	return infoOf(path.Base(rel), &st), nil
}

// regular says what an open file is, if it is a regular one.
func regular(f *os.File) (Info, error) {
	var st unix.Stat_t
	raw, err := f.SyscallConn()
	if err != nil {
		return Info{}, err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fstat(int(fd), &st) }); err != nil || failed != nil {
		return Info{}, errors.Join(err, failed)
	}
	info := infoOf(filepath.Base(f.Name()), &st)
	if !info.Mode.IsRegular() {
		return info, &fs.PathError{Op: "open", Path: f.Name(), Err: ErrIrregular}
	}
	return info, nil
}

// OpenFile opens a regular file for reading.
func (d *Dir) OpenFile(rel string) (*os.File, Info, error) {
	f, err := d.open(rel, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENXIO) { // a socket
		err = &fs.PathError{Op: "open", Path: rel, Err: ErrIrregular}
	}
	if err != nil {
		return nil, Info{}, err
	}
	info, err := regular(f)
	if err != nil {
		f.Close()
		return nil, info, err
	}
	return f, info, nil
}

// Read returns a regular file of at most limit bytes, and what it is.
func (d *Dir) Read(rel string, limit int64) ([]byte, Info, error) {
	// Verification reads a dozen files of each run: an os.File of each would cost
	// as many calls again.
	fd, err := d.descriptor(rel, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENXIO) { // a socket
		err = &fs.PathError{Op: "open", Path: rel, Err: ErrIrregular}
	}
	if err != nil {
		return nil, Info{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, Info{}, &fs.PathError{Op: "read", Path: rel, Err: err}
	}
	info := infoOf(path.Base(rel), &st)
	switch {
	case !info.Mode.IsRegular():
		err = ErrIrregular
	case info.Size > limit:
		err = ErrTooLarge
	}
	var data []byte
	if err == nil {
		data, err = readUpTo(fd, info.Size, limit)
	}
	if err != nil {
		return nil, info, &fs.PathError{Op: "read", Path: rel, Err: err}
	}
	return data, info, nil
}

// readUpTo reads to the end of what is about size bytes, and no more than limit.
func readUpTo(fd int, size, limit int64) ([]byte, error) {
	data := make([]byte, size+1) // one byte more shows that there are no more
	for n := 0; ; {
		got, err := unix.Read(fd, data[n:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case got == 0:
			return data[:n], nil
		}
		if n += got; int64(n) > limit {
			return nil, ErrTooLarge
		}
		if n == len(data) { // it grows
			data = append(data, make([]byte, n)...)
		}
	}
}

// ReadSealed returns a file that was sealed, or a [*Fault] that says why it
// cannot be believed.
func (d *Dir) ReadSealed(rel string, limit int64) ([]byte, error) {
	data, info, err := d.Read(rel, limit)
	if err != nil {
		return nil, &Fault{Entry: rel, Message: reason(err), missing: errors.Is(err, fs.ErrNotExist)}
	}
	if wrong := info.Sealed(); wrong != "" {
		return nil, &Fault{Entry: rel, Message: wrong}
	}
	return data, nil
}

// reason says in a few words why a file could not be read.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case errors.Is(err, ErrLink):
		return "a symbolic link"
	case errors.Is(err, ErrIrregular):
		return "not a regular file"
	case errors.Is(err, ErrTooLarge):
		return "larger than what was ever written"
	}
	return "not readable"
}

// Rename moves what is directly below to a place below another directory, where
// nothing is.
func (d *Dir) Rename(name string, to *Dir, as string) error {
	err := d.at(func(from int) error {
		return to.at(func(into int) error { return unix.Renameat2(from, name, into, as, unix.RENAME_NOREPLACE) })
	})
	if err != nil {
		return &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	return nil
}

// Remove removes a directory below with everything in it, without following
// links.
func (d *Dir) Remove(name string) error {
	if !local(name) || name == "." {
		return &fs.PathError{Op: "remove", Path: name, Err: ErrLink}
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", d.f.Fd()))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(name)
}

// Names returns the names of what is directly in the directory, sorted.
func (d *Dir) Names() ([]string, error) {
	d.mu.Lock() // of where it is read from
	defer d.mu.Unlock()
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := d.f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Seal makes a file that was written to one that is sealed.
func (d *Dir) Seal(rel string) error {
	f, _, err := d.OpenFile(rel)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(sealedMode), f.Sync(), f.Close())
}

// Truncate cuts a file to a size.
func (d *Dir) Truncate(rel string, size int64) error {
	f, err := d.open(rel, unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// Discard removes a file directly below that is no evidence. One that is not
// there is no error.
func (d *Dir) Discard(name string) error {
	err := d.at(func(fd int) error { return unix.Unlinkat(fd, name, 0) })
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}
