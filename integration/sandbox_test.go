package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// bareName is the name by which the test binary takes from a program what
// contracts are confined with: bare userns,landlock PROGRAM ARGS…
const bareName = "bare"

// bareMain becomes the program, and returns where it cannot.
func bareMain(args []string) error {
	if err := makeBare(args[0]); err != nil {
		return err
	}
	return syscall.Exec(args[1], append([]string{"harness"}, args[2:]...), os.Environ())
}

func makeBare(of string) error {
	if strings.Contains(of, "userns") {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0o600); err != nil {
			return err
		}
	}
	if !strings.Contains(of, "landlock") {
		return nil
	}
	runtime.LockOSThread()
	// The kernel has Landlock that is restricted no more than 16 times. What each
	// of these forbids is to make a block device.
	const (
		setNoNewPrivs  = 38
		createRuleset  = 444
		restrictSelf   = 446
		makeBlock      = 1 << 11
		moreThanEnough = 17
	)
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	handled := uint64(makeBlock)
	for range moreThanEnough {
		fd, _, errno := syscall.RawSyscall(createRuleset, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
		if errno != 0 {
			return errno
		}
		if _, _, errno := syscall.RawSyscall(restrictSelf, fd, 0, 0); errno == syscall.E2BIG {
			return nil
		} else if errno != 0 {
			return errno
		}
	}
	return fmt.Errorf("landlock goes on")
}

// TestContract_TheVerdictSaysWhatSandboxWasInForce takes user namespaces and
// Landlock from the program, one by one and together.
func TestContract_TheVerdictSaysWhatSandboxWasInForce(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for without, want := range map[string]string{"nothing": "landlock+netns", "userns": "landlock", "landlock": "netns", "userns,landlock": "none"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			h.write("home/c.toml", oneCheck("[[check]]\nname='a'\ncmd='true'\n"))
			ctx, stop := context.WithTimeout(context.Background(), 2*patience)
			defer stop()
			cmd := exec.CommandContext(ctx, self)
			cmd.Args = []string{bareName, without, filepath.Join(bin(t), "harness"), "contract", "run", "c.toml", "--json"}
			cmd.Env, cmd.Dir = h.environ(), h.path("home")
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			var d delegated
			if err != nil || json.Unmarshal(out, &d) != nil {
				t.Fatalf("%v: %s%s", err, out, stderr.String())
			}
			if d.Verdict.Sandbox != want || d.Verdict.Outcome != "pass" {
				t.Errorf("%+v", d.Verdict)
			}
			if warned := strings.Contains(stderr.String(), "less than the whole sandbox"); warned != (without != "nothing") {
				t.Errorf("warned %v: %s", warned, stderr.String())
			}
		})
	}
}
