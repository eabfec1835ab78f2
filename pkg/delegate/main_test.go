package delegate

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harness/pkg/contract"
	"harness/pkg/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is the other end of a server.
type client struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *bufio.Reader
	stop  context.CancelFunc
	ended chan error
	root  string
	store *ledger.Store
}

func newRunner(t *testing.T, dir string) *contract.Runner {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	host, closeHost, err := contract.OpenHost(t.Context(), filepath.Join(dir, "hosts"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeHost)
	r := &contract.Runner{
		Engine: &contract.Engine{Host: host, Lookup: os.LookupEnv, Log: log},
		Ledger: ledger.Open(filepath.Join(dir, "ledger")), Principal: ledger.Principal{Tenant: "acme", User: "ann"},
	}
	t.Cleanup(r.Stop)
	return r
}

// serve starts a server with a ledger and a root of its own.
func serve(t *testing.T) *client {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, dir)
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	c := &client{t: t, in: in, out: bufio.NewReader(out), stop: stop, ended: make(chan error, 1), root: root, store: r.Ledger}
	go func() {
		err := Serve(ctx, inRead, outWrite, Options{
			Runner:  r,
			Find:    func(text string) (contract.Source, error) { return contract.Find(text, root, nil) },
			Version: "1", Log: slog.New(slog.DiscardHandler),
		})
		outWrite.Close()
		inRead.Close()
		c.ended <- err
	}()
	t.Cleanup(func() {
		in.Close()
		stop()
		_, _ = io.Copy(io.Discard, out)
	})
	return c
}

func (c *client) write(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) send(f framing, message string) {
	c.t.Helper()
	if f == headers {
		c.write(fmt.Sprintf("Content-Length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n%s", len(message), message))
		return
	}
	c.write(message + "\n")
}

// receive reads one message and the framing it is in.
func (c *client) receive() (string, framing) {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	size, ok := strings.CutPrefix(line, "Content-Length: ")
	if !ok {
		return strings.TrimSuffix(line, "\n"), lines
	}
	n, err := strconv.Atoi(strings.TrimSpace(size))
	if err != nil {
		c.t.Fatal(err)
	}
	body := make([]byte, n+2)
	if _, err := io.ReadFull(c.out, body); err != nil {
		c.t.Fatal(err)
	}
	return string(body[2:]), headers
}

// answer is what was said to a request.
type answer struct {
	ID     any `json:"id"`
	Result struct {
		IsError    bool `json:"isError"`
		Structured struct {
			contract.Answer
			Entries []ledger.Entry `json:"entries"`
		} `json:"structuredContent"`
		Content []struct{ Text string } `json:"content"`
		Tools   []tool                  `json:"tools"`
	} `json:"result"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

func (c *client) call(id int, name string, arguments any) answer {
	c.t.Helper()
	args, err := json.Marshal(arguments)
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, args))
	text, _ := c.receive()
	return decode(c.t, text)
}

func decode(t *testing.T, text string) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal("it never came to that")
		case <-time.After(5 * time.Millisecond):
		}
	}
}
