package proc

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestProve_NamesOnlyWhatIsProven(t *testing.T) {
	// The group of 20 is recorded, with 21 as a member; 10 is the new daemon.
	recorded := leftover{
		Name: "mcp.up", ident: ident{20, 20}, Owner: ident{9, 9},
		Pipes: []uint64{201, 202, 203}, Members: []ident{{21, 21}},
	}
	for _, tc := range []struct {
		name      string
		processes []string
		pipes     map[int][]uint64
		want      []int
	}{
		{name: "nothing is left"},
		{name: "the leader", processes: []string{"20 1 20"}, want: []int{20}},
		{name: "a member that was seen", processes: []string{"21 1 21"}, want: []int{21}},
		{
			name:      "all of a session with somebody who was seen in it",
			processes: []string{"21 1 20", "25 1 20", "26 25 26"},
			want:      []int{21, 25, 26},
		},
		{
			name:      "a zombie that was seen holds the session's number too",
			processes: []string{"20 1 20 Z", "25 1 20"},
			want:      []int{25},
		},
		{
			name:      "a session of that number without anybody known",
			processes: []string{"25 1 20"},
		},
		{
			name:      "the leader's number handed out again, and a session made by its new owner",
			processes: []string{"20 1 20 @90", "91 20 20", "92 91 92"},
		},
		{
			name:      "a member's number handed out again",
			processes: []string{"21 1 21 @90", "91 21 91"},
		},
		{
			name:      "a member that moved away proves nothing about the session number",
			processes: []string{"21 1 21", "90 1 20"},
			want:      []int{21},
		},
		{
			name:      "who holds one pipe and is in the session, and with it the session",
			processes: []string{"25 1 20", "26 1 20"},
			pipes:     map[int][]uint64{25: {203}},
			want:      []int{25, 26},
		},
		{
			name:      "who holds one pipe in a session whose number was handed out again",
			processes: []string{"20 1 20 @90", "91 20 20"},
			pipes:     map[int][]uint64{91: {203}},
		},
		{
			name:      "who holds two pipes, wherever",
			processes: []string{"25 1 25"},
			pipes:     map[int][]uint64{25: {202, 203}},
			want:      []int{25},
		},
		{
			name:      "who holds one pipe elsewhere",
			processes: []string{"25 1 25", "26 1 26"},
			pipes:     map[int][]uint64{25: {203}, 26: {203, 203}},
		},
		{
			name:      "who holds the pipes but is older than the group",
			processes: []string{"8 1 8"},
			pipes:     map[int][]uint64{8: {201, 202}},
		},
		{
			name:      "a daemon that was started from within the group, with its ancestors and children",
			processes: []string{"21 1 20", "10 21 20", "11 10 20", "12 11 12", "25 21 20", "26 21 26"},
			pipes:     map[int][]uint64{10: {201, 202}, 11: {201, 202}},
			want:      []int{25, 26},
		},
		{
			name:      "what was re-parented to this process, which has nothing to do with the group",
			processes: []string{"21 10 20", "25 10 20"},
			want:      []int{21, 25},
		},
		{name: "strangers", processes: []string{"30 1 30", "31 30 30"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := world(append([]string{"1 0 1", "10 1 10"}, tc.processes...)...)
			var got []int
			for _, id := range prove([]leftover{recorded}, table, 10, func(pid int) []uint64 { return tc.pipes[pid] }) {
				got = append(got, id.PID)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProve_NeedsSomebodyWhoWasSeenOrAPipe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processes := drawTable(t)
		left := []leftover{{ident: ident{4, 4}, Pipes: []uint64{1, 2, 3}, Members: []ident{{5, 5}, {6, 6}}}}
		seen := slices.ContainsFunc(append([]ident{left[0].ident}, left[0].Members...), processes.has)
		alive := prove(left, processes, 3, func(int) []uint64 { return nil })
		if !seen && len(alive) > 0 {
			t.Fatalf("%v proven by nothing in %v", alive, processes)
		}
		for _, id := range alive {
			if !processes.lives(id) || id.PID == 3 {
				t.Fatalf("%v is dead or this process", id)
			}
		}
	})
}

func TestOwners_AreThoseAlive(t *testing.T) {
	left := []leftover{{Owner: ident{20, 20}}, {Owner: ident{21, 21}}, {Owner: ident{22, 22}}, {Owner: ident{20, 20}}}
	got := owners(left, world("20 1 20", "21 1 21 Z", "22 1 22 @90"))
	if diff := cmp.Diff([]ident{{20, 20}}, got); diff != "" {
		t.Error(diff)
	}
}
