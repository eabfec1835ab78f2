package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLock_LetsOneInAndNamesItToTheSecond(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "daemon.lock")
	release, err := lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := mode(t, path); got != 0o600 {
		t.Errorf("mode %o", got)
	}
	begun := time.Now()
	if _, err := lock(t.Context(), dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("the second: %v", err)
	}
	if took := time.Since(begun); took > namedWithin/2 {
		t.Errorf("it took %v", took)
	}
	release()
	release, err = lock(t.Context(), dir) // the file is there, but nobody holds it
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestLock_WaitsForANameOfTheOneThatHoldsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "daemon.lock")
		release, err := lock(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		write(t, path, "1999999999\n") // of a predecessor that is gone
		go func() {
			time.Sleep(50 * time.Millisecond)
			write(t, path, fmt.Sprintln(os.Getpid()))
		}()
		if _, err := lock(t.Context(), dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
			t.Errorf("the second: %v", err)
		}
		write(t, path, "no number")
		begun := time.Now()
		if _, err := lock(t.Context(), dir); err == nil || strings.Contains(err.Error(), "pid") || time.Since(begun) != namedWithin {
			t.Errorf("with no name to be had: %v after %v", err, time.Since(begun))
		}
	})
}
