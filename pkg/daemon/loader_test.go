package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
	"harness/reconcile"
	"harness/watch"
)

// stillWatcher is a watcher that settles when the test says so.
type stillWatcher struct {
	sets [][]string
	seen map[string][sha256.Size]byte
}

// Set implements [follower].
func (w *stillWatcher) Set(items []watch.Item) {
	var paths []string
	for _, item := range items {
		paths = append(paths, filepath.Base(item.Path))
	}
	w.sets = append(w.sets, paths)
}

// Seen implements [follower].
func (w *stillWatcher) Seen(path string) ([sha256.Size]byte, bool) {
	digest, ok := w.seen[path]
	return digest, ok
}

// desk is a loader with its files.
type desk struct {
	t       *testing.T
	dir     string
	loader  *loader
	watcher *stillWatcher
	saved   map[string]any
	log     bytes.Buffer
}

// newDesk is a loader over a directory without any file, after an earlier
// daemon that knew good (nil: nothing).
func newDesk(t *testing.T, good []byte) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), watcher: &stillWatcher{seen: map[string][sha256.Size]byte{}}, saved: map[string]any{}}
	env := config.Env{Home: d.dir, Lookup: func(name string) (string, bool) { return "value", name == "SET" }}
	d.loader = newLoader(d.path("harness.toml"), good, env, d.watcher, func(name string, v any) { d.saved[name] = v }, slog.New(slog.NewTextHandler(&d.log, nil)))
	return d
}

func (d *desk) path(name string) string { return filepath.Join(d.dir, name) }

// write writes a file, and the watcher settles on it.
func (d *desk) write(name, text string) {
	d.t.Helper()
	write(d.t, d.path(name), text)
	d.watcher.seen[d.path(name)] = sha256.Sum256([]byte(text))
}

func (d *desk) remove(name string) {
	d.t.Helper()
	if err := os.Remove(d.path(name)); err != nil {
		d.t.Fatal(err)
	}
	delete(d.watcher.seen, d.path(name))
}

// free removes the config, so that something else can be put in its place.
func (d *desk) free() string {
	d.t.Helper()
	d.remove("harness.toml")
	return d.path("harness.toml")
}

// instead demands that this could be put there.
func (d *desk) instead(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// load reads the files and makes that count.
func (d *desk) load() reconcile.Loaded {
	d.t.Helper()
	loaded := d.loader.load(d.t.Context())
	d.loader.adopt()
	return loaded
}

// keys are the upstreams that are asked for.
func keys(l reconcile.Loaded) []string { return slices.Sorted(maps.Keys(l.Desired.Upstreams)) }

// good returns the last good text on disk.
func (d *desk) good() string {
	g, _ := d.saved[lastGoodName(d.loader.global.path)].(lastGood)
	return string(g.Text)
}

const oneUpstream = "[mcp.up]\ncmd = \"sh\"\n"

func TestLoader_KeepsTheLastGoodConfigWhateverBecomesOfTheFile(t *testing.T) {
	breaks := map[string]struct {
		do   func(d *desk)
		says string
	}{
		"half of it":     {func(d *desk) { d.write("harness.toml", oneUpstream[:18]) }, "harness.toml:"},
		"removed":        {func(d *desk) { d.remove("harness.toml") }, "gone"},
		"empty":          {func(d *desk) { d.write("harness.toml", "") }, "empty"},
		"white space":    {func(d *desk) { d.write("harness.toml", " \r\n\t") }, "empty"},
		"a mark alone":   {func(d *desk) { d.write("harness.toml", "\ufeff\n") }, "empty"},
		"a directory":    {func(d *desk) { d.instead(os.Mkdir(d.free(), 0o700)) }, "not a regular file"},
		"a pipe":         {func(d *desk) { d.instead(syscall.Mkfifo(d.free(), 0o600)) }, "not a regular file"},
		"a link nowhere": {func(d *desk) { d.instead(os.Symlink("nowhere", d.free())) }, "gone"},
	}
	for name, tt := range breaks {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, nil)
			d.write("harness.toml", oneUpstream)
			if l := d.load(); len(l.Faults) != 0 || d.good() != oneUpstream {
				t.Fatalf("loaded %+v, kept %q", l, d.good())
			}
			tt.do(d)
			for range 2 {
				l := d.load()
				if len(l.Faults) == 0 || !strings.Contains(l.Faults[0].String(), tt.says) || l.Faults[0].File != d.loader.global.path {
					t.Errorf("faults: %v", l.Faults)
				}
				if diff := cmp.Diff([]string{"up"}, keys(l)); diff != "" || !l.File["mcp.up"] {
					t.Errorf("upstreams (-want +got):\n%s\nenabled: %v", diff, l.File)
				}
			}
			if d.good() != oneUpstream {
				t.Errorf("kept: %q", d.good())
			}
			_ = os.Remove(d.path("harness.toml"))
			d.write("harness.toml", "# no servers\n")
			if l := d.load(); len(l.Faults) != 0 || len(keys(l)) != 0 || d.good() != "# no servers\n" {
				t.Errorf("loaded %+v, kept %q", l, d.good())
			}
		})
	}
}

func TestLoader_StartsOverABrokenFileOnTheLastGoodText(t *testing.T) {
	d := newDesk(t, []byte(oneUpstream))
	l := d.load()
	if len(l.Faults) != 1 || !strings.Contains(l.Faults[0].Message, "gone") || len(keys(l)) != 1 || l.File == nil {
		t.Errorf("without the file: %+v", l)
	}
	d.write("harness.toml", "[mcp.")
	if l := d.load(); len(l.Faults) == 0 || len(keys(l)) != 1 {
		t.Errorf("with a broken one: %+v", l)
	}
	if len(d.saved) != 0 {
		t.Errorf("saved %v", d.saved)
	}
	d.write("harness.toml", oneUpstream)
	if l := d.load(); len(l.Faults) != 0 || len(d.saved) != 0 {
		t.Errorf("with the one that is kept: %+v, saved %v", l, d.saved)
	}
}

func TestLoader_SaysWhyTheLastGoodTextIsOfNoUse(t *testing.T) {
	d := newDesk(t, []byte("# one more line\n[mcp.up]\ncmd = \"sh\"\nenv = { A = \"${UNSET}\" }\n"))
	want := d.path("harness.toml") + ": mcp.up.env.A: the last good config cannot be used any more: "
	l := d.load()
	if len(l.Faults) != 2 || strings.Contains(l.Faults[0].Message, "in force") || !strings.HasPrefix(l.Faults[1].String(), want) || l.File != nil {
		t.Errorf("without the file: %+v", l)
	}
	d.write("harness.toml", "[mcp.up]\ncmd = 5\n")
	for range 2 {
		if l := d.load(); len(l.Faults) != 2 || l.Faults[0].Line != 2 || !strings.HasPrefix(l.Faults[1].String(), want) {
			t.Errorf("with a broken one: %+v", l)
		}
	}
	d.write("harness.toml", oneUpstream)
	if l := d.load(); len(l.Faults) != 0 || len(keys(l)) != 1 {
		t.Errorf("with a good one: %+v", l)
	}
	d.write("harness.toml", "[mcp.")
	if l := d.load(); len(l.Faults) != 1 || len(keys(l)) != 1 {
		t.Errorf("then with a broken one: %+v", l)
	}
}

func TestLoader_RunsAnEmptyFleetWhereNothingWasEverGood(t *testing.T) {
	d := newDesk(t, nil)
	l := d.load()
	if len(l.Faults) != 1 || !strings.Contains(l.Faults[0].Message, "harness init") || len(keys(l)) != 0 || l.File != nil {
		t.Errorf("without a file: %+v", l)
	}
	d.write("harness.toml", "[mcp.a]\ncmd = 5\n[mcp.b]\n")
	if l := d.load(); len(l.Faults) != 2 || len(keys(l)) != 0 || l.File != nil {
		t.Errorf("with a broken one: %+v", l)
	}
	if len(d.saved) != 0 {
		t.Errorf("saved %v", d.saved)
	}
	if diff := cmp.Diff([][]string{{"harness.toml"}}, d.watcher.sets); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
	// Nothing is in force, so an empty file is what it says.
	d.write("harness.toml", "")
	for range 2 {
		if l := d.load(); len(l.Faults) != 0 || l.File == nil {
			t.Errorf("with an empty one: %+v", l)
		}
	}
	d.remove("harness.toml")
	if l := d.load(); len(l.Faults) != 1 || l.File == nil {
		t.Errorf("without that: %+v", l)
	}
}

func TestLoader_DoesNotGoOnFromATextThatIsNotValidAnyMore(t *testing.T) {
	d := newDesk(t, []byte("[mcp.up]\ncmd = \"${UNSET}\"\n"))
	if !strings.Contains(d.log.String(), "UNSET") {
		t.Errorf("log: %s", &d.log)
	}
	d.write("harness.toml", "")
	if l := d.load(); len(l.Faults) != 2 || l.File != nil || len(keys(l)) != 0 {
		t.Errorf("over an empty file: %+v", l)
	}
	d.write("harness.toml", oneUpstream)
	if l := d.load(); len(l.Faults) != 0 || d.good() != oneUpstream {
		t.Errorf("over a good one: %+v", l)
	}
}

func TestLoader_FollowsEnvFilesAndPromptsWhileAnEditIsRefused(t *testing.T) {
	d := newDesk(t, nil)
	d.write("secrets.env", "A=1\n")
	d.write("prompts/p.md", "one\n")
	d.write("harness.toml", "[mcp.prompts]\npaths = [\"prompts\"]\n[mcp.up]\ncmd = \"sh\"\nenv_file = \"secrets.env\"\n")
	first := d.load()
	d.write("harness.toml", "broken")
	d.write("secrets.env", "A=2\n")
	d.write("prompts/p.md", "two\n")
	d.write("prompts/q.md", "new\n")
	l := d.load()
	before, after := first.Desired.Upstreams["up"].Launch, l.Desired.Upstreams["up"].Launch
	if len(l.Faults) == 0 || before.EnvDigest == after.EnvDigest || strings.Contains(after.EnvDigest, "A=") {
		t.Errorf("env_file: %q, then %q", before.EnvDigest, after.EnvDigest)
	}
	if len(l.Desired.Prompts) != 2 || string(l.Desired.Prompts[0].Body) != "two\n" {
		t.Errorf("prompts: %+v", l.Desired.Prompts)
	}
	if diff := cmp.Diff([][]string{{"harness.toml", "secrets.env", "prompts"}}, d.watcher.sets); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
	d.remove("secrets.env")
	if gone := d.load().Desired.Upstreams["up"].Launch; gone.EnvDigest == after.EnvDigest || gone.EnvDigest == "" {
		t.Errorf("without the env_file: %q", gone.EnvDigest)
	}
}

// HOT-3: what an env_file means is what a process gets of it.
func TestLoader_TellsEnvFilesByTheirVariables(t *testing.T) {
	d := newDesk(t, nil)
	d.write("harness.toml", "[mcp.up]\ncmd = \"sh\"\nenv_file = \"secrets.env\"\n")
	of := func(text string) string {
		d.write("secrets.env", text)
		return d.load().Desired.Upstreams["up"].Launch.EnvDigest
	}
	want := of("A=1\nB=two words\n")
	for _, text := range []string{
		"B='two words'\nA=1", "# A comment\n\nexport A=1 # one\r\nexport B=\"two words\"\r\n", "A=0\nA=1\nB=two words\n",
	} {
		if of(text) != want {
			t.Errorf("%q is another content", text)
		}
	}
	seen := map[string]string{want: "the first"}
	for _, text := range []string{
		"A=1\n", "A=1\nB=two  words\n", "B=1\nA=two words\n", "A='1\\nB=two words'\n", "A=\"1\\nB=two words\"\n", "", "torn", "torn too", "A=1\nB=two words\nHARNESS_NAME=x\n",
	} {
		digest := of(text)
		if other, known := seen[digest]; known {
			t.Errorf("%q is the same content as %q", text, other)
		}
		seen[digest] = text
	}
}

func TestLoader_KeepsNothingOfAReadingThatIsNotAdopted(t *testing.T) {
	d := newDesk(t, nil)
	d.write("prompts/p.md", "one\n")
	text := "[mcp.prompts]\npaths = [\"prompts\"]\n"
	d.write("harness.toml", text)
	d.load()
	saved, sets := len(d.saved), len(d.watcher.sets)
	d.write("harness.toml", text+oneUpstream)
	d.write("prompts/p.md", "two\n")
	if l := d.loader.load(t.Context()); len(keys(l)) != 1 {
		t.Errorf("loaded %+v", l)
	}
	d.write("harness.toml", "broken")
	d.write("prompts/p.md", "---\nnever closed\n")
	l := d.load()
	if len(keys(l)) != 0 || len(l.Desired.Prompts) != 1 || string(l.Desired.Prompts[0].Body) != "one\n" {
		t.Errorf("what was only looked at stayed: %+v", l.Desired)
	}
	if len(d.saved) != saved || d.good() != text || len(d.watcher.sets) != sets {
		t.Errorf("saved %v, followed %v", d.saved, d.watcher.sets)
	}
}

func TestLoader_ServesOnTheLastGoodVersionOfAPrompt(t *testing.T) {
	d := newDesk(t, nil)
	d.write("prompts/p.md", "one\n")
	d.write("harness.toml", "[mcp.prompts]\npaths = [\"prompts\"]\n")
	d.load()
	d.write("prompts/p.md", "---\nnever closed\n")
	for range 2 {
		l := d.load()
		if len(l.Faults) != 0 || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0].String(), "p.md:1: ") || string(l.Desired.Prompts[0].Body) != "one\n" {
			t.Errorf("loaded %+v", l)
		}
	}
}

func TestLoader_WarnsOfAConfigThatOthersCanWrite(t *testing.T) {
	d := newDesk(t, nil)
	d.write("harness.toml", oneUpstream)
	if l := d.load(); len(l.Warnings) != 0 {
		t.Errorf("warnings: %v", l.Warnings)
	}
	if err := os.Chmod(d.path("harness.toml"), 0o620); err != nil {
		t.Fatal(err)
	}
	if l := d.load(); len(l.Faults) != 0 || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0].Message, "0620") {
		t.Errorf("loaded %+v", l)
	}
}

func TestLoader_SaysWhichProgramWouldRun(t *testing.T) {
	d := newDesk(t, nil)
	bin := d.path("bin")
	t.Setenv("PATH", bin)
	write(t, filepath.Join(bin, "tool"), "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(bin, "tool"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.write("harness.toml", "[mcp.a]\ncmd = \"tool\"\n[mcp.b]\ncmd = \"no-such-tool\"\n[mcp.c]\ncmd = \"./no-such-tool\"\n[mcp.d]\ncmd = \"no-such-tool\"\n")
	u := d.load().Desired.Upstreams
	if got := u["a"].Launch; got.Exe != filepath.Join(bin, "tool") || got.ExeErr != "" || got.Key != "a" {
		t.Errorf("a: %+v", got)
	}
	for key, want := range map[string]string{"b": bin, "c": d.path("no-such-tool"), "d": bin} {
		if got := u[key].Launch; got.Exe != "" || !strings.Contains(got.ExeErr, want) || got.Key != key {
			t.Errorf("%s: %+v", key, got)
		}
	}
}

// writing writes the parts of a text with pauses, while a load goes on.
func (d *desk) writing(pause time.Duration, name string, parts ...string) {
	go func() {
		text := ""
		for _, part := range parts {
			text += part
			write(d.t, d.path("aside"), text)
			if err := os.Rename(d.path("aside"), d.path(name)); err != nil {
				d.t.Error(err)
			}
			time.Sleep(pause)
		}
	}()
}

func TestLoader_WaitsUntilTwoReadingsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.write("harness.toml", "[server]\nsettle = \"20ms\"\n")
		begun := time.Now()
		d.load()
		if took := time.Since(begun); took != 0 {
			t.Errorf("the first load took %v", took)
		}
		d.writing(15*time.Millisecond, "harness.toml", "", oneUpstream[:12], oneUpstream[12:], "# more\n")
		synctest.Wait()
		begun = time.Now()
		l := d.load()
		if took := time.Since(begun); took != 80*time.Millisecond || len(keys(l)) != 1 || !strings.HasSuffix(d.good(), "# more\n") {
			t.Errorf("after %v: %+v, kept %q", took, l, d.good())
		}
		// The settle time is the one in force; the watcher still has to see it.
		begun = time.Now()
		d.load()
		if took := time.Since(begun); took != 50*time.Millisecond {
			t.Errorf("the next one took %v", took)
		}
		d.write("harness.toml", oneUpstream)
		begun = time.Now()
		d.load()
		if took := time.Since(begun); took != 0 {
			t.Errorf("of what the watcher has settled on it took %v", took)
		}
	})
}

func TestLoader_TakesWhatThereIsOfAFileThatNeverRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.write("harness.toml", oneUpstream)
		d.load()
		d.writing(10*time.Millisecond, "harness.toml", append([]string{oneUpstream + "#\n"}, slices.Repeat([]string{"# more\n"}, 100)...)...)
		synctest.Wait()
		begun := time.Now()
		l := d.load()
		if took := time.Since(begun); took != longestSettle || len(l.Faults) != 0 {
			t.Errorf("after %v: %+v", took, l)
		}
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun = time.Now()
		d.loader.load(ctx)
		if took := time.Since(begun); took != 0 {
			t.Errorf("at the end of the daemon it took %v", took)
		}
	})
}

func TestLoader_WaitsForAPromptThatIsBeingReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, nil)
		d.write("prompts/p.md", "one\n")
		d.write("harness.toml", "[mcp.prompts]\npaths = [\"prompts\"]\n")
		d.load()
		if err := os.Remove(d.path("prompts/p.md")); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(10 * time.Millisecond)
			write(t, d.path("prompts/p.md"), "two\n")
		}()
		if l := d.load(); len(l.Desired.Prompts) != 1 || string(l.Desired.Prompts[0].Body) != "two\n" {
			t.Errorf("prompts: %+v", l.Desired.Prompts)
		}
	})
}

// A project's file is read, judged and kept for itself, and holds back nobody
// else (CFG-4).
func TestLoader_JudgesEachProjectForItself(t *testing.T) {
	d := newDesk(t, nil)
	d.write("harness.toml", oneUpstream+"[mcp.prompts]\npaths = [\"prompts\"]\n")
	for _, dir := range []string{"prompts", "shop/prompts", "mill"} {
		if err := os.MkdirAll(d.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.write("prompts/ask.md", "global\n")
	d.write("shop/prompts/ask.md", "hidden by the global one\n")
	d.write("shop/prompts/own.md", "the shop's\n")
	shop := "[mcp.db]\ncmd = \"sh\"\n[mcp.up]\ncmd = \"sh\"\n[mcp.prompts]\npaths = [\"prompts\"]\n[harness.a]\ncmd = \"sh\"\n[harness.b]\ncmd = \"sh\"\nenabled = false\n"
	d.write("shop/harness.toml", shop)
	d.write("mill/harness.toml", "broken")
	for _, name := range []string{"shop", "mill"} {
		d.loader.projects = append(d.loader.projects, project{followed: d.loader.followed(d.path(name+"/harness.toml"), config.Project, nil, d.loader.global.env)})
	}
	l := d.load()
	if diff := cmp.Diff([]string{"shop/db", "up"}, keys(l)); diff != "" {
		t.Errorf("upstreams (-want +got):\n%s", diff)
	}
	want := map[string]bool{"mcp.up": true, "mcp.shop/db": true, "shop/a": true, "shop/b": false}
	if diff := cmp.Diff(want, l.File); diff != "" {
		t.Errorf("enabled (-want +got):\n%s", diff)
	}
	var prompts []string
	for _, p := range l.Desired.Prompts {
		prompts = append(prompts, reconcile.FullName(p.Project, p.Name))
	}
	if diff := cmp.Diff([]string{"ask", "shop/own"}, prompts); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
	if len(l.Faults) == 0 || l.Faults[0].File != d.path("mill/harness.toml") {
		t.Errorf("faults: %v", l.Faults)
	}
	clash := slices.ContainsFunc(l.Warnings, func(f config.Fault) bool { return f.Key == "mcp.up" && f.File == d.path("shop/harness.toml") })
	hidden := slices.ContainsFunc(l.Warnings, func(f config.Fault) bool { return f.File == d.path("shop/prompts/ask.md") })
	if !clash || !hidden {
		t.Errorf("warnings: %v", l.Warnings)
	}
	// A broken project keeps its own last good, and only that.
	d.write("shop/harness.toml", "broken")
	d.write("harness.toml", oneUpstream+"[mcp.more]\ncmd = \"sh\"\n")
	if diff := cmp.Diff([]string{"more", "shop/db", "up"}, keys(d.load())); diff != "" {
		t.Errorf("after it broke (-want +got):\n%s", diff)
	}
	if g, _ := d.saved[lastGoodName(d.path("shop/harness.toml"))].(lastGood); string(g.Text) != shop {
		t.Errorf("kept of the project: %q", g.Text)
	}
}
