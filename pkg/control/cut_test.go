package control

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
)

func TestDial_ADaemonThatHangsUpIsUnreachable(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, err = Dial(t.Context(), socket)
	l.Close()
	<-done
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}
