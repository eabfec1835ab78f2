package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// lock makes this process the only daemon of a state directory (FIL-1). The
// returned function releases it.
func lock(state string) (release func(), err error) {
	path := filepath.Join(state, "daemon.lock")
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", path, err)
	}
	if !ok {
		return nil, fmt.Errorf("a daemon%s already runs on the state directory %q; stop it first, or set HARNESS_STATE_DIR", holder(path), state)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		_ = l.Unlock()
		return nil, fmt.Errorf("write the pid to %q: %w", path, err)
	}
	// The file stays: removing it would let two daemons lock two inodes.
	return func() { _ = l.Unlock() }, nil
}

// holder names the process that holds the lock, as far as it said.
func holder(path string) string {
	data, err := os.ReadFile(path)
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || convErr != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}
