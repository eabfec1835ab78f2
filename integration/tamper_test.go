package integration

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"harness/pkg/control"
)

// tampering is one thing that can be done to a file of a run.
type tampering struct {
	what string
	do   func(path string, data []byte, mode fs.FileMode) error
}

// tamperings are those of a file of that many bytes; aside is a place for it.
func tamperings(rnd *rand.Rand, size int, aside string) []tampering {
	put := func(path string, data []byte, mode fs.FileMode) error {
		return errors.Join(os.Remove(path), os.WriteFile(path, data, mode))
	}
	all := []tampering{
		{"grown", func(path string, data []byte, mode fs.FileMode) error {
			return put(path, append(data, "\n x"[rnd.IntN(3)]), mode)
		}},
		{"writable", func(path string, _ []byte, mode fs.FileMode) error { return os.Chmod(path, mode^0o200) }},
		{"readable", func(path string, _ []byte, mode fs.FileMode) error { return os.Chmod(path, mode^0o044) }},
		{"renamed", func(path string, _ []byte, _ fs.FileMode) error { return os.Rename(path, path+"~") }},
		{"a copy", func(path string, data []byte, mode fs.FileMode) error { return os.WriteFile(path+".json", data, mode) }},
		{"a hard link", func(path string, _ []byte, _ fs.FileMode) error {
			return os.Link(path, aside)
		}},
		{"a link", func(path string, _ []byte, _ fs.FileMode) error {
			return errors.Join(os.Rename(path, aside), os.Symlink(aside, path))
		}},
		{"a pipe", func(path string, _ []byte, mode fs.FileMode) error {
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, uint32(mode)))
		}},
	}
	for range min(2, size) {
		at, bits := rnd.IntN(size), byte(1+rnd.IntN(255))
		all = append(all, tampering{fmt.Sprintf("byte %d ^ %02x", at, bits), func(path string, data []byte, mode fs.FileMode) error {
			data = slices.Clone(data)
			data[at] ^= bits
			return put(path, data, mode)
		}}, tampering{fmt.Sprintf("cut to %d", at), func(path string, data []byte, mode fs.FileMode) error { return put(path, data[:at], mode) }})
	}
	return all
}

// Whatever is done to whichever file of a run, its bytes, its mode, its name or
// its place among the others, is found by verify, and by everything that would
// have shown it (EVI-3).
func TestEvidence_ThatWasTamperedWithIsNotShown(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.start()
	s, boss := h.official(""), h.boss()
	id := runOf(t, h.must("run", "slow", "-d", "--role", "review", "--json")).ID
	steer := answered(t, h.must("message", "steer", id, "left", "--json"))
	structured(t, boss.call("harness_message_ack", map[string]any{"run": id, "correlation_id": steer.Message.CorrelationID, "idempotency_key": "k"}))
	c, err := control.Dial(t.Context(), h.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var over answerOf
	if err := c.Operate(t.Context(), "cancel", map[string]any{"run": id}, &over); err != nil {
		t.Fatal(err)
	}
	entry := func() (string, string) {
		var v struct {
			OK    bool
			Error struct{ Code, Entry string }
		}
		if err := c.Operate(t.Context(), "verify", map[string]any{"run": id}, &v); err != nil {
			t.Fatal(err)
		}
		return v.Error.Code, v.Error.Entry
	}
	reads := map[string]func() string{
		"get_trajectory":    func() string { return s.call("get_trajectory", map[string]any{"id": id}).code() },
		"list_trajectories": func() string { return s.call("list_trajectories", nil).code() },
	}
	for _, uri := range []string{"runs", "runs/" + id + "/status", "runs/" + id + "/messages", "runs/" + id + "/receipts", "runs/" + id + "/command-context", "runs/" + id + "/command-card"} {
		reads[uri] = func() string {
			_, code := s.read("harness://" + uri)
			return code
		}
	}
	holds := func(what, want string) {
		t.Helper()
		if code, _ := entry(); code != want {
			t.Errorf("%s: verify says %q", what, code)
		}
		for name, read := range reads {
			if code := read(); code != want {
				t.Errorf("%s: %s says %q", what, name, code)
			}
		}
	}
	holds("as it was written", "")
	rnd, done := rand.New(rand.NewPCG(*killSeed, 9)), 0
	files := h.evidenceOf(id)
	for name := range files {
		path := filepath.Join(h.runDir(id), name)
		data, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil {
			t.Fatal(err, serr)
		}
		for _, way := range tamperings(rnd, len(data), h.path("linked")) {
			if err := way.do(path, data, info.Mode()); err != nil {
				t.Fatalf("%s, %s: %v", name, way.what, err)
			}
			holds(name+", "+way.what, "invalid_evidence")
			if _, blamed := entry(); !strings.HasPrefix(blamed, name) && way.what != "renamed" {
				t.Errorf("%s, %s: %s is blamed", name, way.what, blamed)
			}
			done++
			for _, more := range []string{path + "~", path + ".json", h.path("linked")} {
				os.Remove(more)
			}
			os.Remove(path)
			if err := errors.Join(os.WriteFile(path, data, info.Mode()), os.Chmod(path, info.Mode())); err != nil {
				t.Fatal(err)
			}
		}
	}
	receipts, err := filepath.Glob(filepath.Join(h.runDir(id), "receipts/*-message.json"))
	if err != nil || len(receipts) != 2 {
		t.Fatal(receipts, err)
	}
	swap := func() {
		aside := h.path("aside")
		if err := errors.Join(os.Rename(receipts[0], aside), os.Rename(receipts[1], receipts[0]), os.Rename(aside, receipts[1])); err != nil {
			t.Fatal(err)
		}
	}
	swap()
	holds("two receipts in each other's place", "invalid_evidence")
	swap()
	holds("as it was written again", "")
	t.Logf("%d files, %d ways", len(files), done)
}
