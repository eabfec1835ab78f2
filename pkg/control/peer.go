package control

import (
	"fmt"
	"log/slog"
	"net"

	"golang.org/x/sys/unix"
)

// peer is who is at the other end of a Unix socket, as the kernel says.
type peer struct {
	pid int
	uid int
}

// peerOf asks the kernel for the credentials of the process that connected (or,
// on a client's side, that listens).
func peerOf(conn *net.UnixConn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("read peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return peer{}, fmt.Errorf("read peer credentials: %w", err)
	}
	return peer{pid: int(cred.Pid), uid: int(cred.Uid)}, nil
}

// guarded is a listener that lets in the processes of one user alone (FIL-1).
// It closes every other connection at once, before a byte is read.
type guarded struct {
	*net.UnixListener
	uid int
	log *slog.Logger
}

// Accept returns the next connection of the right user, as a *guest.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		who, err := peerOf(conn)
		switch {
		case err != nil:
			g.log.Warn("connection refused: its process is not known", "error", err)
		case who.uid != g.uid:
			g.log.Warn("connection refused: it is another user's", "uid", who.uid, "pid", who.pid)
		default:
			return &guest{UnixConn: conn, peer: who}, nil
		}
		conn.Close()
	}
}

// guest is a connection that was let in, with who made it.
type guest struct {
	*net.UnixConn
	peer peer
}
