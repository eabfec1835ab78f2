package bridge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/wire"
)

// asks returns what r sends for h, each id of its own called ID.
func asks(r *replay, h handshake, s shown) []string {
	if !r.prepare(h, s) {
		return nil
	}
	text := string(r.lines)
	for id := range r.waits {
		text = strings.ReplaceAll(text, id, "ID")
	}
	clear(r.waits)
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func TestReplay_SaysOnlyWhatIsNewToTheDaemon(t *testing.T) {
	r := newReplay("own-")
	none := shown{}
	h := handshake{initialized: true, level: []byte(`{"id":3,"method":"logging/setLevel"}`)}
	steps := []struct {
		change func()
		shown  bool
		want   []string
	}{
		{change: func() {}}, // not greeted: the agent's own lines say it all
		{change: func() { h.greeting, h.initialized, h.level = []byte(hello), false, nil }, want: []string{helloID}},
		{change: func() {}},
		{change: func() { h.initialized = true }, want: []string{ready}},
		{change: func() {}},
		{change: func() {}, shown: true, want: []string{toolsID}}, // in the meantime, without a daemon
		{change: func() {}, shown: true},
		{change: func() { h.level = []byte(`{"id":3,"method":"x"}`) }, shown: true, want: []string{`{"id":ID,"method":"x"}`}},
	}
	for i, step := range steps {
		step.change()
		s := none
		if step.shown {
			s.set(wire.Tools, wire.Tools.EmptyList())
		}
		if diff := cmp.Diff(step.want, asks(r, h, s)); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}

func TestReplay_AsksEverythingOfAnotherDaemon(t *testing.T) {
	s := shown{}
	s.set(wire.Prompts, wire.Prompts.EmptyList())
	h := handshake{greeting: []byte(hello), initialized: true, level: []byte(`{"id":3,"method":"x"}`)}
	want := []string{helloID, ready, `{"id":ID,"method":"x"}`, promptID}
	for range 2 {
		if diff := cmp.Diff(want, asks(newReplay("own-"), h, s)); diff != "" {
			t.Error(diff)
		}
	}
}
