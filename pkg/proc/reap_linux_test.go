package proc

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crashedHost runs a Host in another process, with a child of each kind, and
// kills it. It returns the processes that were under it.
func crashedHost(t *testing.T, dir string) (pids []int) {
	t.Helper()
	cmd, out := outsider(t, &syscall.SysProcAttr{}, "host", dir)
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "done"; {
		var leader, child int
		if n, _ := fmt.Sscan(lines.Text(), &leader, &child); n == 0 {
			t.Fatal(lines.Text())
		}
		pids = append(pids, leader)
		if child != 0 {
			pids = append(pids, child)
		}
	}
	if len(pids) != 9 {
		t.Fatalf("a host with the processes %v", pids)
	}
	remembered(t, dir, pids)
	return pids
}

// remembered waits until all pids are in the record: two of them have shed
// everything that would prove whose they are.
func remembered(t *testing.T, dir string, pids []int) {
	t.Helper()
	eventually(t, "all in the record", func() bool {
		known := make(map[int]bool)
		for id := range identities(newKeeper(dir).load(slog.Default()).Groups) {
			known[id.PID] = true
		}
		for _, pid := range pids {
			if !known[pid] {
				return false
			}
		}
		return true
	})
}

// outsider starts a helper that no Host knows. It ends with the test, or when
// it has held it up for long.
func outsider(t *testing.T, attr *syscall.SysProcAttr, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(self(), append([]string{"helper"}, args...)...)
	cmd.SysProcAttr, cmd.Stderr = attr, t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		late.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, out
}

// bystander starts a process like those of a Host, in a session of its own.
func bystander(t *testing.T) ident {
	t.Helper()
	cmd, _ := outsider(t, &syscall.SysProcAttr{Setsid: true}, "sleeper")
	e, err := readEntry(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return e.ident
}

// successor makes the Host of the next daemon over the same directory. The
// processes of this test are re-parented to it, not to init.
func successor(t *testing.T, dir string) *Host {
	t.Helper()
	h, err := NewHost(dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func TestReap_EndsExactlyWhatAKilledHostLeft_C49(t *testing.T) {
	dir := t.TempDir()
	other := bystander(t)
	for range 2 {
		pids := crashedHost(t, dir)
		h := successor(t, dir)
		within(t, 5*time.Second, func() {
			killed, err := h.Reap(t.Context())
			if err != nil || killed == 0 {
				t.Errorf("%d killed, %v", killed, err)
			}
		})
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("%d survived", pid)
			}
		}
		if !alive(other.PID) {
			t.Fatal("a stranger was killed")
		}
		eventually(t, "no zombies", func() bool { return len(zombies(t)) == 0 })
		if killed, err := h.Reap(t.Context()); killed != 0 || err != nil {
			t.Errorf("a second time: %d killed, %v", killed, err)
		}
		h.Close()
	}
}

// inSession counts the live processes in a session.
func inSession(t *testing.T, session int) (n int) {
	t.Helper()
	table, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range table {
		if e.session == session && !e.dead {
			n++
		}
	}
	return n
}

func TestReap_LeavesOneTreeAfterEachOfManyCrashes_C49(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t) // the one that ends zombies here
	var former []int
	for i := range 6 {
		cmd, out := outsider(t, &syscall.SysProcAttr{}, "daemon with a tree", dir)
		var leader int
		if _, err := fmt.Fscan(out, &leader); err != nil {
			t.Fatal(err)
		}
		for _, session := range former {
			if n := inSession(t, session); n > 0 {
				t.Errorf("crash %d: %d processes of tree %d live", i, n, session)
			}
		}
		former = append(former, leader)
		if i%2 == 0 { // else the crash meets a tree that is half grown
			eventually(t, "a full tree", func() bool { return inSession(t, leader) == 3 })
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	if _, err := successor(t, dir).Reap(t.Context()); err != nil {
		t.Error(err)
	}
	if n := inSession(t, former[len(former)-1]); n > 0 {
		t.Errorf("%d processes of the last tree live", n)
	}
	eventually(t, "no zombies", func() bool {
		h.look()
		return len(zombies(t)) == 0
	})
}

func TestReap_FindsHeirsOfTheFirstMomentByTheirPipes(t *testing.T) {
	// The record of a start alone: no look has seen a descendant.
	dir := t.TempDir()
	h := successor(t, t.TempDir())
	p := start(t, h, "leaver", "", "deaf")
	heir := pidLine(t, p.Stdout)
	<-p.Exited()
	writeRecord(t, dir, leftover{Name: "mcp.test", ident: p.group.leader, Pipes: p.group.pipes[:]})
	next := successor(t, dir)
	if killed, err := next.Reap(t.Context()); killed != 1 || err != nil {
		t.Errorf("%d killed, %v", killed, err)
	}
	if alive(heir) {
		t.Error("the heir survived")
	}
}

func writeRecord(t *testing.T, dir string, groups ...leftover) {
	t.Helper()
	if err := newKeeper(dir).save(groups); err != nil {
		t.Fatal(err)
	}
}

func TestReap_KillsNobodyWhoseNumberWasHandedOutAgain_C49(t *testing.T) {
	dir := t.TempDir()
	other, another := bystander(t), bystander(t)
	before := func(id ident) ident { return ident{id.PID, id.Start - 1} }
	writeRecord(t, dir,
		leftover{Name: "mcp.test", ident: before(other), Pipes: []uint64{1, 2, 3}},
		leftover{Name: "mcp.test", ident: ident{other.PID + 1<<20, 1}, Members: []ident{before(another)}})
	h := successor(t, dir)
	if killed, err := h.Reap(t.Context()); killed != 0 || err != nil {
		t.Errorf("%d killed, %v", killed, err)
	}
	if !alive(other.PID) || !alive(another.PID) {
		t.Error("a stranger was killed")
	}
	if _, err := os.Stat(h.record.path); !os.IsNotExist(err) {
		t.Errorf("the record stays: %v", err)
	}
}

func TestReap_TouchesNothingOfALivingOwner(t *testing.T) {
	dir := t.TempDir()
	owner, child := bystander(t), bystander(t)
	writeRecord(t, dir, leftover{Name: "mcp.test", ident: child, Owner: owner})
	h := successor(t, dir)
	killed, err := h.Reap(t.Context())
	if killed != 0 || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d, which is running", owner.PID)) {
		t.Errorf("%d killed, %v", killed, err)
	}
	if !alive(child.PID) {
		t.Error("its child was killed")
	}
	// Starting something must not lose what the other one's record says.
	p := start(t, h, "echo")
	r := h.record.load(h.log)
	if len(r.Groups) != 2 || r.Groups[0].ident != child || r.Groups[0].Owner != owner || r.Groups[1].PID != p.PID() {
		t.Errorf("record %+v", r)
	}
}

func TestReap_IsPoliteFirst(t *testing.T) {
	dir := t.TempDir()
	cmd, out := outsider(t, &syscall.SysProcAttr{Setsid: true}, "polite")
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	e, err := readEntry(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	writeRecord(t, dir, leftover{Name: "mcp.test", ident: e.ident})
	if killed, err := successor(t, dir).Reap(t.Context()); killed != 1 || err != nil {
		t.Errorf("%d killed, %v", killed, err)
	}
	if rest, _ := io.ReadAll(lines); string(rest) != "term\n" {
		t.Errorf("it said %q", rest)
	}
}

func TestHost_ChildrenDieWithIt(t *testing.T) {
	dir := t.TempDir()
	pids := crashedHost(t, dir)
	// Leaders are killed by the kernel, without a successor.
	eventually(t, "leaders gone", func() bool {
		return !alive(pids[0]) && !alive(pids[1]) && !alive(pids[3]) && !alive(pids[5]) && !alive(pids[7])
	})
	if _, err := successor(t, dir).Reap(t.Context()); err != nil {
		t.Error(err)
	}
}
