package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// echo greets a session at once and then sends back what it hears, with what
// arrived early in front.
func echo(hellos chan<- Hello) *fakeOps {
	return &fakeOps{session: func(_ context.Context, conn *net.UnixConn, hello Hello) {
		hellos <- hello
		if _, err := io.WriteString(conn, "greetings\r\n\r\n"); err == nil {
			_, _ = io.Copy(conn, io.MultiReader(bytes.NewReader(hello.Early), conn))
		}
	}}
}

// expect reads exactly what it wants from a connection.
func expect(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func TestDialSession_HandsOverTheBareConnection(t *testing.T) {
	t.Parallel()
	hellos := make(chan Hello, 1)
	d := serve(t, echo(hellos))
	conn, err := DialSession(t.Context(), d.socket, "t0ken")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	expect(t, conn, "greetings\r\n\r\n")
	if diff := cmp.Diff(Hello{Token: "t0ken", PID: os.Getpid()}, <-hellos); diff != "" {
		t.Errorf("hello (-want +got):\n%s", diff)
	}
	for _, line := range []string{"{}\n", strings.Repeat("x", 1<<16) + "\n"} {
		if _, err := io.WriteString(conn, line); err != nil {
			t.Fatal(err)
		}
		expect(t, conn, line)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) != 0 {
		t.Errorf("at the end there is %q, %v", rest, err)
	}
}

func TestSession_LosesNothingThatCameEarly(t *testing.T) {
	t.Parallel()
	hellos := make(chan Hello, 1)
	d := serve(t, echo(hellos))
	early := strings.Repeat("early\n", 1000)
	conn := d.raw(t, upgradeRequest("/v1/session", upgradeMCP, "")+early)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != "mcp" {
		t.Errorf("the answer is %s, upgraded to %q", resp.Status, resp.Header.Get("Upgrade"))
	}
	if _, err := io.WriteString(conn, "late\n"); err != nil {
		t.Fatal(err)
	}
	expect(t, r, "greetings\r\n\r\n"+early+"late\n")
	if hello := <-hellos; len(hello.Early) == 0 || hello.Token != "" {
		t.Errorf("hello has %d early bytes and the token %q", len(hello.Early), hello.Token)
	}
}

func TestDialSession_LeavesOutATokenThatIsNone(t *testing.T) {
	t.Parallel()
	hellos := make(chan Hello, 1)
	d := serve(t, echo(hellos))
	for _, token := range []string{"", "a\r\nHarness-API: 2.0", "two words", "größe", "nul\x00", strings.Repeat("x", maxHead+1)} {
		conn, err := DialSession(t.Context(), d.socket, token)
		if err != nil {
			t.Fatalf("%q: %v", token, err)
		}
		conn.Close()
		if hello := <-hellos; hello.Token != "" {
			t.Errorf("%q arrived as %q", token, hello.Token)
		}
	}
}

func TestDialSession_SaysWhyThereIsNone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer  string
		says    string
		problem bool
	}{
		"refused":          {"HTTP/1.1 500 X\r\nHarness-API: 1.0\r\ncontent-length: 44\r\n\r\n" + `{"code":"operation_failed","message":"full"}` + "\n", "full", true},
		"another major":    {"HTTP/1.1 400 X\r\nHarness-API: 2.0\r\nContent-Length: 0\r\n\r\n", "2.0", true},
		"no daemon":        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "not a harness daemon", true},
		"without a reason": {"HTTP/1.1 503 Busy\r\nHarness-API: 1.0\r\n\r\n", "503", true},
		"no HTTP":          {"220 smtp ready\r\n\r\n", "not a harness daemon", false},
		"a negative size":  {"HTTP/1.1 500 X\r\nContent-Length: -1\r\n\r\n", "length", false},
		"an endless head":  {"HTTP/1.1 101 X\r\n" + strings.Repeat("X: y\r\n", maxHead), "no end", false},
		"half a head":      {"HTTP/1.1 101 Switching Protocols\r\nHarness", "without an answer", false},
		"half a problem":   {"HTTP/1.1 500 X\r\nHarness-API: 1.0\r\nContent-Length: 9\r\n\r\n{", "refusal", false},
		"nothing":          {"", "without an answer", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := DialSession(t.Context(), answering(t, tt.answer), "t0ken")
			if err == nil {
				conn.Close()
				t.Fatal("there is a session")
			}
			if !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "t0ken") {
				t.Errorf("error is %v, want one that says %q", err, tt.says)
			}
			if _, ok := errors.AsType[*Problem](err); ok != tt.problem {
				t.Errorf("%v is a problem: %v", err, ok)
			}
		})
	}
}

func TestDialSession_ReadsAHeadThatArrivesInPieces(t *testing.T) {
	t.Parallel()
	conn, err := DialSession(t.Context(), answering(t, switching(upgradeMCP)+"first line\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "first line\n" {
		t.Errorf("the session begins with %q, %v", got, err)
	}
}

func TestDialSession_StopsWaitingWhenItIsTold(t *testing.T) {
	t.Parallel()
	socket := dirOf(t) + "/h.sock"
	listener, err := Listen(t.Context(), socket) // and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	begun := time.Now()
	if _, err := DialSession(ctx, socket, ""); err == nil || time.Since(begun) > upgradeTimeout/2 {
		t.Errorf("cancelled: %v after %v", err, time.Since(begun))
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	begun = time.Now()
	if _, err := DialSession(ctx, socket, ""); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) > upgradeTimeout/2 {
		t.Errorf("out of time: %v after %v", err, time.Since(begun))
	}
}

func FuzzParseHead(f *testing.F) {
	for _, seed := range []string{switching(upgradeMCP), "HTTP/1.1 500 X\r\nContent-Length: 44\r\n\r\n", "HTTP/1.1 200", "", "HTTP/1.1 200 \r\n:\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		head, err := parseHead(raw)
		if err == nil && (len(head.code) != 3 || head.length < 0) {
			t.Errorf("%q gives %+v", raw, head)
		}
	})
}
