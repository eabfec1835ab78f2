package contract

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openat opens a path below dir without following a link in any component.
func openat(dir int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat2(dir, path, &unix.OpenHow{
			Flags:   uint64(flags),
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
		})
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN): // a rename elsewhere
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return openStepwise(dir, path, flags)
		}
		return fd, err
	}
}
