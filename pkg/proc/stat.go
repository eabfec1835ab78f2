package proc

import (
	"bytes"
	"errors"
	"strconv"
)

// ident names one process for good. The kernel hands a number out again some
// day, but not with the same start.
type ident struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// entry is one line of the process table.
type entry struct {
	ident
	parent, group, session int
	dead                   bool // a zombie: exited, not yet waited for
}

// table is the process table as one pass over it found it, by process id.
type table map[int]entry

// has says whether the very process id is in the table, dead or alive.
func (t table) has(id ident) bool {
	e, ok := t[id.PID]
	return ok && e.ident == id
}

// lives says whether the very process id is in the table and not a zombie.
func (t table) lives(id ident) bool { return t.has(id) && !t[id.PID].dead }

var errStat = errors.New("not a line of /proc/<pid>/stat")

// The fields of /proc/<pid>/stat that are read, counted from the one after the
// command's name.
const (
	fieldState   = 0
	fieldParent  = 1
	fieldGroup   = 2
	fieldSession = 3
	fieldThreads = 17
	fieldStart   = 19
)

// parseStat reads a /proc/<pid>/stat. The command's name stands in
// parentheses and may hold anything, parentheses and newlines included, so the
// fields are counted from the last one.
func parseStat(line []byte) (entry, error) {
	open, closing := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || closing < open {
		return entry{}, errStat
	}
	fields := bytes.Fields(line[closing+1:])
	if len(fields) <= fieldStart {
		return entry{}, errStat
	}
	var e entry
	var threads int
	for _, n := range []struct {
		text []byte
		to   *int
	}{
		{bytes.TrimSpace(line[:open]), &e.PID},
		{fields[fieldParent], &e.parent},
		{fields[fieldGroup], &e.group},
		{fields[fieldSession], &e.session},
		{fields[fieldThreads], &threads},
	} {
		v, err := strconv.Atoi(string(n.text))
		if err != nil {
			return entry{}, errStat
		}
		*n.to = v
	}
	start, err := strconv.ParseUint(string(fields[fieldStart]), 10, 64)
	if err != nil {
		return entry{}, errStat
	}
	e.Start = start
	// A first thread that ended before the others shows as Z while they run.
	state := fields[fieldState][0]
	e.dead = state == 'X' || state == 'Z' && threads <= 1
	return e, nil
}
