package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"harness/pkg/control"
)

// The size of the soak. The defaults are what every run of the tests can
// afford; `just soak` gives the full size.
var (
	soakUpstreams = flag.Int("upstreams", 20, "upstreams of the soak; a third of them is edited")
	soakSessions  = flag.Int("sessions", 5, "sessions of the soak, which never stop calling")
	soakEdits     = flag.Int("edits", 60, "edits of the soak; a third of them is broken")
	soakSeed      = flag.Uint64("seed", 1, "seed of the soak's edits")
)

// fleet is the config that the soak edits: by key, the table; "" where it is
// left out.
type fleet struct {
	h      *home
	keys   []string
	tables map[string]string
}

// stable are the keys no edit touches.
func (f *fleet) stable() []string { return f.keys[len(f.keys)/3:] }

// moving are the others.
func (f *fleet) moving() []string { return f.keys[:len(f.keys)/3] }

func (f *fleet) text() string {
	var b strings.Builder
	b.WriteString("[server]\nsettle = \"20ms\"\nstop_grace = \"1500ms\"\ndrain = \"2s\"\n")
	for _, key := range f.keys {
		b.WriteString(f.tables[key])
	}
	return b.String()
}

// mutate changes the fleet in a way that validates, and says how.
func (f *fleet) mutate(rnd *rand.Rand) string {
	moving := f.moving()
	key := moving[rnd.IntN(len(moving))]
	table := f.h.upstream(key)
	switch n := rnd.IntN(100); {
	case f.tables[key] == "":
		f.tables[key] = table
		return "add " + key
	case n < 20:
		f.tables[key] = ""
		return "remove " + key
	case n < 50:
		f.tables[key] = set(table, "env", fmt.Sprintf(`{ N = "%d" }`, rnd.Int()))
		return "swap " + key
	case n < 65:
		f.tables[key] = set(set(table, "env", fmt.Sprintf(`{ N = "%d" }`, rnd.Int())), "update", `"replace"`)
		return "replace " + key
	case n < 75:
		f.tables[key] = f.h.upstream(key, "-exit-on", "initialize")
		return "spoil " + key
	case n < 85:
		f.tables[key] = set(f.tables[key], "call_timeout", fmt.Sprintf(`"%ds"`, 60+rnd.IntN(60)))
		return "update " + key
	default:
		f.tables[key] += fmt.Sprintf("# %d\n", rnd.Int())
		return "comment " + key
	}
}

// broken is a text that must be refused.
func broken(text string, rnd *rand.Rand) string {
	switch rnd.IntN(5) {
	case 0:
		return "" // cannot be told from a removed fleet but by the rule
	case 1:
		return text[:strings.LastIndex(text, "record-")] // inside a string
	case 2:
		return text + "\n[mcp.one]\ncmd = \"true\"\n[mcp.one]\ncmd = \"true\"\n"
	case 3:
		return text + "\n[mcp.typo]\ncmd = \"true\"\nrestart_dely = \"1s\"\n"
	default:
		return text + "\n[mcp.empty]\ncmd = \"\"\n"
	}
}

func TestSoak_RandomEditsUnderConstantCallsLoseNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	f := &fleet{h: h, tables: map[string]string{}}
	for i := range *soakUpstreams {
		key := fmt.Sprintf("u%03d", i)
		f.keys = append(f.keys, key)
		f.tables[key] = h.upstream(key)
	}
	first := f.text()
	h.write(h.config(), first)
	d := h.start()
	d.mustReload(time.Minute)
	s := &soak{t: t, f: f}
	for range *soakSessions {
		s.agents = append(s.agents, d.connected())
	}
	before := d.take(f)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, a := range s.agents {
		s.calling.Go(func() { s.call(ctx, a, rand.New(rand.NewPCG(*soakSeed, uint64(i)))) })
	}
	s.edit(d, rand.New(rand.NewPCG(*soakSeed, 1<<32)))

	// The running set is the file's.
	r := d.mustReload(30 * time.Second)
	t.Logf("%d calls during %d edits, generation %d", s.calls.Load(), *soakEdits, r.Generation)
	s.sameAsFile(d)

	// Back at the first text, what there is is what there was.
	h.write(h.config(), first)
	d.mustReload(30 * time.Second)
	cancel()
	s.calling.Wait()
	eventually(t, "as many processes and descriptors as before", func() bool { return d.take(f).counts == before.counts })
	for key, pid := range d.take(f).pids {
		if pid != before.pids[key] {
			t.Errorf("%s is process %d, was %d", key, pid, before.pids[key])
		}
	}
	for _, key := range f.stable() {
		if n := h.starts(key); n != 1 {
			t.Errorf("%s was started %d times", key, n)
		}
	}
}

// soak is one run of the test.
type soak struct {
	t       *testing.T
	f       *fleet
	agents  []*agent
	calling sync.WaitGroup
	calls   atomic.Int64
}

// call calls upstreams until ctx ends. Those that are not edited must answer;
// the others may be gone or down, and say so.
func (s *soak) call(ctx context.Context, a *agent, rnd *rand.Rand) {
	for ctx.Err() == nil {
		key := s.f.keys[rnd.IntN(len(s.f.keys))]
		text := fmt.Sprint(rnd.Int())
		r := a.call(key+"__echo", map[string]any{"text": text})
		s.calls.Add(1)
		steady := slices.Contains(s.f.stable(), key)
		switch code := r.code(); {
		case r.ok() && r.text() == text:
		case steady, code != "upstream_unavailable" && code != "unknown_namespace" && code != "unknown_tool":
			s.t.Errorf("%s: %s", key, r)
			return
		}
	}
}

// pause is a person who types. The edits of a soak come when they come, whatever
// became of those before, so there is nothing to wait for.
func pause(d time.Duration) { <-time.After(d) }

// edit makes the edits, a third of them broken, and sometimes waits for what
// becomes of one.
func (s *soak) edit(d *daemon, rnd *rand.Rand) {
	s.t.Helper()
	for i := range *soakEdits {
		what := "break"
		if i%3 == 0 {
			s.f.h.write(s.f.h.config(), broken(s.f.text(), rnd))
		} else {
			what = s.f.mutate(rnd)
			s.f.h.write(s.f.h.config(), s.f.text())
		}
		switch rnd.IntN(4) {
		case 0:
			if r := d.reload(control.ReloadRequest{WaitMS: 2000}); r.OK != (i%3 != 0) {
				s.t.Errorf("edit %d, %s: %+v", i, what, r)
			}
		case 1:
			pause(time.Duration(rnd.IntN(150)) * time.Millisecond)
		}
	}
	s.f.h.write(s.f.h.config(), s.f.text())
}

// sameAsFile waits until what runs is what the file says: the last edits may
// still be starting and stopping.
func (s *soak) sameAsFile(d *daemon) {
	s.t.Helper()
	var differs string
	defer func() {
		if differs != "" {
			s.t.Log(differs)
		}
	}()
	eventually(s.t, "what runs is what the file says", func() bool {
		differs = s.difference(d.status())
		return differs == ""
	})
}

// difference says what is not as the file has it, "" for nothing.
func (s *soak) difference(st status) string {
	var want, got []string
	for _, key := range s.f.keys {
		if s.f.tables[key] != "" {
			want = append(want, key)
		}
	}
	for _, u := range st.Upstreams {
		got = append(got, u.Name)
		// One that cannot come up does not, and its predecessor may serve on.
		if !strings.Contains(s.f.tables[u.Name], "-exit-on") && (u.State != "running" || u.isPending()) {
			return fmt.Sprintf("%s is %s: %s", u.Name, u.State, deref(u.Error))
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Sprintf("it runs %v, the file has %v", got, want)
	}
	return ""
}

// census is what a daemon holds.
type census struct {
	counts struct{ descriptors, processes, zombies int }
	pids   map[string]int // of the stable upstreams
}

func (d *daemon) take(f *fleet) census {
	d.t.Helper()
	c := census{pids: map[string]int{}}
	st := d.status()
	for _, key := range f.stable() {
		if u := st.up(d.t, key); u.PID != nil {
			c.pids[key] = *u.PID
		}
	}
	c.counts.descriptors = descriptorsOf(d.t, d.pid())
	c.counts.processes = len(mentioning(d.t, d.dir+"/record-"))
	c.counts.zombies = len(zombiesOf(d.t, d.pid()))
	return c
}

func TestDemo_ShowsTheMainJobOnAnEmptyMachine(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, dir := range []string{"config", "state", "run"} {
		if err := os.RemoveAll(h.path(dir)); err != nil {
			t.Fatal(err)
		}
	}
	h.env = map[string]string{"HOME": h.env["HOME"], "PATH": "/nowhere", "TMPDIR": h.env["TMPDIR"], "GORACE": h.env["GORACE"]}
	o := h.harness("demo")
	if o.code != 0 || o.took > 30*time.Second {
		t.Fatal(o)
	}
	if n := strings.Count(o.stdout, " ms"); n < 8 {
		t.Errorf("%d lines with the time they took:\n%s", n, o.stdout)
	}
	for _, dir := range []string{h.path("home"), h.path("tmp")} {
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("it left %v in %s: %v", left, dir, err)
		}
	}
}
