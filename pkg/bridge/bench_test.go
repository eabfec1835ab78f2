package bridge

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
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
