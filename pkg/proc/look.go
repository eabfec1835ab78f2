package proc

import (
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The pace of the looks that nobody asked for. What a young child forks is
// remembered soon; an old fleet costs one pass over /proc in five seconds.
const (
	soonestLook = 50 * time.Millisecond
	latestLook  = 5 * time.Second
	restAtLeast = 5 * time.Millisecond
	restFactor  = 20 // rest this many times what the look took
)

// watch looks now and then, soon after a start, and when a child has died.
func (h *Host) watch(deaths <-chan os.Signal) {
	pause, next := soonestLook, time.Now()
	for {
		settled := false
		var due <-chan time.Time
		if len(h.live()) > 0 {
			due = time.After(time.Until(next))
		}
		select {
		case <-h.stop:
			return
		case <-h.wake:
			// What has just been started has forked nothing yet, and needs the
			// processors itself (PRF-4).
			pause = soonestLook
			if soon := time.Now().Add(pause); due == nil || soon.Before(next) {
				next = soon
			}
			continue
		case <-deaths:
			// Whoever waits for a child looks at its end: this is for the others.
			if h.childless() || h.looks.within(restAtLeast, h.stop) {
				continue
			}
		case <-due:
			pause, settled = min(2*pause, latestLook), true
		}
		began := time.Now()
		h.look()
		if h.isStale() {
			h.commit()
		}
		if settled {
			h.record.sync() // passing ones are not worth the disk's time
		}
		next = time.Now().Add(pause)
		select {
		case <-h.stop:
			return
		case <-time.After(max(restAtLeast, restFactor*time.Since(began))):
		}
	}
}

// poke asks watch for a look.
func (h *Host) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// look takes in the process table: it remembers who descends from whom, ends
// zombies, and lets go of groups of which nothing is left. When it returns, a
// look that began after the call is complete.
func (h *Host) look() { h.looks.do(h.scan) }

// glance lets go of a child that has exited where two small files say that
// nothing is left of it, and reports whether it did: it costs as much with a
// thousand processes on the machine as with ten.
//
// A process whose parent is gone is a child of this process's main thread. What
// the child had the kernel make its sibling (CLONE_PARENT) is one of the thread
// that forks, and what that leaves goes to the main thread. So everything that
// descends from a child that is dead is one of these, or below one, and the
// thread that forks is asked first.
func (h *Host) glance(p *Proc) bool {
	forked, err := readChildren(int(h.spawner.thread.Load()))
	if err != nil {
		return false
	}
	orphans, err := h.orphans()
	if err != nil || len(orphans) > 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// What is known to be left, or about to be there, takes a look; and a table
	// that is being read may have this child, and would take it for an orphan.
	if !p.group.exited || len(p.group.members) > 0 || len(h.strays) > 0 || h.forking > 0 || h.looking || len(h.siblings(forked)) > 0 {
		return false
	}
	h.release(map[*Proc]bool{p: true})
	return p.isGone()
}

// childless reports whether no child of this process can be an orphan, or be
// made a sibling by a child.
func (h *Host) childless() bool {
	forked, err := readChildren(int(h.spawner.thread.Load()))
	if err != nil {
		return false
	}
	h.mu.Lock()
	sure := h.forking == 0 && len(h.siblings(forked)) == 0
	h.mu.Unlock()
	orphans, err := h.orphans()
	return sure && err == nil && len(orphans) == 0
}

// siblings are those of the processes forked on the thread that forks that were
// not started here, or not yet: a fork may be under way. The caller holds mu.
func (h *Host) siblings(forked []int) []int {
	return slices.DeleteFunc(slices.Clone(forked), h.leads)
}

// orphans lists the children of the main thread that may descend from what was
// started here. What shares our session does not: see Host.
func (h *Host) orphans() ([]int, error) {
	adopted, err := readChildren(os.Getpid())
	return slices.DeleteFunc(adopted, func(pid int) bool {
		e, err := readEntry(pid)
		return err == nil && e.session == h.self.session
	}), err
}

func (h *Host) scan() {
	over := h.exitedGroups()
	table, err := readTable()
	if err != nil {
		h.log.Warn("cannot read the process table", "error", err)
		h.mu.Lock()
		h.looking = false
		h.mu.Unlock()
		return
	}
	// Without the files orphans are known by memory and session only.
	adopted, _ := readChildren(os.Getpid())
	forked, _ := readChildren(int(h.spawner.thread.Load()))
	h.absorb(&view{self: h.self, table: table, adopted: adopted, forked: forked, pipes: readPipes}, over)
}

// absorb takes in one view. over are the groups whose child had exited before
// it was taken.
func (h *Host) absorb(v *view, over map[*Proc]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking = false
	siblings := h.siblings(v.forked)
	if h.forking == 0 {
		v.adopted = append(v.adopted, siblings...)
		siblings = nil
	}
	for _, pid := range h.zombies(v) {
		reapOrphan(pid)
	}
	groups := h.groups()
	owner, lost := v.attribute(groups)
	h.remember(groups, v.table, owner)
	lost = h.suspects(v, lost)
	// While a fork is under way its group is not among groups, so an orphan
	// may be of a group that is not there yet, and a sibling may lead it. The next
	// look decides.
	if len(lost) == 0 && len(siblings) == 0 || h.forking == 0 {
		h.place(groups, lost)
		h.release(over)
	}
	h.noteStale()
}

// exitedGroups returns the groups whose child had exited before the table is
// read: only of these an empty table says that nothing is left. From here to the
// end of absorb nobody else lets go of one.
func (h *Host) exitedGroups() map[*Proc]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looking = true
	over := make(map[*Proc]bool)
	for _, p := range h.procs {
		if p.group.exited {
			over[p] = true
		}
	}
	return over
}

// groups returns the groups of procs. The caller holds mu, as in all of the
// following.
func (h *Host) groups() []*group {
	groups := make([]*group, len(h.procs))
	for i, p := range h.procs {
		groups[i] = &p.group
	}
	return groups
}

// remember replaces the members of each group by those just found.
func (h *Host) remember(groups []*group, t table, owner map[int]*group) {
	before := make(map[*group]map[ident]member, len(groups))
	for _, g := range groups {
		before[g] = g.members
		g.members = make(map[ident]member)
	}
	for pid, g := range owner {
		e := t[pid]
		g.members[e.ident] = member{group: e.group, looks: before[g][e.ident].looks + 1}
	}
}

// suspects returns those of lost that can descend from what was started here,
// and forgets strays that died.
func (h *Host) suspects(v *view, lost []entry) []entry {
	maps.DeleteFunc(h.strays, func(id ident, _ *stray) bool { return !v.table.lives(id) })
	if h.self.PID == 1 {
		return nil // init is given orphans that never descended from it
	}
	return slices.DeleteFunc(lost, func(e entry) bool {
		return h.since == 0 || e.Start < h.since || v.foreign(e)
	})
}

// place gives each orphan of unknown origin to the one group it can have come
// from, or keeps it as a stray as long as there are several.
func (h *Host) place(groups []*group, lost []entry) {
	for _, e := range lost {
		s := h.strays[e.ident]
		if s == nil {
			s = &stray{maybe: bornSince(groups, e)}
			h.strays[e.ident] = s
		}
		s.entry = e
		h.settle(s)
	}
}

// settle makes a stray with one possible origin a member of it.
func (h *Host) settle(s *stray) {
	if len(s.maybe) != 1 {
		return
	}
	s.maybe[0].members[s.ident] = member{group: s.entry.group}
	delete(h.strays, s.ident)
}

// zombies lists dead orphans that were re-parented to this process. Leaders
// are not among them, and neither are children of others in this process.
func (h *Host) zombies(v *view) []int {
	var pids []int
	for _, pid := range v.adopted {
		if e, ok := v.table[pid]; ok && e.dead && e.session != h.self.session && !h.leads(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (h *Host) leads(pid int) bool {
	return slices.ContainsFunc(h.procs, func(p *Proc) bool { return p.PID() == pid })
}

// release lets go of what is over and has no member left: from here on, its
// number may name anything. One by one, since the stray of one may become a
// member of the next.
func (h *Host) release(over map[*Proc]bool) {
	h.procs = slices.DeleteFunc(h.procs, func(p *Proc) bool {
		if !over[p] || len(p.group.members) > 0 {
			return false
		}
		h.room += p.room
		h.forget(&p.group)
		p.child.reap()
		close(p.gone)
		return true
	})
}

// forget takes g out of what strays may have come from.
func (h *Host) forget(g *group) {
	for _, s := range h.strays {
		if i := slices.Index(s.maybe, g); i >= 0 {
			s.maybe = slices.Delete(s.maybe, i, i+1)
			h.settle(s)
		}
	}
}

// noteStale finds out whether the record lacks a process that is here to
// stay. Passing ones are not worth a write; those that are left out are found
// by their session or pipes, unless they shed both.
func (h *Host) noteStale() {
	for _, p := range h.procs {
		for id, m := range p.group.members {
			h.stale = h.stale || m.looks > 1 && !h.written[id]
		}
	}
	for id := range h.strays {
		h.stale = h.stale || !h.written[id]
	}
}

func (h *Host) isStale() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stale
}

// endStrays kills orphans until none turns up.
func (h *Host) endStrays() {
	for late := time.After(killPatience); ; {
		h.look()
		ids := h.strayIDs()
		if len(ids) == 0 {
			return
		}
		for _, id := range ids {
			signalProcess(id, syscall.SIGKILL)
		}
		select {
		case <-late:
			h.log.Warn("orphans survive SIGKILL", "left", len(ids))
			return
		case <-time.After(firstPoll):
		}
	}
}

func (h *Host) strayIDs() []ident {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []ident
	for id := range h.strays {
		ids = append(ids, id)
	}
	return ids
}

// Holds reports whether a process, which started so many clock ticks after the
// boot, is one of a group whose name begins with prefix, or an orphan that may be.
func (h *Host) Holds(prefix string, pid int, start uint64) bool {
	id := ident{pid, start}
	holds, known, live := h.recall(prefix, id)
	if known || !live {
		return holds
	}
	if e, err := readEntry(pid); err != nil || e.ident != id || e.parent != h.self.PID {
		return false
	}
	h.look() // it became an orphan since the last time
	holds, _, _ = h.recall(prefix, id)
	return holds
}

// Runs reports whether there is a group whose name begins with prefix.
func (h *Host) Runs(prefix string) bool {
	_, _, live := h.recall(prefix, ident{})
	return live
}

// recall says what is known of a process, and whether there is any such group.
func (h *Host) recall(prefix string, id ident) (holds, known, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	named := func(g *group) bool { return strings.HasPrefix(g.name, prefix) }
	for _, l := range h.unborn {
		live = live || strings.HasPrefix(l.Name, prefix)
	}
	for _, g := range h.groups() {
		live = live || named(g)
		if _, member := g.members[id]; member || g.leader == id {
			return named(g), true, true
		}
	}
	if s, stray := h.strays[id]; stray {
		return slices.ContainsFunc(s.maybe, named), true, live
	}
	u, unborn := h.unborn[id.PID]
	return unborn && u.ident == id && strings.HasPrefix(u.Name, prefix), unborn, live
}
