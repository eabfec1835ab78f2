package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"harness/pkg/durable"
)

// namedWithin is how long the holder of a lock may take to say its pid.
const namedWithin = 500 * time.Millisecond

// lock makes this process the only daemon of a state directory (FIL-1). The
// returned function releases it.
func lock(ctx context.Context, state string, log *slog.Logger) (release func(), err error) {
	path := filepath.Join(state, "daemon.lock")
	for {
		l, err := tryLock(ctx, path, state)
		if err != nil {
			return nil, err
		}
		ours, err := settled(l, path, log)
		if err == nil && ours {
			err = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
		}
		if err != nil {
			_ = l.Unlock()
			return nil, fmt.Errorf("write the pid to %q: %w", path, err)
		}
		if ours {
			// The file stays: removing it would let two daemons lock two inodes.
			return func() { _ = l.Unlock() }, nil
		}
		_ = l.Unlock()
	}
}

// tryLock takes the lock, or says who has it. O_NONBLOCK: a pipe in its place
// may have nobody at its other end.
func tryLock(ctx context.Context, path, state string) (*flock.Flock, error) {
	l := flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|syscall.O_NONBLOCK))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("a daemon%s already runs on the state directory %q; stop it first, or set HARNESS_STATE_DIR", holder(ctx, path), state)
	}
	return l, nil
}

// settled reports whether what l has locked is the lock file. What is no
// regular file is set aside (FIL-3), by the one who holds it and only where it
// is still in its place: the lock that another daemon made there meanwhile stays.
func settled(l *flock.Flock, path string, log *slog.Logger) (bool, error) {
	held, err := l.Stat()
	if err != nil {
		return false, err
	}
	if held.Mode().IsRegular() {
		return true, nil
	}
	there, err := os.Lstat(path)
	if err != nil || !os.SameFile(held, there) {
		return false, nil //nolint:nilerr // another daemon was faster
	}
	aside, err := durable.SetAside(path)
	if err == nil {
		log.Warn("lock file not usable, set aside", "file", path, "aside", aside, "error", durable.ErrNotRegular)
	}
	return false, err
}

// holder names the process that holds the lock. It locks first and then
// writes, so for a moment the file is empty or has the pid of a predecessor
// that is gone.
func holder(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, namedWithin)
	defer cancel()
	for {
		if pid := writtenPID(path); pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH {
			return fmt.Sprintf(" (pid %d)", pid)
		}
		select {
		case <-ctx.Done():
			return ""
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// writtenPID is the pid in a lock file, 0 for none.
func writtenPID(path string) int {
	data, err := durable.Read(path, 0)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}
