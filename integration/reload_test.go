package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/control"
)

// seen is the bound for an edit to be in force, with the default settle time
// and on a small machine.
const seen = 2 * time.Second

func TestC35_EveryAtomicSaveTakesEffect(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tables := []string{h.upstream("ok")}
	d := h.run(tables...)
	a := d.connected()
	for i := range 3 {
		tables = append(tables, h.upstream(fmt.Sprintf("n%d", i)))
		h.edit(tables...)
		eventuallyIn(t, within(seen), "the edit is seen", func() bool { return a.sees(fmt.Sprintf("n%d__echo", i)) })
	}
	// As vim does it: away, create, write.
	if err := os.Rename(h.config(), h.config()+"~"); err != nil {
		t.Fatal(err)
	}
	tables = append(tables, h.upstream("vim"))
	if err := os.WriteFile(h.config(), []byte(quick+strings.Join(tables, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	eventuallyIn(t, within(seen), "the edit is seen", func() bool { return a.sees("vim__echo") })
	if n := h.starts("ok"); n != 1 {
		t.Errorf("ok was started %d times", n)
	}
	a.well("ok")
}

// saves are ways in which programs were seen to save a file.
func saves(t *testing.T) map[string]func(path, text string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(path, text string) { t.Helper(); check(os.WriteFile(path, []byte(text), 0o600)) }
	aside := func(path, text string) { t.Helper(); put(path+".tmp", text); check(os.Rename(path+".tmp", path)) }
	return map[string]func(path, text string){
		"truncate and write": put,
		"write and rename":   aside,
		"truncate, wait, write in three": func(path, text string) {
			f, err := os.Create(path)
			check(err)
			defer f.Close()
			for i := range 3 {
				_, err = f.WriteString(text[i*len(text)/3 : (i+1)*len(text)/3])
				check(err)
				check(f.Sync())
			}
		},
		"vim": func(path, text string) {
			put(path+".swp", "b0VIM")
			put(filepath.Dir(path)+"/4913", "")
			check(os.Remove(filepath.Dir(path) + "/4913"))
			check(os.Rename(path, path+"~"))
			put(path, text)
			check(os.Chmod(path, 0o600))
			check(os.Remove(path + "~"))
			check(os.Remove(path + ".swp"))
		},
		"emacs": func(path, text string) {
			lock := filepath.Dir(path) + "/.#" + filepath.Base(path)
			check(os.Symlink("user@host.123:456", lock))
			check(os.Rename(path, path+"~"))
			put(path, text)
			check(os.Remove(lock))
		},
		"remove and create": func(path, text string) { check(os.Remove(path)); put(path, text) },
		"sed -i": func(path, text string) {
			put(path+".wanted", text)
			out, err := exec.Command("sed", "-i", "-n", "-e", "1r "+path+".wanted", path).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			check(os.Remove(path + ".wanted"))
		},
		"stow": func(path, text string) {
			target := filepath.Join(filepath.Dir(filepath.Dir(path)), "dotfiles.toml")
			aside(target, text)
			check(os.Remove(path))
			check(os.Symlink(target, path))
		},
		"the target of a link": func(path, text string) {
			target := filepath.Join(filepath.Dir(filepath.Dir(path)), "linked.toml")
			put(target, text)
			check(os.Remove(path))
			check(os.Symlink(target, path))
		},
		"kubernetes": func(path, text string) {
			dir := filepath.Dir(path)
			check(os.MkdirAll(dir+"/..v2", 0o700))
			put(dir+"/..v2/"+filepath.Base(path), text)
			check(os.Symlink("..v2", dir+"/..data.tmp"))
			check(os.Rename(dir+"/..data.tmp", dir+"/..data"))
			check(os.Remove(path))
			check(os.Symlink("..data/"+filepath.Base(path), path))
		},
	}
}

func TestSave_EachWayOfSavingAppliesExactlyOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	// A quiet time longer than any of the saves takes, so that what is seen
	// does not depend on how busy the machine is.
	config := func(n int) string {
		return "[server]\nsettle = \"200ms\"\n" + set(h.upstream("ok"), "call_timeout", fmt.Sprintf(`"%ds"`, 100+n))
	}
	h.write(h.config(), config(0))
	d := h.start()
	d.mustReload()
	a := d.connected()
	n := 0
	for name, save := range saves(t) {
		n++
		before := d.status().Generation
		save(h.config(), config(n))
		eventually(t, name+" is seen", func() bool { return d.status().Generation > before })
		never(t, 300*time.Millisecond, name+" is applied twice", func() bool { return d.status().Generation != before+1 })
		if r := d.mustReload(); len(r.Changed) != 0 || r.Generation != before+1 {
			t.Errorf("%s: a reload afterwards finds %+v", name, r)
		}
	}
	if n := a.count(toolsChanged); n != 0 {
		t.Errorf("%d notifications although no list changed", n)
	}
	if h.starts("ok") != 1 {
		t.Error("ok was restarted")
	}
	a.well("ok")
}

func TestSave_WithoutMeaningAppliesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	text, err := os.ReadFile(h.config())
	if err != nil {
		t.Fatal(err)
	}
	before := d.status()
	steps := map[string]func() error{
		"chmod":       func() error { return os.Chmod(h.config(), 0o640) },
		"touch":       func() error { return os.Chtimes(h.config(), time.Now(), time.Now()) },
		"an hour ago": func() error { return os.Chtimes(h.config(), time.Now(), time.Now().Add(-time.Hour)) },
		"in an hour":  func() error { return os.Chtimes(h.config(), time.Now(), time.Now().Add(time.Hour)) },
		"same bytes":  func() error { return os.WriteFile(h.config(), text, 0o600) },
		"same bytes, another file": func() error {
			h.write(h.config(), string(text))
			return nil
		},
		"a swap file": func() error {
			return os.WriteFile(filepath.Join(filepath.Dir(h.config()), ".harness.toml.swp"), text, 0o600)
		},
		"a comment": func() error {
			h.write(h.config(), "# new\n"+strings.ReplaceAll(string(text), "\n", "  # why\n"))
			return nil
		},
		"other white space": func() error {
			h.write(h.config(), strings.ReplaceAll(string(text), " = ", "=")+"\n\n")
			return nil
		},
	}
	for name, step := range steps {
		if err := step(); err != nil {
			t.Fatal(name, err)
		}
		if r := d.mustReload(); len(r.Changed) != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	after := d.status()
	if after.Generation != before.Generation || after.Digest != before.Digest {
		t.Errorf("generation %d %s became %d %s", before.Generation, before.Digest, after.Generation, after.Digest)
	}
	a.well("ok")
	if n := a.count(toolsChanged) + a.count(promptsChanged); n != 0 || h.starts("ok") != 1 {
		t.Errorf("%d notifications, %d starts", n, h.starts("ok"))
	}
}

func TestC37_AHalfWrittenFileChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	pid := *d.status().up(t, "ok").PID
	before := d.status().Generation

	whole := quick + set(h.upstream("ok"), "call_timeout", `"90s"`) + "\n" + h.upstream("up")
	cut := strings.LastIndex(whole, "record-up") // inside a string
	if err := os.WriteFile(h.config(), []byte(whole[:cut]), 0o600); err != nil {
		t.Fatal(err)
	}
	var s status
	eventually(t, "the half is refused", func() bool { s = d.status(); return !s.LastReload.OK })
	if len(s.LastReload.Errors) != 1 || s.LastReload.Errors[0].File != h.config() || s.LastReload.Errors[0].Line == 0 {
		t.Errorf("errors: %+v", s.LastReload.Errors)
	}
	if s.Generation != before || *s.up(t, "ok").PID != pid {
		t.Errorf("something was touched: %+v", s)
	}
	if text := d.must("status"); !strings.Contains(text, "last good") || !strings.Contains(text, "harness.toml:") {
		t.Errorf("status says\n%s", text)
	}
	a.well("ok")
	if n := a.count(toolsChanged); n != 0 {
		t.Errorf("%d notifications of a refused edit", n)
	}
	if err := os.WriteFile(h.config(), []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	a.awaitCount(toolsChanged, 1)
	a.well("up")
	s = d.status()
	if s.Generation != before+1 || !s.LastReload.OK || len(s.LastReload.Errors) != 0 || *s.up(t, "ok").PID != pid {
		t.Errorf("after the rest: %+v", s)
	}
	a.well("ok")
}

func TestC39_ABurstOverSeveralFilesLosesNone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("prompts/one.md", "one\n")
	h.write("prompts/two.md", "two\n")
	h.write("prompts/three.md", "three\n")
	prompts := fmt.Sprintf("[mcp.prompts]\npaths = [%q]\n", h.path("prompts"))
	settle := strings.Replace(quick, "20ms", "200ms", 1)
	h.configure(settle, prompts, h.upstream("ok"))
	d := h.start()
	d.mustReload()
	a := d.connected()
	a.toolNames()

	start := time.Now()
	h.configure(settle, prompts, h.upstream("ok"), h.upstream("up"))
	h.write("prompts/one.md", "---\ndescription: new\n---\nuno\n")
	h.write("prompts/two.md", "due\n")
	h.remove("prompts/three.md")

	a.awaitCount(toolsChanged, 1)
	a.awaitCount(promptsChanged, 1)
	if took := time.Since(start); took > within(seen) {
		t.Errorf("it took %v", took)
	}
	if !a.sees("up__echo") {
		t.Error("the new upstream is not there")
	}
	if d := cmp.Diff([]string{"one", "two"}, a.promptNames()); d != "" {
		t.Errorf("prompts:\n%s", d)
	}
	if got := a.prompt("one", nil) + a.prompt("two", nil); got != "uno\ndue\n" {
		t.Errorf("bodies: %q", got)
	}
	d.mustReload()
	a.well("ok")
	if n, m := a.count(toolsChanged), a.count(promptsChanged); n != 1 || m != 1 {
		t.Errorf("%d and %d notifications", n, m)
	}
}

func TestC41_AReloadTouchesNothingThatDidNotChange(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	agentTable := "[harness.reviewer]\ncmd = \"true\"\nmcp_allow = [\"read\"]\n"
	ok := h.upstream("ok")
	d := h.run(ok, agentTable)
	a, b := d.connected(), d.connected()
	pid := *d.status().up(t, "ok").PID
	slow := b.beginCall("ok__sleep", map[string]any{"ms": 3000})

	rows := strings.Split(strings.TrimSpace(ok), "\n")
	slices.Reverse(rows[1:])
	reordered := strings.Join(rows, "\n") + "\n"
	for _, edit := range [][]string{
		{"# a comment\n" + ok, agentTable},
		{agentTable, reordered},
		{ok, strings.Replace(agentTable, `"read"`, `"read", "write"`, 1)},
		{h.upstream("up"), ok, agentTable},
	} {
		h.edit(edit...)
		d.mustReload()
	}
	a.awaitCount(toolsChanged, 1)
	a.well("up")
	if r := slow.result(); r.text() != "slept" {
		t.Errorf("the call under way: %s", r)
	}
	if now := *d.status().up(t, "ok").PID; now != pid {
		t.Errorf("ok is process %d, was %d", now, pid)
	}
	a.well("ok")
	if n, m := a.count(toolsChanged), b.count(toolsChanged); n != 1 || m != 1 {
		t.Errorf("%d and %d notifications for one new upstream", n, m)
	}
}

func TestC65_FileTimesDoNotMatter(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	a := d.connected()
	for i, shift := range []time.Duration{-time.Hour, time.Hour, -48 * time.Hour} {
		key := fmt.Sprintf("n%d", i)
		aside := h.path("aside.toml")
		h.write("aside.toml", quick+h.upstream("ok")+h.upstream(key))
		if err := os.Chtimes(aside, time.Now(), time.Now().Add(shift)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, h.config()); err != nil {
			t.Fatal(err)
		}
		eventuallyIn(t, within(seen), "the edit is seen", func() bool { return a.sees(key + "__echo") })
	}
	a.well("ok")
}

func TestSwap_LosesNoCall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a, b := d.connected(), d.connected()
	old := a.must("up__pid", nil)
	slow := b.beginCall("up__sleep", map[string]any{"ms": 4000})
	before := len(d.steps())

	stop, calls := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				calls <- n
				return
			default:
			}
			if r := a.call("up__echo", map[string]any{"text": "x"}); !r.ok() {
				t.Errorf("call %d during the swap: %s", n, r)
			}
			n++
		}
	}()
	h.edit(set(h.upstream("up"), "env", `{ X = "1" }`), h.upstream("ok"))
	eventually(t, "two instances while an old call is in flight", func() bool { return d.status().up(t, "up").Instances == 2 })
	eventually(t, "the new process serves", func() bool { return b.must("up__env", map[string]any{"name": "X"}) == "1" })
	if d := cmp.Diff([]string{"swap upstream up"}, d.steps()[before:]); d != "" {
		t.Errorf("the plan:\n%s", d)
	}
	if r := slow.result(); r.text() != "slept" {
		t.Errorf("the call in flight: %s", r)
	}
	close(stop)
	if n := <-calls; n < 10 {
		t.Errorf("only %d calls", n)
	}
	eventually(t, "the old process is gone", func() bool { return d.status().up(t, "up").Instances == 1 })
	if now := b.must("up__pid", nil); now == old {
		t.Error("the process is the old one")
	}
	if n := a.count(toolsChanged); n != 0 {
		t.Errorf("%d notifications although the list is the same", n)
	}
	a.well("ok")
}

func TestSwap_ThatDoesNotComeUpLeavesTheOldInService(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a := d.connected()
	pid := a.must("up__pid", nil)

	h.edit(h.upstream("up", "-exit-on", "initialize"), h.upstream("ok"))
	d.mustReload()
	eventually(t, "status names what would help", func() bool { return strings.Contains(string(d.status().up(t, "up").Pending), `update = \"replace\"`) })
	if u := d.status().up(t, "up"); !u.isPending() || u.State != "running" || fmt.Sprint(*u.PID) != pid {
		t.Errorf("status: %+v, pending %s", u, u.Pending)
	}
	a.well("up")

	// Changed back, the swap is cancelled.
	h.edit(h.upstream("up"), h.upstream("ok"))
	d.mustReload()
	eventually(t, "nothing is pending", func() bool { u := d.status().up(t, "up"); return !u.isPending() && u.Instances == 1 })
	if now := a.must("up__pid", nil); now != pid {
		t.Error("the process is another one")
	}
	// Overtaken by a good one, it is begun anew.
	h.edit(h.upstream("up", "-exit-on", "initialize"), h.upstream("ok"))
	d.mustReload()
	h.edit(h.upstream("up", "-count", "1"), h.upstream("ok"))
	d.mustReload()
	a.awaitCount(toolsChanged, 1)
	a.must("up__t0000", nil)
	if n := a.count(toolsChanged); n != 1 {
		t.Errorf("%d notifications for one new list", n)
	}
	a.well("ok")
}

func TestReplace_StopsBeforeItStarts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	up := set(h.upstream("up"), "update", `"replace"`)
	d := h.run(up, h.upstream("ok"))
	a := d.connected()
	old := d.status().up(t, "up")
	before := len(d.steps())
	h.edit(set(up, "env", `{ X = "1" }`), h.upstream("ok"))
	d.mustReload()
	if d := cmp.Diff([]string{"replace upstream up"}, d.steps()[before:]); d != "" {
		t.Errorf("the plan:\n%s", d)
	}
	a.eventuallyCalls("up__echo", map[string]any{"text": "x"})
	if got := a.must("up__env", map[string]any{"name": "X"}); got != "1" {
		t.Errorf("X=%q", got)
	}
	// The record tells the order: the old one saw its stdin end before the
	// new one began.
	ended, began := time.Time{}, time.Time{}
	for _, e := range h.record("up") {
		switch {
		case e.PID == *old.PID && e.What == "eof":
			ended = e.At
		case e.PID != *old.PID && e.What == "start":
			began = e.At
		}
	}
	if ended.IsZero() || began.Before(ended) {
		t.Errorf("the old one ended at %v, the new one began at %v", ended, began)
	}
	if n := a.count(toolsChanged); n != 0 {
		t.Errorf("%d notifications although the list is the same", n)
	}
	a.well("ok")
}

func TestRemove_LetsCallsInFlightEndAndFailsTheRest(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("up"), h.upstream("ok"))
	a := d.connected()
	short := a.beginCall("up__sleep", map[string]any{"ms": 500})
	long := a.beginCall("up__hang", nil)
	h.edit(h.upstream("ok"))
	a.awaitCount(toolsChanged, 1)
	if a.sees("up__echo") {
		t.Error("a removed upstream is listed")
	}
	if r := a.call("up__echo", nil); r.code() != "unknown_namespace" {
		t.Errorf("a call of it: %s", r)
	}
	if r := short.result(); r.text() != "slept" {
		t.Errorf("a call that ends in time: %s", r)
	}
	if r := long.result(); r.code() != "upstream_unavailable" {
		t.Errorf("one that does not: %s", r)
	}
	eventually(t, "it is stopped", func() bool { return len(mentioning(t, h.recordFile("up"))) == 0 })
	eventually(t, "status has it no longer", func() bool { _, ok := d.status().find("up"); return !ok })
	a.well("ok")
	if n := a.count(toolsChanged); n != 1 {
		t.Errorf("%d notifications for one removal", n)
	}
}

func TestEnvFile_IsPartOfTheDefinition(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file := h.write("secrets.env", "export TOKEN='one' # comment\n")
	d := h.run(set(h.upstream("up"), "env_file", fmt.Sprintf("%q", file)), h.upstream("ok"))
	a := d.connected()
	token := func() string { return a.must("up__env", map[string]any{"name": "TOKEN"}) }
	if got := token(); got != "one" {
		t.Errorf("TOKEN=%q", got)
	}
	before := d.status()
	h.write("secrets.env", "TOKEN=\"two\\n\"\n")
	eventually(t, "the new value is there", func() bool { return token() == "two\n" })
	after := d.status()
	if after.Generation != before.Generation+1 || after.Digest != before.Digest {
		t.Errorf("generation %d %s became %d %s", before.Generation, before.Digest, after.Generation, after.Digest)
	}
	h.write("secrets.env", "TOKEN=three\nnot a line\n")
	eventually(t, "the bad file is told by its line", func() bool {
		u := d.status().up(t, "up")
		return strings.Contains(string(u.Pending)+deref(u.Error), "secrets.env:2")
	})
	if got := token(); got != "two\n" {
		t.Errorf("after a bad file TOKEN=%q", got)
	}
	h.write("secrets.env", "TOKEN=four\n")
	eventually(t, "the next one is followed", func() bool { return token() == "four" })
	before = d.status()
	h.write("secrets.env", "# in other words\nexport TOKEN='four'\n")
	d.mustReload()
	if after := d.status(); after.Generation != before.Generation || *after.up(t, "up").PID != *before.up(t, "up").PID {
		t.Errorf("another way to write the same value: %v became %v", before.up(t, "up"), after.up(t, "up"))
	}
	a.well("ok")
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// deliberate keeps the daemon from reading an edit by itself for as long as
// it can, so that a reload is there first.
const deliberate = "[server]\nsettle = \"500ms\"\n"

// race edits and reloads until the reload was there before the daemon, which
// on a machine that is not too busy is at once. It returns what that one said.
func (d *daemon) race(edit func(n int), req control.ReloadRequest) reloaded {
	d.t.Helper()
	var r reloaded
	n := 0
	eventually(d.t, "a reload that is there before the daemon", func() bool {
		n++
		edit(n)
		r = d.reload(req)
		return slices.ContainsFunc(r.Changed, func(c change) bool { return c.Action == "start" })
	})
	return r
}

func TestReload_DryRunAppliesNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(deliberate, h.upstream("ok"), h.upstream("gone"))
	d := h.start()
	d.mustReload()
	var edited time.Time
	var before int
	plan := d.race(func(n int) {
		h.configure(deliberate, h.upstream("ok"), h.upstream("gone"))
		before = d.mustReload().Generation
		edited = time.Now()
		secret := fmt.Sprintf(`{ SECRET = "s3cr3t-%d" }`, n)
		h.configure(deliberate, set(h.upstream("ok"), "env", secret), h.upstream("new"))
	}, control.ReloadRequest{DryRun: true})
	for _, want := range []string{"swap upstream ok", "start upstream new", "stop upstream gone"} {
		if !slices.Contains(plan.actions(), want) {
			t.Errorf("the plan has no %q: %v", want, plan.actions())
		}
	}
	if text := fmt.Sprint(plan); strings.Contains(text, "s3cr3t") || !strings.Contains(text, "env") {
		t.Errorf("reasons name keys, not values: %s", text)
	}
	// From half a second on, the daemon may have read the edit by itself.
	if starts := h.starts("new"); starts != 0 && time.Since(edited) < 400*time.Millisecond || plan.Generation != before {
		t.Errorf("a dry run was applied: %d starts, generation %d became %d", starts, before, plan.Generation)
	}
	r := d.mustReload()
	if r.Generation != before+1 {
		t.Errorf("generation %d after %d", r.Generation, before)
	}
	if again := d.mustReload(); len(again.Changed) != 0 || again.Generation != r.Generation {
		t.Errorf("a second reload finds %+v", again)
	}
}

func TestReload_SaysWhatChangedAndWarnsOfWhatDoesNotComeUp(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(deliberate, h.upstream("ok"))
	d := h.start()
	d.mustReload()
	r := d.race(func(n int) {
		h.configure(deliberate, h.upstream("ok"), h.upstream(fmt.Sprintf("up%d", n)), h.table(fmt.Sprintf("bad%d", n), "no-such-program", nil))
	}, control.ReloadRequest{WaitMS: 5000})
	for _, c := range r.Changed {
		switch name := strings.TrimRight(c.Name, "0123456789"); {
		case c.Kind != "upstream", c.Reason == "":
			t.Errorf("changed: %+v", c)
		case c.Action == "start" && name == "up" && c.State != "running",
			c.Action == "start" && name == "bad" && c.State == "running":
			t.Errorf("changed: %+v", c)
		}
	}
	if !r.OK || len(r.Errors) != 0 || !strings.Contains(fmt.Sprint(r.Warnings), "no-such-program") {
		t.Errorf("reload says %+v", r)
	}
	if s := d.status(); s.Generation != r.Generation {
		t.Errorf("generation %d, status says %d", r.Generation, s.Generation)
	}
	d.connected().well("ok")
}

func TestReload_RightAfterASaveListsWhatThatChanged(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.configure(h.upstream("ok"))
	h.start()
	h.awaitState("ok", "running")
	// Whether the watcher or the command reads the file first is luck. What it
	// changed is the answer either way, and no part of the next one.
	var tables []string
	for i := range 4 {
		key := fmt.Sprintf("up%d", i)
		tables = append(tables, h.upstream(key))
		h.configure(append(tables, h.upstream("ok"))...)
		var r reloaded
		if err := json.Unmarshal([]byte(h.must("reload", "--json")), &r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"start upstream " + key}, r.actions()); diff != "" {
			t.Errorf("reload %d:\n%s", i, diff)
		}
	}
	if out := h.must("reload"); !strings.HasPrefix(out, "nothing changed, generation 5") {
		t.Errorf("one without an edit says %q", out)
	}
}

func TestReload_ARefusalIsExitOneAndSaysWhere(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	d := h.run(h.upstream("ok"))
	before := d.status().Generation
	h.edit(h.upstream("ok"), "[mcp.up]\ncmd = 5\n")
	for _, args := range [][]string{{"reload", "--json"}, {"reload", "--json", "--dry-run"}} {
		o := d.harness(args...)
		var r reloaded
		if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
			t.Fatal(o, err)
		}
		if o.code != 1 || r.OK || len(r.Errors) != 1 || r.Errors[0].Key != "mcp.up.cmd" || r.Errors[0].File != h.config() || r.Generation != before {
			t.Error(o)
		}
	}
	d.connected().well("ok")
}
