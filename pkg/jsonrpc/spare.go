package jsonrpc

import "weak"

// keep is how large a buffer may be to be kept for good once it is empty.
// Larger ones are kept as a [Spare].
const keep = 16 << 10

// Spare is a large buffer that may be used again until the collector takes it.
// The zero Spare has none.
type Spare struct{ held weak.Pointer[[]byte] }

// Put keeps b, whose content is of no use any more.
func (s *Spare) Put(b []byte) {
	b = b[:cap(b)]
	s.held = weak.Make(&b)
}

// Take returns a buffer of at least n bytes: the one kept, if it is that
// large, or a new one.
func (s *Spare) Take(n int) []byte {
	held := s.held.Value()
	s.held = weak.Pointer[[]byte]{}
	if held != nil && len(*held) >= n {
		return *held
	}
	return make([]byte, n)
}
