package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/config"
)

// bench drives a machine by hand: time is a number, and effects are read as
// text.
type bench struct {
	m   machine
	now time.Time
}

func newBench() *bench {
	return &bench{
		m: machine{
			limits: limits{stopGrace: 5 * time.Second, drain: 10 * time.Minute, maxMessage: 1 << 20},
			lives:  map[lifeID]role{},
		},
		now: time.Unix(1000, 0),
	}
}

// do changes the machine, lets it do what is due, and returns the effects.
func (b *bench) do(change func(m *machine)) string {
	if change != nil {
		change(&b.m)
	}
	b.m.advance(b.now)
	var text []string
	for _, e := range b.m.take() {
		switch e := e.(type) {
		case spawn:
			text = append(text, fmt.Sprintf("spawn %d %s", e.id, e.launch.Cmd))
		case retire:
			text = append(text, fmt.Sprintf("retire %d within %s", e.id, e.within))
		case save:
			text = append(text, "save "+e.launch.Cmd)
		}
	}
	return strings.Join(text, ", ")
}

func (b *bench) after(d time.Duration) string {
	b.now = b.now.Add(d)
	return b.do(nil)
}

// definition is a launch that differs from others in its command.
func definition(cmd string) config.Launch {
	return config.Launch{Upstream: config.Upstream{
		Key: "up", Cmd: cmd, RestartDelay: time.Second, StartTimeout: time.Minute, Prestart: true, Enabled: true,
	}}
}

// found is a definition whose cmd PATH makes exe of.
func found(cmd, exe string) config.Launch {
	l := definition(cmd)
	l.Exe = exe
	return l
}

func asleep(cmd, exe string) config.Launch {
	l := found(cmd, exe)
	l.Prestart = false
	return l
}

func lazy(cmd string) config.Launch {
	l := definition(cmd)
	l.Prestart = false
	return l
}

func offerOf(names ...string) *Offer {
	var tools []Item
	for _, n := range names {
		tools = append(tools, Item{n, []byte(`{"name":"` + n + `"}`)})
	}
	return Offer{Tools: tools}.sealed()
}

// step is one change and what must follow from it.
type step struct {
	name    string
	change  func(m *machine)
	after   time.Duration // else: wait this long
	effects string
	state   State
}

// The changes, as steps read best.
func start(l config.Launch) func(*machine)   { return func(m *machine) { m.start(l, 1, nil) } }
func swap(l config.Launch) func(*machine)    { return func(m *machine) { m.swap(l, nil) } }
func replace(l config.Launch) func(*machine) { return func(m *machine) { m.replace(l, nil) } }
func update(l config.Launch) func(*machine)  { return func(m *machine) { m.update(l) } }
func stop(m *machine)                        { m.stop() }
func kick(m *machine)                        { m.kick(7) }
func cancel(m *machine)                      { m.cancel() }
func promote(m *machine)                     { m.promote() }
func answers(id lifeID) func(*machine) {
	return func(m *machine) { m.cameUp(id, time.Unix(1000, 0)) }
}

func listing(id lifeID) func(*machine) {
	return func(m *machine) { m.listing(id, findings{offer: offerOf("a"), tools: true, over: true}) }
}
func vanishes(id lifeID) func(*machine) { return func(m *machine) { m.vanished(id) } }

func TestMachine_FollowsTheLifecycle(t *testing.T) {
	exits := func(id lifeID) func(*machine) {
		return func(m *machine) { m.exited(id, time.Unix(1000, 0), 0, "exited (code 1)") }
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"a crash restarts after the delay, and not before its group is gone", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"lists", listing(1), 0, "save a", Running},
			{"exits", exits(1), 0, "", Restarting},
			{"delay passes", nil, time.Second, "", Restarting},
			{"group gone", vanishes(1), 0, "spawn 2 a", Starting},
			{"answers", answers(2), 0, "", Running},
		}},
		{"a swap runs both until it is promoted", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Running},
			{"answers", answers(2), 0, "", Running},
			{"not listed yet", promote, 0, "", Running},
			{"lists", listing(2), 0, "", Running},
			{"promote", promote, 0, "retire 1 within 10m0s, save b", Running},
			{"old gone", vanishes(1), 0, "", Running},
		}},
		{"a swap of what does not run takes over by itself", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"exits", exits(1), 0, "", Restarting},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Restarting},
			{"answers", answers(2), 0, "", Restarting},
			{"lists", listing(2), 0, "save b", Running},
		}},
		{"a swap of what never came up is a new beginning", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"exits", exits(1), 0, "", Restarting},
			{"swap", swap(definition("b")), 0, "retire 1 within 5s", Stopping},
			{"gone", vanishes(1), 0, "spawn 2 b", Starting},
			{"exits", exits(2), 0, "", Restarting},
			{"gone", vanishes(2), time.Minute, "spawn 3 b", Starting},
		}},
		{"what fails while its successor is tried is not tried again", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Starting},
			{"exits", exits(1), 0, "", Starting},
			{"gone", vanishes(1), time.Minute, "", Starting},
			{"answers", answers(2), 0, "", Running},
			{"lists", listing(2), 0, "save b", Running},
		}},
		{"a swap of what is still starting takes over by itself", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Starting},
			{"answers", answers(2), 0, "", Starting},
			{"lists", listing(2), 0, "retire 1 within 10m0s, save b", Running},
		}},
		{"a process that dies while its successor is ready is succeeded", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Running},
			{"answers", answers(2), 0, "", Running},
			{"lists", listing(2), 0, "", Running},
			{"exits", exits(1), 0, "save b", Running},
		}},
		{"a candidate that fails is tried again and changes nothing", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Running},
			{"exits", exits(2), 0, "", Running},
			{"gone", vanishes(2), 0, "", Running},
			{"delay passes", nil, time.Second, "spawn 3 b", Running},
		}},
		{"a swap overtaken by another waits for the dropped process", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Running},
			{"swap again", swap(definition("c")), 0, "retire 2 within 0s", Running},
			{"same again", swap(definition("c")), 0, "", Running},
			{"gone", vanishes(2), 0, "spawn 3 c", Running},
		}},
		{"a swap changed back is cancelled", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Running},
			{"swap back", swap(definition("a")), 0, "retire 2 within 0s", Running},
			{"late answer", listing(2), 0, "", Running},
			{"nothing to promote", promote, 0, "", Running},
		}},
		{"a cancelled swap ends its process", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Starting},
			{"cancel", cancel, 0, "retire 2 within 0s", Starting},
		}},
		{"replace stops before it starts", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"replace", replace(definition("b")), 0, "retire 1 within 5s", Stopping},
			{"gone", vanishes(1), 0, "spawn 2 b", Starting},
		}},
		{"replace drops a pending swap and waits for everybody", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Running},
			{"replace", replace(definition("c")), 0, "retire 2 within 0s, retire 1 within 5s, retire 2 within 5s", Stopping},
			{"one gone", vanishes(1), 0, "", Stopping},
			{"all gone", vanishes(2), 0, "spawn 3 c", Starting},
		}},
		{"stop ends it, and a start right after waits for that", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"stop", stop, 0, "retire 1 within 5s", Stopping},
			{"start", start(definition("a")), 0, "retire 1 within 5s", Stopping},
			{"gone", vanishes(1), 0, "spawn 2 a", Starting},
			{"stop", stop, 0, "retire 2 within 5s", Stopping},
			{"gone", vanishes(2), 0, "", Stopped},
		}},
		{"a kick starts at once what waits", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"exits", exits(1), 0, "", Restarting},
			{"gone", vanishes(1), 0, "", Restarting},
			{"kick", kick, 0, "spawn 2 a", Starting},
		}},
		{"a kick restarts what runs", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"kick", kick, 0, "retire 1 within 5s", Stopping},
			{"gone", vanishes(1), 0, "spawn 2 a", Starting},
		}},
		{"a kick puts a pending definition in force", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Running},
			{"exits", exits(2), 0, "", Running},
			{"gone", vanishes(2), 0, "", Running},
			{"kick", kick, 0, "retire 1 within 5s", Stopping},
			{"gone", vanishes(1), 0, "spawn 3 b", Starting},
		}},
		{"prestart = false without a kept list starts once to learn it", []step{
			{"start", start(lazy("a")), 0, "spawn 1 a", Starting},
		}},
		{"prestart = false with a kept list waits for its first use", []step{
			{"start", func(m *machine) { m.start(lazy("a"), 1, offerOf("x").kept()) }, 0, "", Stopped},
			{"swap", func(m *machine) { m.swap(lazy("b"), offerOf("y").kept()) }, 0, "", Stopped},
			{"used", func(m *machine) { m.use() }, 0, "spawn 1 b", Starting},
		}},
		{"another word for the program keeps the list under it", []step{
			{"start", start(found("a", "/bin/a")), 0, "spawn 1 a", Starting},
			{"too early", update(found("a", "/bin/a")), 0, "", Starting},
			{"answers", answers(1), 0, "", Running},
			{"nothing to keep yet", update(found("b", "/bin/a")), 0, "", Running},
			{"lists", listing(1), 0, "save b", Running},
			{"same word", update(found("b", "/bin/a")), 0, "", Running},
			{"another word", update(found("/bin/a", "/bin/a")), 0, "save /bin/a", Running},
			{"another program", update(found("c", "/bin/c")), 0, "", Running},
			{"exits", exits(1), 0, "", Restarting},
			{"another word while it is down", update(found("d", "/bin/a")), 0, "save d", Restarting},
			{"by way of a swap", swap(found("e", "/bin/a")), 0, "save e", Restarting},
			{"by way of a start", start(found("f", "/bin/a")), 0, "save f", Restarting},
		}},
		{"what a predecessor offered is not kept as its successor's", []step{
			{"start", start(found("a", "/bin/a")), 0, "spawn 1 a", Starting},
			{"answers", answers(1), 0, "", Running},
			{"lists", listing(1), 0, "save a", Running},
			{"replace", replace(found("b", "/bin/b")), 0, "retire 1 within 5s", Stopping},
			{"another word", update(found("/bin/b", "/bin/b")), 0, "", Stopping},
			{"gone", vanishes(1), 0, "spawn 2 /bin/b", Starting},
			{"kick", kick, 0, "retire 2 within 5s", Stopping},
			{"another word again", update(found("b", "/bin/b")), 0, "", Stopping},
		}},
		{"the kept list of one that waits for its first use follows its word", []step{
			{"start", func(m *machine) { m.start(asleep("a", "/bin/a"), 1, offerOf("x").kept()) }, 0, "", Stopped},
			{"another word", update(asleep("/bin/a", "/bin/a")), 0, "save /bin/a", Stopped},
		}},
		{"the end of the daemon ends everything and starts nothing", []step{
			{"start", start(definition("a")), 0, "spawn 1 a", Starting},
			{"swap", swap(definition("b")), 0, "spawn 2 b", Starting},
			{"shutdown", func(m *machine) { m.shutdown() }, 0, "retire 1 within 0s, retire 2 within 0s", Stopping},
			{"exits", exits(1), 0, "", Stopping},
			{"gone", vanishes(1), 0, "", Stopping},
			{"gone", vanishes(2), time.Hour, "", Stopped},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench()
			for _, s := range tc.steps {
				got := b.do(s.change)
				if s.after > 0 {
					got = b.after(s.after)
				}
				if diff := cmp.Diff(s.effects, got); diff != "" {
					t.Fatalf("%s: effects (-want +got):\n%s", s.name, diff)
				}
				if got := b.m.state(); got != s.state {
					t.Fatalf("%s: state is %s, want %s", s.name, got, s.state)
				}
			}
		})
	}
}

func TestMachine_GivesUpAndTriesAgainEveryFiveMinutes(t *testing.T) {
	b := newBench()
	b.do(start(definition("a")))
	seen := map[State]int{}
	for id := lifeID(1); id <= 15; id++ {
		b.do(func(m *machine) { m.exited(id, b.now, 0, "exited (code 1)") })
		b.do(vanishes(id))
		seen[b.m.state()]++
		b.now = b.m.wake()
		b.do(nil)
	}
	if diff := cmp.Diff(map[State]int{Restarting: 4, Degraded: 10, Failed: 1}, seen); diff != "" {
		t.Fatal(diff)
	}
	b.do(func(m *machine) { m.exited(16, b.now, 0, "exited (code 1)") })
	if got := b.m.status().NextRetry.Sub(b.now); got != 5*time.Minute {
		t.Errorf("a failed upstream is tried again after %s", got)
	}
	b.do(vanishes(16))
	if got := b.do(kick); got != "spawn 17 a" || b.m.status().Restarts != 0 {
		t.Errorf("a manual start gave %q, %d restarts", got, b.m.status().Restarts)
	}
}

func TestMachine_RoutesCallsAndLetsThemWait(t *testing.T) {
	type to struct {
		id   lifeID
		wait bool
	}
	exits := func(id lifeID) func(*machine) {
		return func(m *machine) { m.exited(id, time.Unix(1000, 0), 0, "x") }
	}
	for _, tc := range []struct {
		name    string
		changes []func(*machine)
		want    to
	}{
		{"first start", []func(*machine){start(definition("a"))}, to{0, true}},
		{"running", []func(*machine){start(definition("a")), answers(1)}, to{1, false}},
		{"failed once", []func(*machine){start(definition("a")), exits(1)}, to{}},
		{"second start", []func(*machine){start(definition("a")), exits(1), vanishes(1)}, to{}},
		{"crashed", []func(*machine){start(definition("a")), answers(1), exits(1)}, to{}},
		{"swap beside what runs", []func(*machine){start(definition("a")), answers(1), swap(definition("b")), answers(2)}, to{1, false}},
		{"swap of what is down", []func(*machine){start(definition("a")), answers(1), exits(1), swap(definition("b"))}, to{0, true}},
		{"swap of what is down, up but not listed", []func(*machine){start(definition("a")), answers(1), exits(1), swap(definition("b")), answers(2)}, to{0, true}},
		{"swap of what never came up", []func(*machine){start(definition("a")), exits(1), swap(definition("b")), vanishes(1)}, to{0, true}},
		{"and failed", []func(*machine){start(definition("a")), exits(1), swap(definition("b")), vanishes(1), exits(2)}, to{}},
		{"both are down", []func(*machine){start(definition("a")), answers(1), exits(1), swap(definition("b")), exits(2)}, to{}},
		{"replaced", []func(*machine){start(definition("a")), answers(1), replace(definition("b"))}, to{0, true}},
		{"stopped", []func(*machine){start(definition("a")), answers(1), stop}, to{}},
		{"promoted", []func(*machine){start(definition("a")), answers(1), swap(definition("b")), answers(2), listing(2), promote}, to{2, false}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench()
			for _, c := range tc.changes {
				b.do(c)
			}
			id, wait := b.m.route()
			if diff := cmp.Diff(tc.want, to{id, wait}, cmp.AllowUnexported(to{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMachine_KeepsItsOfferWhileItIsDown(t *testing.T) {
	b := newBench()
	b.do(start(definition("a")))
	b.do(answers(1))
	b.do(listing(1))
	for _, change := range []func(*machine){
		func(m *machine) { m.exited(1, b.now, 0, "x") }, vanishes(1), kick, replace(definition("b")),
	} {
		b.do(change)
		if o := b.m.status().Offer; o == nil || o.Tools[0].Name != "a" {
			t.Fatalf("the offer is %v", o)
		}
	}
	b.do(stop)
	if o := b.m.status().Offer; o != nil {
		t.Errorf("after stop the offer is %v", o)
	}
}

func TestMachine_SaysWhyASwapIsPending(t *testing.T) {
	b := newBench()
	b.do(start(definition("a")))
	b.do(answers(1))
	b.do(swap(definition("b")))
	s := b.m.status()
	if s.Pending == nil || s.Pending.Cmd != "b" || s.Answered || s.Launch.Cmd != "a" {
		t.Errorf("status of a swap: %+v", s)
	}
	b.do(func(m *machine) { m.exited(2, b.now, 0, "exited (code 1)") })
	s = b.m.status()
	if !s.Answered || !strings.Contains(s.PendingErr, `update = "replace"`) || s.Error != "" || s.State != Running {
		t.Errorf("status of a failed swap: %+v", s)
	}
}

func TestMachine_AppliesLiveKeysToTheDefinitionTheyBelongTo(t *testing.T) {
	b := newBench()
	b.do(start(definition("a")))
	b.do(swap(definition("b")))
	edit := definition("b")
	edit.Description, edit.CallTimeout = "new", time.Minute
	b.do(func(m *machine) { m.update(edit) })
	if s := b.m.status(); s.Pending.Description != "new" || s.Launch.Description != "" {
		t.Errorf("pending: %+v, in force: %+v", s.Pending, s.Launch)
	}
	b.do(cancel)
	b.do(func(m *machine) { m.update(edit) })
	if s := b.m.status(); s.Launch.Description != "new" || s.Launch.Cmd != "a" {
		t.Errorf("in force: %+v", s.Launch)
	}
}

// TestMachine_NeverOverlapsAndConverges plays random words and results, in any
// order, and holds the machine to what LIF-5 and HOT-4 promise.
func TestMachine_NeverOverlapsAndConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench()
		live := map[lifeID]*fate{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			playWord(t, b)
			watchEffects(t, b, live)
			playResult(t, b, live)
			watchEffects(t, b, live)
			b.now = b.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
		}
		converge(t, b, live)
	})
}

// fate is what became of one process in the model.
type fate struct {
	cmd     string
	retired bool
	down    bool
	up      bool
}

func playWord(t *rapid.T, b *bench) {
	l := definition(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "definition"))
	switch rapid.IntRange(0, 8).Draw(t, "word") {
	case 0:
		b.m.start(l, uint64(rapid.IntRange(0, 2).Draw(t, "nonce")), nil)
	case 1, 2:
		if b.m.enabled {
			b.m.swap(l, nil)
		}
	case 3:
		if b.m.enabled {
			b.m.replace(l, nil)
		}
	case 4:
		b.m.stop()
	case 5:
		b.m.kick(3)
	case 6:
		b.m.promote()
	case 7:
		b.m.cancel()
	}
	b.m.advance(b.now)
}

func playResult(t *rapid.T, b *bench, live map[lifeID]*fate) {
	if len(live) == 0 {
		return
	}
	ids := make([]lifeID, 0, len(live))
	for id := lifeID(1); id <= b.m.last; id++ {
		if live[id] != nil {
			ids = append(ids, id)
		}
	}
	id := rapid.SampledFrom(ids).Draw(t, "life")
	f := live[id]
	switch kind := rapid.IntRange(0, 3).Draw(t, "result"); {
	case f.down || f.retired && kind > 0:
		b.m.vanished(id)
		delete(live, id)
	case kind == 0:
		f.down = true
		b.m.exited(id, b.now, 0.5, "exited")
	case kind == 1 || !f.up:
		f.up = true
		b.m.cameUp(id, b.now)
	default:
		b.m.listing(id, findings{offer: offerOf("x"), tools: true, over: true})
	}
	b.m.advance(b.now)
}

// watchEffects takes what the machine decided into the model.
func watchEffects(t *rapid.T, b *bench, live map[lifeID]*fate) {
	for _, e := range b.m.take() {
		switch e := e.(type) {
		case spawn:
			current := 0
			for _, f := range live {
				if !f.retired && !f.down {
					current++
				}
			}
			if current > 1 || current == 1 && b.m.next == nil {
				t.Fatalf("process %d is one too many", e.id)
			}
			if !b.m.enabled {
				t.Fatalf("process %d started while stopped", e.id)
			}
			live[e.id] = &fate{cmd: e.launch.Cmd}
		case retire:
			if f := live[e.id]; f != nil {
				f.retired = true
			}
		}
	}
	if got := len(b.m.lives); got != len(live) {
		t.Fatalf("the machine knows %d lives of %d", got, len(live))
	}
}

// converge lets every process do as it should; then the last word holds.
func converge(t *rapid.T, b *bench, live map[lifeID]*fate) {
	for range 20 {
		for id, f := range live {
			switch {
			case f.retired || f.down:
				b.m.vanished(id)
				delete(live, id)
			default:
				b.m.cameUp(id, b.now)
				b.m.listing(id, findings{offer: offerOf("x"), tools: true, over: true})
			}
		}
		b.m.promote()
		b.now = b.now.Add(5 * time.Minute)
		b.m.advance(b.now)
		watchEffects(t, b, live)
	}
	switch {
	case !b.m.enabled && len(live) > 0:
		t.Fatalf("stopped, with %d processes", len(live))
	case b.m.enabled && (len(live) != 1 || b.m.state() != Running || b.m.next != nil):
		t.Fatalf("running, with %d processes, state %s", len(live), b.m.state())
	}
}
