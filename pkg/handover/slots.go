package handover

import "errors"

// Why a request cannot be noted.
var (
	ErrInFlight = errors.New("the id is that of a request still in flight")
	ErrID       = errors.New("the id is longer than this endpoint takes")
	ErrFull     = errors.New("too many requests are in flight")
)

// slots are the requests in flight as the daemon knows them. The table gets
// them too, and is never asked.
type slots struct {
	t            Table
	byID         map[string]int
	small, large spares
	refs         map[int]int64 // where the line is kept, by slot
	end          int64         // of the lines that are kept
}

// spares are the numbers of slots that are free.
type spares struct {
	free  []int
	used  int // ever
	limit int
}

func newSlots(t Table) *slots {
	return &slots{
		t: t, byID: map[string]int{}, refs: map[int]int64{}, end: setupAt,
		small: spares{limit: smallSlots}, large: spares{limit: largeSlots},
	}
}

// take returns a free slot for an id of that length, and makes the table say
// that it may be in use.
func (s *slots) take(length int) (int, error) {
	p, word := &s.small, wordSmall
	if length > smallSlot-slotHead {
		p, word = &s.large, wordLarge
	}
	if n := len(p.free); n > 0 {
		slot := p.free[n-1]
		p.free = p.free[:n-1]
		return slot, nil
	}
	if p.used == p.limit {
		return 0, ErrFull
	}
	p.used++
	s.t.set(word, int64(p.used))
	if p == &s.large {
		return -p.used, nil
	}
	return p.used - 1, nil
}

// free gives a slot back.
func (s *slots) free(n int) {
	at, _ := slot(n)
	s.t.word(at).Store(0)
	delete(s.refs, n)
	if n < 0 {
		s.large.free = append(s.large.free, n)
	} else {
		s.small.free = append(s.small.free, n)
	}
}

// check says why a request with that id cannot be noted.
func (s *slots) check(id []byte) error {
	if len(id) > MaxID {
		return ErrID
	}
	if _, taken := s.byID[string(id)]; taken {
		return ErrInFlight
	}
	return nil
}

// add notes a request whose line ends at end of the input. r refers to its line
// if that is kept.
func (s *slots) add(id []byte, v Verb, end, r int64) error {
	n, err := s.take(len(id))
	if err != nil {
		return err
	}
	at, room := slot(n)
	copy(s.t.b[at+slotHead:at+slotHead+room], id)
	s.t.word(at + slotAt).Store(uint64(end))
	s.t.word(at + slotDone).Store(0)
	s.t.word(at + slotRef).Store(uint64(r))
	s.t.word(at).Store(mark(v, len(id)))
	s.byID[string(id)] = n
	if r != 0 {
		s.refs[n] = r
	}
	return nil
}

// answered takes a request off the list and returns its slot, which stays in use
// until the answer is published.
func (s *slots) answered(id []byte) (n int, ok bool) {
	n, ok = s.byID[string(id)]
	if ok {
		delete(s.byID, string(id))
	}
	return n, ok
}

// done notes where the answer of a slot ends in the output, and whether it was in
// vain.
func (s *slots) done(n int, end int64, vain bool) {
	at, _ := slot(n)
	if vain {
		end |= slotVain
	}
	s.t.word(at + slotDone).Store(uint64(end))
}
