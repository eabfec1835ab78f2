package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"math"
)

// minBuffer is the least a Reader starts with.
const minBuffer = 512

// maxEmptyReads is how often a source may return nothing at all.
const maxEmptyReads = 100

// Reader splits a stream into lines. Its buffer has the size it was made with,
// doubles for a line that does not fit, and is given up to the collector once
// that line has been used. A Reader is for one goroutine.
type Reader struct {
	src  io.Reader
	size int
	max  int64

	buf        []byte
	start, end int   // what is read and not yet returned: buf[start:end]
	scanned    int   // no newline in buf[start:scanned], except at newline
	newline    int   // where the next newline is, or -1
	torn       bool  // the line returned last had no newline
	err        error // of the source; returned behind what came before it

	small []byte // the buffer of the first size, while a larger one is in use
	spare Spare
}

// NewReader returns a Reader with a buffer of size bytes. Lines of more than
// limit bytes are not returned; no limit when limit is 0 or less.
func NewReader(r io.Reader, size int, limit int64) *Reader {
	size = max(size, minBuffer)
	return &Reader{src: r, size: size, max: limit, buf: make([]byte, size), newline: -1}
}

// Next returns the next line without its newline, and without a carriage
// return before it. It is valid until the next call. A last line that has no
// newline is returned like any other.
//
// The error is a [*TooLong] for a line over the limit, after which reading
// goes on with the line behind it; otherwise it is the source's, and final.
func (r *Reader) Next() ([]byte, error) {
	for !r.More() {
		waiting := r.end - r.start
		switch {
		case r.over(waiting - len("\r")):
			return nil, r.discard()
		case r.err == nil:
			r.fill()
		case waiting > 0 && errors.Is(r.err, io.EOF):
			return r.take(r.end, r.end)
		default:
			return nil, r.err
		}
	}
	return r.take(r.newline, r.newline+1)
}

// Torn reports whether the line that Next returned last had no newline: it is the
// last one, and may be the beginning of one that was never written to its end.
func (r *Reader) Torn() bool { return r.torn }

// More reports whether Next would return without reading from the source. When
// it says no, it is time to flush what the lines so far led to.
func (r *Reader) More() bool {
	if r.newline >= 0 {
		return true
	}
	n := bytes.IndexByte(r.buf[r.scanned:r.end], '\n')
	if n < 0 {
		r.scanned = r.end
		return false
	}
	r.newline = r.scanned + n
	return true
}

// Rest returns what was read and not returned, valid until the next call of
// Next. Behind the last line that was returned, it begins with the next one.
func (r *Reader) Rest() []byte { return r.buf[r.start:r.end:r.end] }

// over reports whether n bytes are too many for one line.
func (r *Reader) over(n int) bool { return r.max > 0 && int64(n) > r.max }

// take returns the line that ends at end and goes on at next.
func (r *Reader) take(end, next int) ([]byte, error) {
	line := r.buf[r.start:end:end]
	r.torn = end == next
	r.skipTo(next)
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if r.over(len(line)) {
		var t tracer
		t.feed(line)
		return nil, t.found()
	}
	return line, nil
}

// skipTo makes what starts at i the next line.
func (r *Reader) skipTo(i int) { r.start, r.scanned, r.newline = i, i, -1 }

// fill reads until there is something, or no more to come. There is no newline
// in what is buffered.
func (r *Reader) fill() {
	r.makeRoom()
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if r.err = err; n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// makeRoom leaves at least a quarter of the buffer to read into, moving what
// is buffered to the front of this buffer, or of a larger or smaller one.
func (r *Reader) makeRoom() {
	waiting := r.end - r.start
	quarter := len(r.buf) / 4
	switch {
	case r.small != nil && waiting <= r.size/2:
		r.spare.Put(r.buf)
		r.move(r.small)
		r.small = nil
	case len(r.buf)-waiting < quarter && len(r.buf) < r.most():
		larger := r.spare.Take(min(2*len(r.buf), r.most()))
		if r.small == nil {
			r.small = r.buf
		}
		r.move(larger)
	case len(r.buf)-r.end < quarter || waiting == 0:
		r.move(r.buf)
	}
}

// most is how large the buffer may become: a whole line and one read more.
func (r *Reader) most() int {
	if r.max <= 0 {
		return math.MaxInt
	}
	return int(r.max) + r.size
}

// move makes to the buffer.
func (r *Reader) move(to []byte) {
	r.end = copy(to, r.buf[r.start:r.end])
	r.scanned -= r.start
	r.start = 0
	r.buf = to
}

// discard reads the rest of a line that is too long and keeps of it only what
// a [TooLong] tells.
func (r *Reader) discard() error {
	var t tracer
	for r.err == nil && !r.More() {
		t.feed(r.buf[r.start:r.end])
		r.skipTo(r.end)
		r.fill()
	}
	if r.More() {
		t.feed(r.buf[r.start:r.newline])
		r.skipTo(r.newline + 1)
		return t.found()
	}
	t.feed(r.buf[r.start:r.end])
	r.skipTo(r.end)
	return t.found()
}
