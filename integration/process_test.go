package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// process is one line of the process table.
type process struct {
	pid, ppid, group int
	state            string
	ticks            int // user and system time, in clock ticks
	cmdline          string
}

// processes reads the process table. What ends while it is read is left out.
func processes(t testing.TB) []process {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var all []process
	for _, dir := range dirs {
		if p, ok := readProcess(dir); ok {
			all = append(all, p)
		}
	}
	return all
}

func readProcess(dir string) (process, bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name in parentheses may hold anything; what counts follows it.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	number := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
	cmdline, _ := os.ReadFile(dir + "/cmdline")
	p := process{
		state: f[0], ppid: number(1), group: number(2), ticks: number(11) + number(12),
		cmdline: string(bytes.ReplaceAll(bytes.TrimRight(cmdline, "\x00"), []byte{0}, []byte{' '})),
	}
	p.pid, _ = strconv.Atoi(filepath.Base(dir))
	return p, true
}

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	p, ok := readProcess(fmt.Sprintf("/proc/%d", pid))
	return ok && p.state != "Z"
}

// mentioning are the live processes whose command line contains text: a home
// has a path of its own, so this finds all that was started for it.
func mentioning(t testing.TB, text string) []process {
	t.Helper()
	return slices.DeleteFunc(processes(t), func(p process) bool {
		return p.state == "Z" || !strings.Contains(p.cmdline, text)
	})
}

// zombiesOf are the dead children a process has not waited for.
func zombiesOf(t testing.TB, pid int) []process {
	t.Helper()
	return slices.DeleteFunc(processes(t), func(p process) bool { return p.state != "Z" || p.ppid != pid })
}

// environOf is the environment a process was started with.
func environOf(t testing.TB, pid int) string {
	t.Helper()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(env)
}

// memoryOf is the resident memory of a process that is its own, in bytes.
func memoryOf(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	t.Fatalf("no RssAnon of %d", pid)
	return 0
}

// descriptorsOf counts the open files of a process.
func descriptorsOf(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// signal sends a signal to a process that has to be there.
func signal(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("kill -%d %d: %v", sig, pid, err)
	}
}
