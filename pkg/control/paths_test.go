package control

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// where is what Find found, without what it keeps to itself.
type where struct{ Config, State, Socket, Pointer string }

func TestFind_TakesTheFirstThatApplies(t *testing.T) {
	t.Parallel()
	home := where{
		Config:  "/home/u/.config/harness/harness.toml",
		State:   "/home/u/.local/state/harness",
		Socket:  "/home/u/.local/state/harness/run/harness.sock",
		Pointer: "/home/u/.local/state/harness/socket",
	}
	xdg := map[string]string{"XDG_CONFIG_HOME": "/xc", "XDG_STATE_HOME": "/xs", "XDG_RUNTIME_DIR": "/run/user/7"}
	own := map[string]string{"HARNESS_CONFIG": "/own/h.toml", "HARNESS_STATE_DIR": "/own/state", "HARNESS_SOCKET": "/own/h.sock"}
	tests := map[string]struct {
		env   []map[string]string
		flags Flags
		want  where
	}{
		"nothing is set": {nil, Flags{}, home},
		"xdg":            {[]map[string]string{xdg}, Flags{}, where{"/xc/harness/harness.toml", "/xs/harness", "/run/user/7/harness/harness.sock", "/xs/harness/socket"}},
		"own over xdg":   {[]map[string]string{xdg, own}, Flags{}, where{"/own/h.toml", "/own/state", "/own/h.sock", "/own/state/socket"}},
		"flags over all": {
			[]map[string]string{xdg, own},
			Flags{Config: "/f.toml", Socket: "/f.sock"},
			where{"/f.toml", "/own/state", "/f.sock", "/own/state/socket"},
		},
		"the socket follows the state": {[]map[string]string{{"HARNESS_STATE_DIR": "/s"}}, Flags{}, where{home.Config, "/s", "/s/run/harness.sock", "/s/socket"}},
		"relative xdg is ignored": {
			[]map[string]string{{"XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "./s", "XDG_RUNTIME_DIR": "r"}}, Flags{}, home,
		},
		"relative to the working directory": {
			[]map[string]string{{"HARNESS_STATE_DIR": "st"}},
			Flags{Config: "./a.toml", Socket: "../s"},
			where{"/here/a.toml", "/here/st", "/s", "/here/st/socket"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vars := map[string]string{}
			for _, m := range tt.env {
				maps.Copy(vars, m)
			}
			got := Find(Env{Get: func(k string) string { return vars[k] }, Home: "/home/u", Cwd: "/here"}, tt.flags)
			if diff := cmp.Diff(tt.want, where{got.Config, got.State, got.Socket, got.Pointer}); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFind_IsAbsoluteWithoutAHome(t *testing.T) {
	t.Parallel()
	got := Find(Env{Get: func(string) string { return "" }}, Flags{})
	for _, path := range []string{got.Config, got.State, got.Socket, got.Pointer} {
		if !filepath.IsAbs(path) {
			t.Errorf("%q is not absolute", path)
		}
	}
}

func TestCandidates_EndWithThePlacesOfADaemonWithAnotherEnvironment(t *testing.T) {
	t.Parallel()
	const fallback = "/h/.local/state/harness/run/harness.sock"
	tests := map[string]struct {
		env     map[string]string
		flag    string
		pointed string
		want    []string
	}{
		"a cleared environment, no pointer": {nil, "", "", []string{fallback}},
		"a cleared environment":             {nil, "", "/run/h.sock", []string{fallback, "/run/h.sock"}},
		"the pointer says the same":         {nil, "", fallback, []string{fallback}},
		"a runtime directory": {
			map[string]string{"XDG_RUNTIME_DIR": "/r"},
			"", "/p.sock",
			[]string{"/r/harness/harness.sock", "/p.sock", fallback},
		},
		"named by the environment": {map[string]string{"HARNESS_SOCKET": "/e.sock"}, "", "/p.sock", []string{"/e.sock"}},
		"named by a flag":          {nil, "/f.sock", "/p.sock", []string{"/f.sock"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths := Find(Env{Get: func(k string) string { return tt.env[k] }, Home: "/h", Cwd: "/"}, Flags{Socket: tt.flag})
			if diff := cmp.Diff(tt.want, paths.Candidates(tt.pointed)); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPointer_NamesTheSocketUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	state := dirOf(t)
	paths := Find(Env{Get: func(k string) string { return map[string]string{"HARNESS_STATE_DIR": state}[k] }}, Flags{})
	if err := WritePointer(paths.Pointer, "/run/live.sock"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{paths.Socket, "/run/live.sock"}, paths.Sockets()); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
	info, err := os.Stat(paths.Pointer)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode is %v", info.Mode())
	}
	if err := RemovePointer(paths.Pointer, "/run/another.sock"); err != nil || ReadPointer(paths.Pointer) == "" {
		t.Errorf("another daemon's pointer was removed (%v)", err)
	}
	for range 2 {
		if err := RemovePointer(paths.Pointer, "/run/live.sock"); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{paths.Socket}, paths.Sockets()); diff != "" {
		t.Errorf("sockets without a pointer (-want +got):\n%s", diff)
	}
}

func TestReadPointer_IgnoresWhatIsNoPointer(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty":       "",
		"relative":    "run/h.sock\n",
		"two lines":   "/a\n/b\n",
		"over length": "/" + strings.Repeat("x", maxSocketPath) + "\n",
		"torn":        "/a\x00",
	} {
		path := filepath.Join(dirOf(t), "socket")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := ReadPointer(path); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	pipe := filepath.Join(dirOf(t), "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ReadPointer(pipe); got != "" {
		t.Errorf("a pipe: %q", got)
	}
}
