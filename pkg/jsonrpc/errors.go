package jsonrpc

import (
	"errors"
	"fmt"
)

// What can be wrong with a line. Of these, only [ErrSyntax] means that the
// line is no JSON; the others are JSON but no message.
var (
	// ErrSyntax matches every [*SyntaxError].
	ErrSyntax = errors.New("invalid JSON")
	// ErrEmpty is a line with nothing but white space in it.
	ErrEmpty = errors.New("empty line")
	// ErrBatch is a line that holds an array: JSON-RPC batches are no part of
	// any MCP revision served.
	ErrBatch = errors.New("a batch is not supported")
	// ErrNotObject is a line that holds a string, a number or a literal.
	ErrNotObject = errors.New("message is not an object")
	// ErrDuplicate is an object with two members of one name where the name is
	// one of [Message]: two readers could understand two different things.
	ErrDuplicate = errors.New("duplicate key")
)

// SyntaxError says where a line stops being JSON, or UTF-8. It matches
// [ErrSyntax].
type SyntaxError struct {
	Offset int    // of the first byte that does not fit
	Reason string // what was wrong with it, a constant
}

// Error returns "invalid JSON at byte 7: reason".
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%v at byte %d: %s", ErrSyntax, e.Offset, e.Reason)
}

// Is reports whether target is [ErrSyntax].
func (e *SyntaxError) Is(target error) bool { return target == ErrSyntax }

// TooLong is a line that was longer than a [Reader] allows. It was read to its
// end and dropped; what is here was seen on the way, wherever it stood.
type TooLong struct {
	ID       []byte // raw; nil when there is none, or none shorter than 1 KiB
	Method   []byte // raw, quotes included; nil as for ID
	Response bool   // there was a result or an error
}

// Error says that the line was too long.
func (e *TooLong) Error() string { return "message is longer than allowed" }
