package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// namedWithin is how long the holder of a lock may take to say its pid.
const namedWithin = 500 * time.Millisecond

// lock makes this process the only daemon of a state directory (FIL-1). The
// returned function releases it.
func lock(ctx context.Context, state string) (release func(), err error) {
	path := filepath.Join(state, "daemon.lock")
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("a daemon%s already runs on the state directory %q; stop it first, or set HARNESS_STATE_DIR", holder(ctx, path), state)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		_ = l.Unlock()
		return nil, fmt.Errorf("write the pid to %q: %w", path, err)
	}
	// The file stays: removing it would let two daemons lock two inodes.
	return func() { _ = l.Unlock() }, nil
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
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}
