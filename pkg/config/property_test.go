package config_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/config"
)

// A mistake is a table body with one thing wrong in it: at line at (from 0) of
// the body.
type mistake struct {
	body string
	at   int
	want string // in the message
}

// mistakes are what people do, each in a way that leaves no doubt where.
func mistakes() []mistake {
	return []mistake{
		{"args = []\n", -1, "cmd is missing"},
		{"cmd = ''\n", 0, "cmd is empty"},
		{"enabled = true\ncmd = ''\n", 1, "cmd is empty"},
		{"cmd = 'x'\nrestart_dely = '1s'\n", 1, "restart_delay"},
		{"cmd = 'x'\nrestart_delay = 1\n", 1, "duration"},
		{"cmd = 'x'\nrestart_delay = '-1s'\n", 1, "negative"},
		{"cmd = 'x'\nenabled = 'yes'\n", 1, "true or false"},
		{"cmd = 'x'\nargs = [\n  'a',\n  7,\n]\n", 3, "a string"},
		{"cmd = 'x'\nargs = ['${NOT_SET}']\n", 1, "NOT_SET"},
		{"cmd = 'x'\nupdate = 'swp'\n", 1, "swap"},
		{"cmd = 'x'\ncmd = 'y'\n", 1, "twice"},
		{"cmd = 'x'\nenv = { A = 1 }\n", 1, "a string"},
		{"cmd = 'x'\nenv.HARNESS_NAME = 'x'\n", 1, "HARNESS_"},
		{"cmd = 'x'\nisolation = 'sessions'\n", 1, "session"},
		{"cmd = x\n", 0, "quotes"},
		{"cmd = 'x\nargs = []\n", 0, "invalid TOML"},
		{"cmd = 'x'\nargs = ['a'\n", 1, "not closed"},
		{"cmd = 'x'\nargs = ['a',\n", 1, "not closed"},
		{"cmd = 'x'\nargs = ['a'\nenabled = true\n", 1, "not closed"},
		{"cmd = 'x'\nargs = ['a' 'b']\n", 1, "invalid TOML"},
		{"cmd = 'x'\nenv = { A = 'x'\n", 1, "not closed"},
		{"cmd = 'x'\nargs\n", 1, "invalid TOML"},
		{"cmd = 'x'\n= 'y'\n", 1, "invalid TOML"},
	}
}

// A file with a mistake in each of several tables is refused with exactly one
// fault for each, at its line: none hides another, and none is counted twice.
func TestLoad_FindsEachMistakeOnceWhereItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		picks := rapid.SliceOfN(rapid.SampledFrom(mistakes()), 1, 6).Draw(t, "mistakes")
		var text strings.Builder
		text.WriteString("# a file\n\n")
		line := 3
		var want []string
		for i, m := range picks {
			body := fmt.Sprintf("[mcp.bad-%d] # table\n%s\n[mcp.good-%d]\ncmd = 'x'\n\n", i, m.body, i)
			want = append(want, fmt.Sprintf("%d: %s", line+1+m.at, m.want))
			text.WriteString(body)
			line += strings.Count(body, "\n")
		}
		_, _, faults := load(text.String(), config.Global)
		if len(faults) != len(want) {
			t.Fatalf("%d faults, want %q, in\n%s\nfaults:\n%v", len(faults), want, text.String(), faults)
		}
		for i, f := range faults {
			lineWant, message, _ := strings.Cut(want[i], ": ")
			if fmt.Sprint(f.Line) != lineWant || !strings.Contains(f.Message, message) {
				t.Errorf("fault %q, want line %s and %q, in\n%s", f, lineWant, message, text.String())
			}
		}
	})
}

// Whatever is written comes back, however it is laid out.
func TestLoad_ReadsBackWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]config.Upstream{}
		var tables []string
		for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9]{0,8}x`), 0, 5, rapid.ID).Draw(t, "keys") {
			u := upstream(key).Draw(t, key)
			want[key] = u
			tables = append(tables, render(t, u))
		}
		text := strings.Join(rapid.Permutation(tables).Draw(t, "tables"), "\n")
		cfg, _, faults := load("# file\n"+text, config.Global)
		if len(faults) > 0 {
			t.Fatalf("%v, in\n%s", faults, text)
		}
		for key, u := range cfg.Upstreams {
			u.Line = 0
			cfg.Upstreams[key] = u
		}
		if diff := cmp.Diff(want, cfg.Upstreams); diff != "" {
			t.Errorf("(-written +read):\n%s\nin\n%s", diff, text)
		}
	})
}

func upstream(key string) *rapid.Generator[config.Upstream] {
	return rapid.Custom(func(t *rapid.T) config.Upstream {
		text := rapid.StringN(0, 12, -1).Filter(func(s string) bool {
			return !strings.ContainsAny(s, "\x00\r") && strings.ToValidUTF8(s, "") == s
		})
		delay := rapid.Map(rapid.Int64Range(int64(10*time.Millisecond), int64(time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
		return config.Upstream{
			Key:          key,
			Cmd:          rapid.StringMatching(`[a-z][a-z. -]{0,8}`).Draw(t, "cmd"),
			Args:         rapid.SliceOfN(text, 0, 4).Draw(t, "args"),
			Env:          rapid.MapOfN(rapid.StringMatching(`[A-Z_][A-Z0-9]{0,4}`), text, 0, 4).Draw(t, "env"),
			Workdir:      "/" + rapid.StringMatching(`[a-z]{1,5}`).Draw(t, "workdir"),
			RestartDelay: delay.Draw(t, "restart_delay"),
			StartTimeout: delay.Draw(t, "start_timeout"),
			CallTimeout:  delay.Draw(t, "call_timeout"),
			Enabled:      rapid.Bool().Draw(t, "enabled"),
			Description:  text.Draw(t, "description"),
			Update:       rapid.SampledFrom([]config.Update{config.Swap, config.Replace}).Draw(t, "update"),
			Isolation:    config.IsolationShared,
			Prestart:     rapid.Bool().Draw(t, "prestart"),
			Tools:        config.ToolFilter{Allow: []string{"*"}, Deny: []string{}},
		}
	})
}

// render writes a definition as a table, its keys in any order and env in any
// of its forms.
func render(t *rapid.T, u config.Upstream) string {
	args := make([]string, len(u.Args))
	for i, a := range u.Args {
		args[i] = quoteTOML(escape(a))
	}
	keys := []string{
		"cmd = " + quoteTOML(u.Cmd),
		"args = [" + strings.Join(args, rapid.SampledFrom([]string{",", ", ", ",\n\t# why\n  "}).Draw(t, "comma")) + "]",
		"workdir = " + quoteTOML(u.Workdir),
		fmt.Sprintf("restart_delay = '%s'", u.RestartDelay),
		fmt.Sprintf("start_timeout\t=\t'%s' # late", u.StartTimeout),
		fmt.Sprintf("call_timeout='%s'", u.CallTimeout),
		fmt.Sprintf("enabled = %v", u.Enabled),
		"description = " + quoteTOML(u.Description),
		fmt.Sprintf("update = '%s'", u.Update),
		fmt.Sprintf("prestart = %v", u.Prestart),
	}
	sub := ""
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		pairs = append(pairs, name+" = "+quoteTOML(escape(u.Env[name])))
	}
	switch rapid.IntRange(0, 2).Draw(t, "form of env") {
	case 0:
		keys = append(keys, "env = { "+strings.Join(pairs, ", ")+" }")
	case 1:
		for _, p := range pairs {
			keys = append(keys, "env."+p)
		}
	case 2:
		sub = fmt.Sprintf("[mcp.%s.env]\n%s\n", u.Key, strings.Join(pairs, "\n"))
	}
	keys = rapid.Permutation(keys).Draw(t, "order")
	return fmt.Sprintf("[mcp.%s]\n%s\n%s", u.Key, strings.Join(keys, "\n"), sub)
}

// escape keeps expansion from changing a text.
func escape(s string) string {
	s = strings.ReplaceAll(s, "${", "$${")
	if s == "~" || strings.HasPrefix(s, "~/") {
		return "${EMPTY}" + s
	}
	return s
}

// quoteTOML writes a basic string.
func quoteTOML(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x20 || r == '"' || r == '\\' || r == 0x7f {
			fmt.Fprintf(&b, `\u%04X`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

// The report of a file is the same every time, whatever order maps have.
func TestLoad_ReportsTheSameEveryTime(t *testing.T) {
	for name, data := range badFiles(t) {
		_, warnings, faults := load(string(data), kindOfFile(name))
		want := string(report(warnings, faults))
		for range 5 {
			_, warnings, faults := load(string(data), kindOfFile(name))
			if diff := cmp.Diff(want, string(report(warnings, faults))); diff != "" {
				t.Fatalf("%s (-first +again):\n%s", name, diff)
			}
		}
	}
}

// A file with any part of it gone is refused or read, with lines that exist.
func TestLoad_SurvivesAnyDamage(t *testing.T) {
	text := goodFile(t, "everything.toml")
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		from := random.IntN(len(text))
		to := from + random.IntN(min(40, len(text)-from))
		checkReport(t, text[:from]+text[to:], config.Global)
	}
}
