package bridge

import (
	"bufio"
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"harness/pkg/handover"
)

// TestHandOver_WaitsForNobodyWhoGivesUp has a request given up while the session
// is offered: the one writes to the agent, which the other has stopped. Neither
// may wait for the other, and the session goes on over the link.
func TestHandOver_WaitsForNobodyWhoGivesUp(t *testing.T) {
	stdin, toBridge, err1 := os.Pipe()
	fromBridge, stdout, err2 := os.Pipe()
	l, err3 := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	defer l.Close()
	defer fromBridge.Close()
	b := newBridge(Options{
		In: stdin, Out: stdout, Say: func(string) {}, Version: func() string { return "1" }, MaxMessage: 1 << 20, StopGrace: patience, Handover: true,
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", l.Addr().String())
		},
	})
	b.giving.Lock() // as who gives up does, until it is answered
	over := make(chan error, 1)
	go func() { over <- b.run(t.Context()) }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	lines := bufio.NewScanner(conn)
	hears := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the link: %v", lines.Err())
		}
		return lines.Text()
	}
	for range offers {
		if line := hears(); line != handover.Hold {
			t.Fatalf("%q", line)
		}
		_, _ = conn.Write([]byte(handover.Held + "\n"))
		if take, ok := handover.ParseTake([]byte(hears())); !ok || take != (handover.Take{}) {
			t.Fatalf("it is offered all the same: %v %t", take, ok)
		}
		_, _ = conn.Write([]byte(handover.Refused + "\n"))
	}
	b.giving.Unlock()
	_, _ = toBridge.WriteString(ask("1", "ping") + "\n")
	if line := hears(); line != ask("1", "ping") {
		t.Errorf("it goes on with %q", line)
	}
	_, _ = conn.Write([]byte(result("1", "{}") + "\n"))
	answers := bufio.NewScanner(fromBridge)
	if !answers.Scan() || answers.Text() != result("1", "{}") {
		t.Errorf("%q, %v", answers.Text(), answers.Err())
	}
	toBridge.Close()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
