package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"harness/pkg/wire"
)

// leftBehind makes a socket file that nothing listens on.
func leftBehind(t *testing.T, path string) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
}

func TestListen_MakesAPrivateDoor(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dirOf(t), "a", "b")
	path := filepath.Join(dir, "h.sock")
	listener, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{path: fs.ModeSocket | 0o600, dir: fs.ModeDir | 0o700, filepath.Dir(dir): fs.ModeDir | 0o700} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	listener.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("closing left the socket behind: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("closing left %v behind (%v)", entries, err)
	}
}

// FIL-1: its own directories are corrected, whatever they were; one that was named
// is its owner's.
func TestListen_MakesItsOwnDirectoriesPrivate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env   map[string]string
		flags Flags
		dir   string // of the socket
		want  fs.FileMode
	}{
		"runtime directory": {env: map[string]string{"XDG_RUNTIME_DIR": "/r"}, dir: "/r/harness", want: 0o700},
		"state directory":   {dir: "/s/run", want: 0o700},
		"a flag":            {flags: Flags{Socket: "/f/h.sock"}, dir: "/f", want: 0o755},
		"HARNESS_SOCKET":    {env: map[string]string{"HARNESS_SOCKET": "/e/h.sock"}, dir: "/e", want: 0o755},
	} {
		root := dirOf(t)
		at := func(path string) string {
			if path == "" {
				return ""
			}
			return root + path
		}
		paths := Find(Env{Get: func(key string) string {
			if key == "HARNESS_STATE_DIR" {
				return at("/s")
			}
			return at(tt.env[key])
		}}, Flags{Socket: at(tt.flags.Socket)})
		if err := os.MkdirAll(at(tt.dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at(tt.dir), 0o755); err != nil {
			t.Fatal(err)
		}
		listener, err := paths.Listen(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		listener.Close()
		info, err := os.Stat(at(tt.dir))
		if err != nil || info.Mode().Perm() != tt.want {
			t.Errorf("%s: mode %v, want %v (%v)", name, info.Mode().Perm(), tt.want, err)
		}
	}
}

func TestListen_ReplacesAStaleSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(dirOf(t), "h.sock")
	leftBehind(t, path)
	listener, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func TestListen_NamesTheProcessBehindALiveSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(dirOf(t), "h.sock")
	first, err := Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = Listen(t.Context(), path)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Errorf("error is %v, want one that names pid %d", err, os.Getpid())
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the live socket is gone: %v", err)
	}
}

func TestListen_LetsOneOfManyHaveTheSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(dirOf(t), "h.sock")
	leftBehind(t, path)
	const many = 16
	listeners := make(chan *net.UnixListener, many)
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			if listener, err := Listen(t.Context(), path); err == nil {
				listeners <- listener
			}
		})
	}
	wg.Wait()
	close(listeners)
	if n := len(listeners); n != 1 {
		t.Errorf("%d listen on one socket", n)
	}
	conn, err := dial(t.Context(), path)
	if err != nil {
		t.Errorf("nobody can be reached: %v", err)
	} else {
		conn.Close()
	}
	for listener := range listeners {
		listener.Close()
	}
}

func TestListen_LeavesAForeignFileAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, path string) error{
		"a file":      func(_ *testing.T, path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"a directory": func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) },
		"a link to a stale socket": func(t *testing.T, path string) error {
			t.Helper()
			leftBehind(t, path+"2")
			return os.Symlink(path+"2", path)
		},
	}
	for name, put := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dirOf(t), "h.sock")
			if err := put(t, path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Listen(t.Context(), path); err == nil || !strings.Contains(err.Error(), "not a socket") {
				t.Errorf("error is %v", err)
			}
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() {
				t.Errorf("what was there is not there any more: %v", err)
			}
		})
	}
}

func TestListen_SaysWhenAPathIsTooLong(t *testing.T) {
	t.Parallel()
	dir := dirOf(t)
	exact := filepath.Join(dir, strings.Repeat("x", maxSocketPath-len(dir)-1))
	listener, err := Listen(t.Context(), exact)
	if err != nil {
		t.Fatalf("a path of %d bytes: %v", len(exact), err)
	}
	listener.Close()
	_, err = Listen(t.Context(), exact+"x")
	problem, ok := errors.AsType[*Problem](err)
	if !ok || problem.Code != wire.InvalidArgument || !strings.Contains(problem.Message, "108 bytes") || problem.Hint == "" {
		t.Errorf("error is %#v", err)
	}
	if _, err := Dial(t.Context(), exact+"x"); err == nil || !strings.Contains(err.Error(), "108 bytes") {
		t.Errorf("a client is told %v", err)
	}
}

func TestListen_RefusesADirectoryThatEverybodyMayChange(t *testing.T) {
	t.Parallel()
	dir := dirOf(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), filepath.Join(dir, "h.sock")); err == nil || !strings.Contains(err.Error(), "everybody") {
		t.Errorf("error is %v", err)
	}
	if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(t.Context(), filepath.Join(dir, "h.sock"))
	if err != nil {
		t.Fatalf("with the sticky bit, as /tmp has it: %v", err)
	}
	listener.Close()
}
