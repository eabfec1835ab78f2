package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/jsonrpc"
)

// asking is a session that notes what it is asked. It is used by one goroutine.
type asking struct {
	*agent
	open []*jsonrpc.Question
	took int // withdrawn
}

func (a *asking) Ask(q *jsonrpc.Question, _ []byte, _ *jsonrpc.Message) string {
	a.open = append(a.open, q)
	return ""
}

func (a *asking) Withdraw(q *jsonrpc.Question, _ []byte) {
	if i := slices.Index(a.open, q); i >= 0 {
		a.open = slices.Delete(a.open, i, i+1)
		a.took++
	}
}

// asks returns a connection of that session alone, what it was refused, and a
// function that has the process ask.
func asks(t *testing.T, a *asking) (c *conn, refused *[]string, ask func(id string)) {
	out := &strings.Builder{}
	_, c = switched(out)
	t.Cleanup(func() { _ = c.out.Close() })
	c.only, refused = a, &[]string{}
	c.refused = func(why string) { *refused = append(*refused, why) }
	return c, refused, func(id string) {
		c.line(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"roots/list"}`, id), false)
	}
}

func TestAsk_HoldsAProcessToWhatCanBeAnswered(t *testing.T) {
	a := &asking{agent: newAgent()}
	c, refused, ask := asks(t, a)
	ask("0")
	ask("0")
	for i := range maxQuestions {
		ask(fmt.Sprint(i + 1))
	}
	want := []string{
		"roots/list was asked of nobody: one with the same id is not answered yet",
		"roots/list was asked of nobody: too many are not answered yet",
	}
	if diff := cmp.Diff(want, *refused); diff != "" || len(a.open) != maxQuestions {
		t.Errorf("%d were asked\n%s", len(a.open), diff)
	}
	c.Gone(a.open[0])
	ask("0")
	if len(a.open) != maxQuestions+1 {
		t.Errorf("after an answer %d were asked", len(a.open))
	}
}

// What a process still says once its calls were failed is asked of nobody: it
// could be taken back no more.
func TestAsk_AsksNothingForAProcessThatIsOver(t *testing.T) {
	a := &asking{agent: newAgent()}
	c, refused, ask := asks(t, a)
	ask("1")
	c.withdrawAll()
	ask("2")
	if a.took != 1 || len(a.open) != 0 || len(*refused) != 1 {
		t.Errorf("%d taken back, %d open, refused %q", a.took, len(a.open), *refused)
	}
	c.Gone(&jsonrpc.Question{ID: []byte("1")}) // as late as it may come
}
