package baseline

import (
	"bytes"
	"io"
	"strconv"
)

// Intake cuts a stream into lines of any length.
type Intake struct {
	src      io.Reader
	buf      []byte
	from, to int // the part of buf that was read and not handed out
}

// NewIntake returns one over src that reads up to size bytes at once.
func NewIntake(src io.Reader, size int) *Intake { return &Intake{src: src, buf: make([]byte, size)} }

// Next returns the next line with its newline, valid until the call after.
func (in *Intake) Next() ([]byte, error) {
	for looked := 0; ; {
		if at := bytes.IndexByte(in.buf[in.from+looked:in.to], '\n'); at >= 0 {
			line := in.buf[in.from : in.from+looked+at+1]
			in.from += len(line)
			return line, nil
		}
		looked = in.to - in.from
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
}

// Ready reports whether Next would return a line without reading.
func (in *Intake) Ready() bool { return bytes.IndexByte(in.buf[in.from:in.to], '\n') >= 0 }

// fill reads once, after making room for it.
func (in *Intake) fill() error {
	switch {
	case in.from == in.to:
		in.from, in.to = 0, 0
	case in.to == len(in.buf) && in.from > 0:
		in.to = copy(in.buf, in.buf[in.from:in.to])
		in.from = 0
	case in.to == len(in.buf):
		in.buf = append(in.buf, make([]byte, len(in.buf))...)
	}
	n, err := in.src.Read(in.buf[in.to:])
	in.to += n
	if n > 0 {
		return nil
	}
	return err
}

// idWithin is how far into a line its id begins at the latest: every process
// that is measured writes jsonrpc and id first, and a line that does not is an
// error of the run.
const idWithin = 64

// IDOf finds the raw id of a line. A notification has none.
func IDOf(line []byte) (from, to int, ok bool) {
	at := bytes.Index(line[:min(len(line), idWithin)], []byte(`"id":`))
	if at < 0 {
		return 0, 0, false
	}
	from = at + len(`"id":`)
	size := bytes.IndexAny(line[from:], ",}")
	return from, from + size, size > 0
}

// withID appends line to dst, with the id between from and to replaced.
func withID(dst, line []byte, from, to int, id []byte) []byte {
	dst = append(dst, line[:from]...)
	dst = append(dst, id...)
	return append(dst, line[to:]...)
}

// Number reads an id that is an integer.
func Number(raw []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}
