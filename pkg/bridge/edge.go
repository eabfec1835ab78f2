package bridge

import (
	"bytes"
	"io"
	"sync"

	"harness/pkg/jsonrpc"
)

// edge is the agent's side of a session: the lines it sends and the lines it
// reads. Input belongs to one goroutine; output methods may be called by many.
// Behind it are the agent's two pipes or sockets, which may be handed over and
// come back.
type edge interface {
	// Next returns the next line without its newline, valid until the call
	// after. A line over the limit is *jsonrpc.TooLong, and reading goes on.
	Next() ([]byte, error)
	// More reports whether Next would return without waiting.
	More() bool
	// Consume says that everything returned by Next so far was acted on.
	Consume()
	// Append adds one line, given without its newline, to what Flush sends. It
	// keeps nothing of line.
	Append(line []byte)
	// Flush sends what was appended. The error is final: nobody reads.
	Flush() error
	// Rest returns what was read and not returned, once Next has failed; Begin
	// makes Next go on, with it first.
	Rest() []byte
	Begin(rest []byte)
	// Hold keeps everybody from writing until it is let go, and reports false
	// where somebody is at it.
	Hold() bool
	// LetGo writes what comes first now, and ends Hold.
	LetGo(first io.Reader) error
}

const (
	// bufferSize is what each direction reads at once when nothing large
	// passes.
	bufferSize = 16 << 10
	// large is the length from which a line is written from where it lies.
	large = 32 << 10
)

// stdio is the edge that copies.
type stdio struct {
	src   io.Reader
	limit int64
	in    *jsonrpc.Reader

	mu  sync.Mutex
	out io.Writer
	buf []byte
	err error // of the first write that failed
}

var _ edge = (*stdio)(nil)

func newStdio(in io.Reader, out io.Writer, limit int64) *stdio {
	e := &stdio{src: in, limit: limit, out: out}
	e.in = jsonrpc.NewReader(in, bufferSize, limit)
	return e
}

// Next implements edge.
func (e *stdio) Next() ([]byte, error) { return e.in.Next() }

// More implements edge.
func (e *stdio) More() bool { return e.in.More() }

// Consume implements edge; a pipe has nothing to acknowledge.
func (e *stdio) Consume() {}

// Rest implements edge. The buffer that it was in is not kept.
func (e *stdio) Rest() []byte {
	rest := bytes.Clone(e.in.Rest())
	e.in = nil
	return rest
}

// Begin implements edge.
func (e *stdio) Begin(rest []byte) {
	src := e.src
	if len(rest) > 0 {
		src = io.MultiReader(bytes.NewReader(rest), src)
	}
	e.in = jsonrpc.NewReader(src, bufferSize, e.limit)
}

// Hold implements edge.
func (e *stdio) Hold() bool { return e.mu.TryLock() }

// LetGo implements edge.
func (e *stdio) LetGo(first io.Reader) error {
	defer e.mu.Unlock()
	if e.err == nil {
		_, e.err = io.Copy(e.out, first)
	}
	return e.err
}

// Append implements edge. Of a large line only the end is copied, so that the
// newline needs no write of its own.
func (e *stdio) Append(line []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(line) >= large {
		cut := len(line) - large/8
		e.flush()
		e.write(line[:cut])
		line = line[cut:]
	}
	e.buf = append(append(e.buf, line...), '\n')
	if len(e.buf) >= large {
		e.flush()
	}
}

// Flush implements edge.
func (e *stdio) Flush() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	return e.err
}

func (e *stdio) flush() {
	e.write(e.buf)
	e.buf = e.buf[:0]
}

func (e *stdio) write(b []byte) {
	if e.err == nil && len(b) > 0 {
		_, e.err = e.out.Write(b)
	}
}
