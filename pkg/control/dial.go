package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// upgradeTimeout bounds the wait for the answer to an upgrade where the
	// caller sets no deadline.
	upgradeTimeout = 20 * time.Second
	// maxHead is the largest head of an answer that is read, in bytes.
	maxHead = 4 << 10
)

// DialSession opens an agent's session on a daemon's socket and returns the bare
// connection: the next byte read from it is the session's first, and it has no
// deadlines. token may be empty; one that no daemon can have made is left out.
// The caller owns the connection.
//
// Errors wrap [ErrUnreachable] where there is no daemon, and are a [*Problem]
// where it refused.
func DialSession(ctx context.Context, socket, token string) (*net.UnixConn, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	if err := upgrade(ctx, conn, upgradeRequest("/v1/session", upgradeMCP, token)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// upgrade does the exchange in front of a session, within ctx.
func upgrade(ctx context.Context, conn *net.UnixConn, request string) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(upgradeTimeout)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	// A cancelled caller is not kept waiting for the deadline.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := exchange(conn, request)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if _, refused := errors.AsType[*Problem](err); refused {
			return err
		}
		return fmt.Errorf("open a session: %w", err)
	}
	return conn.SetDeadline(time.Time{})
}

// exchange sends the request and reads its answer, which is 101 or a problem.
func exchange(conn *net.UnixConn, request string) error {
	if _, err := io.WriteString(conn, request); err != nil {
		return err
	}
	raw, err := readHead(conn)
	if err != nil {
		return err
	}
	head, err := parseHead(raw)
	if err != nil {
		return err
	}
	if err := checkServer(head.api); err != nil {
		return err
	}
	if head.code == "101" {
		return nil
	}
	body := make([]byte, min(head.length, maxProblem))
	if _, err := io.ReadFull(conn, body); err != nil {
		return fmt.Errorf("read the daemon's refusal: %w", err)
	}
	return parseProblem(head.code, body)
}

// upgradeRequest is the request in full.
func upgradeRequest(path, protocol, token string) string {
	line := ""
	if plainToken(token) {
		line = headerToken + ": " + token + "\r\n"
	}
	return "GET " + path + " HTTP/1.1\r\nHost: harness\r\nConnection: Upgrade\r\nUpgrade: " + protocol +
		"\r\n" + headerAPI + ": " + APIVersion() + "\r\n" + line + "\r\n"
}

// plainToken reports whether a token can stand in a header: it comes from the
// environment, and a line break in it would be a header of somebody else's.
func plainToken(token string) bool {
	for _, b := range []byte(token) {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return token != "" && len(token) <= maxHead
}

// readHead reads the head of an answer, through its empty line, and not one byte
// more: it looks at what has arrived before it takes any of it.
func readHead(conn *net.UnixConn) ([]byte, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	head := make([]byte, 0, 512)
	for len(head) < maxHead {
		head = append(head, make([]byte, 256)...)[:len(head)]
		seen, err := glance(raw, head[len(head):cap(head)])
		if err != nil {
			return nil, err
		}
		take := headEnd(head[:len(head)+seen], len(head))
		if _, err := io.ReadFull(conn, head[len(head):len(head)+take]); err != nil {
			return nil, err
		}
		head = head[:len(head)+take]
		if bytes.HasSuffix(head, []byte("\r\n\r\n")) {
			return head, nil
		}
	}
	return nil, errors.New("the answer has no end of its head")
}

// headEnd returns how many bytes after the first known of data still belong to
// the head.
func headEnd(data []byte, known int) int {
	if i := bytes.Index(data, []byte("\r\n\r\n")); i >= 0 {
		return i + 4 - known
	}
	return len(data) - known
}

// glance waits for bytes and copies them without taking them from the socket.
func glance(raw interface {
	Read(f func(fd uintptr) (done bool)) error
}, buf []byte,
) (int, error) {
	var n int
	var peekErr error
	err := raw.Read(func(fd uintptr) bool {
		n, _, peekErr = unix.Recvfrom(int(fd), buf, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(peekErr, unix.EAGAIN) && !errors.Is(peekErr, unix.EINTR)
	})
	switch {
	case err != nil:
		return 0, err
	case peekErr != nil:
		return 0, peekErr
	case n == 0:
		return 0, errors.New("the daemon closed the connection without an answer")
	}
	return n, nil
}

// answerHead is what the head of an answer says.
type answerHead struct {
	code   string // "101"
	api    string // the daemon's version
	length int    // of the body, in bytes
}

// parseHead reads the status line and the few headers that matter.
func parseHead(raw []byte) (answerHead, error) {
	status, headers, _ := strings.Cut(string(raw), "\r\n")
	proto, rest, _ := strings.Cut(status, " ")
	code, _, _ := strings.Cut(rest, " ")
	if !strings.HasPrefix(proto, "HTTP/1.") || len(code) != 3 {
		return answerHead{}, errors.New("what answers is not a harness daemon")
	}
	head := answerHead{code: code}
	for line := range strings.SplitSeq(headers, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, headerAPI):
			head.api = value
		case strings.EqualFold(name, "Content-Length"):
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return answerHead{}, errors.New("the answer has no valid length")
			}
			head.length = n
		}
	}
	return head, nil
}
