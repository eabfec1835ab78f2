package control

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"harness/pkg/wire"
)

// AttachRequest says who wants to look at which terminal.
type AttachRequest struct {
	Name       string
	Cols, Rows uint16
	ReadOnly   bool
}

// Terminal is a look at a harness's terminal: reading gives what is on it,
// writing types. Reading ends with io.EOF when the harness is no more, and a
// client's with an error that wraps [ErrUnreachable] when the daemon is.
type Terminal interface {
	io.ReadWriteCloser
	Resize(cols, rows uint16)
}

// An attached connection carries frames both ways: a byte that says what it is,
// the length of what follows in four bytes, big end first, and that.
const (
	frameData   = 'd' // to the daemon what was typed, from it what was printed
	frameResize = 'r' // to the daemon: columns and rows, two bytes each
	frameEnd    = 'e' // from the daemon: the harness is no more, and nothing was lost
	maxFrame    = 64 << 10
)

var errFrame = errors.New("not a frame of an attached terminal")

// appendFrame appends one frame.
func appendFrame(dst []byte, kind byte, data []byte) []byte {
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(data)))
	return append(dst, data...)
}

// readFrame reads one frame into buf, which must hold maxFrame bytes.
func readFrame(r io.Reader, buf []byte) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, errFrame
	}
	_, err = io.ReadFull(r, buf[:n])
	return head[0], buf[:n], err
}

// attach hands a terminal to a client on the request's connection.
func (s *Server) attach(alive context.Context, w http.ResponseWriter, r *http.Request) {
	req, err := attachRequest(r.URL.Query())
	if err == nil && !strings.EqualFold(r.Header.Get("Upgrade"), upgradeTTY) {
		err = &Problem{Code: wire.InvalidArgument, Message: "GET /v1/attach needs the header Upgrade: " + upgradeTTY, Hint: "run harness attach"}
	}
	if err != nil {
		reply(w, nil, err)
		return
	}
	terminal, err := s.ops.Attach(req)
	if err != nil {
		reply(w, nil, err)
		return
	}
	who, hello, err := hijack(w, r, upgradeTTY)
	if err != nil {
		s.opt.Logger.Warn("attach refused", "error", err)
		_ = terminal.Close()
		return
	}
	if !s.begin(func() { carry(alive, who.UnixConn, hello.Early, terminal) }) {
		who.Close()
		_ = terminal.Close()
	}
}

func attachRequest(query url.Values) (AttachRequest, error) {
	req := AttachRequest{Name: query.Get("name"), ReadOnly: query.Get("read_only") == "true"}
	cols, errCols := strconv.ParseUint(query.Get("cols"), 10, 16)
	rows, errRows := strconv.ParseUint(query.Get("rows"), 10, 16)
	if req.Name == "" || errCols != nil || errRows != nil || cols == 0 || rows == 0 {
		return req, &Problem{Code: wire.InvalidArgument, Message: "attach takes a name and the size of a terminal in cols and rows"}
	}
	req.Cols, req.Rows = uint16(cols), uint16(rows)
	return req, nil
}

// carry copies between a client and a terminal until one of them ends, or the
// server does.
func carry(alive context.Context, conn *net.UnixConn, early []byte, terminal Terminal) {
	ctx, end := context.WithCancel(alive)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); _ = terminal.Close() })
	defer stop()
	var input sync.WaitGroup
	input.Go(func() {
		defer end()
		takeInput(io.MultiReader(strings.NewReader(string(early)), conn), terminal)
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := terminal.Read(buf)
		if n > 0 {
			_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
			if _, failed := conn.Write(appendFrame(nil, frameData, buf[:n])); failed != nil {
				break
			}
		}
		if err != nil {
			// Nothing of it reaches whoever hung up.
			_, _ = conn.Write(appendFrame(nil, frameEnd, nil))
			break
		}
	}
	end()
	_ = conn.Close()
	input.Wait()
	_ = terminal.Close()
}

// takeInput does what a client says until it hangs up. What is typed where
// nothing runs is nobody's.
func takeInput(r io.Reader, terminal Terminal) {
	buf := make([]byte, maxFrame)
	for {
		kind, data, err := readFrame(r, buf)
		switch {
		case err != nil:
			return
		case kind == frameData:
			_, _ = terminal.Write(data)
		case kind == frameResize && len(data) == 4:
			cols, rows := binary.BigEndian.Uint16(data), binary.BigEndian.Uint16(data[2:])
			if cols > 0 && rows > 0 {
				terminal.Resize(cols, rows)
			}
		default:
			return
		}
	}
}

// Attached is the client's side of a terminal. One goroutine may read while
// others write.
type Attached struct {
	conn *net.UnixConn
	buf  []byte
	rest []byte // of the frame at hand

	mu sync.Mutex // of writing
}

var _ Terminal = (*Attached)(nil)

// DialAttach attaches to a harness's terminal. Errors are as those of
// [DialSession].
func DialAttach(ctx context.Context, socket string, req AttachRequest) (*Attached, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	query := url.Values{
		"name": {req.Name}, "cols": {strconv.Itoa(int(req.Cols))}, "rows": {strconv.Itoa(int(req.Rows))}, "read_only": {strconv.FormatBool(req.ReadOnly)},
	}
	if err := upgrade(ctx, conn, upgradeRequest("/v1/attach?"+query.Encode(), upgradeTTY, "")); err != nil {
		conn.Close()
		return nil, err
	}
	return &Attached{conn: conn, buf: make([]byte, maxFrame)}, nil
}

// Read implements [io.Reader].
func (a *Attached) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		kind, data, err := readFrame(a.conn, a.buf)
		switch {
		case errors.Is(err, net.ErrClosed):
			return 0, io.EOF // by this side
		case err != nil:
			return 0, lost(err, "the terminal")
		case kind == frameEnd:
			return 0, io.EOF
		case kind == frameData:
			a.rest = data
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Write types p.
func (a *Attached) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := p[sent:min(sent+maxFrame, len(p))]
		if err := a.send(appendFrame(nil, frameData, part)); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return len(p), nil
}

// Resize says that the client's own terminal has another size.
func (a *Attached) Resize(cols, rows uint16) {
	data := binary.BigEndian.AppendUint16(nil, cols)
	// A connection that is gone is seen by whoever reads.
	_ = a.send(appendFrame(nil, frameResize, binary.BigEndian.AppendUint16(data, rows)))
}

func (a *Attached) send(frame []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.conn.Write(frame)
	return err
}

// Close detaches.
func (a *Attached) Close() error { return a.conn.Close() }
