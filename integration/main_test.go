package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"harness/integration/fakeup"
	"harness/integration/unprefix"
)

// TestMain removes what the tests built. Called by another name, the test
// binary is the filter of the conformance suite, or what takes the means of a
// sandbox from a program.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == unprefix.Name {
		os.Exit(unprefix.Main(os.Args[1:]))
	}
	if filepath.Base(os.Args[0]) == bareName {
		fmt.Fprintln(os.Stderr, bareMain(os.Args[1:]))
		os.Exit(1)
	}
	code := m.Run()
	if dir, err := programs(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// programs builds harness and fake-upstream, once, and returns the directory
// they are in. harness is built as these tests were: with -race when they
// have it, and with coverage when GOCOVERDIR asks for it.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hb")
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", filepath.Join(dir, "harness")}
	if raceEnabled {
		args = append(args, "-race")
	}
	if os.Getenv("GOCOVERDIR") != "" {
		args = append(args, "-cover", "-coverpkg=harness/...")
	}
	out, err := exec.Command("go", append(args, "harness/cmd/harness")...).CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("build harness: %w\n%s", err, out)
	}
	_, err = fakeup.Build(dir)
	return dir, err
})

// bin is programs for a test that cannot go on without.
func bin(t testing.TB) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// within is a time the specification allows, ten times over: tests share the
// machine with whatever else runs on it, and the race detector has its price.
// What it tells apart is "at once" from "after a timeout". The benchmarks hold
// the figures themselves.
func within(d time.Duration) time.Duration { return 10 * d }

// patience is how long a test waits for what has no bound of its own. It is
// spent only by a test that fails.
const patience = time.Minute

// eventually polls ok until it holds; after patience the test fails with what
// was waited for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventuallyIn(t, patience, what, ok)
}

// eventuallyIn is eventually with a bound of the caller's.
func eventuallyIn(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-tick.C
	}
}

// never watches for d that bad does not hold. It is for what must not happen,
// where there is nothing to wait for.
func never(t testing.TB, d time.Duration, what string, bad func() bool) {
	t.Helper()
	end := time.After(d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if bad() {
			t.Fatalf("happened: %s", what)
		}
		select {
		case <-end:
			return
		case <-tick.C:
		}
	}
}
