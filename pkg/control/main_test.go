package control

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harness/pkg/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests for something that has to happen.
const patience = 10 * time.Second

// fakeOps answers with what its fields say.
type fakeOps struct {
	status  func(context.Context) (*Status, error)
	reload  func(context.Context, ReloadRequest) (*ReloadResult, error)
	logs    func(context.Context, LogsRequest, io.Writer) error
	units   func(ctx context.Context, word string, names []string) ([]UnitState, error)
	prompts []PromptInfo
	session func(context.Context, *net.UnixConn, Hello)
	attach  func(AttachRequest) (Terminal, error)
	list    []Harness
	up      func(UpRequest) (*UpResult, error)
	named   func(what, name string) error // down and use
}

func (f *fakeOps) Up(_ context.Context, req UpRequest) (*UpResult, error) { return f.up(req) }

// Operate answers with what it was asked, but for what is called refused.
func (f *fakeOps) Operate(_ context.Context, name string, arguments json.RawMessage, peer Peer) (any, error) {
	if name == "refused" {
		return nil, &Problem{Code: wire.IdempotencyConflict, Message: "no"}
	}
	return map[string]any{"name": name, "arguments": arguments, "mine": peer.PID == os.Getpid() && peer.UID == os.Getuid()}, nil
}

// Output writes two pieces, or says that there is no such run.
func (f *fakeOps) Output(_ context.Context, run string, w io.Writer) error {
	if run != "r" {
		return &Problem{Code: wire.UnknownRun, Message: "no such run"}
	}
	for _, piece := range []string{"one ", "two"} {
		if _, err := io.WriteString(w, piece); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeOps) Down(_ context.Context, project string) error { return f.named("down", project) }

func (f *fakeOps) Projects() []Project { return []Project{{Name: "shop", Path: "/shop/harness.toml"}} }

func (f *fakeOps) Usage() (*Usage, error) {
	return &Usage{Units: List[UnitUsage]{{Kind: "daemon", Name: "daemon", PID: OrNull(7), Memory: OrNull(int64(1 << 20))}}}, nil
}

func (f *fakeOps) Profiles() []Profile { return []Profile{{Name: "day", Members: []string{"a"}}} }

func (f *fakeOps) Checkup(context.Context) (*Checkup, error) {
	c := &Checkup{}
	c.Add("daemon", CheckOK, "runs", "")
	c.Add("path", CheckFailure, "empty", "set it")
	c.Add("watch", CheckWarning, "polling", "")
	return c, nil
}

func (f *fakeOps) Use(_ context.Context, profile string) (*UseResult, error) {
	return &UseResult{Profile: profile}, f.named("use", profile)
}

func (f *fakeOps) List(project string) []Harness {
	var list []Harness
	for _, h := range f.list {
		if project == "" || h.Project != nil && *h.Project == project {
			list = append(list, h)
		}
	}
	return list
}

func (f *fakeOps) Describe(name string) (*Description, error) {
	for _, h := range f.list {
		if h.Name == name {
			return &Description{Harness: h}, nil
		}
	}
	return nil, &Problem{Code: wire.UnknownHarness, Message: "nobody"}
}

func (f *fakeOps) Attach(req AttachRequest) (Terminal, error) { return f.attach(req) }

func (f *fakeOps) Status(ctx context.Context) (*Status, error) { return f.status(ctx) }

func (f *fakeOps) Reload(ctx context.Context, req ReloadRequest) (*ReloadResult, error) {
	return f.reload(ctx, req)
}

func (f *fakeOps) Logs(ctx context.Context, req LogsRequest, w io.Writer) error {
	return f.logs(ctx, req, w)
}

func (f *fakeOps) Start(ctx context.Context, names []string) ([]UnitState, error) {
	return f.units(ctx, "start", names)
}

func (f *fakeOps) Stop(ctx context.Context, names []string) ([]UnitState, error) {
	return f.units(ctx, "stop", names)
}

func (f *fakeOps) Restart(ctx context.Context, names []string) ([]UnitState, error) {
	return f.units(ctx, "restart", names)
}

func (f *fakeOps) Prompts(context.Context, string) ([]PromptInfo, error) { return f.prompts, nil }

func (f *fakeOps) ServeSession(ctx context.Context, conn *net.UnixConn, hello Hello) {
	defer conn.Close()
	f.session(ctx, conn, hello)
}

// dirOf returns a new directory whose path is short enough for a socket.
func dirOf(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hc") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// door is a server that runs.
type door struct {
	socket string
	events *Hub
	// stop ends the server and returns what Serve did.
	stop func() error
}

// serve runs a server of ops until the test ends.
func serve(t testing.TB, ops Ops, change ...func(*Options)) *door {
	t.Helper()
	d := &door{socket: filepath.Join(dirOf(t), "run", "h.sock"), events: &Hub{}}
	opt := Options{
		Version: "1.2.3", Logger: slog.New(slog.DiscardHandler),
		UID: os.Geteuid(), Events: d.events,
	}
	for _, c := range change {
		c(&opt)
	}
	listener, err := Listen(t.Context(), d.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- NewServer(ops, opt).Serve(ctx, listener) }()
	d.stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Error("the server does not end")
			return nil
		}
	})
	t.Cleanup(func() { d.stop() })
	return d
}

// client dials a door, for as long as the test lasts.
func (d *door) client(t testing.TB) *Client {
	t.Helper()
	c, err := Dial(t.Context(), d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// raw connects to a door and sends text.
func (d *door) raw(t testing.TB, text string) *net.UnixConn {
	t.Helper()
	conn, err := dial(t.Context(), d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// within waits for a channel to deliver or close.
func within[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}
