package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/wire"
)

func TestServer_GivesWhatOpsReturn(t *testing.T) {
	t.Parallel()
	status := &Status{Version: "1.2.3", Generation: 4, Upstreams: List[UpstreamStatus]{{Name: "gitea", PID: OrNull(8)}}, Sessions: List[SessionStatus]{}}
	result := &ReloadResult{OK: true, Changed: List[Change]{}, Errors: List[Fault]{}, Warnings: List[Fault]{}}
	prompts := []PromptInfo{{Name: "review", Arguments: List[PromptArgument]{{Name: "topic"}}}}
	var asked ReloadRequest
	c := serve(t, &fakeOps{
		status: func(context.Context) (*Status, error) { return status, nil },
		reload: func(_ context.Context, req ReloadRequest) (*ReloadResult, error) { asked = req; return result, nil },
		units: func(_ context.Context, word string, names []string) ([]UnitState, error) {
			return []UnitState{{Name: strings.Join(names, "+"), State: word}}, nil
		},
		prompts: prompts,
	}).client(t)
	same := func(what string, want, got any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	same("version", VersionInfo{Version: "1.2.3", API: "1.0", PID: os.Getpid()}, c.Daemon(), nil)
	gotStatus, err := c.Status(t.Context())
	same("status", status, gotStatus, err)
	req := ReloadRequest{DryRun: true, WaitMS: 70}
	gotResult, err := c.Reload(t.Context(), req)
	same("reload", result, gotResult, err)
	same("reload request", req, asked, nil)
	gotPrompts, err := c.Prompts(t.Context(), "")
	same("prompts", prompts, gotPrompts, err)
	for word, do := range map[string]func(context.Context, ...string) ([]UnitState, error){"start": c.Start, "stop": c.Stop, "restart": c.Restart} {
		units, err := do(t.Context(), "mcp.a", "mcp.b")
		same(word, []UnitState{{Name: "mcp.a+mcp.b", State: word}}, units, err)
	}
}

func TestServer_SaysWhatWentWrong(t *testing.T) {
	t.Parallel()
	refusal := &Problem{Code: wire.UnknownHarness, Message: "there is no mcp.x", Hint: "run harness status"}
	for name, tt := range map[string]struct {
		err  error
		want *Problem
	}{
		"a problem":         {refusal, refusal},
		"a wrapped problem": {fmt.Errorf("start: %w", refusal), refusal},
		"any other error":   {errors.New("disk full"), &Problem{Code: wire.OperationFailed, Message: "disk full"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, &fakeOps{units: func(context.Context, string, []string) ([]UnitState, error) { return nil, tt.err }}).client(t)
			_, err := c.Start(t.Context(), "mcp.x")
			got, ok := errors.AsType[*Problem](err)
			if !ok {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServer_RefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	handler := NewServer(&fakeOps{}, Options{Events: &Hub{}}).handler(t.Context())
	tests := map[string]struct {
		method, path, api, body string
		code                    wire.Code
		says                    []string
	}{
		"a client of another major":       {"GET", "/v1/status", "2.3", "", CodeAPIVersion, []string{"2.3", "1.0"}},
		"another major on its own path":   {"GET", "/v2/status", "2.0", "", CodeAPIVersion, []string{"2.0", "1.0"}},
		"a version that is none":          {"GET", "/v1/status", "new", "", CodeAPIVersion, []string{"new", "1.0"}},
		"a path of a later minor":         {"GET", "/v1/ps", "1.9", "", CodeUnknownPath, []string{"/v1/ps", "1.9", "1.0"}},
		"a path nobody has":               {"GET", "/", "", "", CodeUnknownPath, []string{"1.0"}},
		"a method the path has not":       {"GET", "/v1/reload", "1.0", "", CodeUnknownPath, []string{"GET /v1/reload"}},
		"a misspelt wish":                 {"POST", "/v1/reload", "1.0", `{"dryrun":true}`, wire.InvalidArgument, []string{"dryrun"}},
		"a body that is no JSON":          {"POST", "/v1/reload", "1.0", `{`, wire.InvalidArgument, nil},
		"a body over the limit":           {"POST", "/v1/reload", "1.0", strings.Repeat(" ", maxBody+1) + "{}", wire.InvalidArgument, []string{"too large"}},
		"a start of nothing":              {"POST", "/v1/start", "1.0", `{"names":[]}`, wire.InvalidArgument, []string{"no name"}},
		"the log of nothing":              {"GET", "/v1/logs", "1.0", "", wire.InvalidArgument, []string{"no name"}},
		"a negative number of lines":      {"GET", "/v1/logs?name=mcp.a&n=-1", "1.0", "", wire.InvalidArgument, []string{"number of lines"}},
		"a follow that is neither":        {"GET", "/v1/logs?name=mcp.a&follow=perhaps", "1.0", "", wire.InvalidArgument, []string{"follow"}},
		"a session that does not upgrade": {"GET", "/v1/session", "1.0", "", wire.InvalidArgument, []string{"Upgrade"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
			req.Header.Set(headerAPI, tt.api)
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, req)
			var p Problem
			if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
				t.Fatalf("the answer is no problem: %v: %s", err, rec.Body)
			}
			if p.Code != tt.code || rec.Code != p.status() || rec.Code < 400 {
				t.Errorf("code is %s under %d: %s", p.Code, rec.Code, p.Message)
			}
			if got := rec.Header().Get(headerAPI); got != "1.0" {
				t.Errorf("the daemon says it speaks %q", got)
			}
			for _, want := range tt.says {
				if !strings.Contains(p.Message, want) {
					t.Errorf("%q does not say %q", p.Message, want)
				}
			}
		})
	}
}

func TestServer_AcceptsARequestWithoutWishes(t *testing.T) {
	t.Parallel()
	d := serve(t, &fakeOps{reload: func(_ context.Context, req ReloadRequest) (*ReloadResult, error) {
		return &ReloadResult{OK: req == ReloadRequest{}}, nil
	}})
	conn := d.raw(t, "POST /v1/reload HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.Contains(answer, []byte(`{"ok":true,"generation":0,"changed":[],"errors":[],"warnings":[]}`)) {
		t.Errorf("curl gets %v:\n%s", err, answer)
	}
}

func TestServer_TurnsStrangersAway(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	d := serve(t, &fakeOps{}, func(o *Options) {
		o.UID = os.Geteuid() + 1
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	if _, err := Dial(t.Context(), d.socket); err == nil {
		t.Errorf("error is %v", err)
	}
	if _, err := DialSession(t.Context(), d.socket, ""); err == nil {
		t.Errorf("a session's error is %v", err)
	}
	d.stop()
	if want := fmt.Sprintf("uid=%d pid=%d", os.Geteuid(), os.Getpid()); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not say %s:\n%s", want, log.String())
	}
}

func TestServer_EndsEverythingItServes(t *testing.T) {
	t.Parallel()
	inSession, inLogs := make(chan struct{}), make(chan struct{})
	d := serve(t, &fakeOps{
		session: func(ctx context.Context, _ *net.UnixConn, _ Hello) {
			close(inSession)
			<-ctx.Done()
		},
		logs: func(ctx context.Context, _ LogsRequest, w io.Writer) error {
			_, err := io.WriteString(w, "first\n")
			close(inLogs)
			<-ctx.Done()
			return err
		},
	})
	c := d.client(t)
	session, err := DialSession(t.Context(), d.socket, "")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	events, subscribed := make(chan error, 1), make(chan struct{})
	go func() {
		var err error
		for _, err = range c.Events(context.Background(), func() { close(subscribed) }) {
		}
		events <- err
	}()
	logs := make(chan error, 1)
	go func() {
		logs <- c.Logs(context.Background(), LogsRequest{Name: "mcp.a", Follow: true}, io.Discard)
	}()
	within(t, subscribed, "the subscription")
	within(t, inSession, "the session")
	within(t, inLogs, "the log")
	if err := d.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Serve returned %v", err)
	}
	if err := within(t, events, "the end of the events"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("events ended with %v", err)
	}
	if err := within(t, logs, "the end of the log"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("the log ended with %v", err)
	}
	if _, err := session.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the session ended with %v", err)
	}
	if _, err := os.Lstat(d.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("afterwards a client is told %v", err)
	}
}

func TestServer_HasWhoeverComesEarlyWait(t *testing.T) {
	t.Parallel()
	for name, opens := range map[string]bool{"until there is something to serve": true, "until the end": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready, asked := make(chan struct{}), make(chan struct{}, 1)
			d := serve(t, &fakeOps{session: func(_ context.Context, conn *net.UnixConn, _ Hello) {
				asked <- struct{}{}
				conn.Close()
			}}, func(opt *Options) { opt.Ready = ready })
			conn, err := dial(t.Context(), d.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, upgradeRequest("/v1/session", upgradeMCP, "")); err != nil {
				t.Fatal(err)
			}
			late := make(chan error, 1)
			go func() {
				session, err := DialSession(context.Background(), d.socket, "")
				if err == nil {
					session.Close()
				}
				late <- err
			}()
			if !opens {
				if err := d.stop(); !errors.Is(err, context.Canceled) {
					t.Errorf("Serve returned %v", err)
				}
				if data, err := io.ReadAll(conn); len(data) > 0 {
					t.Errorf("answered %q, %v", data, err)
				}
				if err := within(t, late, "the end of the session"); err == nil {
					t.Error("a session began")
				}
				return
			}
			select {
			case <-asked:
				t.Error("a session before there is anything to serve")
			case err := <-late:
				t.Errorf("answered before there is anything to serve: %v", err)
			default:
			}
			close(ready)
			if err := within(t, late, "the session"); err != nil {
				t.Error(err)
			}
			within(t, asked, "the session")
		})
	}
}

func TestServer_SaysWhatBrokeItsListener(t *testing.T) {
	t.Parallel()
	listener, err := Listen(t.Context(), dirOf(t)+"/h.sock")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	server := NewServer(&fakeOps{}, Options{Logger: slog.New(slog.DiscardHandler), Events: &Hub{}})
	if err := server.Serve(t.Context(), listener); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error is %v", err)
	}
}

func TestDial_TellsAnAbsentDaemonFromAForeignOne(t *testing.T) {
	t.Parallel()
	dir := dirOf(t)
	leftBehind(t, dir+"/stale")
	for _, path := range []string{dir + "/none", dir + "/stale", dir + "/stale/below"} {
		if _, err := Dial(t.Context(), path); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := DialSession(t.Context(), path, ""); !errors.Is(err, ErrUnreachable) {
			t.Errorf("session on %s: %v", path, err)
		}
	}
	tests := map[string]struct{ answer, says string }{
		"another major":   {"HTTP/1.1 200 OK\r\nHarness-API: 2.1\r\nContent-Length: 2\r\n\r\n{}", "2.1"},
		"no daemon":       {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "not a harness daemon"},
		"no HTTP":         {"220 smtp ready\r\n\r\n", ""},
		"an empty answer": {"HTTP/1.1 200 OK\r\nHarness-API: 1.7\r\nContent-Length: 0\r\n\r\n", "/v1/version"},
		"half a problem":  {"HTTP/1.1 500 Oops\r\nHarness-API: 1.0\r\nContent-Length: 1\r\n\r\n{", "500 Oops"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Dial(t.Context(), answering(t, tt.answer))
			if err == nil || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v, want one that says %q", err, tt.says)
			}
		})
	}
}

func TestDial_AcceptsADaemonOfALaterMinor(t *testing.T) {
	t.Parallel()
	c, err := Dial(t.Context(), answering(t, "HTTP/1.1 200 OK\r\nHarness-API: 1.12\r\nContent-Length: 30\r\n\r\n"+`{"version":"9","new":[1,2,3] }`))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if c.Daemon().Version != "9" {
		t.Errorf("the daemon is %+v", c.Daemon())
	}
}

// answering listens on a socket, reads one request and answers with text, byte
// by byte.
func answering(t *testing.T, text string) (socket string) {
	t.Helper()
	socket = dirOf(t) + "/h.sock"
	listener, err := Listen(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		for _, b := range []byte(text) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	return socket
}

func TestServer_TurnsTheBarredAway(t *testing.T) {
	t.Parallel()
	var asked int
	d := serve(t, &fakeOps{}, func(opt *Options) {
		opt.Barred = func(pid int) string {
			asked = pid
			return "not for you"
		}
	})
	_, err := Dial(t.Context(), d.socket)
	p, refused := errors.AsType[*Problem](err)
	if !refused || p.Code != wire.PermissionDenied || p.Message != "not for you" || asked != os.Getpid() {
		t.Errorf("process %d: %v", asked, err)
	}
	if session, err := DialSession(t.Context(), d.socket, ""); err == nil {
		session.Close()
		t.Error("a session began")
	}
}
