package upstream

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/jsonrpc"
)

// switched returns a board whose calls go to a connection that writes to out.
func switched(out io.Writer) (*board, *conn) {
	b := &board{key: "up", hurry: func() {}}
	c := newConn(b, out, 1<<20, func(string, []byte) {})
	b.set(route{conn: c, limit: 1 << 20})
	return b, c
}

func TestConn_FlushesEachOwnerOnceForWhatCameInTogether(t *testing.T) {
	b, c := switched(io.Discard)
	u, x, y := &Unit{key: "up", board: b}, newAgent(), newAgent()
	for range 3 {
		x.call(u, "echo", "1")
		y.call(u, "echo", "1")
	}
	var lines []byte
	for _, id := range []string{"5", "1", "2", "6", "3", "4"} {
		lines = append(lines, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`+"\n"...)
	}
	if err := c.read(jsonrpc.NewReader(bytes.NewReader(lines), readBuffer, 1<<20)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	x.once(t)
	y.once(t)
	if diff := cmp.Diff([]int{1, 1}, []int{x.flushed, y.flushed}); diff != "" {
		t.Error(diff)
	}
	_ = c.out.Close()
}

func TestConn_TakesNoAnswerFromTheWrongProcess(t *testing.T) {
	b, old := switched(io.Discard)
	u, a := &Unit{key: "up", board: b}, newAgent()
	held := a.call(u, "echo", "1")
	other := newConn(b, io.Discard, 1<<20, func(string, []byte) {})
	other.line([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), false)
	if !held.open() {
		t.Error("an answer of another process was taken")
	}
	old.line([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), false)
	old.line([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), false)
	a.once(t)
	_ = old.out.Close()
	_ = other.out.Close()
}

// FuzzConn feeds lines of a hostile upstream to a connection with two calls
// under way: it may answer each once, and nothing else may happen.
func FuzzConn(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"id":2,"error":{"code":1,"message":"x"}}` + "\n" + `{"id":2,"result":1}`,
		`{"method":"notifications/progress","params":{"progressToken":1}}`,
		`{"id":"q","method":"ping"}` + "\n" + `{"id":1,"result":{"a":[1}` + "\n\n[]\nnull\n{",
		`{"id":"h1","result":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, c := switched(io.Discard)
		u, a := &Unit{key: "up", board: b}, newAgent()
		params := `{"name":"up__echo","_meta":{"progressToken":7}}`
		open := []*outcome{a.send(u, "echo", params, []byte("7")), a.send(u, "echo", params, []byte("7"))}
		if err := c.read(jsonrpc.NewReader(bytes.NewReader(data), readBuffer, 1<<16)); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		deliver(b.cutAll(c, outage{state: Restarting}))
		a.once(t)
		for _, o := range open {
			if u.Cancel(o.call, nil) {
				t.Error("a call with an outcome could be cancelled")
			}
		}
		_ = c.out.Close()
	})
}
