package prompt

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OSFS is the file system of the machine. Its zero value is ready for use.
type OSFS struct{}

var _ FS = OSFS{}

// List implements FS. O_DIRECTORY refuses a named pipe before it is waited for.
func (OSFS) List(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Lstat implements FS.
func (OSFS) Lstat(name string) (Info, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return Info{}, err
	}
	return describe(info)
}

// Resolve implements FS. The result is absolute only if name is.
func (OSFS) Resolve(name string) (string, error) { return filepath.EvalSymlinks(name) }

// UID implements FS.
func (OSFS) UID() int { return os.Geteuid() }

// ReadFile implements FS. O_NONBLOCK keeps the opening of a named pipe that took
// the file's place from waiting for a writer.
func (OSFS) ReadFile(root, name string, limit int) (Info, []byte, error) {
	f, err := open(root, name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW)
	if err != nil {
		return Info{}, nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return Info{}, nil, err
	}
	info, err := describe(stat)
	if err != nil || !info.Mode.IsRegular() {
		return info, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	return info, data, err
}

// open opens name, or root's name where the kernel sees to it that no component
// leads out of root.
func open(root, name string, flag int) (*os.File, error) {
	if root == "" {
		return os.OpenFile(name, flag, 0)
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenFile(name, flag, 0)
}

// describe takes from a file's status what ReadDir asks for.
func describe(info fs.FileInfo) (Info, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Info{}, errors.New("the system does not tell the owner of a file")
	}
	return Info{Mode: info.Mode(), UID: int(stat.Uid)}, nil
}
