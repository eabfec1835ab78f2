package proc

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeeper_ReadsBackWhatItSaved(t *testing.T) {
	k := newKeeper(t.TempDir())
	groups := []leftover{
		{Name: "mcp.up", ident: ident{20, 2000}, Owner: ident{10, 1000}, Pipes: []uint64{1, 2, 3}, Members: []ident{{21, 2100}}},
		{Name: "orphan", ident: ident{30, 3000}, Owner: ident{10, 1000}},
	}
	if err := k.save(groups); err != nil {
		t.Fatal(err)
	}
	want := record{Version: recordVersion, Boot: readBoot(), Space: readSpace(), Groups: groups}
	if diff := cmp.Diff(want, k.load(slog.Default()), cmp.AllowUnexported(leftover{})); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(k.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := k.save(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(k.path); !os.IsNotExist(err) {
		t.Errorf("a record of nothing is there: %v", err)
	}
	if err := k.save(nil); err != nil {
		t.Error(err)
	}
}

func TestKeeper_TrustsNoRecordOfAnotherBootOrNamespace(t *testing.T) {
	for name, change := range map[string]func(*keeper){
		"boot":      func(k *keeper) { k.boot = "another" },
		"namespace": func(k *keeper) { k.space = "pid:[1]" },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			k := newKeeper(dir)
			change(k)
			if err := k.save([]leftover{{ident: ident{os.Getpid(), 1}}}); err != nil {
				t.Fatal(err)
			}
			if r := newKeeper(dir).load(slog.Default()); len(r.Groups) > 0 {
				t.Errorf("loaded %v", r)
			}
		})
	}
}

func TestKeeper_SetsATornOrForeignRecordAside(t *testing.T) {
	for name, text := range map[string]string{
		"torn":    `{"version":1,"boot":"x","gro`,
		"empty":   "",
		"foreign": `{"version":99}`,
		"binary":  "\x00\x01",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, recordName)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			if r := newKeeper(dir).load(slog.New(slog.NewTextHandler(&log, nil))); len(r.Groups) > 0 {
				t.Errorf("loaded %v", r)
			}
			if aside, err := os.ReadFile(path + ".bad"); err != nil || string(aside) != text {
				t.Errorf("aside: %q, %v", aside, err)
			}
			if !strings.Contains(log.String(), "set aside") {
				t.Errorf("log: %s", &log)
			}
		})
	}
}

func TestKeeper_SetsAPipeAsideAndDoesNotWaitForIt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, recordName)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if !ReadRecord(dir).IsEmpty() {
		t.Error("a pipe is a record")
	}
	var log strings.Builder
	newKeeper(dir).load(slog.New(slog.NewTextHandler(&log, nil)))
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the pipe: %v", err)
	}
	if !strings.Contains(log.String(), "set aside") || strings.Contains(log.String(), "<nil>") {
		t.Errorf("log: %s", &log)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"boot":"b","pid_space":"p","groups":[{"name":"n","pid":1,"start":2,"owner":{"pid":3,"start":4},"pipes":[5],"members":[{"pid":6,"start":7}]}]}`))
	f.Add([]byte(`{"version":1,"groups":[{"members":[{}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		// Whatever a record claims, nothing is proven in an empty world.
		if ids := prove(r.Groups, table{}, 1, func(int) []uint64 { return nil }); len(ids) > 0 {
			t.Errorf("proven: %v", ids)
		}
	})
}
