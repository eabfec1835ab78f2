//go:build unix && !linux

package contract

// openat opens a path below dir without following a link in any component.
func openat(dir int, path string, flags int) (int, error) { return openStepwise(dir, path, flags) }
