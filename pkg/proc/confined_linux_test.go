package proc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// confined is spec in a directory that is open, with a limit.
func confined(t *testing.T, spec Spec) (Spec, string) {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	spec.Confined = &Confined{Dir: dir, Limits: []Limit{{Resource: unix.RLIMIT_CORE}}}
	return spec, path
}

func TestConfined_IsStartedAsAnyOther(t *testing.T) {
	h := newHost(t)
	spec, dir := confined(t, helperSpec("args", "", "-x"))
	spec.Argv0 = "mytool"
	if diff := cmp.Diff([]string{`["mytool" "helper" "args" "" "-x"] in ` + dir}, said(t, h, spec)); diff != "" {
		t.Error(diff)
	}
	spec, _ = confined(t, helperSpec("env"))
	spec.Env = []string{"A=1", "B=two words"}
	if diff := cmp.Diff(spec.Env, said(t, h, spec)); diff != "" {
		t.Error(diff)
	}
}

func TestConfined_HasItsPipesAndLimitsAndNothingElse(t *testing.T) {
	spec, _ := confined(t, Spec{Path: "/bin/sh", Args: []string{"-c", "for f in /proc/self/fd/*; do readlink $f | cut -d: -f1; done; ulimit -c; ulimit -n; grep -E '^(SigBlk|SigIgn|NoNewPrivs)' /proc/self/status"}})
	got := strings.Join(said(t, newHost(t), spec), " ")
	// What the shell itself opened to list them is gone by the time that is read.
	want := "pipe pipe pipe 0 1024 SigBlk: 0000000000000000 SigIgn: 0000000000000000 NoNewPrivs: 1"
	if diff := cmp.Diff(want, strings.Join(strings.Fields(got), " ")); diff != "" {
		t.Error(diff)
	}
}

func TestConfined_SaysWhatItCouldNotDo(t *testing.T) {
	h := newHost(t)
	spec, _ := confined(t, Spec{Path: "/nowhere/at/all"})
	_, err := h.Start(spec)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, unconfined := errors.AsType[*Unconfined](err); unconfined {
		t.Errorf("it was confined: %v", err)
	}
	spec, _ = confined(t, helperSpec("echo"))
	spec.Confined.Ruleset, err = os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer spec.Confined.Ruleset.Close()
	_, err = h.Start(spec)
	if u, unconfined := errors.AsType[*Unconfined](err); !unconfined || u.What != "hold it to its directories" {
		t.Errorf("rules that are none: %v", err)
	}
	if n := len(h.live()); n > 0 {
		t.Errorf("%d are left", n)
	}
}

// Until a child is its program, it borrows the memory of this process, whose
// collector goes on, also where all goroutines share one processor.
func TestConfined_StartsBesideTheCollector(t *testing.T) {
	alone := namespaces(t)
	for _, processors := range []int{1, runtime.GOMAXPROCS(0)} {
		before := runtime.GOMAXPROCS(processors)
		var collecting, starts sync.WaitGroup
		over := make(chan struct{})
		collecting.Go(func() {
			for grown := []byte{}; ; grown = slices.Grow(grown[:0], 1<<10) {
				select {
				case <-over:
					return
				default:
					runtime.GC()
				}
			}
		})
		h := newHost(t)
		for range 4 {
			starts.Go(func() {
				for range 3 {
					spec, dir := confined(t, Spec{Path: "/bin/pwd", Env: []string{"A=" + strings.Repeat("x", 1<<12)}})
					spec.Confined.NoNetwork = alone
					p, err := h.Start(spec)
					if err != nil {
						t.Error(err)
						return
					}
					if out, err := io.ReadAll(p.Stdout); err != nil || string(out) != dir+"\n" {
						t.Errorf("in %q, not in %q: %v", out, dir, err)
					}
					<-p.Exited()
					if exit := p.Exit(); exit.Code != 0 {
						t.Errorf("%+v", exit)
					}
					p.Kill()
					p.Stdout.Close()
					p.Stderr.Close()
				}
			})
		}
		starts.Wait()
		close(over)
		collecting.Wait()
		runtime.GOMAXPROCS(before)
		if n := len(h.live()); n > 0 {
			t.Errorf("%d are left", n)
		}
	}
}

// namespaces reports whether this kernel gives them to whoever asks.
func namespaces(t *testing.T) bool {
	t.Helper()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET}
	return cmd.Run() == nil
}

func TestConfined_LeavesNoDescriptor(t *testing.T) {
	h := newHost(t)
	descriptors := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	started, _ := confined(t, Spec{Path: "/bin/true"})
	missing, _ := confined(t, Spec{Path: "/nowhere/at/all"})
	many, _ := confined(t, Spec{Path: "/bin/true", Args: []string{strings.Repeat("x", 1<<20)}}) // more than exec takes
	unruled, _ := confined(t, Spec{Path: "/bin/true"})
	unruled.Confined.Ruleset = unruled.Confined.Dir
	before := 0
	for round := range 10 {
		for _, spec := range []Spec{started, missing, many, unruled} {
			p, err := h.Start(spec)
			if wrong := spec.Path != "/bin/true" || len(spec.Args) > 0 || spec.Confined.Ruleset != nil; wrong != (err != nil) {
				t.Errorf("%.40v: %v", spec, err)
			}
			if p != nil {
				p.Kill()
				p.Stdin.Close()
				p.Stdout.Close()
				p.Stderr.Close()
			}
		}
		if round == 0 {
			before = descriptors() // of the poller, too
		}
	}
	eventually(t, "its descriptors to be closed", func() bool { return descriptors() <= before }) // the last one's a moment later
}

// Whoever kills this process at any moment finds a step in the record: it is there
// before the step has run anything.
func TestConfined_IsInTheRecordBeforeItRuns(t *testing.T) {
	h := newHost(t)
	for range 20 {
		spec, _ := confined(t, Spec{Path: "/bin/cat", Args: []string{h.record.path}, Name: "contract.it"})
		p, err := h.Start(spec)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(p.Stdout)
		if err != nil {
			t.Error(err)
		}
		if r, err := decodeRecord(text); err != nil || !slices.ContainsFunc(r.Groups, func(g leftover) bool {
			return g.PID == p.PID() && g.Start == p.StartTime() && g.Name == "contract.it" && len(g.Pipes) == 3
		}) {
			t.Errorf("process %d is not in %s (%v)", p.PID(), text, err)
		}
		p.Kill()
		p.Stdout.Close()
		p.Stderr.Close()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.unborn) > 0 {
		t.Errorf("still to be born: %v", h.unborn)
	}
}
