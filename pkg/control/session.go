package control

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"harness/pkg/wire"
)

// switching is the head of the answer to an upgrade, in full: whatever follows
// it belongs to the session.
func switching(protocol string) string {
	return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol +
		"\r\n" + headerAPI + ": " + APIVersion() + "\r\n\r\n"
}

// session hands the connection of an upgrade request to Ops. The session runs
// on a goroutine of its own, so that what HTTP needed for the request is free
// again while the session lives.
func (s *Server) session(alive context.Context, w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), upgradeMCP) {
		refuse(w, &Problem{
			Code:    wire.InvalidArgument,
			Message: "GET /v1/session is for agents: it needs the header Upgrade: " + upgradeMCP,
			Hint:    "run harness mcp",
		})
		return
	}
	who, hello, err := hijack(w, r, upgradeMCP)
	if err != nil {
		s.opt.Logger.Warn("session refused", "error", err)
		return
	}
	if !s.begin(func() { s.ops.ServeSession(alive, who.UnixConn, hello) }) {
		who.Close()
	}
}

// begin runs a session unless the server has ended: Serve must not return while
// one still begins.
func (s *Server) begin(session func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.sessions.Go(session)
	return true
}

// hijack takes the connection from the HTTP server and answers the upgrade.
func hijack(w http.ResponseWriter, r *http.Request, protocol string) (*guest, Hello, error) {
	who, ok := r.Context().Value(guestKey{}).(*guest)
	if !ok {
		return nil, Hello{}, errors.New("the connection is not a guest's")
	}
	conn, buffers, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, Hello{}, err
	}
	hello := Hello{Token: r.Header.Get(headerToken), PID: who.peer.pid}
	if hello.Early, err = early(buffers.Reader); err == nil {
		err = greet(who, protocol)
	}
	if err != nil {
		conn.Close()
		return nil, Hello{}, err
	}
	return who, hello, nil
}

// early takes what the HTTP server had read of the session already.
func early(r *bufio.Reader) ([]byte, error) {
	n := r.Buffered()
	if n == 0 {
		return nil, nil
	}
	data := make([]byte, n)
	_, err := io.ReadFull(r, data)
	return data, err
}

// greet sends the head of the answer and leaves the connection without
// deadlines.
func greet(who *guest, protocol string) error {
	if err := who.SetDeadline(time.Now().Add(headerTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(who, switching(protocol)); err != nil {
		return err
	}
	return who.SetDeadline(time.Time{})
}
