package handover

import (
	"sync/atomic"
	"unsafe"
)

// Where things are in the file. Each region begins at a multiple of every page
// size there is.
const (
	smallAt  = 64 << 10
	largeAt  = smallAt + smallSlots*smallSlot
	tableLen = largeAt + largeSlots*largeSlot // of what is mapped, in bytes
	setupAt  = 1 << 40                        // lines that set up the session
	setupLen = 1 << 30                        // what they may take, in bytes
	inputAt  = 1 << 42
	outputAt = 1 << 43
	size     = 1 << 44 // of the file, nearly all of it holes

	smallSlots, smallSlot = 16 << 10, 128 // how many, and bytes of each
	largeSlots, largeSlot = 64, 4 << 10
	slotHead              = 32
	setupHead             = 16
)

// MaxID is the length that a request's id may have, in bytes.
const MaxID = largeSlot - slotHead

// Lists is how many lists an agent is told of when they change.
const Lists = 3

// The words of the head, which is at the start of the file.
const (
	wordVersion = iota
	wordOwner
	wordSent // stored by the kernel
	wordPublished
	wordRead
	wordConsumed
	wordCutFrom
	wordCutTo
	wordReserved
	wordSmall // how many slots were ever used
	wordLarge
	wordState
	wordSetup // end of the lines that set up the session
	wordShown // one for each list, as those below
	wordNext  = wordShown + Lists
	wordFrom  = wordNext + Lists // where in the output wordNext takes the place of wordShown, 0 if nowhere
	words     = wordFrom + Lists
)

// version of the layout. Whoever finds another one copies.
const version = 2

// Who may touch the agent's descriptors. It is settled once for each memory.
const (
	ownerNobody = iota
	ownerDaemon
	ownerBridge
)

// Bits of wordState.
const (
	stateInitialized = 1 << iota
	stateOver
)

// Verb is what has to be known of a request to answer for a daemon that is
// gone.
type Verb uint8

// The verbs.
const (
	Other     Verb = iota
	Call           // tools/call
	Greet          // initialize
	Level          // logging/setLevel
	Subscribe      // resources/subscribe
	Unsubscribe
)

// sets reports whether a request's line is kept, since it sets up the session.
func (v Verb) sets() bool { return v >= Greet }

// known reports whether v is one of the verbs.
func (v Verb) known() bool { return v <= Unsubscribe }

// Table is the part of the memory that is mapped: the head and the requests in
// flight.
type Table struct{ b []byte }

// word is an aligned word of the table; at is its offset in bytes.
func (t Table) word(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&t.b[at : at+8][0]))
}

func (t Table) get(word int) int64 { return int64(t.word(8 * word).Load()) }

func (t Table) set(word int, to int64) { t.word(8 * word).Store(uint64(to)) }

// list notes what identifies a list that is shown once the output up to end is
// published. Until then, the one before it is the last that was.
func (t Table) list(n int, sum uint64, end int64) {
	if t.get(wordFrom+n) != 0 {
		t.set(wordShown+n, t.get(wordNext+n))
	}
	t.set(wordFrom+n, 0)
	t.set(wordNext+n, int64(sum))
	t.set(wordFrom+n, end)
}

// claim makes owner the one who may touch the descriptors, and reports whether
// nobody was before.
func (t Table) claim(owner uint64) bool {
	return t.word(8*wordOwner).CompareAndSwap(ownerNobody, owner)
}

// A slot is four words and an id. The first word says that it is used, last of
// all: what it holds, how long the id is, and the verb.
const (
	slotUsed = 1 << 63
	slotAt   = 8       // end of the request's line in the input
	slotDone = 16      // end of its answer in the output, 0 while there is none
	slotVain = 1 << 62 // beside that: the request did not set up the session
	slotRef  = 24      // where its line is kept, 0 if it is not
)

// slot is where a slot begins. Small ones are numbered from 0, large ones from
// -1 down.
func slot(n int) (at, room int) {
	if n < 0 {
		return largeAt + (-n-1)*largeSlot, largeSlot - slotHead
	}
	return smallAt + n*smallSlot, smallSlot - slotHead
}

// mark is the first word of a slot in use.
func mark(v Verb, length int) uint64 { return slotUsed | uint64(v)<<32 | uint64(length) }

// unmark is its inverse.
func unmark(w uint64) (v Verb, length int, used bool) {
	return Verb(w >> 32 & 0xff), int(w & (1<<32 - 1)), w&slotUsed != 0
}

// A kept line is two words and the line: its mark, as a slot's, and where the
// answer ends in the output by which it set up the session, 0 before that.
const setupDone = 8

// after is where the line behind one of that length is kept.
func after(at int64, length int) int64 { return (at + setupHead + int64(length) + 7) &^ 7 }
