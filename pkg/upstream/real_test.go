package upstream

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"harness/pkg/config"
	"harness/pkg/proc"
)

// newRealRig serves a pool of real processes: the test binary run again.
func newRealRig(tb testing.TB) *rig {
	tb.Helper()
	host, err := proc.NewHost(tb.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(host.Close)
	return makeRig(tb, func(o Options) *Pool {
		o.Host = host
		return NewPool(o)
	})
}

// startReal starts l and waits for it.
func (r *rig) startReal(l config.Launch) *Unit {
	r.t.Helper()
	r.pool.Start(l, 1)
	until(r.t, "the start of "+l.Key, func() bool { return r.status(l.Key).State == Running })
	return r.pool.Unit(l.Key)
}

func TestRealProcess_IsRelayedToAndRestartedAfterACrash_C09(t *testing.T) {
	r, a := newRealRig(t), newAgent()
	l := r.launch("up", script{})
	l.RestartDelay = 100 * time.Millisecond
	u := r.startReal(l)
	if got := a.call(u, "echo", `{"x":1.0}`).wait(t); !strings.Contains(got, `{"echo":{"x":1.0},"name":"echo"}`) {
		t.Errorf("answer: %s", got)
	}
	held := a.call(u, "hold", "{}")
	if got := a.call(u, "die", "{}").wait(t); !strings.Contains(got, "exited (code 3)") {
		t.Errorf("told: %s", got)
	}
	held.wait(t)
	begun := time.Now()
	until(t, "the restart", func() bool { return r.status("up").Restarts == 1 && r.status("up").State == Running })
	t.Logf("working again after %s of restart_delay 100ms", time.Since(begun))
	if got := a.call(u, "echo", "2").wait(t); !strings.Contains(got, "result") {
		t.Errorf("answer: %s", got)
	}
	a.once(t)
}

func TestRealProcess_FailsCallsAtItsExitThoughAnHeirHoldsThePipes(t *testing.T) {
	r, a := newRealRig(t), newAgent()
	u := r.startReal(r.launch("up", script{}))
	held := a.call(u, "hold", "{}")
	words := a.call(u, "answer-die", "{}")
	if got := words.wait(t); !strings.Contains(got, "last words") {
		t.Errorf("told: %s", got)
	}
	held.wait(t)
	until(t, "the restart", func() bool { return r.status("up").Restarts == 1 && r.status("up").State == Running })
	begun := time.Now()
	held = a.call(u, "hold", "{}")
	a.call(u, "heir", "{}").wait(t)
	if got := held.wait(t); !strings.Contains(got, "exited (code 3)") || time.Since(begun) > 10*time.Second {
		t.Errorf("after %s: %s", time.Since(begun), got)
	}
	until(t, "the second restart", func() bool { return r.status("up").Restarts == 2 && r.status("up").State == Running })
	a.once(t)
}

func TestRealProcess_LeavesNothingBehind(t *testing.T) {
	r, a := newRealRig(t), newAgent()
	l := r.launch("up", script{IgnoreEOF: true, IgnoreTerm: true})
	u := r.startReal(l)
	server := config.DefaultServer()
	server.StopGrace = 300 * time.Millisecond
	r.pool.SetLimits(server)
	a.call(u, "echo", "{}").wait(t)
	pid := r.status("up").PID
	r.pool.Stop("up")
	until(t, "the end", func() bool { return r.pool.Unit("up") == nil })
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d is still there", pid)
	}
}

func TestRealProcess_GetsItsSecretsAndNobodyElseDoes_C63(t *testing.T) {
	r, a := newRealRig(t), newAgent()
	l := r.launch("up", script{})
	l.EnvFile = r.envFile("# a comment\nexport FAKE_SECRET=s3cr3t-canary\n")
	l.RestartDelay = 20 * time.Millisecond
	u := r.startReal(l)
	if got := a.call(u, "env", "{}").wait(t); !strings.Contains(got, "s3cr3t-canary") {
		t.Errorf("the process got %s", got)
	}
	a.call(u, "die", "{}").wait(t)
	until(t, "the restart", func() bool { return r.status("up").State == Running })
	r.envFile("FAKE_SECRET=s3cr3t-canary\nBAD='s3cr3t-canary\n")
	a.call(u, "die", "{}").wait(t)
	until(t, "the failed start", func() bool { return strings.Contains(r.status("up").Error, "secrets.env:2") })
	r.envFile("FAKE_SECRET=another-canary\n")
	until(t, "the restart", func() bool { return r.status("up").State == Running })
	if got := a.call(u, "env", "{}").wait(t); !strings.Contains(got, "another-canary") {
		t.Errorf("after the change the process got %s", got)
	}
	told := append(r.messages(), r.status("up").Error, r.log())
	files, err := filepath.Glob(r.dir + "/manifests/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("kept lists: %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, string(data))
	}
	if strings.Contains(strings.Join(told, "\n"), "canary") {
		t.Errorf("a secret was told: %s", told)
	}
}

func TestRealProcess_StartsOnceItsProgramIsInstalled_C47(t *testing.T) {
	r := newRealRig(t)
	bin := t.TempDir()
	r.base = []string{"PATH=" + bin}
	l := r.launch("up", script{})
	exe := l.Cmd
	l.Cmd, l.Exe, l.RestartDelay = "mytool", "", 20*time.Millisecond
	r.pool.Start(l, 1)
	want := `executable not found: "mytool" (PATH searched: ` + bin + `)`
	until(t, "the failure", func() bool { return r.status("up").Error == want })
	if err := os.Symlink(exe, filepath.Join(bin, "mytool")); err != nil {
		t.Fatal(err)
	}
	until(t, "the start", func() bool { return r.status("up").State == Running })
}

func TestRealProcess_IsDrainedWhateverItWritesToStderr_C51(t *testing.T) {
	r, a := newRealRig(t), newAgent()
	u := r.startReal(r.launch("up", script{Stderr: 4 << 20}))
	if got := a.call(u, "echo", "1").wait(t); !strings.Contains(got, "result") {
		t.Errorf("answer: %s", got)
	}
	until(t, "the end of the log", func() bool { return strings.Contains(r.log(), "end of it") })
}

func TestRealProcess_SwapsUnderLoadWithoutAFailedCall(t *testing.T) {
	r := newRealRig(t)
	u := r.startReal(r.launch("up", script{}))
	stop := make(chan struct{})
	agents := make([]*agent, 8)
	done := make(chan int, len(agents))
	for i := range agents {
		agents[i] = newAgent()
		go func() {
			n := 0
			for ; ; n++ {
				select {
				case <-stop:
					done <- n
					return
				default:
				}
				if o := agents[i].call(u, "echo", strconv.Itoa(n)); !strings.Contains(o.wait(t), "result") {
					t.Errorf("a call failed: %s", o.text)
				}
			}
		}()
	}
	for i := range 4 {
		r.pool.Swap(r.launch("up", script{Tools: []string{fmt.Sprint("v", i)}}))
		until(t, "the new process", func() bool { return r.status("up").PendingReady })
		r.pool.Promote()
		until(t, "the end of the old one", func() bool { return r.status("up").Instances == 1 })
	}
	close(stop)
	total := 0
	for range agents {
		total += <-done
	}
	for _, a := range agents {
		a.once(t)
	}
	t.Logf("%d calls over 4 swaps", total)
}
