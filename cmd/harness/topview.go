package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"harness/pkg/control"
)

// topOrder is by what the units are sorted.
type topOrder string

const (
	byCPU    topOrder = "cpu"
	byMemory topOrder = "memory"
	byName   topOrder = "name"
)

// topRow is a unit with how busy it is.
type topRow struct {
	control.UnitUsage
	busy float64 // processors, over the time since the sample before
}

// word is how other commands are told of the unit.
func (r topRow) word() string {
	if r.Kind == "upstream" {
		return "mcp." + r.Name
	}
	return r.Name
}

// topRows compares two samples, and sorts. before is nil for the first one,
// which knows what was used so far and nothing of how busy anybody is.
func topRows(before, now *control.Usage, order topOrder) []topRow {
	used := map[string]int64{}
	var span time.Duration
	if before != nil {
		span = now.At.Sub(before.At)
		for _, u := range before.Units {
			if u.CPUMS != nil {
				used[topIdentity(u)] = *u.CPUMS
			}
		}
	}
	rows := make([]topRow, len(now.Units))
	for i, u := range now.Units {
		rows[i].UnitUsage = u
		if then, ok := used[topIdentity(u)]; ok && u.CPUMS != nil && span > 0 {
			// It is less than before where a child has ended.
			rows[i].busy = float64(max(*u.CPUMS-then, 0)) / float64(span.Milliseconds())
		}
	}
	slices.SortStableFunc(rows, func(a, b topRow) int {
		switch order {
		case byCPU:
			if before == nil {
				return cmp.Compare(orZero(b.CPUMS), orZero(a.CPUMS))
			}
			return cmp.Compare(b.busy, a.busy)
		case byMemory:
			return cmp.Compare(orZero(b.Memory), orZero(a.Memory))
		}
		return cmp.Compare(a.word(), b.word())
	})
	return rows
}

// topIdentity tells a process from the one that comes after it.
func topIdentity(u control.UnitUsage) string { return u.Kind + " " + u.Name + " " + or(u.PID, "-") }

func orZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// topTable renders rows. How busy they are is a column where that is known.
func topTable(rows []topRow, known bool) []string {
	head := []string{"UNIT", "STATE", "PID", "PROCESSES", "CPU", "CPU TIME", "MEMORY", "RESTARTS"}
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{
			r.word(), r.State, or(r.PID, "-"), or(r.Processes, "-"), busyText(r), cpuText(r.CPUMS), memoryText(r.Memory), fmt.Sprint(r.Restarts),
		})
	}
	if !known {
		const column = 4
		head = slices.Delete(head, column, column+1)
		for i := range cells {
			cells[i] = slices.Delete(cells[i], column, column+1)
		}
	}
	var out bytes.Buffer
	_ = table(&out, head, cells) // a buffer takes everything
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func busyText(r topRow) string {
	if r.CPUMS == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", r.busy*100)
}

func cpuText(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).Round(10 * time.Millisecond).String()
}

func memoryText(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB", float64(*n)/(1<<20))
}

// topTotal sums up all rows in a line.
func topTotal(rows []topRow) string {
	var busy float64
	var memory int64
	processes := 0
	for _, r := range rows {
		busy += r.busy
		memory += orZero(r.Memory)
		if r.Processes != nil {
			processes += *r.Processes
		}
	}
	return fmt.Sprintf("units %d, processes %d, CPU %.1f%% of one processor, memory %s", len(rows), processes, busy*100, memoryText(&memory))
}

// topKeys is the last line of the screen.
const topKeys = "q quits; sort by c CPU, m memory, n name"

// topScreen fits lines to a terminal: what is too long is cut, and of too many
// the last ones are left out and counted.
func topScreen(total string, lines []string, cols, rows int) []string {
	const frame = 3 // the line above, an empty one, and the line of keys
	if room := max(rows-frame, 1); len(lines) > room {
		left := len(lines) - room + 1
		lines = append(slices.Clone(lines[:room-1]), fmt.Sprintf("... and %d more", left))
	}
	screen := append([]string{total, ""}, lines...)
	screen = append(screen, topKeys)
	for i, line := range screen {
		if runes := []rune(line); len(runes) > cols {
			screen[i] = string(runes[:cols])
		}
	}
	return screen
}
