package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Confine is the program between the runner and a step: it gives up what the
// step must not have and becomes it. It returns only where it could not, with
// the exit status to end with; why stands on stderr behind the nonce.
func Confine(args []string, stderr io.Writer) int {
	var c confinement
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &c) != nil {
		fmt.Fprintln(stderr, "harness: this is how a contract's step is started, and for nobody else")
		return 2
	}
	runtime.LockOSThread() // what follows is of this thread, and exec keeps it
	if err := c.apply(); err != nil {
		fmt.Fprintln(stderr, c.Nonce+err.Error())
		return confineFailed
	}
	if c.Path == "" {
		return 0 // a probe
	}
	err := syscall.Exec(c.Path, c.Argv, os.Environ())
	fmt.Fprintln(stderr, c.Nonce+"start "+c.Path+": "+err.Error())
	return confineFailed
}

func (c *confinement) apply() error {
	if c.Alone {
		if err := raiseLoopback(); err != nil {
			return fmt.Errorf("raise the loopback interface: %w", err)
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			return fmt.Errorf("give up privileges: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	if c.Landlock {
		if err := c.restrict(); err != nil {
			return fmt.Errorf("confine to the working directory: %w", err)
		}
	}
	return c.limit()
}

// restrict leaves the step what it needs to run programs, the contract's
// directory to read, and the working directory to write.
func (c *confinement) restrict() error {
	var rules []landlock.Rule
	for _, dir := range c.Read {
		rules = append(rules, landlock.RODirs(dir).IgnoreIfMissing())
	}
	for _, file := range c.ReadFiles {
		rules = append(rules, landlock.ROFiles(file).IgnoreIfMissing())
	}
	for _, dir := range c.Write {
		rules = append(rules, landlock.RWDirs(dir).WithRefer())
	}
	rules = append(rules,
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full").IgnoreIfMissing(),
		landlock.ROFiles("/dev/random", "/dev/urandom").IgnoreIfMissing())
	// Access to files is demanded as of ABI 3, which knows truncation; what later
	// ones add, signals to others above all, is taken where it is there.
	config := landlock.V3
	if landlockABI() >= scopedABI {
		config = landlock.Config{HandledAccessFS: fileAccess, Scoped: unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	}
	// The library restricts all threads, one by one; exec keeps this one alone.
	fd, flags, err := config.NewRulesetFD(rules...)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return llsyscall.LandlockRestrictSelf(fd, flags)
}

// scopedABI is the first Landlock that keeps signals within.
const scopedABI = 6

// fileAccess is every access to files that Landlock 3 knows.
const fileAccess = unix.LANDLOCK_ACCESS_FS_TRUNCATE<<1 - 1

func (c *confinement) limit() error {
	for resource, value := range map[int]uint64{
		unix.RLIMIT_CPU: uint64(c.CPU), unix.RLIMIT_AS: uint64(c.Memory),
	} {
		if value == 0 {
			continue
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("set a limit: %w", err)
		}
	}
	// A core file would be a way to write elsewhere.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set a limit: %w", err)
	}
	return nil
}

func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// landlockABI is what the kernel has; 0 where it has none, or it is off.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 && !errors.Is(errno, unix.EINTR) {
		return 0
	}
	return int(abi)
}
