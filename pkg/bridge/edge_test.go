package bridge

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writes keeps each write by itself.
type writes struct {
	sizes []int
	all   bytes.Buffer
	err   error
}

func (w *writes) Write(p []byte) (int, error) {
	w.sizes = append(w.sizes, len(p))
	w.all.Write(p)
	return len(p), w.err
}

func TestStdio_WritesSmallLinesTogetherAndLargeOnesInTheirPlace(t *testing.T) {
	var w writes
	e := newStdio(strings.NewReader(""), &w, 0)
	big := strings.Repeat("x", large)
	for _, line := range []string{"a", "b", big, "c", big + "y"} {
		e.Append([]byte(line))
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := w.all.String(); got != "a\nb\n"+big+"\nc\n"+big+"y\n" {
		t.Errorf("%d bytes in another order", len(got))
	}
	end := large / 8
	if diff := cmp.Diff([]int{4, large - end, end + 1 + 2, large + 1 - end, end + 1}, w.sizes); diff != "" {
		t.Error(diff)
	}
	if err := e.Flush(); err != nil || len(w.sizes) != 5 {
		t.Error("nothing was written twice")
	}
}

func TestStdio_KeepsTheFirstFailure(t *testing.T) {
	w := writes{err: errors.New("gone")}
	e := newStdio(strings.NewReader(""), &w, 0)
	for range 3 {
		e.Append([]byte("a"))
		if err := e.Flush(); !errors.Is(err, w.err) {
			t.Error(err)
		}
	}
	if len(w.sizes) != 1 {
		t.Errorf("%d writes to what is gone", len(w.sizes))
	}
}

func TestBatch_WritesItsLinesInOrderAndKnowsWhereTheyAre(t *testing.T) {
	big := strings.Repeat("x", large)
	for _, lines := range [][]string{{"a"}, {"a", "bc"}, {big}, {"a", "bc", big}} {
		var b batch
		for _, line := range lines {
			b.add([]byte(line), nil)
		}
		var w bytes.Buffer
		n, err := b.WriteTo(&w)
		if want := strings.Join(lines, "\n") + "\n"; err != nil || w.String() != want || n != int64(len(want)) {
			t.Errorf("%d bytes, %v", n, err)
		}
		for i, at := range b.lines {
			if string(b.line(at)) != lines[i] || w.String()[at.start:at.end] != lines[i]+"\n" {
				t.Errorf("line %d of %d is elsewhere", i, len(lines))
			}
		}
		if b.full() != (lines[len(lines)-1] == big) {
			t.Error("full too soon, or not")
		}
		b.reset()
		if len(b.lines) > 0 || b.last != nil || b.full() {
			t.Error("something is left")
		}
	}
}

// slowToFail is a connection whose write notices only after a while that it was
// closed.
type slowToFail struct {
	net.Conn
	writing chan struct{}
	closed  chan struct{}
}

func (s *slowToFail) Write([]byte) (int, error) {
	close(s.writing)
	<-s.closed
	// Whoever waits for the end of this write does nothing in the meantime.
	return 0, net.ErrClosed
}

func (s *slowToFail) Close() error {
	close(s.closed)
	return nil
}

func TestDetach_WaitsForTheWriterBeforeItFailsWhatWasSent(t *testing.T) {
	var out bytes.Buffer
	b := newBridge(Options{In: strings.NewReader(""), Out: &out, Version: one})
	conn := &slowToFail{Conn: nowhere{}, writing: make(chan struct{}), closed: make(chan struct{})}
	l := &link{conn: conn}
	b.link = l
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		var lines batch
		b.gather([]byte(ask("1", "tools/call")), &lines)
		b.flush(&lines)
	}()
	<-conn.writing
	b.detach(t.Context(), l)
	<-flushed
	if diff := cmp.Diff([]string{"1"}, ids(b.session.queue)); diff != "" || out.Len() > 0 {
		t.Errorf("not held, as nothing was sent: %s%s", diff, &out)
	}
}

// nowhere is a connection that takes deadlines and nothing else.
type nowhere struct{ net.Conn }

func (nowhere) SetReadDeadline(time.Time) error { return nil }
