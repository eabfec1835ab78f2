package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The size of the soak.
const (
	soakUpstreams = 12
	soakMoving    = 5 // the first of them, which are edited
	soakSessions  = 3
	soakEdits     = 45 // a third of them broken
)

// fleetFile is the config of the soak: the table of each upstream, "" for none.
type fleetFile struct {
	h      *home
	tables [soakUpstreams]string
}

func soakKey(i int) string { return fmt.Sprintf("u%02d", i) }

// mutate changes one upstream in a way that validates.
func (f *fleetFile) mutate(rnd *rand.Rand) {
	i := rnd.IntN(soakMoving)
	n, key := rnd.IntN(100), soakKey(i)
	switch {
	case f.tables[i] == "":
		f.tables[i] = f.h.table(key, "echo")
	case n < 20:
		f.tables[i] = ""
	case n < 50:
		f.tables[i] = f.h.table(key, "echo", fmt.Sprintf(`env = { N = "%d" }`, rnd.Int()))
	case n < 65:
		f.tables[i] = f.h.table(key, "echo", fmt.Sprintf(`env = { N = "%d" }`, rnd.Int()), `update = "replace"`)
	case n < 75:
		f.tables[i] = f.h.table(key, "echo exit")
	case n < 85:
		table, _, _ := strings.Cut(f.tables[i], "call_timeout")
		f.tables[i] = table + fmt.Sprintf("call_timeout = \"%ds\"\n", 60+rnd.IntN(60))
	default:
		f.tables[i] += "# a comment\n"
	}
}

// write writes the config, or a broken version of it.
func (f *fleetFile) write(rnd *rand.Rand, broken bool) {
	f.h.t.Helper()
	text := quickServer + strings.Join(f.tables[:], "")
	if broken {
		text = []string{"", text + "[mcp.", text + "[mcp.x]\ncmd = \"sh\"\nno = 1\n"}[rnd.IntN(3)]
	}
	write(f.h.t, f.h.paths.Config, text)
}

// TestSoak_RandomEditsUnderConstantCallsLoseNothing edits a fleet at random
// while agents never stop calling. What no edit was about must not notice, and
// nothing may be left over.
func TestSoak_RandomEditsUnderConstantCallsLoseNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	h := newHome(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	f := &fleetFile{h: h}
	for i := range f.tables {
		f.tables[i] = h.table(soakKey(i), "echo")
	}
	first := f.tables
	f.write(rnd, false)
	d := h.start()
	defer d.stop()
	keys := make([]string, soakUpstreams)
	for i := range keys {
		keys[i] = soakKey(i)
	}
	d.settled(keys...)
	s := &soak{d: d, calls: make([]int, soakSessions)}
	for range soakSessions {
		s.agents = append(s.agents, d.connect())
	}
	before := s.census()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range s.agents {
		s.calling.Go(func() { s.call(ctx, i) })
	}
	for i := range soakEdits {
		broken := i%3 == 0
		if !broken {
			f.mutate(rnd)
		}
		f.write(rnd, broken)
		if rnd.IntN(3) == 0 {
			if r := d.reload(); r.OK == broken {
				t.Errorf("edit %d: %s", i, shape(t, r))
			}
		}
		pause(time.Duration(rnd.IntN(60)) * time.Millisecond)
	}
	f.write(rnd, false)
	d.reload()
	s.sameAsFile(f)

	f.tables = first
	f.write(rnd, false)
	d.reload()
	cancel()
	s.calling.Wait()
	t.Logf("%v calls, generation %d", s.calls, d.status().Generation)
	until(t, "as much as before", func() bool { return s.census().counts == before.counts })
	for key, pid := range s.census().pids {
		if before.pids[key] != pid {
			t.Errorf("%s is process %d, was %d", key, pid, before.pids[key])
		}
	}
}

// pause is a person who types. What they do comes when it comes, whatever became
// of what they did before, so there is nothing to wait for.
func pause(d time.Duration) { <-time.After(d) }

// soak is one run of the test.
type soak struct {
	d       *running
	agents  []*session
	calls   []int // of each
	calling sync.WaitGroup
}

// call has agent i call at random until ctx ends. Upstreams that are not edited
// must answer; the others may be gone or down, and say so.
func (s *soak) call(ctx context.Context, i int) {
	rnd := rand.New(rand.NewPCG(3, uint64(i)))
	for ctx.Err() == nil {
		n, text := rnd.IntN(soakUpstreams), strconv.Itoa(rnd.Int())
		got := s.agents[i].call(soakKey(n)+"__echo", text)
		s.calls[i]++
		excused := n < soakMoving && slices.ContainsFunc([]string{"upstream_unavailable", "unknown_namespace", "unknown_tool"}, func(code string) bool {
			return strings.HasPrefix(got, "["+code+"]")
		})
		if got != text && !excused {
			s.d.t.Errorf("a call of %s: %s", soakKey(n), got)
			return
		}
	}
}

// sameAsFile demands that what runs is what the file says.
func (s *soak) sameAsFile(f *fleetFile) {
	s.d.t.Helper()
	for i, table := range f.tables {
		switch {
		case table == "":
			// Its stop goes on after the reload that took it out.
			until(s.d.t, soakKey(i)+" is gone", func() bool { return s.d.find(soakKey(i)).Name == "" })
		case strings.Contains(table, `"exit"`):
			// It does not come up, and its predecessor may serve on.
		default:
			// A reload waits for what starts, and not for ever.
			until(s.d.t, soakKey(i)+" runs as the file says", func() bool {
				u := s.d.find(soakKey(i))
				return u.State == "running" && u.Pending == nil
			})
		}
	}
}

// census is what the process holds.
type census struct {
	counts struct{ goroutines, descriptors, children int }
	pids   map[string]int // of the upstreams that are not edited
}

func (s *soak) census() census {
	s.d.t.Helper()
	c := census{pids: map[string]int{}}
	for i := soakMoving; i < soakUpstreams; i++ {
		if u := s.d.find(soakKey(i)); u.PID != nil {
			c.pids[u.Name] = *u.PID
		}
	}
	for _, u := range s.d.status().Upstreams {
		c.counts.children += u.Instances
	}
	c.counts.goroutines = runtime.NumGoroutine()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		s.d.t.Fatal(err)
	}
	c.counts.descriptors = len(entries)
	return c
}
