package jsonrpc

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes at a time: each function below returns a word whose lowest set
// bit lies in the first byte of x that it looks for. Higher bits may be wrong
// (a borrow runs upwards), so only the lowest may be used.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// load returns the eight bytes of b from i on; the first is the lowest.
func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// first returns how many bytes of a word lie before the first one marked.
func first(mark uint64) int { return bits.TrailingZeros64(mark) / 8 }

// minus takes n off each byte of x: what was less gets its top bit set.
func minus(x uint64, n byte) uint64 { return x - ones*uint64(n) }

// textEnds marks quotes and backslashes.
func textEnds(x uint64) uint64 {
	return (minus(x^ones*'"', 1) | minus(x^ones*'\\', 1)) &^ x & highs
}

// textStops marks what textEnds does, and control characters.
func textStops(x uint64) uint64 {
	return (minus(x^ones*'"', 1) | minus(x^ones*'\\', 1) | minus(x, ' ')) &^ x & highs
}

// structural marks quotes, brackets and braces. Bit 5 is all that tells a
// bracket from a brace.
func structural(x uint64) uint64 {
	braced := x | ones*0x20
	return (minus(x^ones*'"', 1) | minus(braced^ones*'{', 1) | minus(braced^ones*'}', 1)) &^ x & highs
}
