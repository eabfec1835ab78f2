package proc

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// waitExit waits for the exit of the child.
func waitExit(t *testing.T, p *Proc) Exit {
	t.Helper()
	select {
	case <-p.Exited():
	case <-time.After(20 * time.Second):
		t.Fatal("never exited")
	}
	return p.Exit()
}

func TestStop_ClosingStdinIsEnough(t *testing.T) {
	p := start(t, newHost(t), "echo")
	if _, err := io.WriteString(p.Stdin, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("hello", line(t, p.Stdout)); diff != "" {
		t.Error(diff)
	}
	within(t, 10*time.Second, func() { p.Stop(time.Minute) })
	if got := waitExit(t, p); got.String() != "code 0" || got.At.IsZero() {
		t.Errorf("exit %s at %s", got, got.At)
	}
	if left := zombies(t); len(left) > 0 {
		t.Errorf("zombies %v", left)
	}
}

func TestStop_SendsSIGTERMAfterAThirdOfGrace(t *testing.T) {
	p := start(t, newHost(t), "polite")
	line(t, p.Stdout)
	began := time.Now()
	p.Stop(3 * time.Second)
	if took := time.Since(began); took < time.Second {
		t.Errorf("took %s", took)
	}
	if diff := cmp.Diff("term", line(t, p.Stdout)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("code 7", waitExit(t, p).String()); diff != "" {
		t.Error(diff)
	}
}

func TestTerminate_SendsSIGTERMAtOnce(t *testing.T) {
	p := start(t, newHost(t), "polite")
	line(t, p.Stdout)
	within(t, 10*time.Second, func() { p.Terminate(time.Minute) })
	if diff := cmp.Diff("code 7", waitExit(t, p).String()); diff != "" {
		t.Error(diff)
	}
}

func TestStop_SendsSIGKILLAfterGrace(t *testing.T) {
	p := start(t, newHost(t), "deaf")
	line(t, p.Stdout)
	began := time.Now()
	p.Stop(600 * time.Millisecond)
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("took %s", took)
	}
	if diff := cmp.Diff(Exit{Code: -1, Signal: "SIGKILL", At: p.Exit().At}, waitExit(t, p)); diff != "" {
		t.Error(diff)
	}
}

func TestStop_EndsWhatDescends(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"a grandchild in the group that survives the end of stdin", []string{"parent", "", "sleeper"}},
		{"a grandchild that ignores SIGTERM", []string{"parent", "", "deaf"}},
		{"a grandchild in a session of its own", []string{"parent", "setsid", "deaf"}},
		{"a grandchild in a session of its own that shed the pipes", []string{"parent", "setsid,null", "sleeper"}},
		{"a daemon that is an orphan in its own session without our pipes", []string{"daemon"}},
		{"an heir of a leader that left", []string{"leaver", "", "deaf"}},
		{"an heir in a session of its own of a leader that left", []string{"leaver", "setsid", "deaf"}},
		{"an heir that shed everything of a leader that left", []string{"leaver", "setsid,null", "deaf"}},
		{"what a leader that left had made its sibling", []string{"leaver", "sibling,null", "deaf"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := start(t, newHost(t), tc.args...)
			heir := pidLine(t, p.Stdout)
			if !alive(heir) {
				t.Fatalf("%d does not live", heir)
			}
			p.Stop(300 * time.Millisecond)
			if alive(heir) {
				t.Errorf("%d survived", heir)
			}
			eventually(t, "no zombies", func() bool { return len(zombies(t)) == 0 })
		})
	}
}

func TestExited_ClosesWhileAnHeirHoldsThePipes(t *testing.T) {
	p := start(t, newHost(t), "leaver", "", "sleeper")
	heir := pidLine(t, p.Stdout)
	if diff := cmp.Diff("code 3", waitExit(t, p).String()); diff != "" {
		t.Error(diff)
	}
	if !alive(heir) {
		t.Error("the heir is gone before anybody stopped it")
	}
	select {
	case <-p.gone:
		t.Error("gone while the heir lives")
	default:
	}
	p.Kill()
	if alive(heir) {
		t.Error("the heir survived Kill")
	}
	// With the last holder gone, the pipe ends.
	p.Stdout.SetReadDeadline(time.Now().Add(10 * time.Second))
	if rest, err := io.ReadAll(p.Stdout); err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// A glance lets go of a child that left nothing, and of no other.
func TestGlance_SeesWhatIsLeft(t *testing.T) {
	for _, flags := range []string{"null", "setsid,null", "sibling,null"} {
		p := start(t, newHost(t), "leaver", flags, "sleeper")
		heir := pidLine(t, p.Stdout)
		<-p.looked
		if p.isGone() || p.host.glance(p) {
			t.Errorf("%s: gone while %d is left", flags, heir)
		}
		p.Kill()
		if !p.isGone() || alive(heir) {
			t.Errorf("%s: gone %v, %d lives %v", flags, p.isGone(), heir, alive(heir))
		}
	}
	h := newHost(t)
	other := start(t, h, "sleeper")
	line(t, other.Stdout)
	p := start(t, h, "exit", "0")
	<-p.looked
	if !p.isGone() || other.isGone() || !alive(other.PID()) {
		t.Errorf("gone %v, the other too %v", p.isGone(), other.isGone())
	}
	if h.glance(other) {
		t.Error("gone while it lives")
	}
	// A table that is being read would have a child that is let go of meanwhile
	// taken for an orphan. Nobody but this test looks here.
	looking := func(now bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.looking = now
	}
	h.looks.do(func() {
		looking(true)
		defer looking(false)
		q := start(t, h, "sleeper")
		signalGroup(q.PID(), syscall.SIGKILL)
		<-q.Exited()
		if h.glance(q) {
			t.Error("let go of beneath a look")
		}
	})
}

func TestExited_ReapsAChildThatLeftNothing_C11(t *testing.T) {
	p := start(t, newHost(t), "exit", "0")
	if diff := cmp.Diff("code 0", waitExit(t, p).String()); diff != "" {
		t.Error(diff)
	}
	eventually(t, "reaped without a stop", func() bool {
		_, err := readEntry(p.PID())
		return err != nil
	})
	within(t, time.Second, func() { p.Stop(time.Minute) })
	within(t, time.Second, func() { p.Kill() })
}

func TestStop_MayBeCalledByManyAtOnce(t *testing.T) {
	p := start(t, newHost(t), "deaf")
	line(t, p.Stdout)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if i == 7 {
				p.Kill()
				return
			}
			p.Stop(time.Minute)
		})
	}
	within(t, 15*time.Second, wg.Wait) // Kill does not wait for the patient
	if diff := cmp.Diff("SIGKILL", waitExit(t, p).String()); diff != "" {
		t.Error(diff)
	}
}

func TestStop_LeavesTheNeighbourAlone(t *testing.T) {
	h := newHost(t)
	one, two := start(t, h, "parent", "setsid", "sleeper"), start(t, h, "parent", "setsid", "sleeper")
	child1, child2 := pidLine(t, one.Stdout), pidLine(t, two.Stdout)
	one.Stop(100 * time.Millisecond)
	if alive(child1) || !alive(child2) || !alive(two.PID()) {
		t.Errorf("first %v, second %v and its leader %v", alive(child1), alive(child2), alive(two.PID()))
	}
}

func TestStop_OfTheLastPossibleOriginEndsAStray(t *testing.T) {
	h := newHost(t)
	one, two := start(t, h, "daemon"), start(t, h, "daemon")
	stray1, stray2 := pidLine(t, one.Stdout), pidLine(t, two.Stdout)
	one.Stop(100 * time.Millisecond)
	// Nothing tells the two apart: each may be the living one's.
	if !alive(two.PID()) || !alive(stray2) {
		t.Error("the neighbour suffered")
	}
	two.Stop(100 * time.Millisecond)
	if alive(stray1) || alive(stray2) {
		t.Errorf("strays left: %v %v", alive(stray1), alive(stray2))
	}
}

func TestClose_EndsEverythingAndRefusesMore(t *testing.T) {
	h := newHost(t)
	var pids []int
	for _, args := range [][]string{{"daemon"}, {"daemon"}, {"parent", "setsid", "deaf"}, {"leaver", "", "deaf"}} {
		p := start(t, h, args...)
		pids = append(pids, p.PID(), pidLine(t, p.Stdout))
	}
	within(t, 15*time.Second, h.Close)
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("%d survived", pid)
		}
	}
	if left := zombies(t); len(left) > 0 {
		t.Errorf("zombies %v", left)
	}
	if _, err := os.Stat(h.record.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("record: %v", err)
	}
	if _, err := h.Start(helperSpec("sleeper")); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
	h.Close()
}
