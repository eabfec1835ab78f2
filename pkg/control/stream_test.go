package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"harness/pkg/wire"
)

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestEvents_ArriveAsTheyHappen(t *testing.T) {
	t.Parallel()
	d := serve(t, &fakeOps{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	publish := func(n int) { d.events.Publish(Event{Kind: "note", Message: strconv.Itoa(n)}) }
	publish(-1) // before anybody listens
	next := 0
	for event, err := range d.client(t).Events(ctx, func() { publish(0) }) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Message != strconv.Itoa(next) {
			t.Fatalf("got %q, want %d", event.Message, next)
		}
		if next++; next == 3 {
			cancel() // ends the loop without an error
		}
		publish(next)
	}
	if next != 3 {
		t.Errorf("got %d events", next)
	}
}

func TestEvents_LetGoOfAReaderThatFallsBehind(t *testing.T) {
	t.Parallel()
	d := serve(t, &fakeOps{})
	slow := d.raw(t, "GET /v1/events HTTP/1.1\r\nHost: h\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReaderSize(slow, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	fast := d.events.Subscribe()
	defer fast.Close()
	published := 0
	for long := strings.Repeat("x", 4<<10); readers(d.events) == 2; published++ {
		d.events.Publish(Event{Kind: "note", Message: long}) // nobody reads, and yet this returns
		<-fast.Events
	}
	var kinds []string
	for decoder := json.NewDecoder(resp.Body); ; {
		var event Event
		if err := decoder.Decode(&event); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		kinds = append(kinds, event.Kind)
	}
	if len(kinds) == 0 || kinds[len(kinds)-1] != KindLagged {
		t.Errorf("the last of %d lines is no note", len(kinds))
	}
	if len(kinds) > published {
		t.Errorf("%d lines of %d events", len(kinds), published)
	}
}

// readers counts the subscriptions of a hub.
func readers(h *Hub) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

func TestLogs_AreCopiedAsTheyAre(t *testing.T) {
	t.Parallel()
	var asked LogsRequest
	c := serve(t, &fakeOps{logs: func(_ context.Context, req LogsRequest, w io.Writer) error {
		asked = req
		_, err := io.WriteString(w, "one\n\x1b[31mtwo\n")
		return err
	}}).client(t)
	want := LogsRequest{Name: "mcp.a b&n=3", Lines: 20}
	for range 2 { // the second on a connection that streamed before
		var got bytes.Buffer
		if err := c.Logs(t.Context(), want, &got); err != nil || got.String() != "one\n\x1b[31mtwo\n" {
			t.Errorf("got %q, %v", got.String(), err)
		}
		if asked != want {
			t.Errorf("asked for %+v, want %+v", asked, want)
		}
	}
}

func TestLogs_FollowUntilTheReaderLeaves(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	c := serve(t, &fakeOps{logs: func(ctx context.Context, _ LogsRequest, w io.Writer) error {
		defer close(left)
		if _, err := io.WriteString(w, "now\n"); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}).client(t)
	ctx, cancel := context.WithCancel(t.Context())
	lines, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- c.Logs(ctx, LogsRequest{Name: "mcp.a", Follow: true}, w) }()
	line := make([]byte, 4)
	if _, err := io.ReadFull(lines, line); err != nil || string(line) != "now\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	cancel()
	if err := within(t, done, "the end of the reading"); err != nil {
		t.Error(err)
	}
	within(t, left, "the end of the operation")
}

func TestLogs_SayWhenTheyAreNotWhole(t *testing.T) {
	t.Parallel()
	refusal := &Problem{Code: wire.UnknownHarness, Message: "there is no mcp.x"}
	c := serve(t, &fakeOps{logs: func(_ context.Context, req LogsRequest, w io.Writer) error {
		if req.Name == "mcp.x" {
			return refusal
		}
		if _, err := io.WriteString(w, "half a l"); err != nil {
			return err
		}
		return errors.New("disk error")
	}}).client(t)
	err := c.Logs(t.Context(), LogsRequest{Name: "mcp.x"}, io.Discard)
	if p, ok := errors.AsType[*Problem](err); !ok || *p != *refusal {
		t.Errorf("before the first line: %v", err)
	}
	var got bytes.Buffer
	if err := c.Logs(t.Context(), LogsRequest{Name: "mcp.a"}, &got); err == nil {
		t.Errorf("after %q there is no error", got.String())
	}
}
