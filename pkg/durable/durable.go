package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// mode is that of every state file, whatever was there before (FIL-1).
const mode = 0o600

// Write makes data the content of the file at path, and returns when it is on
// the disk. A reader, and whoever comes after a crash, finds the old content or
// the new. A directory that is missing is made, mode 0700.
func Write(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of a state file: %w", err)
	}
	if err := replace(path, data, renameio.WithStaticPermissions(mode)); err != nil {
		return fmt.Errorf("write the state file %s: %w", path, err)
	}
	return SyncDir(dir)
}

// WriteFile is Write of a file that is the user's own, in a directory that is
// there. A new one gets perm, less what the umask takes; one that is there keeps
// its mode, and a link stays one. What is no regular file, such as a pipe, is
// written to.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, perm)
	}
	target := path
	if err == nil {
		if target, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	if err := replace(target, data, renameio.WithPermissions(perm), renameio.WithExistingPermissions()); err != nil {
		if beside, is := errors.AsType[*fs.PathError](err); is {
			err = beside.Err // it names the file that was to take its place
		}
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	if err := syncDir(filepath.Dir(target)); err != nil {
		return fmt.Errorf("sync the directory of %s: %w", path, err)
	}
	return nil
}

func replace(path string, data []byte, opts ...renameio.Option) error {
	f, err := renameio.NewPendingFile(path, append(opts, renameio.WithTempDir(filepath.Dir(path)))...)
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // does nothing once the file is in its place
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// ErrNotRegular is why Read refuses what is no file with content of its own.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is why Read refuses a file that is longer than its reader allows.
var ErrTooLarge = errors.New("the file is too large")

// Read returns the content of a regular file of at most limit bytes; 0 is any
// size. What is none is refused with [ErrNotRegular] and not waited for: a pipe
// may have nobody at its other end.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	if limit == 0 {
		return io.ReadAll(f)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, ErrTooLarge
	}
	return data, err
}

// SetAside moves a torn or foreign state file out of the way, to be looked at:
// the next Write must not be the end of it (FIL-3). It returns where to, and
// replaces what was set aside there before.
func SetAside(path string) (aside string, err error) {
	aside = path + ".bad"
	if err := os.Rename(path, aside); err != nil {
		return aside, fmt.Errorf("set a state file aside: %w", err)
	}
	return aside, SyncDir(filepath.Dir(path))
}

// SyncDir returns when what was made, renamed or removed in a directory is on the
// disk.
func SyncDir(path string) error {
	if err := syncDir(path); err != nil {
		return fmt.Errorf("sync the directory of a state file: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
