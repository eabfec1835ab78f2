package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"harness/pkg/ledger"
)

// BenchmarkContract takes what a contract costs beyond its checks, how contracts
// share the processors, and how long it takes to verify a ledger.
func BenchmarkContract(b *testing.B) { benchmark(b, contractParts()) }

func contractParts() []part {
	return []part{
		{"contract", "ten", tenChecks},
		{"contract", "eight", eightContracts},
		{"contract", "verify", verifyLedger},
	}
}

// checks is a contract of n checks, each of which runs a script.
func checks(n int, script string) string {
	var b strings.Builder
	b.WriteString("[contract]\nname = 'checks'\nenv = ['PATH']\n")
	for i := range n {
		fmt.Fprintf(&b, "[[check]]\nname = 'c%d'\ncmd = 'sh'\nargs = ['-c', '%s']\n", i, script)
	}
	return b.String()
}

// contractIn writes a contract of its own directory below the home.
func (h *home) contractIn(name, text string) (path string) {
	h.tb.Helper()
	path = filepath.Join(h.dir, name, "c.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.tb.Fatal(err)
	}
	return path
}

// timed runs a command that has to succeed and returns how long it took, in ms.
func (h *home) timed(name string, args ...string) float64 {
	h.tb.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = append(h.env, "PATH="+os.Getenv("PATH")), h.dir
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := millis(time.Since(began))
	if err != nil {
		h.tb.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return took
}

// tenChecks compares a contract of ten trivial checks with a shell script that
// runs the same ten.
func tenChecks(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	path := h.contractIn("ten", checks(10, ":"))
	script := strings.Repeat("sh -c :\n", 10)
	h.timed(harness(tb), "contract", "run", path) // makes the key
	var ours, theirs, excess []float64
	for range max(s.rounds, s.starts/2) {
		theirs = append(theirs, h.timed("sh", "-c", script))
		ours = append(ours, h.timed(harness(tb), "contract", "run", path, "--json"))
		excess = append(excess, ours[len(ours)-1]-theirs[len(theirs)-1])
	}
	return []figure{
		{what: "a contract of ten checks", unit: "ms-p50", value: median(ours), than: "sh", base: median(theirs), ratio: median(ratios(ours, theirs))},
		{what: "beyond the script", unit: "ms-excess", value: median(excess), bound: bound{150, false, "CON-2"}},
	}
}

// eightContracts compares eight contracts at a time, whose checks keep a
// processor busy, with eight one after the other.
func eightContracts(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	const crowd = 8
	spin := "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	paths := make([]string, crowd)
	for i := range paths {
		paths[i] = h.contractIn(fmt.Sprint("c", i), checks(1, spin))
	}
	h.timed(harness(tb), "contract", "run", paths[0])
	var together, apart []float64
	for range s.rounds {
		began := time.Now()
		for _, path := range paths {
			h.timed(harness(tb), "contract", "run", path, "--json")
		}
		apart = append(apart, millis(time.Since(began)))
		began = time.Now()
		var all sync.WaitGroup
		for _, path := range paths {
			all.Go(func() { h.timed(harness(tb), "contract", "run", path, "--json") })
		}
		all.Wait()
		together = append(together, millis(time.Since(began)))
	}
	return []figure{{
		what: "eight contracts at a time", unit: "ms", value: median(together),
		than: "in-turns", base: median(apart), ratio: median(ratios(together, apart)),
	}}
}

// verifyLedger times the check of a bundle of ten entries for each table of a
// large config: 10,000 of them.
func verifyLedger(tb testing.TB, s scale) []figure {
	tb.Helper()
	h := newHome(tb)
	n := 10 * s.tables
	dir := h.dir
	if fast, err := os.MkdirTemp("/dev/shm", "hb"); err == nil { //nolint:usetesting // in memory: every entry is synced
		tb.Cleanup(func() { os.RemoveAll(fast) })
		dir = fast
	}
	store := ledger.Open(filepath.Join(dir, "ledger"))
	log, err := store.Create("s", ledger.Opening{Text: []byte("x")})
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	for i := range n - 1 {
		if _, err := log.Append("finished", map[string]any{"step": i, "name": "a check of some name", "outcome": "pass", "exit_code": 0}); err != nil {
			tb.Fatal(err)
		}
	}
	b, err := store.Export("s")
	if err != nil {
		tb.Fatal(err)
	}
	data, err := b.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(h.dir, "bundle.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	var took []float64
	for range s.rounds {
		took = append(took, h.timed(harness(tb), "ledger", "verify", "--key", b.PublicKeys[0].Fingerprint, path))
	}
	return []figure{{what: fmt.Sprintf("ledger verify, %d entries", n), unit: "ms", value: median(took), bound: bound{1000, false, "CON-4"}}}
}
