package identity

import (
	"bytes"
	"os"
	"strconv"
)

// deepest bounds the way up, which is short: what is longer is a mistake.
const deepest = 64

// Ancestors returns the process pid and what it descends from, nearest first,
// as far as that can be told. A process that ends while it is looked at cuts
// the line there, so nobody gets an ancestor that is not theirs.
func Ancestors(pid int) []Process {
	return climb(pid, func(pid int) (p Process, parent int, ok bool) {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return Process{}, 0, false
		}
		return parseStat(pid, data)
	})
}

// climb follows the parents that look gives. After a parent was read, its child
// is read again: had it ended in between, its parent's number might be
// somebody else's by now.
func climb(pid int, look func(pid int) (p Process, parent int, ok bool)) []Process {
	var line []Process
	p, parent, ok := look(pid)
	for ok && len(line) < deepest {
		line = append(line, p)
		if parent <= 0 {
			break
		}
		var up Process
		var grand int
		up, grand, ok = look(parent)
		again, still, alive := look(p.PID)
		if !alive || again != p || still != parent {
			break
		}
		p, parent = up, grand
	}
	return line
}

// parseStat reads the parent and the start time in a line of /proc/PID/stat.
// The command's name, which may hold anything, ends at the last parenthesis.
func parseStat(pid int, data []byte) (Process, int, bool) {
	const parentField, startField = 4 - 3, 22 - 3 // the first behind the name is number 3
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= startField {
		return Process{}, 0, false
	}
	parent, err := strconv.Atoi(string(fields[parentField]))
	if err != nil {
		return Process{}, 0, false
	}
	start, err := strconv.ParseUint(string(fields[startField]), 10, 64)
	if err != nil {
		return Process{}, 0, false
	}
	return Process{pid, start}, parent, true
}
