//go:build !linux

package prefault

// Heap does nothing here.
func Heap(uintptr) {}
