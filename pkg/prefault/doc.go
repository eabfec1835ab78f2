// Package prefault has the kernel map, in one call, what a start is about to touch
// page by page. It does so by being imported, on Linux.
//
// A page that is touched first costs an exception, and an exception costs many
// times what mapping the page does: most of all on a virtual machine, where the
// start of this program spent a third of its time on them. It owns nothing, fails
// in silence and changes no behaviour: where the kernel cannot do it, the pages
// come one by one.
//
// It never reads what it maps, and never asks for more than any start uses:
// what is mapped in vain is memory.
//
// # Decisions
//
//   - The program's text is mapped by an init function, which runs before those of
//     nearly all other packages, since this one imports next to nothing. It must
//     stay so: no fmt, no os.
//   - MADV_POPULATE_READ and WRITE (Linux 5.14) rather than MAP_POPULATE or mlock:
//     they work on memory that the runtime has mapped, and lock nothing.
//   - The heap grows in pieces of 4 MiB, the first of which begins at random. What
//     lies beyond the piece in use is not mapped yet and cannot be populated. To
//     ask again later, for the daemon's start, was measured and won nothing.
package prefault
