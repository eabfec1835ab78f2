package prefault

import (
	"runtime"
	"syscall"
	"unsafe"
)

// What an init function may take for granted of every command: so much text from
// the runtime on is run by the start of any, so much of the heap is used by it.
const (
	textSize = 8 << 20
	heapSize = 1 << 20
)

// Of madvise; package syscall is older.
const (
	populateRead  = 22
	populateWrite = 23
)

// span is what the runtime takes from the heap at once, where nothing smaller is
// free: an object of this size lies where the next ones will.
const span = 40 << 10

func init() { //nolint:gochecknoinits // it is of use before main alone
	collect := runtime.GC // among the first of the text
	populate(**(**uintptr)(unsafe.Pointer(&collect)), textSize, populateRead)
	populate(uintptr(unsafe.Pointer(&next()[0])), heapSize, populateWrite)
}

// next is where the heap goes on. It is garbage at once.
//
//go:noinline
func next() []byte { return make([]byte, span) }

// populate maps what there is of size bytes.
func populate(from, size, how uintptr) {
	page := uintptr(syscall.Getpagesize())
	from -= from % page
	_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, from, size/page*page, how) // an error is a page that comes later
}
