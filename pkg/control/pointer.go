package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"harness/pkg/durable"
)

// Sockets lists the sockets a client should try, best first, reading the
// pointer file for it. Ask again before each attempt: a daemon that was
// restarted may listen elsewhere.
func (p Paths) Sockets() []string { return p.Candidates(ReadPointer(p.Pointer)) }

// ReadPointer returns the socket path in the pointer file, or "" when there is
// no such file or it does not hold one absolute path.
func ReadPointer(path string) string {
	data, err := durable.Read(path, maxSocketPath+1)
	if err != nil {
		return ""
	}
	socket := strings.TrimSuffix(string(data), "\n")
	if !filepath.IsAbs(socket) || len(socket) > maxSocketPath || strings.ContainsAny(socket, "\n\x00") {
		return ""
	}
	return socket
}

// WritePointer makes the pointer file name socket, atomically and durably
// (FIL-3). Only the daemon that holds the state directory's lock may call it.
func WritePointer(path, socket string) error {
	if err := durable.Write(path, []byte(socket+"\n")); err != nil {
		return fmt.Errorf("write the socket pointer: %w", err)
	}
	return nil
}

// RemovePointer removes the pointer file if it still names socket. A file that
// is not there is no error.
func RemovePointer(path, socket string) error {
	if ReadPointer(path) != socket {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket pointer: %w", err)
	}
	return nil
}
