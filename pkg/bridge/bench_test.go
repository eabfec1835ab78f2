package bridge

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"harness/pkg/jsonrpc"
)

// silent is a connection that takes everything.
type silent struct{ net.Conn }

func (silent) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkBridge is what a call costs the bridge itself: no descriptor is
// behind it.
func BenchmarkBridge(b *testing.B) {
	for _, size := range []int{100, 1 << 20} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			r := newBridge(Options{In: strings.NewReader(""), Out: io.Discard})
			r.link = &link{conn: silent{}}
			var out batch
			question := make([]byte, 0, 256)
			answer := make([]byte, 0, size+256)
			text := `","result":{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}}`
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				question = append(strconv.AppendInt(append(question[:0], `{"jsonrpc":"2.0","id":"`...), int64(i), 10),
					`","method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`...)
				answer = append(strconv.AppendInt(append(answer[:0], `{"jsonrpc":"2.0","id":"`...), int64(i), 10), text...)
				r.gather(question, &out)
				r.flush(&out)
				if r.passes(answer, &r.link.seen) {
					r.edge.Append(answer)
				}
				if !r.toAgent() {
					b.Fatal("the agent is gone")
				}
			}
		})
	}
}

// BenchmarkCopy is one call through real pipes and a real socket: by the
// bridge, and by a copier that knows nothing of lines, the least there can be.
func BenchmarkCopy(b *testing.B) {
	for _, size := range []int{100, 1 << 20} {
		b.Run("bridge/"+strconv.Itoa(size), func(b *testing.B) { benchmarkCopy(b, size, bridged) })
		b.Run("copier/"+strconv.Itoa(size), func(b *testing.B) { benchmarkCopy(b, size, copied) })
	}
}

// bridged and copied connect an agent's two pipes to a daemon's socket until
// the agent ends its input.
func bridged(b *testing.B, in, out *os.File, conn net.Conn) {
	opt := Options{
		In: in, Out: out, MaxMessage: 64 << 20, StopGrace: patience,
		Dial: func(context.Context) (net.Conn, error) { return conn, nil },
	}
	if err := Run(b.Context(), opt); err != nil {
		b.Error(err)
	}
}

func copied(_ *testing.B, in, out *os.File, conn net.Conn) {
	// The wrappers hide the methods that io.Copy would splice with.
	plain := func(to io.Writer, from io.Reader) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 64<<10))
	}
	var back sync.WaitGroup
	back.Go(func() { plain(out, conn) })
	plain(conn, in)
	conn.Close()
	back.Wait()
}

func benchmarkCopy(b *testing.B, size int, connect func(*testing.B, *os.File, *os.File, net.Conn)) {
	stdin, in, err := os.Pipe()
	out, stdout, err2 := os.Pipe()
	if err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
	here, there := socketPair(b)
	answer := []byte(result("1", `"`+strings.Repeat("x", size)+`"`) + "\n")
	go func() {
		lines := jsonrpc.NewReader(here, bufferSize, 0)
		for {
			if _, err := lines.Next(); err != nil {
				return
			}
			if _, err := here.Write(answer); err != nil {
				return
			}
		}
	}()
	var over sync.WaitGroup
	over.Go(func() {
		connect(b, stdin, stdout, there)
		stdout.Close()
	})
	question := []byte(ask("1", "tools/call") + "\n")
	rest := make([]byte, len(answer))
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := in.Write(question); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(out, rest); err != nil {
			b.Fatal(err)
		}
	}
	if !bytes.Equal(rest, answer) {
		b.Error("another answer came")
	}
	in.Close()
	over.Wait()
	here.Close()
	out.Close()
	stdin.Close()
}
