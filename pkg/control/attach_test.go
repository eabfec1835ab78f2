package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"harness/pkg/wire"
)

// echoTerminal prints what is typed, and its size when that changes.
type echoTerminal struct {
	r *io.PipeReader
	w *io.PipeWriter
}

func newEchoTerminal() *echoTerminal {
	r, w := io.Pipe()
	return &echoTerminal{r, w}
}

func (e *echoTerminal) Read(p []byte) (int, error) { return e.r.Read(p) }

func (e *echoTerminal) Write(p []byte) (int, error) { return e.w.Write(p) }

func (e *echoTerminal) Resize(cols, rows uint16) { fmt.Fprintf(e.w, "[%dx%d]", cols, rows) }

func (e *echoTerminal) Close() error { return e.w.Close() }

func TestAttach_CarriesBothWaysUntilOneEnds(t *testing.T) {
	terminal := newEchoTerminal()
	d := serve(t, &fakeOps{attach: func(req AttachRequest) (Terminal, error) {
		if req != (AttachRequest{Name: "a b/c", Cols: 91, Rows: 33, ReadOnly: true}) {
			return nil, &Problem{Code: wire.OperationFailed, Message: fmt.Sprintf("asked for %+v", req)}
		}
		return terminal, nil
	}})
	a, err := DialAttach(t.Context(), d.socket, AttachRequest{Name: "a b/c", Cols: 91, Rows: 33, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	read := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(a, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	large := bytes.Repeat([]byte("x"), maxFrame+100)
	go func() {
		a.Write([]byte("typed"))
		a.Resize(40, 10)
		a.Write(large)
	}()
	read("typed[40x10]")
	read(string(large))
	terminal.Close()
	if n, err := a.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// A terminal whose daemon is gone does not end as one whose harness is.
func TestAttach_TellsTheEndOfTheDaemonFromThatOfTheHarness(t *testing.T) {
	listener, err := net.Listen("unix", dirOf(t)+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, c := range []struct {
		sent []byte
		want error
	}{
		{appendFrame(appendFrame(nil, frameData, []byte("x")), frameEnd, nil), io.EOF},
		{appendFrame(nil, frameData, []byte("x")), ErrUnreachable},
		{appendFrame(nil, frameData, []byte("xy"))[:6], ErrUnreachable},
	} {
		conn, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		daemon, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.Write(c.sent); err != nil {
			t.Fatal(err)
		}
		daemon.Close()
		a := &Attached{conn: conn.(*net.UnixConn), buf: make([]byte, maxFrame)}
		var failed error
		for failed == nil {
			_, failed = a.Read(make([]byte, 8))
		}
		a.Close()
		if !errors.Is(failed, c.want) {
			t.Errorf("after %q: %v, want %v", c.sent, failed, c.want)
		}
	}
}

func TestAttach_IsRefusedBeforeAnythingIsCarried(t *testing.T) {
	d := serve(t, &fakeOps{attach: func(AttachRequest) (Terminal, error) {
		return nil, &Problem{Code: wire.OperationFailed, Message: "does not run", Hint: "start it"}
	}})
	_, err := DialAttach(t.Context(), d.socket, AttachRequest{Name: "a", Cols: 80, Rows: 24})
	var p *Problem
	if !errors.As(err, &p) || p.Hint != "start it" {
		t.Errorf("%v", err)
	}
	if _, err = DialAttach(t.Context(), d.socket, AttachRequest{Name: "a"}); !errors.As(err, &p) || p.Code != wire.InvalidArgument {
		t.Errorf("without a size: %v", err)
	}
}

func TestHarnesses_AreListedByProject(t *testing.T) {
	project := "shop"
	d := serve(t, &fakeOps{list: []Harness{{Name: "a"}, {Name: "shop/a", Project: &project}}})
	c, err := Dial(t.Context(), d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for project, want := range map[string]int{"": 2, "shop": 1, "mill": 0} {
		if list, err := c.List(t.Context(), project); err != nil || len(list) != want {
			t.Errorf("%q: %v, %v", project, list, err)
		}
	}
	if h, err := c.Describe(t.Context(), "shop/a"); err != nil || h.Name != "shop/a" {
		t.Errorf("%+v, %v", h, err)
	}
	var p *Problem
	if _, err := c.Describe(t.Context(), "b"); !errors.As(err, &p) || p.Code != wire.UnknownHarness {
		t.Errorf("of nobody: %v", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(appendFrame(nil, frameData, []byte("typed")))
	f.Add(appendFrame(nil, frameResize, []byte{0, 80, 0, 24}))
	f.Add([]byte{'d', 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		buf := make([]byte, maxFrame)
		kind, body, err := readFrame(bytes.NewReader(data), buf)
		if err == nil && !bytes.HasPrefix(data, appendFrame(nil, kind, body)) {
			t.Errorf("%q was read as %q", data, body)
		}
	})
}
