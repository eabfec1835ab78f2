package identity

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// whose is the name that a claim belongs to, "" for nobody's.
func whose(s *Store, token string, line ...Process) string {
	o, _ := s.Whose(NewClaim(token, line))
	return o.Name
}

func TestToken_NeverShows(t *testing.T) {
	t.Parallel()
	token := Mint()
	if len(token.Reveal()) < 43 || token.Reveal() == Mint().Reveal() {
		t.Errorf("a token has %d characters", len(token.Reveal()))
	}
	b := new(Store).Begin("a", "run")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{token, &token, b, *b, []Token{token}, struct{ T Token }{token}} {
			text := fmt.Sprintf(verb, v)
			if strings.Contains(text, token.Reveal()) || strings.Contains(text, b.Token().Reveal()) || strings.Contains(text, fmt.Sprintf("%x", token.Reveal())) {
				t.Errorf("%s of a %T shows it", verb, v)
			}
		}
	}
	data, err := json.Marshal(map[string]any{"token": token})
	if err != nil || strings.Contains(string(data), token.Reveal()) {
		t.Errorf("JSON: %s, %v", data, err)
	}
}

func TestWhose_IsTheTokensOrTheNearestAncestors(t *testing.T) {
	t.Parallel()
	var s Store
	if whose(&s, "") != "" || whose(&s, "forged", Process{1, 1}) != "" {
		t.Error("an empty store knows somebody")
	}
	outer, inner, old := s.Begin("outer", "r1"), s.Begin("inner", "r2"), s.Begin("outer", "r0")
	outer.Bind(Process{10, 100})
	inner.Bind(Process{20, 200})
	old.Bind(Process{30, 300})
	former := old.Token().Reveal()
	old.End()
	old.End()
	for name, tc := range map[string]struct {
		token string
		line  []Process
		want  string
	}{
		"its own token":                         {outer.Token().Reveal(), nil, "outer"},
		"a token counts before the ancestors":   {outer.Token().Reveal(), []Process{{20, 200}}, "outer"},
		"an ended token":                        {former, nil, ""},
		"an ended token inside another":         {former, []Process{{99, 1}, {20, 200}}, "inner"},
		"a forged token":                        {"forged", nil, ""},
		"a forged token inside one":             {"forged", []Process{{10, 100}}, "outer"},
		"a name is no token":                    {"outer", nil, ""},
		"nothing":                               {"", nil, ""},
		"the process itself":                    {"", []Process{{10, 100}}, "outer"},
		"the nearest of two":                    {"", []Process{{99, 1}, {20, 200}, {10, 100}}, "inner"},
		"a number that was handed out again":    {"", []Process{{10, 101}}, ""},
		"a process that has ended":              {"", []Process{{30, 300}}, ""},
		"an ended one inside one that is alive": {"", []Process{{30, 300}, {10, 100}}, "outer"},
	} {
		if got := whose(&s, tc.token, tc.line...); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if o, ok := s.Whose(NewClaim(inner.Token().Reveal(), nil)); !ok || o.RunID != "r2" {
		t.Errorf("owner: %+v", o)
	}
}

func TestStore_OwnsNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s Store
		live := map[*Badge]Process{}
		var all []*Badge
		next := uint64(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				b := s.Begin(strconv.Itoa(len(all)), "")
				all, live[b] = append(all, b), Process{}
			case 1:
				if len(all) > 0 {
					b := rapid.SampledFrom(all).Draw(t, "bind")
					next++
					p := Process{rapid.IntRange(1, 3).Draw(t, "pid"), next}
					b.Bind(p)
					if _, ok := live[b]; ok && live[b] == (Process{}) {
						live[b] = p
					} else if ok {
						live[b] = p
					}
				}
			default:
				if len(all) > 0 {
					b := rapid.SampledFrom(all).Draw(t, "end")
					b.End()
					delete(live, b)
				}
			}
		}
		for i, b := range all {
			want := ""
			p, alive := live[b]
			if alive {
				want = strconv.Itoa(i)
			}
			if got := whose(&s, b.Token().Reveal()); got != want {
				t.Fatalf("the token of %d is %q's", i, got)
			}
			if got := whose(&s, "", p); alive && p != (Process{}) && got != want {
				t.Fatalf("the process of %d is %q's", i, got)
			}
		}
	})
}

func TestAncestors_OfRealProcesses(t *testing.T) {
	t.Parallel()
	// A grandchild whose environment was cleared, as some agents do.
	cmd := exec.Command("sh", "-c", `env -i sh -c 'echo $$; read x'; true`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	got := Ancestors(pid)
	var pids []int
	for _, p := range got {
		pids = append(pids, p.PID)
	}
	if len(pids) < 3 || pids[0] != pid || pids[1] != cmd.Process.Pid || pids[2] != os.Getpid() {
		t.Errorf("ancestors %v, want %d, %d, %d, …", pids, pid, cmd.Process.Pid, os.Getpid())
	}
	var s Store
	b := s.Begin("agent", "")
	i := slices.IndexFunc(got, func(p Process) bool { return p.PID == cmd.Process.Pid })
	b.Bind(got[i])
	if got := whose(&s, "", got...); got != "agent" {
		t.Errorf("the grandchild is %q's", got)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if left := Ancestors(pid); len(left) != 0 {
		t.Errorf("after its end it has ancestors: %v", left)
	}
}

func TestClimb_StopsWhereSomebodyHasChanged(t *testing.T) {
	t.Parallel()
	type entry struct {
		start  uint64
		parent int
	}
	table := map[int]entry{5: {50, 4}, 4: {40, 3}, 3: {30, 1}, 1: {1, 0}}
	look := func(change func(calls int)) func(int) (Process, int, bool) {
		calls := 0
		return func(pid int) (Process, int, bool) {
			calls++
			change(calls)
			e, ok := table[pid]
			return Process{pid, e.start}, e.parent, ok
		}
	}
	whole := climb(5, look(func(int) {}))
	if diff := cmp.Diff([]Process{{5, 50}, {4, 40}, {3, 30}, {1, 1}}, whole); diff != "" {
		t.Errorf("the whole line:\n%s", diff)
	}
	// Between reading 4 and reading 5 again, 5 has ended and is another one.
	cut := climb(5, look(func(calls int) {
		if calls == 3 {
			table[5] = entry{51, 1}
		}
	}))
	if diff := cmp.Diff([]Process{{5, 50}}, cut); diff != "" {
		t.Errorf("a cut line:\n%s", diff)
	}
	table = map[int]entry{7: {1, 7}}
	if got := climb(7, look(func(int) {})); len(got) > deepest {
		t.Errorf("a loop gives %d ancestors", len(got))
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) b) S 2 1 1 0 -1 4 1 1 0 0 1 2 3 4 20 0 1 0 10000 5 6"))
	f.Add([]byte(")"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, _, ok := parseStat(3, data); ok && p.PID != 3 {
			t.Errorf("%+v", p)
		}
	})
}

func BenchmarkWhose(b *testing.B) {
	var s Store
	var line []Process
	for i := range 30 {
		badge := s.Begin(strconv.Itoa(i), "")
		badge.Bind(Process{i, uint64(i)})
		line = append(line, Process{1000 + i, 1})
	}
	c := NewClaim("ended", append(line[:5:5], Process{7, 7}))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := s.Whose(c); !ok {
			b.Fatal("nobody's")
		}
	}
}
