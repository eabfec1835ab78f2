package prefault

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// present counts which of the pages from an address on are mapped.
func present(t *testing.T, from uintptr, pages int) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries := make([]byte, 8*pages)
	if _, err := f.ReadAt(entries, int64(from)/int64(unix.Getpagesize())*8); err != nil {
		t.Fatal(err)
	}
	for e := range pages {
		n += int(binary.NativeEndian.Uint64(entries[8*e:]) >> 63)
	}
	return n
}

// old reports whether the kernel is from before Linux 5.14.
func old(page []byte) bool { return errors.Is(unix.Madvise(page, populateWrite), unix.EINVAL) }

func TestPopulate_MapsWhatIsThereAndNoMore(t *testing.T) {
	const pages = 32
	page := unix.Getpagesize()
	memory, err := unix.Mmap(-1, 0, 2*pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Mprotect(memory[pages*page:], unix.PROT_NONE); err != nil { // as the heap that is yet to come
		t.Fatal(err)
	}
	at := uintptr(unsafe.Pointer(&memory[0]))
	if n := present(t, at, 2*pages); n != 0 {
		t.Fatalf("%d pages before", n)
	}
	populate(at+1, uintptr(2*pages*page), populateWrite)
	if n := present(t, at, 2*pages); n != pages && !old(memory[:page]) {
		t.Errorf("%d pages of %d", n, pages)
	}
}

// The text of the runtime is there from the start, whether it was run or not.
func TestInit_MapsText(t *testing.T) {
	const pages = 128
	collect := runtime.GC
	if n := present(t, **(**uintptr)(unsafe.Pointer(&collect)), pages); n != pages && !old(next()) {
		t.Errorf("%d pages of %d", n, pages)
	}
}
