package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/jsonrpc"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// rig is a bridge between an agent on real pipes and daemons on a real socket.
type rig struct {
	t      testing.TB
	socket string
	in     *os.File // what the agent writes to
	out    *os.File // what the agent reads from
	lines  chan string
	ended  chan error

	mu   sync.Mutex
	said []string
}

// newRig starts a bridge. No daemon listens yet.
func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	r := bareRig(t, change...)
	go read(r.out, r.lines)
	return r
}

// bareRig starts a bridge whose agent does not read by itself.
func bareRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	stdin, in, err := os.Pipe()
	out, stdout, err2 := os.Pipe()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	r := &rig{
		t: t, in: in, out: out, socket: filepath.Join(t.TempDir(), "s"),
		lines: make(chan string, 1<<14), ended: make(chan error, 1),
	}
	opt := Options{
		In: stdin, Out: stdout, Version: one, MaxMessage: 64 << 20, StopGrace: patience,
		Say: func(text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, text)
		},
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", r.socket)
		},
	}
	for _, f := range change {
		f(&opt)
	}
	go func() {
		b := newBridge(opt)
		b.session.waits = waits{patience, patience}
		err := b.run(t.Context())
		// As when the process ends.
		stdin.Close()
		stdout.Close()
		r.ended <- err
	}()
	t.Cleanup(func() { in.Close(); out.Close() })
	return r
}

// read sends each line of from to lines, which it closes at the end.
func read(from io.Reader, lines chan<- string) {
	defer close(lines)
	b := bufio.NewReader(from)
	for {
		line, err := b.ReadString('\n')
		if line != "" {
			lines <- line
		}
		if err != nil {
			return
		}
	}
}

// next returns the next of lines without its newline; "" is their end. The last
// line of a peer that broke off is marked.
func next(t testing.TB, lines <-chan string) string {
	t.Helper()
	select {
	case line, ok := <-lines:
		if ok && !strings.HasSuffix(line, "\n") {
			line += " (and no newline)"
		}
		return strings.TrimSuffix(line, "\n")
	case <-time.After(patience):
		t.Fatal("no line came")
		return ""
	}
}

// send writes lines as the agent, with one write.
func (r *rig) send(lines ...string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, strings.Join(lines, "\n")+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

// gets checks what the agent reads next.
func (r *rig) gets(want ...string) {
	r.t.Helper()
	expect(r.t, r.lines, want)
}

// quiet checks that the agent has read all there is: an answer that the bridge
// gives itself comes next.
func (r *rig) quiet() {
	r.t.Helper()
	r.send(`{"jsonrpc":"2.0","id":"quiet","method":"server/discover"}`)
	r.gets(`{"jsonrpc":"2.0","id":"quiet","error":{"code":-32601,"message":"method \"server/discover\" is not served"}}`)
}

// end ends the agent's input and waits for the bridge.
func (r *rig) end() {
	r.t.Helper()
	r.in.Close()
	r.over()
}

// over waits for the bridge to end, and wants no error.
func (r *rig) over() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Fatal(err)
		}
	case <-time.After(patience):
		r.t.Fatal("the bridge does not end")
	}
}

func expect(t testing.TB, lines <-chan string, want []string) {
	t.Helper()
	for _, w := range want {
		if diff := cmp.Diff(w, next(t, lines)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// daemon is a listening daemon that does as the test says.
type daemon struct {
	t  testing.TB
	on *net.UnixListener
}

// listen starts a daemon on the rig's socket.
func (r *rig) listen() *daemon {
	r.t.Helper()
	on, err := net.ListenUnix("unix", &net.UnixAddr{Name: r.socket})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { on.Close() })
	return &daemon{t: r.t, on: on}
}

// accept waits for the bridge to connect. What it sends is read all the time.
func (d *daemon) accept() *peer {
	d.t.Helper()
	p := d.acceptDeaf()
	go read(p.conn, p.lines)
	return p
}

// acceptDeaf is accept of a daemon that never reads.
func (d *daemon) acceptDeaf() *peer {
	d.t.Helper()
	_ = d.on.SetDeadline(time.Now().Add(patience))
	conn, err := d.on.AcceptUnix()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return &peer{t: d.t, daemon: d, conn: conn, lines: make(chan string, 1<<14)}
}

// peer is one session of a daemon.
type peer struct {
	t      testing.TB
	daemon *daemon
	conn   *net.UnixConn
	lines  chan string
}

// gets checks what the daemon reads next.
func (p *peer) gets(want ...string) {
	p.t.Helper()
	expect(p.t, p.lines, want)
}

// asked returns the id and the rest of the next line, which is a request of the
// bridge's own.
func (p *peer) asked() (id, rest string) {
	p.t.Helper()
	line := next(p.t, p.lines)
	var m jsonrpc.Message
	if err := jsonrpc.Peek([]byte(line), &m); err != nil || !strings.HasPrefix(string(m.ID.In([]byte(line))), `"harness-bridge-`) {
		p.t.Fatalf("not a request of the bridge's own: %s", line)
	}
	id = string(m.ID.In([]byte(line)))
	return id, strings.Replace(line, id, "ID", 1)
}

// answers checks the next line, which is a request of the bridge's own and
// called ID in want, and answers it.
func (p *peer) answers(want, result string) {
	p.t.Helper()
	id, rest := p.asked()
	if diff := cmp.Diff(want, rest); diff != "" {
		p.t.Fatal(diff)
	}
	p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

// say writes lines as the daemon, with one write.
func (p *peer) say(lines ...string) {
	p.t.Helper()
	p.sayRaw(strings.Join(lines, "\n") + "\n")
}

func (p *peer) sayRaw(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, text); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the daemon as SIGKILL would.
func (p *peer) kill() {
	p.daemon.on.Close()
	p.conn.Close()
}

// The lines of a plain session.
const (
	hello    = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	helloID  = `{"jsonrpc":"2.0","id":ID,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	welcome  = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}`
	ready    = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	tools    = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	prompts  = `{"jsonrpc":"2.0","id":2,"method":"prompts/list","params":{}}`
	toolsID  = `{"jsonrpc":"2.0","id":ID,"method":"tools/list"}`
	promptID = `{"jsonrpc":"2.0","id":ID,"method":"prompts/list"}`
)

func result(id, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func ask(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"name":"x"}}`, id, method)
}

func changed(kind string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, kind)
}

// What a daemon that is away, or went away, costs.
const (
	absentText = "the harness daemon is not running; start it with `harness daemon`, then try again"
	lostText   = "the harness daemon went away during this request; it was not sent again and may have had its effect"
)

func toolFailure(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"[daemon_unavailable] %s"}],"isError":true,"_meta":{"harness/error":{"code":"daemon_unavailable","message":"%s"}}}}`, id, text, text)
}

func requestFailure(id, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"%s","data":{"code":"daemon_unavailable","message":"%s"}}}`, id, text, text)
}

// greeted makes a session with the daemon's first peer.
func (r *rig) greeted(d *daemon) *peer {
	r.t.Helper()
	p := d.accept()
	r.send(hello)
	p.gets(hello)
	p.say(welcome)
	r.gets(welcome)
	r.send(ready)
	p.gets(ready)
	return p
}

// one is the version of bridges under test.
func one() string { return "1" }
