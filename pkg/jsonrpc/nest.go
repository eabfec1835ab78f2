package jsonrpc

// maxDepth is how deep values may nest, the limit of encoding/json.
const maxDepth = 10000

// nest remembers which brackets are open, a bit each, so that neither depth
// nor an allocation is spent on what a stranger sends: the first 64 levels are
// one word, deeper ones go to a slice of at most maxDepth/64 words.
type nest struct {
	word    uint64 // lowest bit: the innermost bracket, 1 for an array
	depth   int
	spilled []uint64
}

// push opens an array ('[') or an object ('{').
func (n *nest) push(bracket byte) {
	if n.depth&63 == 0 && n.depth > 0 {
		n.spilled = append(n.spilled, n.word)
	}
	n.depth++
	n.word <<= 1
	if bracket == '[' {
		n.word |= 1
	}
}

// pop closes the innermost bracket.
func (n *nest) pop() {
	n.depth--
	n.word >>= 1
	if n.depth&63 == 0 && n.depth > 0 {
		last := len(n.spilled) - 1
		n.word = n.spilled[last]
		n.spilled = n.spilled[:last]
	}
}

// inArray reports whether the innermost bracket is an array's.
func (n *nest) inArray() bool { return n.word&1 == 1 }

// closes reports whether bracket is the one that closes the innermost.
func (n *nest) closes(bracket byte) bool { return (bracket == ']') == n.inArray() }
