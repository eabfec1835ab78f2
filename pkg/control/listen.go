package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"harness/pkg/wire"
)

// maxSocketPath is how many bytes the path of a Unix socket may have on Linux.
const maxSocketPath = 107

// probeTimeout bounds the question whether somebody listens on a socket.
const probeTimeout = 2 * time.Second

// Listen opens the daemon's socket: mode 0600, in a directory that is made 0700
// if it is not there (FIL-1). Call it only while holding the lock of the state
// directory. Two daemons of different state directories that want one socket
// are kept apart here: one at a time looks and binds.
//
// A socket that nothing listens on any more is replaced. A live one is refused,
// naming the process behind it, and so is whatever is no socket, or not this
// user's. The caller owns the listener; closing it removes the socket.
func Listen(ctx context.Context, path string) (*net.UnixListener, error) {
	if len(path) > maxSocketPath {
		return nil, tooLong(path)
	}
	dir := filepath.Dir(path)
	if err := prepareDir(dir); err != nil {
		return nil, err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := clearStale(ctx, path); err != nil {
		return nil, err
	}
	return bind(path)
}

// Listen opens the daemon's socket. A directory of harness's own is made private
// first, as the state directory is: what is in it is ours. One that somebody
// named is its owner's.
func (p Paths) Listen(ctx context.Context) (*net.UnixListener, error) {
	if p.own {
		if err := makePrivate(filepath.Dir(p.Socket)); err != nil {
			return nil, err
		}
	}
	return Listen(ctx, p.Socket)
}

// makePrivate gives a directory of this user's that is there mode 0700.
func makePrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || ownerOf(info) != os.Geteuid() || info.Mode().Perm() == 0o700 {
		return nil //nolint:nilerr // to be made, or for Listen to refuse
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("make the socket's directory private: %w", err)
	}
	return nil
}

// bind makes the socket. Until its mode is set, a stranger who may enter the
// directory can connect; the check of each peer's uid turns such a one away.
func bind(path string) (*net.UnixListener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			listener.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return listener, nil
}

// lockDir keeps every other Listen out of a directory until unlock is called.
// The lock is on the directory itself, so it leaves no file behind and ends with
// the process; whoever holds it does so for probeTimeout at most.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the socket's directory: %w", err)
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the socket's directory %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

// tooLong explains the limit that the kernel reports as "invalid argument".
func tooLong(path string) error {
	return &Problem{
		Code:    wire.InvalidArgument,
		Message: fmt.Sprintf("socket path is %d bytes long, over the %d that the system allows: %s", len(path), maxSocketPath, path),
		Hint:    "give a shorter one with --socket or HARNESS_SOCKET",
	}
}

// prepareDir makes the socket's directory, or checks the one that is there: one
// that another user owns, or where everybody may rename things, is no place for
// a private door. The mode of a directory that was there before is otherwise its
// owner's choice.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the socket's directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check the socket's directory: %w", err)
	}
	if uid, me := ownerOf(info), os.Geteuid(); uid != me && uid != 0 && me != 0 {
		return fmt.Errorf("socket directory %s belongs to another user (uid %d)", dir, uid)
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("socket directory %s can be written by everybody (mode %04o)", dir, info.Mode().Perm())
	}
	return nil
}

// clearStale removes a socket that no process listens on, and refuses to touch
// anything else that is in the way.
func clearStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the way: it is not a socket, so it is left alone", path)
	}
	if uid := ownerOf(info); uid != os.Geteuid() {
		return fmt.Errorf("%s is in the way: it belongs to another user (uid %d), so it is left alone", path, uid)
	}
	if err := probe(ctx, path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}

// probe returns nil when a socket is certainly dead: the kernel refuses the
// connection. Anything else counts as alive.
func probe(ctx context.Context, path string) error {
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s is in the way and does not say whether it is in use: %w", path, err)
	}
	defer conn.Close()
	who, err := peerOf(conn.(*net.UnixConn))
	if err != nil {
		return fmt.Errorf("%s is in use by another process", path)
	}
	return fmt.Errorf("%s is in use by another process (pid %d)", path, who.pid)
}

// ownerOf is the uid that owns a file.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
