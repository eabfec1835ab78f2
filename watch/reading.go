package watch

import "crypto/sha256"

// kind says what was found at a path.
type kind uint8

const (
	absent    kind = iota
	regular        // the digest is the SHA-256 of the content
	large          // the digest is of the beginning, the size and the time of modification
	directory      // no digest
	special        // neither of the two: the digest holds the type
	failed         // could not be read: the digest holds the error number
)

// reading is what one read of a path found. Two readings are equal when nothing
// that counts has changed; the zero value is absent.
type reading struct {
	kind   kind
	digest [sha256.Size]byte
}

// gone reports a reading that an atomic save can show in passing.
func (r reading) gone() bool { return r.kind == absent || r.kind == failed }

// id names an item of the set.
type id struct {
	path string
	dir  bool
}

// view is what one look saw of one item. It has at least a reading of the
// item's own path; a path without one is absent.
type view struct {
	item  id
	known map[string][sha256.Size]byte // of an item that is new: what its owner has read; nil for nothing
	files []sighting
}

// sighting is one path and its reading.
type sighting struct {
	path    string
	reading reading
}
