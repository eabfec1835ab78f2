package handover

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
)

// ErrTakenBack says that the bridge has the session again.
var ErrTakenBack = errors.New("the bridge took the session back")

// Session is the daemon's side of a session that was handed over. Input belongs
// to one goroutine; methods about output and requests are called under one lock
// of the caller's.
type Session struct {
	*Intake
	mem *Memory
	out *Outlet

	slots *slots
	// What was committed and not published.
	answers []answer
	shown   [Lists]uint64 // 0 for what was not listed
	begun   bool          // what came with the session is being sent

	closing sync.Once
}

// Begin makes a session of what was received, which came with given bytes of
// input and output, and owns it. fail is told once why the agent cannot be
// written to; it must not block.
func (r *Received) Begin(input, output int64, b Bounds, fail func(error)) (*Session, error) {
	const most = 1 << 36
	if input < 0 || output < 0 || input > most || output > most {
		return nil, ErrMemory
	}
	in, err := newIntake(r.In, r.Memory, input, b.Line)
	if err != nil {
		return nil, err
	}
	out, err := newOutlet(r.Out, r.Memory, output, b, fail)
	if err != nil {
		return nil, err
	}
	if !r.Memory.table.claim(ownerDaemon) {
		return nil, ErrTakenBack
	}
	return &Session{Intake: in, mem: r.Memory, out: out, slots: newSlots(r.Memory.table)}, nil
}

// Ask notes a request that is read and not consumed, rest bytes before the end
// of what was read. The line of one that sets up the session is kept.
func (s *Session) Ask(id []byte, v Verb, line []byte, rest int) error {
	if err := s.slots.check(id); err != nil {
		return err
	}
	return guarded(func() error {
		var r int64
		if v.sets() {
			var err error
			if r, err = s.keep(v, line); err != nil {
				return err
			}
		}
		return s.slots.add(id, v, s.end(rest), r)
	})
}

// keep writes the line of a request that sets up the session, and returns where.
func (s *Session) keep(v Verb, line []byte) (int64, error) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	at := s.slots.end
	end := after(at, len(line))
	switch {
	case s.out.err != nil:
		return 0, s.out.err
	case end > setupAt+setupLen:
		return 0, ErrFull
	case v == Greet:
		s.mem.table.set(wordState, 0)
	}
	head := binary.NativeEndian.AppendUint64(make([]byte, 0, setupHead+len(line)), mark(v, len(line)))
	if err := s.mem.write(append(head[:setupHead], line...), at); err != nil {
		return 0, err
	}
	s.slots.end = end
	s.mem.table.set(wordSetup, end)
	return at, nil
}

// settle notes that the line of a request whose answer was published set up the
// session.
func (s *Session) settle(a answer) error {
	at, ok := s.slots.refs[a.slot]
	if !ok || a.vain {
		return nil
	}
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	if s.out.err != nil {
		return nil // what the slot says is enough
	}
	return s.mem.write(binary.NativeEndian.AppendUint64(nil, uint64(s.out.published)), at+setupDone)
}

// Initialized notes that the agent said so.
func (s *Session) Initialized() { s.mem.table.set(wordState, stateInitialized) }

// Answered says that the line which ends at end of the batch is the answer to
// the request with that id, and reports whether there is one. With settled, a
// request that sets up the session did so.
func (s *Session) Answered(id []byte, end int, settled bool) (asked bool) {
	slot, ok := s.slots.answered(id)
	if !ok {
		return false
	}
	s.answers = append(s.answers, answer{slot, end, !settled})
	return true
}

// Forget takes a request off the list that will have no answer.
func (s *Session) Forget(id []byte) {
	if slot, ok := s.slots.answered(id); ok {
		s.slots.free(slot)
	}
}

// Listed says that a list is in the batch, and what identifies it.
func (s *Session) Listed(list int, sum uint64) { s.shown[list] = sum }

// Publish makes a batch of whole lines a part of the output.
func (s *Session) Publish(batch []byte) error {
	if len(batch) == 0 && s.begun {
		return nil
	}
	s.begun = true
	return guarded(func() error {
		if err := s.out.publish(batch, s.answers, s.slots, &s.shown); err != nil {
			return err
		}
		s.shown = [Lists]uint64{}
		for _, a := range s.answers {
			if err := s.settle(a); err != nil {
				return err
			}
			s.slots.free(a.slot)
		}
		s.answers = s.answers[:0]
		return nil
	})
}

// Gone reports whether nobody will read what is sent.
func (s *Session) Gone() bool { return s.out.gone() }

// Drain waits until what was published is sent, or ctx ends.
func (s *Session) Drain(ctx context.Context) { s.out.wait(ctx) }

// Close lets go of the agent's descriptors and of the memory: when it returns
// they are not touched any more. over says that the agent has ended its input,
// and waits for nothing.
func (s *Session) Close(over bool) {
	s.closing.Do(func() {
		s.Intake.Close()
		s.out.close()
		if over {
			_ = guarded(func() error {
				s.mem.table.word(8 * wordState).Or(stateOver)
				return nil
			})
		}
		s.mem.Close()
	})
}
