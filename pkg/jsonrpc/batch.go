package jsonrpc

import "slices"

// Batch gathers what one reader has for several writers, so that each of them
// is written to once for all the lines that came in together. The zero Batch
// is empty and ready. It is for one goroutine.
type Batch struct {
	parts []*part // in use
	free  []*part
}

// part is what one Writer gets.
type part struct {
	w     *Writer
	lines []byte
	large Spare // when lines has grown beyond what is kept for good
}

// Append returns the bytes that w will get. The caller appends whole lines to
// them, newlines included; the pointer is valid until Flush.
func (b *Batch) Append(w *Writer) *[]byte {
	for _, p := range b.parts {
		if p.w == w {
			return &p.lines
		}
	}
	p := b.part()
	p.w = w
	b.parts = append(b.parts, p)
	return &p.lines
}

// part returns a part that nobody uses.
func (b *Batch) part() *part {
	n := len(b.free)
	if n == 0 {
		return &part{}
	}
	p := b.free[n-1]
	b.free = b.free[:n-1]
	if p.lines == nil {
		p.lines = p.large.Take(0)[:0]
	}
	return p
}

// Flush hands every writer its lines and empties the Batch. It never blocks.
// What a writer refuses goes to its [WriterOptions.OnRefuse].
func (b *Batch) Flush() {
	for _, p := range b.parts {
		p.flush()
	}
	b.free = append(b.free, b.parts...)
	b.parts = slices.Delete(b.parts, 0, len(b.parts))
}

// flush hands over one part and forgets its writer.
func (p *part) flush() {
	w := p.w
	p.w = nil
	if len(p.lines) == 0 {
		return
	}
	lines, err := w.send(p.lines, true)
	if err != nil && w.opt.OnRefuse != nil {
		w.opt.OnRefuse(lines, err)
	}
	p.lines = lines[:0]
	if cap(lines) > keep {
		p.large.Put(lines)
		p.lines = nil
	}
}
