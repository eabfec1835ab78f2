package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"harness/integration/bench/baseline"
)

// The notifications that tell of another list.
const (
	toolsChanged   = "notifications/tools/list_changed"
	promptsChanged = "notifications/prompts/list_changed"
)

// clientBuffer is what a client reads at once, in bytes.
const clientBuffer = 64 << 10

// client is one MCP connection. It adds little of its own to what it times:
// nothing is decoded on the way, an answer is found by its id.
type client struct {
	cmd     *exec.Cmd // the process at the other end; nil over a socket
	in      io.WriteCloser
	writing sync.Mutex
	lanes   []lane
	notes   chan note
	over    chan struct{} // closed when there is nothing more to read
	fault   error         // why; valid once over
	stderr  *tail
}

// lane is a place for one request at a time.
type lane struct {
	awaited atomic.Int64 // the id of the request in flight, 0 for none
	asked   int64        // how many were
	out     []byte
	line    []byte // the last answer
	arrived chan struct{}
}

// note is one notification.
type note struct {
	method string
	at     time.Time
}

// launch starts a command and shakes hands with it. The client is ended by
// close, or by ctx.
func launch(ctx context.Context, lanes int, env []string, argv ...string) (*client, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr := &tail{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := newClient(in, out, lanes)
	c.cmd, c.stderr = cmd, stderr
	if err := c.greet(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// newClient speaks over any pair of streams and starts to read.
func newClient(in io.WriteCloser, out io.Reader, lanes int) *client {
	c := &client{
		in: in, lanes: make([]lane, lanes), stderr: &tail{},
		notes: make(chan note, 1024), over: make(chan struct{}),
	}
	for i := range c.lanes {
		c.lanes[i].arrived = make(chan struct{}, 1)
	}
	go func() {
		defer close(c.over)
		c.fault = c.read(out)
	}()
	return c
}

// greet shakes hands.
func (c *client) greet() error {
	_, err := c.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	if err != nil {
		return err
	}
	return c.send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"))
}

// read hands out what arrives until nothing does any more, or something does
// that nobody asked for.
func (c *client) read(out io.Reader) error {
	in := baseline.NewIntake(out, clientBuffer)
	for {
		line, err := in.Next()
		if err != nil {
			return err
		}
		from, to, ok := baseline.IDOf(line)
		if !ok {
			if err := c.notified(line); err != nil {
				return err
			}
			continue
		}
		id, _ := baseline.Number(line[from:to])
		l := &c.lanes[uint64(id)%uint64(len(c.lanes))]
		if id == 0 || !l.awaited.CompareAndSwap(id, 0) {
			return fmt.Errorf("nobody waits for this answer: %.200s", line)
		}
		l.line = append(l.line[:0], line...)
		l.arrived <- struct{}{}
	}
}

func (c *client) notified(line []byte) error {
	at := time.Now()
	var m struct{ Method string }
	if err := json.Unmarshal(line, &m); err != nil || m.Method == "" {
		return fmt.Errorf("neither an answer nor a notification: %.200s", line)
	}
	select {
	case c.notes <- note{m.Method, at}:
		return nil
	default:
		return errors.New("more notifications than anybody takes")
	}
}

func (c *client) send(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.in.Write(line)
	return err
}

// ask sends a request on a lane and returns the line that answers it, valid
// until the lane's next.
func (c *client) ask(n int, method string, params []byte) ([]byte, error) {
	l := &c.lanes[n]
	l.asked++
	id := l.asked*int64(len(c.lanes)) + int64(n)
	l.out = append(l.out[:0], `{"jsonrpc":"2.0","id":`...)
	l.out = strconv.AppendInt(l.out, id, 10)
	l.out = append(append(append(l.out, `,"method":"`...), method...), `","params":`...)
	l.out = append(append(l.out, params...), "}\n"...)
	l.awaited.Store(id)
	if err := c.send(l.out); err != nil {
		return nil, c.why(err)
	}
	select {
	case <-l.arrived:
		return l.line, nil
	case <-c.over:
		return nil, c.why(c.fault)
	}
}

// why adds what the process said last to an error.
func (c *client) why(err error) error { return fmt.Errorf("%w; stderr: %s", err, c.stderr) }

// request asks on the first lane and returns the result.
func (c *client) request(method, params string) (json.RawMessage, error) {
	line, err := c.ask(0, method, []byte(params))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if m.Error != nil || m.Result == nil {
		return nil, fmt.Errorf("%s: %.300s", method, line)
	}
	return m.Result, nil
}

// call calls a tool that has to succeed and returns its text.
func (c *client) call(tool, arguments string) (string, error) {
	raw, err := c.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err != nil {
		return "", err
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return "", err
	}
	if r.IsError || len(r.Content) == 0 {
		return "", fmt.Errorf("%s: %.300s", tool, raw)
	}
	return r.Content[0].Text, nil
}

// tools lists the names of the tools.
func (c *client) tools() ([]string, error) {
	raw, err := c.request("tools/list", "{}")
	if err != nil {
		return nil, err
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range list.Tools {
		if !strings.HasPrefix(t.Name, "harness_") && !strings.Contains(t.Name, "_trajector") {
			names = append(names, t.Name) // and not the daemon's own
		}
	}
	return names, nil
}

// await returns the next notification, which has to be of a method: an idle
// fleet has nothing else to say.
func (c *client) await(method string) (note, error) {
	n, err := c.next()
	if err == nil && n.method != method {
		err = fmt.Errorf("%s came, not %s", n.method, method)
	}
	return n, err
}

// next returns the next notification.
func (c *client) next() (note, error) {
	select {
	case n := <-c.notes:
		return n, nil
	case <-c.over:
		return note{}, c.why(c.fault)
	case <-time.After(patience):
		return note{}, fmt.Errorf("no notification within %v", patience)
	}
}

// drain throws the notifications so far away and returns how many they were.
func (c *client) drain() int {
	n := 0
	for len(c.notes) > 0 {
		<-c.notes
		n++
	}
	return n
}

// close ends the input and waits for the process.
func (c *client) close() {
	c.in.Close()
	if c.cmd == nil {
		return
	}
	kill := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	<-c.over
	_ = c.cmd.Wait() // how it exits is not what is measured
}

// tail keeps the last of what a process writes.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailSize is how much of it, in bytes.
const tailSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	t.buf = t.buf[max(0, len(t.buf)-tailSize):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
