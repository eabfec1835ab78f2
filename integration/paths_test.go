package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"harness/pkg/control"
	"harness/pkg/evidence"
)

// plainTree makes what every argument can name below a directory: a prompt, a
// pack, a workflow and a repository.
func (h *home) plainTree(dir string) {
	h.t.Helper()
	h.write(dir+"/prompt.md", "do\n")
	h.write(dir+"/pack/pack.toml", "name = \"p\"\nversion = \"1\"\n[[ticket]]\nfile = \"a.md\"\nrole = \"review\"\n")
	h.write(dir+"/pack/a.md", "do\n")
	h.write(dir+"/wf.toml", "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"quick\"\nprompt_file = \"prompt.md\"\n")
	h.repo(dir + "/repo")
}

// special makes a file of a kind that is no regular one; false where only root
// may.
func special(t testing.TB, kind, path string) bool {
	t.Helper()
	var err error
	switch kind {
	case "pipe":
		err = syscall.Mkfifo(path, 0o600)
	case "device":
		err = unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) // zero
		if errors.Is(err, unix.EPERM) {
			return false
		}
	case "socket":
		var l net.Listener
		short := filepath.Join(os.TempDir(), fmt.Sprint("s", os.Getpid(), len(path))) // an address has to be
		if l, err = net.Listen("unix", short); err == nil {
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			l.Close()
			err = os.Rename(short, path)
		}
	case "link":
		err = errors.Join(os.Rename(path, path+"~"), os.Symlink(filepath.Base(path)+"~", path))
	case "large":
		err = errors.Join(os.WriteFile(path, nil, 0o400), os.Truncate(path, 9<<20))
	case "dir":
		err = os.Mkdir(path, 0o700)
	default:
		t.Fatalf("there is no %s", kind)
	}
	if err != nil {
		t.Fatalf("%s at %s: %v", kind, path, err)
	}
	return true
}

// argument is one path that a tool takes.
type argument struct {
	tool, name string
	good       string // below a plain tree
	dir        bool   // it names a directory
	with       map[string]any
}

func pathArguments() []argument {
	return []argument{
		{"harness_run_launch", "prompt_file", "prompt.md", false, map[string]any{"name": "quick"}},
		{"harness_pack_validate", "dir", "pack", true, nil},
		{"harness_worktree_create", "repo", "repo", true, map[string]any{"name": "w"}},
		{"harness_workflow_validate", "file", "wf.toml", false, nil},
		{"harness_workflow_start", "file", "wf.toml", false, nil},
		{"harness_workflow_status", "file", "wf.toml", false, nil},
		{"harness_workflow_resume", "file", "wf.toml", false, nil},
	}
}

// badPaths are paths that are nearly that of what is good below the tree at
// roots/a/b, and lead to the same where they are taken as they are not meant.
func (h *home) badPaths(good string, dir bool) map[string]string {
	h.t.Helper()
	root := h.path("roots")
	ok := root + "/a/b/" + good
	bad := map[string]string{
		"relative": "a/b/" + good, "empty": "", "the root of all": "/", "with ..": root + "/a/../a/b/" + good, "out and in": root + "/../roots/a/b/" + good,
		"with .": root + "/a/./b/" + good, "with //": root + "/a//b/" + good, "with / at its end": ok + "/", "with a NUL": ok + "\x00", "a URI": "file://" + ok,
		"a home": "~/" + good, "escaped": root + "/a%2fb/" + good, "nothing": ok + ".none", "below itself": ok + "/none/x", "much": root + strings.Repeat("/a", 3000), "long": root + "/" + strings.Repeat("a", 300),
		"another root": h.path("outside/a/b/" + good), "a root that begins alike": h.path("rootsx/a/b/" + good), "the state": h.path("state/harness/runs"), "a device outside": "/dev/zero", "a process": "/proc/self/environ",
		"through a link out": root + "/away/a/b/" + good,
	}
	// A copy of the tree for each component that is a link.
	for i, link := range []string{"a", "a/b", "a/b/" + good} {
		at := fmt.Sprint("roots/linked", i, "-", good)
		if !exists(h.path(at)) {
			h.plainTree(at + "/a/b")
			special(h.t, "link", h.path(at, link))
		}
		bad["a link at "+link] = h.path(at, "a/b", good)
	}
	kinds := []string{"pipe", "device", "socket", "large", "dir"}
	if dir {
		kinds = kinds[:4]
	}
	for _, kind := range kinds {
		if at := h.path("roots", kind); exists(at) || special(h.t, kind, at) {
			bad["a "+kind] = at
			bad["below a "+kind] = at + "/" + good
		}
	}
	return bad
}

// Every path that is not a plain one under a root is refused, whichever argument
// it is given in, by either surface; nothing is begun, and nothing is waited for
// (EVI-4).
func TestPaths_ThatAreNotPlainAreRefusedInEveryArgument(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	for _, dir := range []string{"roots/a/b", "outside/a/b", "rootsx/a/b"} {
		h.plainTree(dir)
	}
	if err := os.Symlink(h.path("outside"), h.path("roots/away")); err != nil {
		t.Fatal(err)
	}
	h.start()
	boss, n := h.boss(), 0
	ctx := t.Context()
	c, err := control.Dial(ctx, h.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, a := range pathArguments() {
		for what, path := range h.badPaths(a.good, a.dir) {
			if path == "" && a.tool == "harness_run_launch" {
				continue // none
			}
			arguments := map[string]any{a.name: path}
			maps.Copy(arguments, a.with)
			if n++; strings.Contains(strings.Join(mutations, " "), a.tool) {
				arguments["idempotency_key"] = fmt.Sprint("k", n)
			}
			if r := boss.call(a.tool, arguments); r.code() != "invalid_argument" {
				t.Errorf("%s of %s, %.100q: %s", a.tool, what, path, r)
			}
			var p *control.Problem
			if _, err := c.OperateRaw(ctx, a.tool, arguments); !errors.As(err, &p) || p.Code != "invalid_argument" {
				t.Errorf("the command line's %s of %s, %.100q: %v", a.tool, what, path, err)
			}
		}
	}
	var list struct{ Runs []ran }
	if err := json.Unmarshal([]byte(h.must("runs", "--json")), &list); err != nil || len(list.Runs) != 1 {
		t.Errorf("something was launched: %+v, %v", list, err)
	}
	for _, dir := range []string{"roots/a/b", "outside/a/b"} {
		if exists(h.path(dir, "repo/.worktrees")) {
			t.Errorf("a worktree was made in %s", dir)
		}
	}
	// They are refused for what they are: the plain ones are not.
	for _, a := range pathArguments() {
		arguments := map[string]any{a.name: h.path("roots/a/b", a.good)}
		maps.Copy(arguments, a.with)
		if strings.Contains(strings.Join(mutations, " "), a.tool) {
			arguments["idempotency_key"] = a.tool
		}
		if r := boss.call(a.tool, arguments); !r.ok() && !strings.Contains(r.text(), "done") || strings.Contains(r.text(), `"ok":false`) {
			t.Errorf("%s of a plain path: %s", a.tool, r)
		}
	}
}

// What a pack and a workflow name is held to the same.
func TestPaths_ThatAreNotPlainAreRefusedInEveryFile(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.configure(h.workers()...)
	h.plainTree("roots/p/q")
	h.start()
	boss := h.official("")
	inner := map[string]string{
		"absolute": h.path("roots/p/q/prompt.md"), "..": "../q/prompt.md", "in and out": "sub/../prompt.md", ".": "./prompt.md", "empty": "", "a NUL": "prompt.md\\u0000",
		"a device": "/dev/zero", "nothing": "none.md", "out": "../../prompt.md", "a slash": "prompt.md/",
	}
	h.write("roots/p/q/real/prompt.md", "do\n")
	if err := os.Symlink("real", h.path("roots/p/q/linkdir")); err != nil {
		t.Fatal(err)
	}
	inner["a link on the way"] = "linkdir/prompt.md"
	for _, kind := range []string{"pipe", "device", "socket", "large", "dir", "link"} {
		at := h.path("roots/p/q", "in-"+kind)
		if kind == "link" {
			h.write(at, "do\n")
		}
		if special(t, kind, at) {
			inner["in-"+kind] = "in-" + kind
		}
	}
	for what, name := range inner {
		quoted := `"` + name + `"`
		if what != "empty" {
			h.write("roots/p/q/wf.toml", "name = \"w\"\n[[node]]\nid = \"a\"\nharness = \"quick\"\nprompt_file = "+quoted+"\n")
			if r := boss.call("harness_workflow_validate", map[string]any{"file": h.path("roots/p/q/wf.toml")}); !strings.Contains(string(r.StructuredContent), `"ok":false`) {
				t.Errorf("a workflow with %s: %s", what, r)
			}
		}
		h.write("roots/p/q/pack.toml", "name = \"p\"\nversion = \"1\"\n[[ticket]]\nid = \"a\"\nrole = \"review\"\nfile = "+quoted+"\n")
		if r := boss.call("harness_pack_validate", map[string]any{"dir": h.path("roots/p/q")}); !strings.Contains(string(r.StructuredContent), `"ok":false`) {
			t.Errorf("a pack with %s: %s", what, r)
		}
		if text := boss.shown("harness://packs"); strings.Contains(text, h.path("roots/p/q")) && !strings.Contains(text, `"ok":false`) {
			t.Errorf("a pack with %s is listed as one: %s", what, text)
		}
	}
	h.plainTree("roots/p/q")
	h.write("roots/p/q/pack.toml", "name = \"p\"\nversion = \"1\"\n[[ticket]]\nfile = \"prompt.md\"\nrole = \"review\"\n")
	for tool, arguments := range map[string]map[string]any{"harness_workflow_validate": {"file": h.path("roots/p/q/wf.toml")}, "harness_pack_validate": {"dir": h.path("roots/p/q")}} {
		if got := structured(t, boss.call(tool, arguments)); !strings.Contains(got, `"ok":true`) {
			t.Errorf("%s: %s", tool, got)
		}
	}
	for _, file := range []string{"pack.toml", "wf.toml"} {
		for _, kind := range []string{"pipe", "socket", "large", "dir", "link"} {
			at := h.path("roots/p/q", file)
			os.RemoveAll(at)
			if kind == "link" {
				h.write(at, "name = \"p\"\n")
			}
			special(t, kind, at)
			tool, arguments := "harness_pack_validate", map[string]any{"dir": h.path("roots/p/q")}
			if file == "wf.toml" {
				tool, arguments = "harness_workflow_validate", map[string]any{"file": at}
			}
			if r := boss.call(tool, arguments); r.code() != "invalid_argument" {
				t.Errorf("%s that is a %s: %s", file, kind, r)
			}
			os.RemoveAll(at + "~")
		}
	}
}

// stored is one file or directory of the state directory, and what reads it.
type stored struct {
	path  string
	reads func(o *official) string // the code of the error, "" for none
}

// Whatever is put in the place of a file or directory that evidence is in is
// found, and never waited for (EVI-3, EVI-4).
func TestPaths_ThatAreNotPlainAreRefusedInEveryStoredFile(t *testing.T) {
	t.Parallel()
	h := newHome(t).withRoots()
	h.plainTree("roots/a/b")
	h.configure(h.workers()...)
	h.start()
	boss := h.boss()
	launch := map[string]any{"name": "quick", "idempotency_key": "one"}
	id := runOf(t, structured(t, boss.call("harness_run_launch", launch))).ID
	h.awaitRun(id)
	flow := answered(t, structured(t, boss.call("harness_workflow_start", map[string]any{"file": h.path("roots/a/b/wf.toml"), "idempotency_key": "two"}))).Workflow.ID
	h.awaitFlow(flow, "done")
	structured(t, boss.call("harness_worktree_create", map[string]any{"repo": h.path("roots/a/b/repo"), "name": "w", "idempotency_key": "three"}))
	state := h.path("state/harness")
	readers := map[string]func(o *official) string{
		"runs/" + id: func(o *official) string {
			_, code := o.read("harness://runs/" + id + "/status")
			return code
		},
		"workflows/" + flow: func(o *official) string { return o.call("harness_workflow_status", map[string]any{"id": flow}).code() },
		"worktrees/records": func(o *official) string {
			_, code := o.read("harness://worktrees")
			return code
		},
		"keys": func(o *official) string { return o.call("harness_run_launch", launch).code() },
	}
	key := evidence.Digest([]byte("one"))
	var all []stored
	for below, reads := range readers {
		err := filepath.WalkDir(filepath.Join(state, below), func(path string, d os.DirEntry, err error) error {
			if err != nil || path == filepath.Join(state, below) || below == "keys" && !strings.Contains(path, key) || strings.HasSuffix(path, "status.json") {
				return err
			}
			all = append(all, stored{path, reads})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 20 {
		t.Fatalf("hardly anything is stored: %v", all)
	}
	for _, s := range all {
		if code := s.reads(boss); code != "" {
			t.Fatalf("%s as it was written: %s", s.path, code)
		}
		info, err := os.Lstat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"link", "pipe", "device", "socket", "large", "dir", "gone", "twice"} {
			aside := filepath.Join(h.dir, "kept")
			if info.IsDir() && (kind == "dir" || kind == "twice") || kind == "gone" && strings.Contains(s.path, "/keys/") {
				continue // it is one, has no second name, or means that nobody asked
			}
			if err := os.Rename(s.path, aside); err != nil {
				t.Fatal(err)
			}
			switch kind {
			case "link":
				err = os.Symlink(aside, s.path)
			case "twice":
				err = os.Link(aside, s.path)
			case "gone":
			default:
				if !special(t, kind, s.path) {
					err = os.Symlink("/dev/zero", s.path)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if code := s.reads(boss); code != "invalid_evidence" {
				t.Errorf("%s is a %s: %q", strings.TrimPrefix(s.path, state), kind, code)
			}
			if err := errors.Join(os.RemoveAll(s.path), os.Rename(aside, s.path)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
