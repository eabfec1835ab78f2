package jsonrpc

import "iter"

// Pending is the table of the calls one upstream has in flight, by the number
// it knows them by. Numbers start at 1, grow, and are never used twice, so an
// answer that comes too late finds nothing. The zero Pending is empty and
// ready. It has no lock of its own.
type Pending struct {
	// The call with number n is at n modulo len(slots), a power of two. Add
	// passes over numbers whose slot a slow call still has, so no two calls
	// ever share one.
	slots []slot
	last  uint64
	count int
}

type slot struct {
	n    uint64
	call *Call
}

// at returns the slot for n.
func (p *Pending) at(n uint64) *slot { return &p.slots[n&uint64(len(p.slots)-1)] }

// Add puts c into the table and returns its number.
func (p *Pending) Add(c *Call) uint64 {
	if 2*p.count >= len(p.slots) {
		p.grow()
	}
	p.last++
	for p.at(p.last).call != nil {
		p.last++
	}
	*p.at(p.last) = slot{p.last, c}
	p.count++
	return p.last
}

// grow doubles the table. What had a slot of its own still has.
func (p *Pending) grow() {
	old := p.slots
	p.slots = make([]slot, max(16, 2*len(old)))
	for _, s := range old {
		if s.call != nil {
			*p.at(s.n) = s
		}
	}
}

// Get returns the call with number n, or nil.
func (p *Pending) Get(n uint64) *Call {
	if p.count == 0 || p.at(n).n != n {
		return nil
	}
	return p.at(n).call
}

// Take removes the call with number n and returns it, or nil.
func (p *Pending) Take(n uint64) *Call {
	c := p.Get(n)
	if c != nil {
		*p.at(n) = slot{}
		p.count--
	}
	return c
}

// Len returns how many calls are in flight.
func (p *Pending) Len() int { return p.count }

// All yields the calls in flight with their numbers, in no order. The one just
// yielded may be taken.
func (p *Pending) All() iter.Seq2[uint64, *Call] {
	return func(yield func(uint64, *Call) bool) {
		for _, s := range p.slots {
			if s.call != nil && !yield(s.n, s.call) {
				return
			}
		}
	}
}
