package handover

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// State is what a session was when the daemon let go of it.
type State struct {
	// Input is what the agent sent and nobody acted on, the half of a line at
	// its end included.
	Input []byte
	// Output is what the agent is still to be sent.
	Output io.Reader
	// Requests have no answer, and may have had their effect. They are in the
	// order they were asked.
	Requests    []Request
	Initialized bool // the agent said so
	// Over is set if the agent had ended its input, and waits for nothing.
	Over bool
	// SetUp are the requests that set up the session since it was handed over, in
	// the order they were answered.
	SetUp []Request
	Shown [Lists]uint64 // as [Setup] has it
}

// Request is one request without an answer.
type Request struct {
	ID   []byte // raw
	Verb Verb
	Line []byte // of those that set up the session
	at   int64  // end of the line in the input; of one that has an answer, of that in the output
	ref  int64  // where the line is kept
}

// ErrMemory says that the memory holds what nobody can have left there.
var ErrMemory = errors.New("the shared memory of a session makes no sense")

// head is the head of the memory of a daemon that is gone.
type head [words]int64

// Recover reads the memory of a session that nobody touches any more.
func Recover(mem io.ReaderAt) (*State, error) {
	var raw [8 * words]byte
	if _, err := mem.ReadAt(raw[:], 0); err != nil {
		return nil, fmt.Errorf("read the head of a session: %w", err)
	}
	var h head
	for i := range h {
		h[i] = int64(binary.NativeEndian.Uint64(raw[8*i:]))
	}
	if !h.valid() {
		return nil, ErrMemory
	}
	s := &State{
		Output:      io.NewSectionReader(mem, h[wordSent], h[wordPublished]-h[wordSent]),
		Initialized: h[wordState]&stateInitialized != 0,
		Over:        h[wordState]&stateOver != 0,
	}
	for i := range s.Shown {
		s.Shown[i] = h.shown(i)
	}
	var err error
	if s.Input, err = h.input(mem); err != nil {
		return nil, err
	}
	kept, err := h.kept(mem)
	if err != nil {
		return nil, err
	}
	return s, s.requests(mem, &h, kept)
}

// valid checks that all positions are where they can be.
func (h *head) valid() bool {
	in := func(at ...int64) bool { return slices.IsSorted(at) }
	return h[wordVersion] == version &&
		in(outputAt, h[wordSent], h[wordPublished], size) &&
		in(inputAt, h[wordConsumed], h[wordRead], h[wordReserved], outputAt) &&
		in(setupAt, max(h[wordSetup], setupAt), setupAt+setupLen) &&
		in(0, h[wordSmall], smallSlots) && in(0, h[wordLarge], largeSlots) &&
		(h[wordCutTo] <= h[wordConsumed] || in(h[wordConsumed], h[wordCutFrom], h[wordCutTo], h[wordRead]))
}

// shown returns what identifies the last list that was shown.
func (h *head) shown(list int) uint64 {
	if from := h[wordFrom+list]; from != 0 && from <= h[wordPublished] {
		return uint64(h[wordNext+list])
	}
	return uint64(h[wordShown+list])
}

// input returns what was not consumed, and what was read and not counted: that
// is not zero.
func (h *head) input(mem io.ReaderAt) ([]byte, error) {
	from, to := h[wordConsumed], h[wordRead]
	kept := to
	if h[wordCutTo] > from {
		kept, from = h[wordCutFrom], h[wordCutTo]
	} else {
		from = to
	}
	input := make([]byte, kept-h[wordConsumed]+h[wordReserved]-from)
	cut := kept - h[wordConsumed]
	if err := readFull(mem, input[:cut], h[wordConsumed]); err != nil {
		return nil, err
	}
	if err := readFull(mem, input[cut:], from); err != nil {
		return nil, err
	}
	n := len(input)
	for counted := int(cut + to - from); n > counted && input[n-1] == 0; {
		n--
	}
	return input[:n:n], nil
}

// kept reads the lines of requests that set up the session, or were to.
func (h *head) kept(mem io.ReaderAt) (all []Request, err error) {
	var raw [setupHead]byte
	for at := int64(setupAt); at < h[wordSetup]; {
		if err := readFull(mem, raw[:], at); err != nil {
			return nil, err
		}
		v, length, used := unmark(binary.NativeEndian.Uint64(raw[:]))
		if !used || !v.known() || after(at, length) > h[wordSetup] {
			return nil, ErrMemory
		}
		r := Request{Verb: v, Line: make([]byte, length), at: int64(binary.NativeEndian.Uint64(raw[setupDone:])), ref: at}
		if err := readFull(mem, r.Line, at+setupHead); err != nil {
			return nil, err
		}
		all = append(all, r)
		at = after(at, length)
	}
	return all, nil
}

// requests reads the slots in use. One whose line will be read again is none;
// one whose answer was published has one, and may have set up the session.
func (s *State) requests(mem io.ReaderAt, h *head, kept []Request) error {
	buf := make([]byte, largeSlot)
	for n := -int(h[wordLarge]); n < int(h[wordSmall]); n++ {
		at, room := slot(n)
		b := buf[:slotHead+room]
		if err := readFull(mem, b, int64(at)); err != nil {
			return err
		}
		field := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[i:])) }
		v, length, used := unmark(uint64(field(0)))
		if !used || field(slotAt) > h[wordConsumed] {
			continue
		}
		if length > room || !v.known() {
			return ErrMemory
		}
		own := slices.IndexFunc(kept, func(k Request) bool { return k.ref == field(slotRef) })
		if done := field(slotDone) &^ slotVain; done != 0 && done <= h[wordPublished] {
			if own >= 0 && kept[own].at == 0 && field(slotDone)&slotVain == 0 {
				kept[own].at = done
			}
			continue
		}
		r := Request{ID: slices.Clone(b[slotHead : slotHead+length]), Verb: v, at: field(slotAt)}
		if own >= 0 {
			r.Line = kept[own].Line
		}
		s.Requests = append(s.Requests, r)
	}
	s.SetUp = slices.DeleteFunc(kept, func(k Request) bool { return k.at == 0 })
	for _, all := range [][]Request{s.Requests, s.SetUp} {
		slices.SortStableFunc(all, func(a, b Request) int { return cmp.Compare(a.at, b.at) })
	}
	return nil
}

func readFull(mem io.ReaderAt, b []byte, at int64) error {
	if _, err := mem.ReadAt(b, at); err != nil && len(b) > 0 {
		return fmt.Errorf("read the memory of a session: %w", err)
	}
	return nil
}
