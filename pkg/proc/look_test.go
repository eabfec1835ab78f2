package proc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// host is a Host of process 10 in session 5 that does nothing by itself, with
// children of the given numbers.
func host(leaders ...int) *Host {
	h := &Host{
		self:    entry{ident: ident{10, 10}, parent: 5, session: 5},
		strays:  make(map[ident]*stray),
		written: make(map[ident]bool),
	}
	for _, pid := range leaders {
		h.procs = append(h.procs, &Proc{
			host: h, child: child{pid: 1 << 30}, // no process, and so nothing to wait for
			exited: make(chan struct{}), gone: make(chan struct{}),
			group: group{leader: ident{pid, uint64(pid)}, members: map[ident]member{}},
		})
		if h.since == 0 {
			h.since = uint64(pid)
		}
	}
	return h
}

// see absorbs a world in which the leaders of over have exited before.
func (h *Host) see(adopted []int, over []int, processes ...string) {
	h.seeBeside(nil, adopted, over, processes...)
}

// seeBeside is see with the children of the thread that forks.
func (h *Host) seeBeside(forked, adopted []int, over []int, processes ...string) {
	v := &view{
		self:    h.self,
		table:   world(append([]string{"1 0 1", "5 1 5", "10 5 5"}, processes...)...),
		adopted: adopted,
		forked:  forked,
		pipes:   func(int) []uint64 { return nil },
	}
	exited := make(map[*Proc]bool)
	for _, p := range h.procs {
		for _, pid := range over {
			if p.group.leader.PID == pid {
				exited[p] = true
			}
		}
	}
	h.absorb(v, exited)
}

// state is who is whose: members by leader, and strays under 0.
func (h *Host) state() map[int][]int {
	s := make(map[int][]int)
	for _, g := range h.account() {
		if g.Name == "orphan" {
			s[0] = append(s[0], g.PID)
			continue
		}
		s[g.PID] = nil
		for _, id := range g.Members {
			s[g.PID] = append(s[g.PID], id.PID)
		}
	}
	return s
}

func TestAbsorb_LetsGoOfWhatIsOverAndEmpty(t *testing.T) {
	h := host(20, 30)
	first := h.procs[0]
	h.see(nil, []int{20}, "20 10 20 Z", "21 10 20", "30 10 30")
	if diff := cmp.Diff(map[int][]int{20: {21}, 30: nil}, h.state()); diff != "" {
		t.Error(diff)
	}
	// The exit came after the look began: the table may lack what it left.
	h.see(nil, nil, "20 10 20 Z", "30 10 30")
	if diff := cmp.Diff(map[int][]int{20: nil, 30: nil}, h.state()); diff != "" {
		t.Error(diff)
	}
	h.see(nil, []int{20}, "20 10 20 Z", "30 10 30")
	if diff := cmp.Diff(map[int][]int{30: nil}, h.state()); diff != "" || !first.isGone() {
		t.Error(diff, first.isGone())
	}
}

func TestAbsorb_GivesAnOrphanToTheOnlyOneItCanComeFrom(t *testing.T) {
	h := host(20, 30)
	h.see([]int{25}, nil, "20 10 20", "30 10 30", "25 10 24", "26 25 26")
	if diff := cmp.Diff(map[int][]int{20: {25}, 30: nil}, h.state()); diff != "" {
		t.Error(diff)
	}
	h.see([]int{25}, nil, "20 10 20", "30 10 30", "25 10 24", "26 25 26")
	if diff := cmp.Diff(map[int][]int{20: {25, 26}, 30: nil}, h.state()); diff != "" {
		t.Error(diff)
	}
}

func TestAbsorb_KeepsAnOrphanOfSeveralForTheLastOfThem(t *testing.T) {
	h := host(20, 30)
	all := []string{"20 10 20", "30 10 30", "35 10 34"}
	h.see([]int{35}, nil, all...)
	if diff := cmp.Diff(map[int][]int{20: nil, 30: nil, 0: {35}}, h.state()); diff != "" {
		t.Error(diff)
	}
	if !h.isStale() {
		t.Error("the orphan is not wanted in the record")
	}
	h.see([]int{35}, []int{20}, all...)
	if diff := cmp.Diff(map[int][]int{30: {35}}, h.state()); diff != "" {
		t.Error(diff)
	}
	last := h.procs[0]
	h.see([]int{35}, []int{30}, all...)
	if last.isGone() {
		t.Error("gone while the orphan lives")
	}
	h.see(nil, []int{30}, all[:2]...)
	if !last.isGone() {
		t.Error("not gone")
	}
}

func TestAbsorb_LosesNoStrayOfSeveralThatEndAtOnce(t *testing.T) {
	h := host(20, 30)
	all := []string{"20 10 20 Z", "30 10 30 Z", "35 10 34"}
	h.see([]int{35}, nil, all...)
	h.see([]int{35}, []int{20, 30}, all...)
	if diff := cmp.Diff(map[int][]int{30: {35}}, h.state()); diff != "" {
		t.Error(diff)
	}
}

func TestAbsorb_ForgetsAStrayThatDied(t *testing.T) {
	h := host(20, 30)
	h.see([]int{35}, nil, "20 10 20", "30 10 30", "35 10 34")
	h.see([]int{35}, nil, "20 10 20", "30 10 30", "35 10 34 Z")
	if diff := cmp.Diff(map[int][]int{20: nil, 30: nil}, h.state()); diff != "" {
		t.Error(diff)
	}
}

func TestAbsorb_SuspectsNobodyElses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(*Host)
		adopted []int
		process string
	}{
		{"older than all that was started here", func(*Host) {}, []int{15}, "15 10 14"},
		{"nothing was started here", func(h *Host) { h.since = 0 }, []int{25}, "25 10 24"},
		{"in the session of another's child", func(*Host) {}, []int{42}, "42 10 41"},
		{"this process is init", func(h *Host) { h.self.PID = 1 }, []int{25}, "25 1 24"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host(20)
			tc.change(h)
			h.see(tc.adopted, nil, "20 10 20", "41 10 41", tc.process)
			if diff := cmp.Diff(map[int][]int{20: nil}, h.state()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAbsorb_DecidesNothingAboutOrphansDuringAFork(t *testing.T) {
	h := host(20)
	only := h.procs[0]
	h.forking = 1
	h.see([]int{25}, []int{20}, "20 10 20 Z", "25 10 24")
	if diff := cmp.Diff(map[int][]int{20: nil}, h.state()); diff != "" || only.isGone() {
		t.Error(diff, only.isGone())
	}
	h.see(nil, []int{20}, "20 10 20 Z")
	if !only.isGone() {
		t.Error("without orphans, a fork holds up nothing")
	}
}

// What a child made its sibling is in the list of the thread that forks, as a child
// is whose fork is under way: nobody is let go of while they cannot be told apart.
func TestAbsorb_LetsGoOfNobodyWhileASiblingMayBeOne(t *testing.T) {
	h := host(20)
	only := h.procs[0]
	h.forking = 1
	h.seeBeside([]int{20, 25}, nil, []int{20}, "20 10 20 Z", "25 10 25")
	if only.isGone() {
		t.Error("gone during a fork")
	}
	h.forking = 0
	h.seeBeside([]int{20, 25}, nil, []int{20}, "20 10 20 Z", "25 10 25")
	if diff := cmp.Diff(map[int][]int{20: {25}}, h.state()); diff != "" {
		t.Error(diff)
	}
	h.seeBeside([]int{20}, nil, []int{20}, "20 10 20 Z")
	if !only.isGone() {
		t.Error("not gone with its sibling")
	}
}

func TestAbsorb_WantsInTheRecordWhoIsSeenTwice(t *testing.T) {
	h := host(20)
	for _, want := range []bool{false, true} {
		h.see(nil, nil, "20 10 20", "21 20 20")
		if h.isStale() != want {
			t.Errorf("stale %v", !want)
		}
	}
}
