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
	dead                   bool   // a zombie: exited, not yet waited for
	ticks                  uint64 // of a processor, for itself and in the kernel
	pages                  uint64 // in memory
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
	fieldUser    = 11
	fieldKernel  = 12
	fieldThreads = 17
	fieldStart   = 19
	fieldPages   = 21
)

// parseStat reads a /proc/<pid>/stat. The command's name stands in
// parentheses and may hold anything, parentheses and newlines included, so the
// fields are counted from the last one.
func parseStat(line []byte) (entry, error) {
	open, closing := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || closing < open {
		return entry{}, errStat
	}
	var e entry
	var threads int
	var state byte
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	e.PID = pid
	rest := bytes.TrimSpace(line[closing+1:])
	for field := 0; field <= fieldPages && err == nil; field++ {
		var text []byte
		text, rest, _ = bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
		switch field {
		case fieldState:
			if len(text) > 0 {
				state = text[0]
			}
		case fieldParent:
			e.parent, err = strconv.Atoi(string(text))
		case fieldGroup:
			e.group, err = strconv.Atoi(string(text))
		case fieldSession:
			e.session, err = strconv.Atoi(string(text))
		case fieldUser, fieldKernel:
			var ticks uint64
			ticks, err = strconv.ParseUint(string(text), 10, 64)
			e.ticks += ticks
		case fieldThreads:
			threads, err = strconv.Atoi(string(text))
		case fieldStart:
			e.Start, err = strconv.ParseUint(string(text), 10, 64)
		case fieldPages:
			e.pages, err = strconv.ParseUint(string(text), 10, 64)
		}
	}
	if err != nil {
		return entry{}, errStat
	}
	// A first thread that ended before the others shows as Z while they run.
	e.dead = state == 'X' || state == 'Z' && threads <= 1
	return e, nil
}
