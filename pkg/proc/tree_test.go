package proc

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestParseStat_ReadsWhatTheKernelWrites(t *testing.T) {
	const tail = " 2 1 0 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 "
	for _, tc := range []struct {
		name, in string
		want     entry
	}{
		{
			"ordinary", "42 (cat) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 1 2",
			entry{ident{42, 9876}, 7, 42, 40, false, 5 + 6, 2},
		},
		{
			"a name that looks like fields", "42 (a) S 1 (b) R 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 1 2\n",
			entry{ident{42, 9876}, 7, 42, 40, false, 5 + 6, 2},
		},
		{
			"a zombie", "42 (cat) Z 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 0 0",
			entry{ident{42, 9876}, 7, 42, 40, true, 5 + 6, 0},
		},
		{
			"a first thread that ended before the others", "42 (cat) Z 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 4 0 9876 0 0",
			entry{ident{42, 9876}, 7, 42, 40, false, 5 + 6, 0},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseStat([]byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(entry{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{
		"", "42", "42 (cat", "42 cat) S", "x (cat) S" + tail, "42 (cat) S 1", "(cat) S" + tail,
		strings.Replace("42 (cat) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 1 2", "9876", "-1", 1),
	} {
		if e, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) = %v", bad, e)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (cat) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 9876 1 2"))
	f.Add([]byte("1 ()) Z"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if e, err := parseStat(line); err != nil && e != (entry{}) {
			t.Errorf("%v with %v", e, err)
		}
	})
}

// world is a process table in a few words: "pid parent session [start] [Z]".
func world(lines ...string) table {
	t := make(table)
	for _, l := range lines {
		e := entry{}
		fields := strings.Fields(l)
		numbers := []*int{&e.PID, &e.parent, &e.session}
		for i, f := range fields {
			n := 0
			for _, r := range strings.TrimPrefix(f, "@") {
				n = n*10 + int(r-'0')
			}
			switch {
			case f == "Z":
				e.dead = true
			case strings.HasPrefix(f, "@"):
				e.Start = uint64(n)
			default:
				*numbers[i] = n
			}
		}
		if e.Start == 0 {
			e.Start = uint64(e.PID) // numbers grow with time, unless said
		}
		e.group = e.session
		t[e.PID] = e
	}
	return t
}

func TestAttribute_FindsWhoseIsWhat(t *testing.T) {
	// 10 is this process, in session 5; 20 and 30 are leaders.
	base := []string{"1 0 1", "5 1 5", "10 5 5", "20 10 20", "30 10 30"}
	for _, tc := range []struct {
		name       string
		processes  []string
		adopted    []int
		remembered map[int]int // pid: leader
		pipes      map[int][]uint64
		want       map[int]int // pid: leader
		lost       []int
	}{
		{name: "nobody", want: map[int]int{}},
		{
			name:      "children and their children",
			processes: []string{"21 20 20", "22 21 20", "31 30 30"},
			want:      map[int]int{21: 20, 22: 20, 31: 30},
		},
		{
			name:      "who left the session, by the parent",
			processes: []string{"21 20 21", "22 21 22"},
			want:      map[int]int{21: 20, 22: 20},
		},
		{
			name:      "an orphan in the session of the leader",
			processes: []string{"21 10 20"},
			adopted:   []int{21},
			want:      map[int]int{21: 20},
		},
		{
			name:       "an orphan seen before its parent died",
			processes:  []string{"22 10 21", "23 22 21"},
			adopted:    []int{22},
			remembered: map[int]int{22: 30},
			want:       map[int]int{22: 30, 23: 30},
		},
		{
			name:      "an orphan that holds a pipe, and its children",
			processes: []string{"22 10 21", "23 22 23"},
			adopted:   []int{22},
			pipes:     map[int][]uint64{22: {7, 301}},
			want:      map[int]int{22: 30, 23: 30},
		},
		{
			name:      "an orphan in the session of another that holds a pipe",
			processes: []string{"22 10 22", "23 10 22", "24 10 24"},
			adopted:   []int{22, 23, 24},
			pipes:     map[int][]uint64{22: {203}},
			want:      map[int]int{22: 20, 23: 20},
			lost:      []int{24},
		},
		{
			name:      "an orphan of which nothing is known",
			processes: []string{"22 10 21", "23 22 21"},
			adopted:   []int{22},
			want:      map[int]int{},
			lost:      []int{22},
		},
		{
			name:      "children of others in this process are not ours, whatever they do",
			processes: []string{"40 10 5", "41 40 41", "42 10 5", "43 10 43"},
			adopted:   []int{42}, // forked on the main thread, by somebody else
			pipes:     map[int][]uint64{42: {201}},
			want:      map[int]int{},
		},
		{
			name:      "strangers",
			processes: []string{"50 1 50", "51 50 50", "52 99 52"},
			want:      map[int]int{},
		},
		{
			name:      "zombies are nobody, but their children are somebody",
			processes: []string{"21 20 20 Z", "22 21 22"},
			want:      map[int]int{22: 20},
		},
		{
			name:       "a number that was handed out again is not remembered",
			processes:  []string{"22 1 50 @99"},
			remembered: map[int]int{22: 20},
			want:       map[int]int{},
		},
		{
			name:      "an orphan whose table line is older than its adoption waits for the next look",
			processes: []string{"22 19 21"},
			adopted:   []int{22},
			want:      map[int]int{},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := world(append(slices.Clone(base), tc.processes...)...)
			groups := []*group{
				{leader: ident{20, 20}, pipes: [3]uint64{201, 202, 203}, members: map[ident]member{}},
				{leader: ident{30, 30}, pipes: [3]uint64{301, 302, 303}, members: map[ident]member{}},
			}
			for pid, leader := range tc.remembered {
				groups[leader/10-2].members[ident{pid, uint64(pid)}] = member{}
			}
			v := view{self: table[10], table: table, adopted: tc.adopted, pipes: func(pid int) []uint64 { return tc.pipes[pid] }}
			owner, lost := v.attribute(groups)
			got := make(map[int]int)
			for pid, g := range owner {
				got[pid] = g.leader.PID
			}
			var lostPIDs []int
			for _, e := range lost {
				lostPIDs = append(lostPIDs, e.PID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.lost, lostPIDs, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// drawTable draws any table at all, torn ones with circles included.
func drawTable(t *rapid.T) table {
	small := rapid.IntRange(0, 12)
	processes := make(table)
	for pid := range rapid.MapOfN(small, rapid.Just(0), 0, 12).Draw(t, "pids") {
		processes[pid] = entry{
			ident:   ident{pid, uint64(small.Draw(t, "start"))},
			parent:  small.Draw(t, "parent"),
			session: small.Draw(t, "session"),
			dead:    rapid.Bool().Draw(t, "dead"),
		}
	}
	return processes
}

func TestAttribute_NeverOwnsTheDeadOrItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processes := drawTable(t)
		self := processes[3]
		self.PID = 3
		groups := []*group{{leader: ident{4, 4}, pipes: [3]uint64{1, 2, 3}}, {leader: ident{5, 5}}}
		v := view{
			self: self, table: processes, adopted: slices.Collect(maps.Keys(processes)),
			pipes: func(pid int) []uint64 { return []uint64{uint64(pid)} },
		}
		owner, lost := v.attribute(groups)
		for pid, g := range owner {
			e, ok := processes[pid]
			if !ok || e.dead || pid == self.PID || g == nil || e.ident == g.leader {
				t.Fatalf("%d is owned: %+v", pid, e)
			}
		}
		for _, e := range lost {
			if owner[e.PID] != nil || e.dead {
				t.Fatalf("%d is lost and owned", e.PID)
			}
		}
	})
}
