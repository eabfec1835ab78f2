package upstream

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"harness/pkg/jsonrpc"
	"harness/pkg/proc"
	"harness/pkg/wire"
)

// pipes is a spawner whose one kind of program answers every request with a
// text of the size its definition names, over real pipes and without looking
// further than it must: what remains is the cost of the relay.
type pipes struct{}

// Start implements [spawner].
func (pipes) Start(spec proc.Spec) (child, error) {
	var size int
	if _, err := fmt.Sscan(lookup(spec.Env, fakeVariable), &size); err != nil {
		return nil, err
	}
	c := &pipeChild{exited: make(chan struct{})}
	var in, out *os.File
	var err error
	if in, c.stdin, err = os.Pipe(); err != nil {
		return nil, err
	}
	if c.stdout, out, err = os.Pipe(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.exited)
		answerAll(in, out, strings.Repeat("x", size))
		in.Close()
		out.Close()
	}()
	return c, nil
}

// answerAll answers the lines of in with text until they end.
func answerAll(in io.Reader, out *os.File, text string) {
	r := jsonrpc.NewReader(in, readBuffer, 0)
	batch, content := []byte{}, []byte(`{"content":[{"type":"text","text":"`+text+`"}]}`)
	for {
		line, err := r.Next()
		if err != nil {
			return
		}
		var m jsonrpc.Message
		if jsonrpc.Peek(line, &m) == nil && m.ID.Present() {
			result := content
			switch string(m.Method.In(line)) {
			case `"initialize"`:
				result = []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`)
			case `"tools/list"`:
				result = []byte(`{"tools":[{"name":"echo"}]}`)
			}
			batch = append(wire.AppendResult(batch, m.ID.In(line), result), '\n')
		}
		if !r.More() {
			if _, err := out.Write(batch); err != nil {
				return
			}
			batch = batch[:0]
		}
	}
}

// pipeChild is a process in memory with real pipes.
type pipeChild struct {
	stdin, stdout *os.File
	exited        chan struct{}
}

func (c *pipeChild) Stdin() io.Writer        { return c.stdin }
func (c *pipeChild) Stdout() io.ReadCloser   { return c.stdout }
func (c *pipeChild) Stderr() io.ReadCloser   { return io.NopCloser(strings.NewReader("")) }
func (c *pipeChild) PID() int                { return 1 }
func (c *pipeChild) Exited() <-chan struct{} { return c.exited }
func (c *pipeChild) Exit() proc.Exit         { return proc.Exit{} }
func (c *pipeChild) Stop(time.Duration) {
	c.stdin.Close()
	<-c.exited
}

// caller is the least a session can be: it copies answers and counts them.
type caller struct {
	mu    sync.Mutex
	out   []byte
	ready chan int
	n     int
}

func (c *caller) Answer(call *jsonrpc.Call, line []byte, m *jsonrpc.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = jsonrpc.Splice(c.out, line, jsonrpc.Edit{At: m.ID, With: call.ID})
	c.n++
}

func (c *caller) Progress(*jsonrpc.Call, []byte, *jsonrpc.Message) {}
func (c *caller) Fail(_ *jsonrpc.Call, e *jsonrpc.CallError)       { panic(e) }

func (c *caller) Flush() {
	c.mu.Lock()
	n := c.n
	c.n, c.out = 0, c.out[:0]
	c.mu.Unlock()
	c.ready <- n
}

// BenchmarkRelay measures calls from an agent's line to the answer's copy,
// through real pipes and a program that does next to nothing, with calls in
// flight one at a time and eight at a time.
func BenchmarkRelay(b *testing.B) {
	for _, bc := range []struct {
		name           string
		size, inFlight int
	}{
		{"100B", 100, 1},
		{"100B-8-in-flight", 100, 8},
		{"1MiB", 1 << 20, 1},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := makeRig(b, func(o Options) *Pool { return newPool(o, pipes{}) })
			l := r.launch("up", script{})
			l.Env[fakeVariable] = strconv.Itoa(bc.size)
			u := r.startReal(l)
			c := &caller{ready: make(chan int, 64)}
			line := []byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"up__echo","arguments":{"text":"` +
				strings.Repeat("y", 40) + `"}}}`)
			var m jsonrpc.Message
			if err := jsonrpc.Peek(line, &m); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(bc.size))
			b.ReportAllocs()
			relayAll(b, u, c, line, &m, bc.inFlight)
		})
	}
}

// relayAll keeps calls in flight until b.N have been answered.
func relayAll(b *testing.B, u *Unit, c *caller, line []byte, m *jsonrpc.Message, inFlight int) {
	b.Helper()
	var batch jsonrpc.Batch
	tool, open := []byte(`"echo"`), 0
	for sent := 0; sent < b.N || open > 0; {
		for ; open < inFlight && sent < b.N; open, sent = open+1, sent+1 {
			call := jsonrpc.NewCall(c, m.ID.In(line), nil)
			call.Name, call.Key = jsonrpc.Edit{At: m.Name, With: tool}, "up"
			if e := u.Relay(call, line, m, &batch); e != nil {
				b.Fatal(e)
			}
		}
		batch.Flush()
		open -= <-c.ready
	}
}
