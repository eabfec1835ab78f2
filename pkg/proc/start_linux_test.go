package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestStart_SaysWhatIsWrong_C47(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		name string
		spec Spec
		want string // after `start "<path>": `
		is   error
	}{
		{"no such file", Spec{Path: dir + "/mytool"}, "executable not found: no such file or directory", fs.ErrNotExist},
		{"not executable", Spec{Path: write("plain", "#!/bin/sh\n", 0o644)}, "not executable (mode -rw-r--r--): permission denied", fs.ErrPermission},
		{"a directory", Spec{Path: dir}, "is a directory: permission denied", fs.ErrPermission},
		{"no interpreter", Spec{Path: write("script", "#!/no/such/node --x\n", 0o755)}, `interpreter "/no/such/node" of the script not found: no such file or directory`, fs.ErrNotExist},
		{"an interpreter with a carriage return", Spec{Path: write("dos", "#!/bin/sh\r\n", 0o755)}, `interpreter "/bin/sh\r" of the script not found: no such file or directory`, fs.ErrNotExist},
		{"no program", Spec{Path: write("text", "hello\n", 0o755)}, "neither a program for this machine nor a script with a #! line: exec format error", syscall.ENOEXEC},
		{"no working directory", Spec{Path: self(), Dir: dir + "/nowhere"}, "working directory: stat " + dir + "/nowhere: no such file or directory", fs.ErrNotExist},
		{"a file as working directory", Spec{Path: self(), Dir: write("file", "", 0o600)}, `working directory "` + dir + `/file": not a directory`, syscall.ENOTDIR},
		{"a NUL byte", Spec{Path: self(), Env: []string{"TOKEN=s3cr3t\x00"}}, "a NUL byte in an argument or in the environment: invalid argument", syscall.EINVAL},
		{"far too much", Spec{Path: self(), Env: []string{"TOKEN=" + strings.Repeat("s3cr3t", 1<<20)}}, "arguments and environment are too large: argument list too long", syscall.E2BIG},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := h.Start(tc.spec)
			if err == nil {
				t.Fatal("started")
			}
			if diff := cmp.Diff(`start "`+tc.spec.Path+`": `+tc.want, err.Error()); diff != "" {
				t.Error(diff)
			}
			if !errors.Is(err, tc.is) {
				t.Errorf("%v is not %v", err, tc.is)
			}
		})
	}
}

// said returns the lines that a helper writes until it exits.
func said(t *testing.T, h *Host, spec Spec) []string {
	t.Helper()
	p, err := h.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout.Close()
	defer p.Stderr.Close()
	defer p.Kill()
	p.Stdout.SetReadDeadline(time.Now().Add(20 * time.Second))
	var text strings.Builder
	if _, err := p.Stdout.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

func TestStart_GivesTheChildExactlyWhatWasSaid(t *testing.T) {
	h := newHost(t)
	t.Setenv("OF_THE_DAEMON", "1")
	spec := helperSpec("env")
	spec.Env = []string{"A=1", "B=two words"}
	if diff := cmp.Diff(spec.Env, said(t, h, spec)); diff != "" {
		t.Error(diff)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec = helperSpec("args", "", "-x")
	spec.Argv0, spec.Dir = "mytool", dir
	if diff := cmp.Diff([]string{`["mytool" "helper" "args" "" "-x"] in ` + dir}, said(t, h, spec)); diff != "" {
		t.Error(diff)
	}
}

func TestStart_LeaksNoDescriptor(t *testing.T) {
	// One that a careless parent of the daemon left open across exec.
	fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	h := newHost(t)
	start(t, h, "echo") // whose pipes the other must not get
	for _, l := range said(t, h, helperSpec("fds")) {
		number, link, _ := strings.Cut(l, " ")
		fd, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(l)
		}
		kind, _, _ := strings.Cut(link, ":")
		// Beyond its standard pipes, the helper has only files that its own
		// runtime opened.
		if (fd <= 2) != (kind == "pipe") || kind == "socket" || kind == "anon_inode" || link == "/dev/null" {
			t.Errorf("descriptor %s", l)
		}
	}
}

func TestStart_GivesPipesWithDeadlinesAndRoom(t *testing.T) {
	p := start(t, newHost(t), "sleeper") // never reads
	line(t, p.Stdout)
	text, wrote := make([]byte, 4<<20), 0
	for wrote < 64<<10 { // the time may be over before the first byte, on a busy machine
		p.Stdin.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := p.Stdin.Write(text[wrote:])
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d, %v", wrote+n, err)
		}
		wrote += n
	}
	if wrote >= len(text) {
		t.Errorf("wrote %d", wrote)
	}
	p.Stdout.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := p.Stdout.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	p.Stdin.SetWriteDeadline(time.Time{})
	conn, err := p.Stdin.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var inline error
	conn.Write(func(fd uintptr) bool {
		_, inline = unix.Write(int(fd), []byte("x"))
		return true
	})
	if !errors.Is(inline, unix.EAGAIN) {
		t.Errorf("a write into a full pipe: %v", inline)
	}
}

func TestWiden_TakesNoMoreThanItsRoom(t *testing.T) {
	for _, tc := range []struct{ room, want int }{
		{pipeRoom, 256<<10 + 1<<20},
		{1 << 20, 512 << 10},
		{300 << 10, 256 << 10},
		{1 << 10, 0},
	} {
		p, err := openPipes()
		if err != nil {
			t.Fatal(err)
		}
		if got := p.widen(tc.room); got != tc.want {
			t.Errorf("widen(%d) = %d, want %d", tc.room, got, tc.want)
		}
		p.close()
	}
}

// held counts what a process can leak.
func held(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{"goroutines": pprof.Lookup("goroutine").Count()}
	for what, dir := range map[string]string{"descriptors": "/proc/self/fd", "threads": "/proc/self/task"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		counts[what] = len(entries)
	}
	return counts
}

func TestHost_HoldsNothingAfterManyCycles(t *testing.T) {
	h := newHost(t)
	cycle := func(i int) {
		p, err := h.Start(Spec{Path: "/bin/cat", Name: "mcp.cat"})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			p.Kill()
		} else {
			p.Stop(time.Minute)
		}
		p.Stdout.Close()
		p.Stderr.Close()
	}
	for i := range 10 {
		cycle(i)
	}
	before := held(t)
	for i := range 200 {
		cycle(i)
	}
	// Threads of the runtime come and go; one a cycle would be a leak.
	const slack = 5
	eventually(t, "as little held as before", func() bool {
		after := held(t)
		return after["goroutines"] <= before["goroutines"] &&
			after["descriptors"] <= before["descriptors"] &&
			after["threads"] <= before["threads"]+slack
	})
	if left := zombies(t); len(left) > 0 {
		t.Errorf("zombies %v", left)
	}
	if h.room != pipeRoom {
		t.Errorf("room for pipes %d", h.room)
	}
}
