package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"harness/integration/bench/baseline"
)

// patience is how long anything is waited for that has no bound of its own. It
// is spent only by a run that fails.
const patience = 30 * time.Second

// run is what the benchmarks of this process share: how much to measure, and
// what was found. TestMain needs both, and `go test` hands it nothing.
var run struct {
	scale  scale
	binary string  // measured instead of one built from this tree; "" for none
	built  string  // the directory of what was built; "" for nothing
	load   float64 // of the machine before this process was any of it

	mu    sync.Mutex
	found []figure
}

// loadRole is what this binary can be besides a test.
const loadRole = "load"

// TestMain makes load when it is asked for that. Otherwise it runs tests and
// benchmarks, and prints what the benchmarks found.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == loadRole {
		if err := runLoad(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", loadRole, err)
			os.Exit(1)
		}
		return
	}
	// Under the race detector every process would wait a second at its end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	run.scale, run.load = full(), loadAverage()
	flag.IntVar(&run.scale.rounds, "rounds", run.scale.rounds, "how often the contestants of a part take turns")
	flag.DurationVar(&run.scale.span, "span", run.scale.span, "how long one contestant is under load in one round")
	flag.StringVar(&run.binary, "harness", "", "measure this binary, and not one built from this tree")
	code := m.Run()
	if len(run.found) > 0 {
		fmt.Printf("\n%s\n\n", machine())
		if err := writeTable(os.Stdout, run.found); err != nil {
			code = 1
		}
	}
	if err := os.RemoveAll(run.built); err != nil {
		code = 1
	}
	os.Exit(code)
}

// workshop makes the directory of what is built, once.
var workshop = sync.OnceValues(func() (dir string, err error) {
	run.built, err = os.MkdirTemp("", "hb")
	return run.built, err
})

// build makes the harness of this tree, once, and returns its path. Only a
// smoke test can be under the race detector, and then so is harness.
var build = sync.OnceValues(func() (string, error) {
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "harness")
	cmd := exec.Command("go", "build", "-o", path)
	if raceEnabled {
		cmd.Args = append(cmd.Args, "-race")
	} else {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is installed
	}
	cmd.Args = append(cmd.Args, "harness/cmd/harness")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build harness: %w\n%s", err, out)
	}
	return path, settle(path)
})

// settle puts a file in its own place anew, as a package's files are put where
// they stay. A file as the linker wrote it is in memory in small pieces until it
// is read from the disk again, and every start pays for each of them.
func settle(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("settle a program: %w", err)
	}
	if err := os.WriteFile(path+".new", data, 0o700); err != nil {
		return fmt.Errorf("settle a program: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("settle a program: %w", err)
	}
	return nil
}

// harness is the path of the binary that is measured.
func harness(tb testing.TB) string {
	tb.Helper()
	if run.binary != "" {
		return run.binary
	}
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// buildBaseline makes the program of the baselines, once, and returns its path.
var buildBaseline = sync.OnceValues(func() (string, error) {
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	return baseline.Build(dir)
})

// against is the command of a baseline.
func against(tb testing.TB, role string, args ...string) []string {
	tb.Helper()
	path, err := buildBaseline()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]string{path, role}, args...)
}

// scale is how much is measured.
type scale struct {
	rounds   int           // of whatever takes turns
	span     time.Duration // under load, in a round
	clients  int           // the most at once in a part about calls
	reps     int           // edits and reloads of a kind
	starts   int           // of a bridge, or a daemon
	sessions int           // open at once
	rest     time.Duration // before memory is read
	fleet    int           // upstreams of a large fleet; a small one has two
	crew     int           // upstreams of a daemon whose start is timed
	servers  int           // upstreams that offer tools each
	tools    int
	tables   int // of a large config
	blob     int // bytes of a large answer
}

// full is what a figure needs.
func full() scale {
	return scale{
		rounds: 5, span: time.Second, clients: 8, reps: 25, starts: 20, sessions: 100, rest: 2 * time.Second,
		fleet: 200, crew: 20, servers: 100, tools: 50, tables: 1000, blob: 1 << 20,
	}
}

// tiny is enough to see that everything works.
func tiny() scale {
	return scale{
		rounds: 1, span: 10 * time.Millisecond, clients: 2, reps: 1, starts: 1, sessions: 2, rest: time.Millisecond,
		fleet: 3, crew: 2, servers: 2, tools: 6, tables: 50, blob: 200 << 10,
	}
}

// part measures one thing. It fails tb when an answer is wrong, never because
// of a time.
type part struct {
	group, name string
	run         func(tb testing.TB, s scale) []figure
}

// benchmark runs parts at full scale and reports what they found.
func benchmark(b *testing.B, parts []part) {
	b.Helper()
	if raceEnabled {
		b.Fatal("built with -race: the figures would be the race detector's; run it without")
	}
	for _, p := range parts {
		b.Run(p.name, func(b *testing.B) {
			var found []figure
			for b.Loop() {
				found = p.run(b, run.scale)
			}
			b.ReportMetric(0, "ns/op") // a part is no operation
			report(b, p.group+" "+p.name, found)
		})
	}
}

// report hands figures to the benchmark and to the table. Of two figures with
// one name the benchmark has the first.
func report(b *testing.B, name string, found []figure) {
	b.Helper()
	run.mu.Lock()
	defer run.mu.Unlock()
	seen := map[string]bool{}
	metric := func(value float64, unit string) {
		if !seen[unit] {
			seen[unit] = true
			b.ReportMetric(value, unit)
		}
	}
	for _, f := range found {
		f.part = name
		run.found = append(run.found, f)
		metric(f.value, f.unit)
		if f.ratio != 0 {
			metric(f.ratio, "x-"+f.than)
		}
	}
}

// machine is the head of the table: figures mean nothing without it.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // the line is good without it
	head := fmt.Sprintf("%d CPUs, %s, Linux %s, load %.1f at the start; %d rounds of %v",
		runtime.NumCPU(), runtime.Version(), bytes.TrimSpace(kernel), run.load, run.scale.rounds, run.scale.span)
	if run.load > float64(runtime.NumCPU())/2 {
		head += "\nThe machine was busy: bounds in ms or µs are for an idle one."
	}
	return head
}

// loadAverage is how many processes wanted a CPU in the last minute.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64) // 0 where nobody knows
	return load
}

// TestSmoke_EveryPartRunsAndEveryAnswerIsRight runs what the benchmarks run,
// small enough for every test run. No time is looked at.
func TestSmoke_EveryPartRunsAndEveryAnswerIsRight(t *testing.T) {
	for _, p := range allParts() {
		t.Run(p.group+"/"+p.name, func(t *testing.T) {
			t.Parallel()
			found := p.run(t, tiny())
			if len(found) == 0 {
				t.Error("it has no figures")
			}
			for _, f := range found {
				if strings.ContainsAny(f.unit, " \t") || f.what == "" || f.unit == "" {
					t.Errorf("a figure that cannot be reported: %+v", f)
				}
			}
		})
	}
}
