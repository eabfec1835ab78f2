package proc

import (
	"bufio"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// leaveNetwork puts a child into namespaces of its own. Users and groups keep
// their numbers: root may have all that it has here, anybody else itself alone,
// which is what the kernel allows without privileges.
func leaveNetwork(sys *syscall.SysProcAttr) {
	sys.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNET
	sys.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	if os.Geteuid() != 0 {
		return
	}
	uids, gids := sameNumbers("/proc/self/uid_map"), sameNumbers("/proc/self/gid_map")
	if len(uids) > 0 && len(gids) > 0 {
		sys.UidMappings, sys.GidMappings, sys.GidMappingsEnableSetgroups = uids, gids, true
	}
}

// sameNumbers maps all that is mapped here onto itself.
func sameNumbers(path string) []syscall.SysProcIDMap {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var all []syscall.SysProcIDMap
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var here, outside, size int
		if _, err := fmt.Sscan(lines.Text(), &here, &outside, &size); err != nil {
			return nil
		}
		all = append(all, syscall.SysProcIDMap{ContainerID: here, HostID: here, Size: size})
	}
	return all
}
