package bridge

import (
	"io"
	"net"
	"slices"

	"harness/pkg/jsonrpc"
	"harness/pkg/wire"
)

// batch is what the agent's side gathered for the daemon between two pauses of
// its input.
type batch struct {
	buf  []byte // whole lines
	last []byte // one more line, without its newline, too large to be copied
	// lines says what buf and last hold.
	lines       []batched
	answers     [][]byte        // to lines that are not sent
	initialized bool            // one of the lines was notifications/initialized
	seen        jsonrpc.Message // the line being looked at; here, it is not allocated for each
}

// batched is one line of a batch.
type batched struct {
	start, end int      // where it is in the bytes sent, newline included
	request    *request // nil for what has no answer
}

// keep is the largest buffer kept between two pauses, in bytes.
const keep = 64 << 10

// add adds one line. A large one is not copied: it is the last of its batch,
// and valid as long as the agent's next line is not read.
func (b *batch) add(line []byte, r *request) {
	if len(line) < large {
		b.copy(line, r)
		return
	}
	b.last = line
	b.note(line, r)
}

// copy adds one line of any length.
func (b *batch) copy(line []byte, r *request) {
	b.note(line, r)
	b.buf = append(append(b.buf, line...), '\n')
}

func (b *batch) note(line []byte, r *request) {
	start := len(b.buf)
	b.lines = append(b.lines, batched{start, start + len(line) + 1, r})
}

// refuse answers a line with an error of the protocol's own instead of sending
// it.
func (b *batch) refuse(id []byte, number int, message string) {
	b.answers = append(b.answers, wire.AppendPlainError(nil, id, number, message))
}

// full reports whether nothing more may be added.
func (b *batch) full() bool { return b.last != nil || len(b.buf) >= large }

// line returns the bytes of one line, without the newline.
func (b *batch) line(at batched) []byte {
	if at.start == len(b.buf) {
		return b.last
	}
	return b.buf[at.start : at.end-1]
}

// WriteTo writes all lines with one call where w can, and returns how many
// bytes were taken.
func (b *batch) WriteTo(w io.Writer) (int64, error) {
	if b.last == nil {
		n, err := w.Write(b.buf)
		return int64(n), err
	}
	pieces := net.Buffers{b.last, []byte("\n")}
	if len(b.buf) > 0 {
		pieces = slices.Insert(pieces, 0, b.buf)
	}
	return pieces.WriteTo(w)
}

// sent notes that the daemon has the requests, or may have.
func (b *batch) sent() {
	for _, at := range b.lines {
		if at.request != nil {
			at.request.sent()
		}
	}
}

func (b *batch) reset() {
	if cap(b.buf) > keep {
		b.buf = nil
	}
	clear(b.lines)
	*b = batch{buf: b.buf[:0], lines: b.lines[:0]}
}

// released returns the batch of a queue that was released. What the agent said
// right behind its initialize had no place in the queue.
func released(queue []*request, initialized bool) *batch {
	var b batch
	for _, r := range queue {
		b.copy(r.line, r)
		if r.verb == greet && initialized {
			b.copy(wire.AppendNotification(nil, "notifications/initialized"), nil)
		}
	}
	return &b
}
