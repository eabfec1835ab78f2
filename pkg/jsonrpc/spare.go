package jsonrpc

import "weak"

// keep is how large a buffer may be to be kept for good once it is empty.
// Larger ones are kept as a [spare].
const keep = 16 << 10

// spare is a large buffer that may be used again until the collector takes it.
// The zero spare has none.
type spare struct{ held weak.Pointer[[]byte] }

// put keeps b, whose content is of no use any more.
func (s *spare) put(b []byte) {
	b = b[:cap(b)]
	s.held = weak.Make(&b)
}

// take returns a buffer of at least n bytes: the one kept, if it is that
// large, or a new one.
func (s *spare) take(n int) []byte {
	held := s.held.Value()
	s.held = weak.Pointer[[]byte]{}
	if held != nil && len(*held) >= n {
		return *held
	}
	return make([]byte, n)
}
