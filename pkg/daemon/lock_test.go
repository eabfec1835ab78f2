package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestLock_LetsOneInAndNamesItToTheSecond(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "daemon.lock")
	release, err := lock(t.Context(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got := mode(t, path); got != 0o600 {
		t.Errorf("mode %o", got)
	}
	begun := time.Now()
	if _, err := lock(t.Context(), dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("the second: %v", err)
	}
	if took := time.Since(begun); took > namedWithin/2 {
		t.Errorf("it took %v", took)
	}
	release()
	release, err = lock(t.Context(), dir, slog.New(slog.DiscardHandler)) // the file is there, but nobody holds it
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestLock_WaitsForANameOfTheOneThatHoldsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "daemon.lock")
		release, err := lock(t.Context(), dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		write(t, path, "1999999999\n") // of a predecessor that is gone
		go func() {
			time.Sleep(50 * time.Millisecond)
			write(t, path, fmt.Sprintln(os.Getpid()))
		}()
		if _, err := lock(t.Context(), dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
			t.Errorf("the second: %v", err)
		}
		write(t, path, "no number")
		begun := time.Now()
		if _, err := lock(t.Context(), dir, slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "pid") || time.Since(begun) != namedWithin {
			t.Errorf("with no name to be had: %v after %v", err, time.Since(begun))
		}
	})
}

func TestLock_SetsAPipeAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "daemon.lock")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	release, err := lock(t.Context(), dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if writtenPID(path) != os.Getpid() || !strings.Contains(log.String(), "set aside") {
		t.Errorf("pid %d, log %s", writtenPID(path), &log)
	}
	if _, err := lock(t.Context(), dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a second one got in")
	}
}

func TestWithin_GivesUpAStartThatHearsOfNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		held := make(chan struct{})
		defer close(held)
		time.AfterFunc(time.Minute, cancel)
		begun := time.Now()
		err := within(ctx, func() error { <-held; return nil })
		if took := time.Since(begun); !errors.Is(err, errHeldUp) || took != time.Minute+stopWithin {
			t.Errorf("%v after %v", err, took)
		}
		if err := within(ctx, func() error { return io.EOF }); !errors.Is(err, io.EOF) {
			t.Errorf("one that does: %v", err)
		}
	})
}
