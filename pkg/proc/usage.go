package proc

import (
	"os"
	"time"
)

// Usage is what a process and all that descends from it use.
type Usage struct {
	// Processes is how many of them there are, the dead left out.
	Processes int
	// CPU is what the living have used since each was started, for themselves and
	// in the kernel, to a hundredth of a second.
	CPU time.Duration
	// Memory is what of them is in memory, in bytes; what they share counts for
	// each.
	Memory int64
}

// hertz is how many ticks the kernel tells a second as, on every Linux.
const hertz = 100

// ReadUsage returns what each of roots uses, by process id. What descends from
// two of them, one below the other, counts for the lower one. Of a root that is
// not there, there is nothing.
func ReadUsage(roots []int) (map[int]Usage, error) {
	t, err := readTable()
	if err != nil {
		return nil, err
	}
	return t.usage(roots, int64(os.Getpagesize())), nil
}

// usage adds up what everybody uses. A process that lost its parent is known by
// its session: each root begins one.
func (t table) usage(roots []int, page int64) map[int]Usage {
	all := make(map[int]Usage, len(roots))
	for _, root := range roots {
		if _, there := t[root]; there {
			all[root] = Usage{}
		}
	}
	for _, e := range t {
		root, ok := t.rootOf(e, all)
		if !ok || e.dead {
			continue
		}
		u := all[root]
		u.Processes++
		u.CPU += time.Duration(e.ticks) * (time.Second / hertz)
		u.Memory += int64(e.pages) * page
		all[root] = u
	}
	return all
}

// rootOf returns the root that e descends from. A table that was read while
// processes came and went may have a circle in it.
func (t table) rootOf(e entry, roots map[int]Usage) (int, bool) {
	session := e.session
	for range len(t) {
		if _, ok := roots[e.PID]; ok {
			return e.PID, true
		}
		parent, ok := t[e.parent]
		if !ok {
			break
		}
		e = parent
	}
	_, ok := roots[session]
	return session, ok
}
