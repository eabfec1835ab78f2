package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSaver_WritesTheLastOfEachAndSaysWhen(t *testing.T) {
	state, log := newState(t)
	s := newSaver(state, state.log)
	s.wait(t.Context()) // nothing was put
	for i := range 100 {
		s.put("a", i)
		s.put("b", i)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.wait(ended) // nobody writes: the caller's end ends it
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	s.wait(t.Context())
	for _, name := range []string{"a", "b"} {
		if text, err := os.ReadFile(filepath.Join(state.path, name)); string(text) != "99\n" {
			t.Errorf("%s holds %q: %v", name, text, err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve returned %v", err)
	}
	s.put("a", "last")
	s.put("c", func() {}) // cannot be written
	s.flush()
	s.wait(t.Context())
	if text, err := os.ReadFile(filepath.Join(state.path, "a")); string(text) != "\"last\"\n" {
		t.Errorf("at the end it holds %q: %v", text, err)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("log: %s", log)
	}
}
