package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRead is how much of a file is read to look into it (JSON, prompts).
const maxRead = 16 << 20

// errLink is what opening a path below a root returns where a component of it
// is a link, or leads out.
var errLink = errors.New("a link is on the way, or it leads out of the contract's directory")

// openBelow opens a path below root, of which no component may be a link
// (EVI-4). It never waits: a FIFO without a writer opens at once.
func openBelow(root, path string, flags int) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	fd, err := openat(dir, path, flags|unix.O_CLOEXEC)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil, errLink
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openStepwise opens one component after the other, for kernels that cannot do
// it at once.
func openStepwise(dir int, path string, flags int) (int, error) {
	parts := strings.Split(path, "/")
	at := dir
	for i, part := range parts {
		if part == ".." {
			return -1, unix.EXDEV
		}
		how := unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if i == len(parts)-1 {
			how = flags | unix.O_NOFOLLOW
		}
		fd, err := unix.Openat(at, part, how, 0)
		if at != dir {
			unix.Close(at)
		}
		if errors.Is(err, unix.ENOTDIR) && isLink(at, part) {
			err = unix.ELOOP
		}
		if err != nil {
			return -1, err
		}
		at = fd
	}
	return at, nil
}

func isLink(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// checkDir says why path below root is no directory to work in, or nil.
func checkDir(root, path string) error {
	f, err := openBelow(root, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return f.Close()
}

// openFile opens a regular file below root for reading.
func openFile(root, path string) (*os.File, error) {
	f, err := openBelow(root, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readFile reads a file that is to be looked into.
func readFile(root, path string) ([]byte, error) {
	f, err := openFile(root, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err == nil && len(data) > maxRead {
		err = fmt.Errorf("%s has more than %d bytes", path, maxRead)
	}
	return data, err
}

// lookAt says whether a file is what c demands.
func lookAt(root, path string, c *Check) Observed {
	err := holds(root, path, c)
	var unreadable *fs.PathError
	switch {
	case err == nil:
		return Observed{Holds: true}
	case errors.Is(err, errLink), errors.As(err, &unreadable) && !isMissing(err):
		return Observed{End: Unstarted, Problem: err.Error()}
	}
	return Observed{Problem: err.Error()}
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// holds says why the file is not as it must be.
func holds(root, path string, c *Check) error {
	f, err := openBelow(root, path, unix.O_PATH)
	switch {
	case err != nil && isMissing(err) && !c.Exists:
		return nil
	case err != nil && isMissing(err):
		return errors.New("it is not there")
	case err != nil:
		return err
	}
	f.Close()
	switch {
	case !c.Exists:
		return errors.New("it is there")
	case c.SHA256 != "":
		if err := sameDigest(root, path, c.SHA256); err != nil {
			return err
		}
	}
	if c.JSON == nil {
		return nil
	}
	data, err := readFile(root, path)
	if err != nil {
		return err
	}
	return c.JSON.holds(data)
}

func sameDigest(root, path, want string) error {
	f, err := openFile(root, path)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return errors.New("it has another digest")
	}
	return nil
}
