package proc

import (
	"maps"
	"slices"
)

// prove returns the live processes in t that provably belong to a recorded
// group. A number alone proves nothing, it may have been handed out again. The
// proofs are:
//
//   - Seen: the process was recorded, and has the recorded start time still.
//   - Session: a process that was seen is in the session that the group's
//     leader made. A session is entered by birth only and its number is not
//     handed out while anybody is in it, so all in it descend from the leader.
//   - Pipes: it has as standard files two of the pipes made for the group, or
//     one of them and the group's session. Nobody else was ever given them.
//     One alone is not enough: inode numbers of pipes have 32 bits and wrap.
//   - Parent: its parent is proven. A number is not handed out twice within
//     one pass over the process table, since the kernel goes through all of
//     them in turn.
//
// self and its ancestors are never among them, even if this daemon was started
// from within a group of its predecessor, and neither is in that case what
// descends from self.
func prove(left []leftover, t table, self int, pipes func(pid int) []uint64) []ident {
	p := proof{table: t, self: self, kin: make(map[int]bool), ours: make(map[int]bool)}
	for pid := self; pid > 0 && !p.kin[pid]; pid = t[pid].parent {
		p.kin[pid] = true
	}
	held := make(map[int][]uint64)
	for i := range left {
		p.group(&left[i], func(pid int) []uint64 {
			if _, known := held[pid]; !known {
				held[pid] = pipes(pid)
			}
			return held[pid]
		})
	}
	p.children()
	var alive []ident
	for pid := range p.ours {
		if e := t[pid]; !e.dead && !p.spared(e) {
			alive = append(alive, e.ident)
		}
	}
	slices.SortFunc(alive, byPID)
	return alive
}

type proof struct {
	table table
	self  int
	kin   map[int]bool // self and its ancestors
	ours  map[int]bool
}

// group proves what it can from the record of one group.
func (p *proof) group(g *leftover, pipes func(pid int) []uint64) {
	seen := identities([]leftover{*g})
	inSession := false // somebody proven is in the group's session
	for pid, e := range p.table {
		if seen[e.ident] || e.Start >= g.Start && len(g.Pipes) > 0 && p.holds(g, e, pipes(pid)) {
			p.ours[pid] = true
			inSession = inSession || e.session == g.PID
		}
	}
	for pid, e := range p.table {
		if inSession && e.session == g.PID {
			p.ours[pid] = true
		}
	}
}

func (p *proof) holds(g *leftover, e entry, pipes []uint64) bool {
	switch sharesPipe(g.Pipes, pipes) {
	case 0:
		return false
	case 1:
		holder, taken := p.table[g.PID]
		return e.session == g.PID && (!taken || holder.ident == g.ident)
	default:
		return true
	}
}

// children adds what descends from the proven.
func (p *proof) children() {
	for grown := true; grown; {
		grown = false
		for pid, e := range p.table {
			if !p.ours[pid] && p.ours[e.parent] {
				p.ours[pid], grown = true, true
			}
		}
	}
}

// spared says whether e is this process or an ancestor, or descends from it
// and is proven only because this process is.
func (p *proof) spared(e entry) bool {
	if p.kin[e.PID] || !p.ours[p.self] {
		return p.kin[e.PID]
	}
	for range p.table { // bounds the walk, should the table be torn
		if e.parent == p.self {
			return true
		}
		next, ok := p.table[e.parent]
		if !ok {
			return false
		}
		e = next
	}
	return false
}

// owners returns the processes in t that are in charge of a recorded group.
func owners(left []leftover, t table) []ident {
	alive := make(map[ident]bool)
	for _, g := range left {
		if t.lives(g.Owner) {
			alive[g.Owner] = true
		}
	}
	return slices.SortedFunc(maps.Keys(alive), byPID)
}
