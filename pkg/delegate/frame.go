package delegate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
)

// maxMessage is how many bytes one message may have.
const maxMessage = 1 << 20

// maxHeaders bounds the header lines of one message.
const maxHeaders = 16

// A framing is how messages are told apart on a stream.
type framing int

const (
	lines   framing = iota // one message a line
	headers                // a Content-Length before each
)

// errFrame is a message that could not be read, while the next one can.
type errFrame struct {
	framing framing
	why     string
}

func (e *errFrame) Error() string { return e.why }

// reader reads messages of either framing, mixed as they come.
type reader struct{ *bufio.Reader }

func newReader(r io.Reader) reader { return reader{bufio.NewReaderSize(r, 64<<10)} }

// next returns the next message. After an *errFrame the stream goes on; any
// other error ends it.
func (r reader) next() ([]byte, framing, error) {
	for {
		line, err := r.line()
		if errors.Is(err, errLong) {
			return nil, lines, &errFrame{lines, err.Error()}
		}
		switch text := bytes.TrimSpace(line); {
		case len(text) == 0 && err != nil:
			return nil, lines, err
		case len(text) == 0:
			continue
		case isHeader(text):
			return r.headed(text)
		default:
			return text, lines, nil
		}
	}
}

// isHeader tells a header from JSON, which begins with a bracket, a quote or a
// digit, or is a word without a colon.
func isHeader(line []byte) bool {
	name, _, found := bytes.Cut(line, []byte(":"))
	return found && len(name) > len("content-") && bytes.EqualFold(name[:len("content-")], []byte("content-"))
}

// headed reads the rest of a message whose first header line was read.
func (r reader) headed(line []byte) ([]byte, framing, error) {
	size, err := -1, error(nil)
	for n := 1; len(line) > 0; n++ {
		if n > maxHeaders || !isHeader(line) {
			return nil, headers, &errFrame{headers, "headers that do not end"}
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("content-length")) {
			if size, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || size < 0 {
				return nil, headers, &errFrame{headers, "a Content-Length that is not a length"}
			}
		}
		if line, err = r.line(); err != nil {
			return nil, headers, io.ErrUnexpectedEOF
		}
		line = bytes.TrimSpace(line)
	}
	switch {
	case size < 0:
		return nil, headers, &errFrame{headers, "headers without a Content-Length"}
	case size > maxMessage:
		if _, err := r.Discard(size); err != nil {
			return nil, headers, io.ErrUnexpectedEOF
		}
		return nil, headers, &errFrame{headers, errLong.Error()}
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, headers, io.ErrUnexpectedEOF
	}
	return body, headers, nil
}

var errLong = fmt.Errorf("a message has at most %d bytes", maxMessage)

// line reads a line. One that is too long is read to its end and is errLong.
func (r reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxMessage+2 {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			return nil, errLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// writer writes whole messages, one at a time.
type writer struct {
	mu  sync.Mutex
	out io.Writer
}

// put writes a message. That nobody reads any more is found by the reader.
func (w *writer) put(f framing, message []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f == headers {
		message = append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(message)), message...)
	} else {
		message = append(message, '\n')
	}
	_, _ = w.out.Write(message)
}
