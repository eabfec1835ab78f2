package proc

import (
	"slices"
)

// group is a child and what is known to descend from it. The child leads the
// process group and the session of the same number.
type group struct {
	name    string
	leader  ident
	pipes   [3]uint64        // inodes of the child's standard pipes, or its terminal's number
	members map[ident]member // live descendants, the leader excluded
	exited  bool             // the leader is a zombie, kept until nothing else is left
}

// member is what the last looks said of one descendant.
type member struct {
	group int // its process group
	looks int // how many looks have seen it
}

// stray is an orphan re-parented to this process of which nothing says whose
// it is. It is one of the groups that lived when it was born.
type stray struct {
	entry
	maybe []*group
}

// view is the process table with what else is needed to tell whose is what.
type view struct {
	self    entry // this process
	table   table
	adopted []int                  // children that were re-parented to this process, or made so by a child
	forked  []int                  // children of the thread that forks
	pipes   func(pid int) []uint64 // the pipes on descriptors 0 to 2
}

// attribute gives each live process that descends from a group to it, by one
// of four proofs:
//
//   - it was seen to descend from it before;
//   - it is in the group's session, or in one made by a descendant: a session
//     is entered by birth only, and its leader, alive or kept as a zombie,
//     holds its number;
//   - its parent belongs to it;
//   - it is an orphan that holds one of the group's pipes, or its terminal.
//
// Orphans with none of these are returned as lost.
func (v *view) attribute(groups []*group) (owner map[int]*group, lost []entry) {
	a := attribution{view: v, owner: make(map[int]*group), remembered: make(map[ident]*group), sessions: make(map[int]*group)}
	for _, g := range groups {
		a.sessions[g.leader.PID] = g
		a.remembered[g.leader] = g
		for id := range g.members {
			a.remembered[id] = g
		}
	}
	a.byPipe(groups)
	for pid := range v.table {
		a.resolve(pid)
	}
	for pid, g := range a.owner {
		if g == nil || v.table[pid].dead || v.table[pid].ident == g.leader {
			delete(a.owner, pid)
		}
	}
	return a.owner, a.lost
}

// foreign says whether e is in the session of a child of this process that is
// no orphan: somebody else started that one, and e descends from it.
func (v *view) foreign(e entry) bool {
	leader, ok := v.table[e.session]
	return ok && leader.PID != e.PID && leader.parent == v.self.PID && !slices.Contains(v.adopted, leader.PID)
}

type attribution struct {
	*view
	owner      map[int]*group // nil: asked and found to be nobody's
	remembered map[ident]*group
	sessions   map[int]*group
	lost       []entry
}

// resolve finds the owner of pid by memory, session or parent.
func (a *attribution) resolve(pid int) *group {
	if g, known := a.owner[pid]; known {
		return g
	}
	e, ok := a.table[pid]
	if !ok || pid == a.self.PID {
		return nil
	}
	a.owner[pid] = nil // ends a walk in circles, should the table be torn
	g := a.remembered[e.ident]
	if g == nil {
		g = a.sessions[e.session]
	}
	if g == nil && e.session != pid {
		g = a.resolve(e.session) // while it lives, the one who made the session
	}
	if g == nil {
		g = a.resolve(e.parent)
	}
	a.owner[pid] = g
	return g
}

// byPipe decides the orphans, which have no parent to ask.
func (a *attribution) byPipe(groups []*group) {
	for _, pid := range a.adopted {
		e, ok := a.table[pid]
		// What shares our session was not started by a Host: see Host.
		if !ok || e.dead || e.session == a.self.session || e.parent != a.self.PID || a.resolve(pid) != nil {
			continue
		}
		held := a.pipes(pid)
		i := slices.IndexFunc(groups, func(g *group) bool { return sharesPipe(g.pipes[:], held) > 0 })
		if i < 0 {
			a.lost = append(a.lost, e)
			continue
		}
		a.owner[pid] = groups[i]
	}
}

// sharesPipe counts the distinct pipes of ours among held.
func sharesPipe(ours, held []uint64) int {
	n := 0
	for _, inode := range ours {
		if inode != 0 && slices.Contains(held, inode) {
			n++
		}
	}
	return n
}

// bornSince returns the groups whose leader is at least as old as e, which are
// those that e can descend from.
func bornSince(groups []*group, e entry) []*group {
	var maybe []*group
	for _, g := range groups {
		if g.leader.Start <= e.Start {
			maybe = append(maybe, g)
		}
	}
	return maybe
}
