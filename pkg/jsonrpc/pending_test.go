package jsonrpc

import (
	"maps"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPending_BehavesLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Pending
		model := map[uint64]*Call{}
		var last uint64
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "calls") {
					c := &Call{}
					n := p.Add(c)
					if n <= last {
						t.Fatalf("number %d follows %d", n, last)
					}
					last, model[n] = n, c
				}
			},
			"take": func(t *rapid.T) {
				n := rapid.Uint64Range(0, last+2).Draw(t, "number")
				if got := p.Get(n); got != model[n] {
					t.Errorf("call %d is %p, want %p", n, got, model[n])
				}
				if got := p.Take(n); got != model[n] {
					t.Errorf("call %d taken is %p, want %p", n, got, model[n])
				}
				delete(model, n)
			},
			"take most": func(t *rapid.T) {
				for n := range p.All() {
					if n%7 != 0 {
						p.Take(n)
						delete(model, n)
					}
				}
			},
			"": func(t *rapid.T) {
				all := maps.Collect(p.All())
				if diff := cmp.Diff(model, all, cmp.Comparer(func(a, b *Call) bool { return a == b })); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if p.Len() != len(model) {
					t.Errorf("%d calls, want %d", p.Len(), len(model))
				}
			},
		})
	})
}

func TestPending_StaysSmallWhileACallIsSlow(t *testing.T) {
	var p Pending
	slow := &Call{}
	n := p.Add(slow)
	for range 100_000 {
		p.Take(p.Add(&Call{}))
	}
	if len(p.slots) > 16 {
		t.Errorf("two calls at a time took %d slots", len(p.slots))
	}
	if p.Take(n) != slow || p.Take(n) != nil {
		t.Error("the slow call is not there once, and once only")
	}
}

func TestNewCall_KeepsCopies(t *testing.T) {
	for _, size := range []int{0, 1, 20, 47, 48, 49, 200} {
		id := []byte(strconv.Itoa(size) + string(make([]byte, size)))
		token := []byte(`"` + string(id) + `"`)
		wantID, wantToken := string(id), string(token)
		c := NewCall(nil, id, token)
		clear(id)
		clear(token)
		_ = append(c.ID, "more"...)
		if string(c.ID) != wantID || string(c.Token) != wantToken {
			t.Errorf("call has id %q and token %q, want %q and %q", c.ID, c.Token, wantID, wantToken)
		}
	}
	if c := NewCall(nil, []byte("1"), nil); c.Token != nil {
		t.Errorf("token is %q, want none", c.Token)
	}
}

func BenchmarkPending(b *testing.B) {
	var p Pending
	c := &Call{}
	for range 64 {
		p.Add(c)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Take(p.Add(c) - 64)
	}
}

func BenchmarkPendingByMap(b *testing.B) {
	m, last, c := map[uint64]*Call{}, uint64(64), &Call{}
	for n := range last {
		m[n+1] = c
	}
	b.ReportAllocs()
	for b.Loop() {
		last++
		m[last] = c
		delete(m, last-64)
	}
}
