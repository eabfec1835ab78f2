package run

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"harness/pkg/evidence"
)

// openKeys opens the keys of a directory as a daemon does.
func openKeys(t *testing.T, path string) *Keys {
	t.Helper()
	state, err := evidence.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	k, err := OpenKeys(state, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Close()
		state.Close()
	})
	return k
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// counted is a request that counts how often it is done.
func counted(key, argument string, n *atomic.Int32) Request {
	return Request{
		Key: key, Operation: "op", Arguments: argument,
		Plan: func() string { return fmt.Sprint("plan ", n.Load()) },
		Find: func(string) (any, bool, error) { return nil, false, nil },
		Do: func(plan string) (any, error) {
			n.Add(1)
			return plan, nil
		},
	}
}

func TestKeys_OneEffectAndEqualAnswers(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	k := openKeys(t, dir)
	var n, first atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			result, replayed, err := k.Once(t.Context(), counted("k", "a", &n))
			if err != nil || string(result) != `"plan 0"` {
				t.Errorf("%s, %v", result, err)
			}
			if !replayed {
				first.Add(1)
			}
		})
	}
	wg.Wait()
	if n.Load() != 1 || first.Load() != 1 {
		t.Errorf("done %d times, %d firsts", n.Load(), first.Load())
	}
	for _, k := range []*Keys{k, openKeys(t, dir)} {
		if result, replayed, err := k.Once(t.Context(), counted("k", "a", &n)); err != nil || !replayed || string(result) != `"plan 0"` {
			t.Errorf("%s, %v, %v", result, replayed, err)
		}
		if _, _, err := k.Once(t.Context(), counted("k", "b", &n)); !errors.Is(err, ErrConflict) {
			t.Errorf("other arguments: %v", err)
		}
		other := counted("k", "a", &n)
		other.Operation = "other"
		if _, _, err := k.Once(t.Context(), other); !errors.Is(err, ErrConflict) {
			t.Errorf("another operation: %v", err)
		}
	}
	if n.Load() != 1 {
		t.Errorf("done %d times", n.Load())
	}
	for _, key := range []string{"", strings.Repeat("ü", 129), "\xff"} {
		if _, _, err := k.Once(t.Context(), counted(key, "a", &n)); !errors.Is(err, ErrKey) {
			t.Errorf("%.10q: %v", key, err)
		}
	}
	if _, _, err := k.Once(t.Context(), counted(strings.Repeat("ü", 128), "a", &n)); err != nil {
		t.Error(err)
	}
}

func TestKeys_WhatFailsMayBeAskedForAgain(t *testing.T) {
	t.Parallel()
	k := openKeys(t, tempDir(t))
	r := counted("k", "a", new(atomic.Int32))
	broken := errors.New("broken")
	r.Do = func(string) (any, error) { return nil, broken }
	if _, _, err := k.Once(t.Context(), r); !errors.Is(err, broken) {
		t.Error(err)
	}
	var n atomic.Int32
	if _, replayed, err := k.Once(t.Context(), counted("k", "b", &n)); err != nil || replayed || n.Load() != 1 {
		t.Error(replayed, err)
	}
}

// What was done before something failed is not done again.
func TestKeys_WhatFailedAfterItWasDoneIsFound(t *testing.T) {
	t.Parallel()
	k := openKeys(t, tempDir(t))
	var n atomic.Int32
	broken := errors.New("broken")
	r := counted("k", "a", &n)
	r.Find = func(plan string) (any, bool, error) { return plan, n.Load() > 0, nil }
	r.Do = func(string) (any, error) {
		n.Add(1)
		return nil, broken
	}
	if _, _, err := k.Once(t.Context(), r); !errors.Is(err, broken) {
		t.Error(err)
	}
	if result, replayed, err := k.Once(t.Context(), r); err != nil || !replayed || string(result) != `"plan 0"` || n.Load() != 1 {
		t.Errorf("%s, %v, %d times, %v", result, replayed, n.Load(), err)
	}
}

// A daemon that ended between what it planned and what it answered: the next one
// finds what was done, or does it under the name that was planned.
func TestKeys_GoOnWhereADaemonEnded(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		dir := tempDir(t)
		var n atomic.Int32
		if _, _, err := openKeys(t, dir).Once(t.Context(), counted("k", "a", &n)); err != nil {
			t.Fatal(err)
		}
		results, err := filepath.Glob(filepath.Join(dir, keysDir, "*-result.json"))
		if err != nil || len(results) != 1 {
			t.Fatal(results, err)
		}
		// Torn, as a kill leaves it.
		if err := errors.Join(os.Remove(results[0]), os.WriteFile(results[0], nil, 0o400)); err != nil {
			t.Fatal(err)
		}
		r := counted("k", "a", &n)
		r.Find = func(plan string) (any, bool, error) { return plan, done, nil }
		result, replayed, err := openKeys(t, dir).Once(t.Context(), r)
		if err != nil || string(result) != `"plan 0"` || replayed != done || n.Load() != map[bool]int32{true: 1, false: 2}[done] {
			t.Errorf("done %v: %s, %v, %d times, %v", done, result, replayed, n.Load(), err)
		}
	}
}

func TestKeys_TrustNoRecordThatWasChanged(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	var n atomic.Int32
	if _, _, err := openKeys(t, dir).Once(t.Context(), counted("k", "a", &n)); err != nil {
		t.Fatal(err)
	}
	results, err := filepath.Glob(filepath.Join(dir, keysDir, "*-result.json"))
	if err != nil || len(results) != 1 {
		t.Fatal(results, err)
	}
	entry := keysDir + "/" + filepath.Base(results[0])
	change := map[string]func() error{
		"its mode": func() error { return os.Chmod(results[0], 0o600) },
		"its content": func() error {
			return errors.Join(os.WriteFile(results[0], []byte("{}\n"), 0), os.Chmod(results[0], 0o400))
		},
	}
	for _, what := range []string{"its mode", "its content"} {
		if err := change[what](); err != nil {
			t.Fatal(err)
		}
		var f *evidence.Fault
		if _, _, err := openKeys(t, dir).Once(t.Context(), counted("k", "a", &n)); !errors.As(err, &f) || f.Entry != entry || n.Load() != 1 {
			t.Errorf("%s: %v, want %s", what, err, entry)
		}
	}
}
