package contract

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	"golang.org/x/sys/unix"

	"harness/pkg/proc"
)

// rules leaves a step what it needs to run programs, the contract's directory to
// read, and dir, the working directory, to write. nil is for no rules at all.
func (c *confinement) rules(dir *os.File) (*os.File, error) {
	if !c.landlock {
		return nil, nil
	}
	var rules []landlock.Rule
	rules = append(rules,
		landlock.RODirs(c.read...).IgnoreIfMissing(),
		landlock.ROFiles(c.readFiles...).IgnoreIfMissing(),
		landlock.RWDirs(append([]string{fmt.Sprintf("/proc/self/fd/%d", dir.Fd())}, c.write...)...).WithRefer(),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full").IgnoreIfMissing(),
		landlock.ROFiles("/dev/random", "/dev/urandom").IgnoreIfMissing())
	// Access to files is demanded as of ABI 3, which knows truncation; what later
	// ones add, signals to others above all, is taken where it is there.
	config := landlock.V3
	if landlockABI() >= scopedABI {
		config = landlock.Config{HandledAccessFS: fileAccess, Scoped: unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	}
	// The library could restrict this process only: the child restricts itself.
	fd, _, err := config.NewRulesetFD(rules...)
	if err != nil {
		return nil, &proc.Unconfined{What: "write the rules of its directories", Err: err}
	}
	return os.NewFile(uintptr(fd), "ruleset"), nil
}

// scopedABI is the first Landlock that keeps signals within.
const scopedABI = 6

// fileAccess is every access to files that Landlock 3 knows.
const fileAccess = unix.LANDLOCK_ACCESS_FS_TRUNCATE<<1 - 1

// limits are those that s sets for each process of a step.
func limits(s *Spec) []proc.Limit {
	// A core file would be a way to write elsewhere.
	all := []proc.Limit{{Resource: unix.RLIMIT_CORE, Value: 0}}
	if cpu := s.MaxCPU / time.Second; cpu > 0 {
		all = append(all, proc.Limit{Resource: unix.RLIMIT_CPU, Value: uint64(cpu)})
	}
	if s.MaxMemory > 0 {
		all = append(all, proc.Limit{Resource: unix.RLIMIT_AS, Value: uint64(s.MaxMemory)})
	}
	return all
}

// landlockABI is what the kernel has; 0 where it has none, or it is off.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 && !errors.Is(errno, unix.EINTR) {
		return 0
	}
	return int(abi)
}
