package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reader is who follows a log.
type reader struct {
	mu   sync.Mutex
	text bytes.Buffer
	gone bool
}

// Write implements [io.Writer].
func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return 0, errors.New("nobody reads")
	}
	return r.text.Write(p)
}

// read returns what came since the last call.
func (r *reader) read() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.text.String()
	r.text.Reset()
	return text
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// rotate moves a log aside, as often as it has files.
func rotate(t *testing.T, l logFile, keep int) {
	t.Helper()
	for i := keep; i > 0; i-- {
		if err := os.Rename(l.name(i-1), l.name(i)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// following follows a log in the background; end waits until that is over.
func following(t *testing.T, l logFile, n int) (r *reader, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r = &reader{}
	done := make(chan error, 1)
	go func() { done <- l.follow(ctx, r, n) }()
	synctest.Wait()
	return r, func() error { cancel(); return <-done }
}

func TestLogs_AreFollowedAcrossRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logFile{filepath.Join(t.TempDir(), "up.log")}
		appendTo(t, l.path, "1\n2\n3\n")
		r, end := following(t, l, 2)
		expect := func(when, want string) {
			t.Helper()
			time.Sleep(followEvery)
			synctest.Wait()
			if diff := cmp.Diff(want, r.read()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		expect("the end of what there is", "2\n3\n")
		appendTo(t, l.path, "4\n")
		expect("appended", "4\n")
		appendTo(t, l.path, "5\n")
		rotate(t, l, 3)
		expect("moved aside, no new one yet", "5\n")
		appendTo(t, l.path, "6\n")
		rotate(t, l, 3)
		appendTo(t, l.path, "7\n")
		rotate(t, l, 3)
		appendTo(t, l.path, "8\n")
		expect("twice between two looks", "6\n7\n8\n")
		for i := range 5 {
			appendTo(t, l.path, fmt.Sprintln("old", i))
			rotate(t, l, 3)
		}
		appendTo(t, l.path, "nine\n")
		expect("more often than files are kept", "old 0\nnine\n")
		if err := os.Truncate(l.path, 0); err != nil {
			t.Fatal(err)
		}
		appendTo(t, l.path, "X\n")
		expect("written anew", "X\n")
		if err := os.Remove(l.path); err != nil {
			t.Fatal(err)
		}
		expect("removed", "")
		appendTo(t, l.path, "Y\n")
		expect("made again", "Y\n")
		if err := end(); err != nil {
			t.Errorf("in the end: %v", err)
		}
	})
}

func TestLogs_AreShownWholeWhereAllIsAskedFor(t *testing.T) {
	l := logFile{filepath.Join(t.TempDir(), "up.log")}
	var want strings.Builder
	for i := range 3 {
		text := strings.Repeat(fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 98)), 8<<10)
		want.WriteString(text)
		rotate(t, l, 3)
		appendTo(t, l.path, text)
	}
	var got bytes.Buffer
	if err := l.tail(&got, 0); err != nil || got.String() != want.String() {
		t.Errorf("%d of %d bytes, %v", got.Len(), want.Len(), err)
	}
	// In the moment of rotation, the current file is missing.
	rotate(t, l, 3)
	got.Reset()
	if err := l.tail(&got, 0); err != nil || got.String() != want.String() {
		t.Errorf("while it is rotated: %d of %d bytes, %v", got.Len(), want.Len(), err)
	}
	got.Reset()
	if err := (logFile{l.path + ".none"}).tail(&got, 0); err != nil || got.Len() > 0 {
		t.Errorf("of a log that was never written to: %q, %v", got.String(), err)
	}
}

func TestLogs_AreFollowedFromTheirFirstLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logFile{filepath.Join(t.TempDir(), "up.log")}
		if err := l.tail(&bytes.Buffer{}, 10); err != nil {
			t.Errorf("a log that was never written to: %v", err)
		}
		r, end := following(t, l, 10)
		time.Sleep(time.Second)
		appendTo(t, l.path, "first\n")
		time.Sleep(followEvery)
		synctest.Wait()
		if got := r.read(); got != "first\n" {
			t.Errorf("read %q", got)
		}
		if err := end(); err != nil {
			t.Errorf("in the end: %v", err)
		}
	})
}

func TestLogs_AreNotFollowedForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logFile{filepath.Join(t.TempDir(), "up.log")}
		appendTo(t, l.path, "1\n")
		r, end := following(t, l, 1)
		r.mu.Lock()
		r.gone = true
		r.mu.Unlock()
		appendTo(t, l.path, "2\n")
		time.Sleep(followEvery)
		synctest.Wait()
		if err := end(); err == nil || !strings.Contains(err.Error(), "nobody reads") {
			t.Errorf("in the end: %v", err)
		}
	})
}

func TestLogs_AreReadAgainWhenTheyGrewMeanwhile(t *testing.T) {
	l := logFile{filepath.Join(t.TempDir(), "up.log")}
	if !l.endsAt(nil, 0) {
		t.Error("a log that is not there has changed")
	}
	appendTo(t, l.path, "1\n")
	f, end, err := openEnd(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !l.endsAt(f, end) || l.endsAt(nil, 0) {
		t.Error("a log that rests has changed")
	}
	appendTo(t, l.path, "2\n")
	if l.endsAt(f, end) {
		t.Error("a log that grew has not changed")
	}
	rotate(t, l, 1)
	appendTo(t, l.path, "3\n")
	if l.endsAt(f, end) {
		t.Error("a log that was rotated has not changed")
	}
}
