package upstream

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
	"harness/pkg/proc"
)

// TestSameSpawn_LooksAtEveryFieldOrLeavesItOutOnPurpose fails for a new field
// of a definition until somebody decides what it is.
func TestSameSpawn_LooksAtEveryFieldOrLeavesItOutOnPurpose(t *testing.T) {
	respawns := map[string]bool{
		"Cmd": true, "Exe": true, "Args": true, "EnvFile": true, "EnvDigest": true, "Env": true, "Workdir": true, "Isolation": true,
		"Key": false, "ExeErr": false, "RestartDelay": false, "StartTimeout": false, "CallTimeout": false, "Enabled": false,
		"Description": false, "Update": false, "Prestart": false, "Tools": false, "Line": false,
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Launch]()) {
		if f.Anonymous {
			continue
		}
		want, known := respawns[f.Name]
		if !known {
			t.Errorf("field %s: does it need another process?", f.Name)
			continue
		}
		var a, b config.Launch
		alter(t, reflect.ValueOf(&b).Elem().FieldByIndex(f.Index))
		if got := !sameSpawn(a, b); got != want {
			t.Errorf("field %s: another process: %v, want %v", f.Name, got, want)
		}
		live := withLiveKeys(a, b)
		// ExeErr belongs to Exe.
		if !sameSpawn(live, a) || !want && f.Name != "ExeErr" && !reflect.DeepEqual(live, b) {
			t.Errorf("field %s: applied in place gives %+v", f.Name, live)
		}
	}
}

// alter gives a field another value than zero.
func alter(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	case reflect.Struct:
		alter(t, v.Field(0))
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}

func TestLookup_FindsAValueOfAnEnvironment(t *testing.T) {
	if got := lookup([]string{"C=definition", "D=x=y"}, "D"); got != "x=y" {
		t.Errorf("lookup gave %q", got)
	}
}

func TestFindExe_SearchesThePathAndSaysWhatItSearched(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tool, data := write("tool", 0o755), write("data", 0o644)
	path := "relative:/nowhere:" + dir
	for _, tc := range []struct{ cmd, exe, err string }{
		{"tool", tool, ""},
		{tool, tool, ""},
		{"data", "", `executable not found: "data" (PATH searched: ` + path + `)`},
		{data, "", "is not executable"},
		{dir, "", "is a directory"},
		{dir + "/none", "", "no such file"},
		{data + "/none", "", "not accessible"},
	} {
		exe, err := FindExe(tc.cmd, path)
		if exe != tc.exe || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v", tc.cmd, exe, err)
		}
	}
}

func TestPrepare_RefusesAWorkdirThatIsNone(t *testing.T) {
	l := definition("/bin/sh")
	l.Workdir = filepath.Join(t.TempDir(), "none")
	if _, err := prepare(l, nil, os.ReadFile); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("error: %v", err)
	}
}

func TestExitReason_NamesCodeOrSignal(t *testing.T) {
	for want, e := range map[string]proc.Exit{
		"exited (code 0)": {}, "exited (code 3)": {Code: 3}, "was killed (SIGKILL)": {Code: -1, Signal: "SIGKILL"},
	} {
		if got := exitReason(e); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}

func TestPacer_ListsAtOnceThenOnceAnInterval(t *testing.T) {
	now := time.Unix(1000, 0)
	var p pacer
	wait := func() string {
		d, ok := p.wait(now)
		if !ok {
			return "never"
		}
		return d.String()
	}
	if got := wait(); got != "never" {
		t.Errorf("unasked: %s", got)
	}
	p.ask()
	if got := wait(); got != "0s" {
		t.Errorf("first: %s", got)
	}
	p.begin(now)
	p.ask()
	p.ask()
	now = now.Add(300 * time.Millisecond)
	if got := wait(); got != "700ms" {
		t.Errorf("second: %s", got)
	}
	p.begin(now)
	p.retry(now.Add(time.Minute))
	if got := wait(); got != "1m0s" {
		t.Errorf("retry: %s", got)
	}
	p.ask()
	if got := wait(); got != "1s" {
		t.Errorf("asked before the retry: %s", got)
	}
}

func TestThrottle_LetsABurstThroughThenATrickle(t *testing.T) {
	now := time.Unix(1000, 0)
	var th throttle
	count := func(n int) (passed, firsts, left int) {
		for range n {
			ok, first, held := th.allow(now)
			if ok {
				passed++
				left += held
			}
			if first && ok {
				firsts++
			}
		}
		return passed, firsts, left
	}
	type result struct{ passed, firsts, left int }
	try := func(n int) result {
		p, f, l := count(n)
		return result{p, f, l}
	}
	for i, tc := range []struct {
		after time.Duration
		lines int
		want  result
	}{
		{0, 100, result{20, 1, 0}},
		{time.Second, 10, result{1, 0, 80}},
		{3 * time.Second, 2, result{2, 0, 9}},
		{time.Hour, 1, result{1, 1, 0}},
	} {
		now = now.Add(tc.after)
		if diff := cmp.Diff(tc.want, try(tc.lines), cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("step %d:\n%s", i, diff)
		}
	}
}

func TestParsePage_KeepsToolsByteForByte(t *testing.T) {
	tool := `{ "name":"a" , "x":1e400,"\u006eame2":9007199254740993}`
	p, err := lists()[0].parsePage([]byte(`{"Tools":[],"tools":[ ` + tool + ` ],"nextCursor":""}`))
	if err != nil || len(p.items) != 1 || string(p.items[0]) != tool || string(p.next) != `""` {
		t.Errorf("page: %q, %v", p, err)
	}
	for text, want := range map[string]string{
		`{"tools":[],"nextCursor":null}`: "",
		`{"tools":[]}`:                   "",
		`{"tools":[],"nextCursor":1}`:    "nextCursor is not a string",
		`{"tools":{}}`:                   "no list of tools",
		`{}`:                             "no list of tools",
		`[]`:                             "result",
	} {
		_, err := lists()[0].parsePage([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestToolList_LeavesOutWhatHasNoNameAndKeepsItsNeighbours(t *testing.T) {
	p, err := lists()[0].parsePage([]byte(`{"tools":[{"name":"a"},7,{},{"name":1},{"name":""},null,{"Name":"x"},{"name":"a","again":1},{"name":"b\u00fc"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	l := collected{list: lists()[0]}
	l.add(p.items)
	if got := tools(&Offer{Tools: l.items}); got != "a bü" || len(l.odd) != 7 {
		t.Errorf("tools: %s, left out: %q", got, l.odd)
	}
}

func TestOffer_DigestTellsContentAndNothingElse(t *testing.T) {
	a := offerOf("x", "y")
	if !sameContent(a, a.kept()) || !a.kept().Kept || a.Kept {
		t.Error("a kept offer has another content")
	}
	for name, b := range map[string]*Offer{
		"order": offerOf("y", "x"), "fewer": offerOf("x"), "none": nil,
		"instructions": Offer{Tools: a.Tools, Instructions: "words"}.sealed(),
		"another list": Offer{Prompts: a.Tools}.sealed(),
		"what it can":  Offer{Tools: a.Tools, Can: Can{Log: true}}.sealed(),
		"boundaries":   Offer{Tools: []Item{{"x", []byte(`{"name":"x"}{"name":"y"}`)}}}.sealed(),
	} {
		if sameContent(a, b) {
			t.Errorf("%s: the content is the same", name)
		}
	}
	if (*Offer)(nil).kept() != nil {
		t.Error("no offer was kept as one")
	}
}

func TestParseGreeting_TakesWhatIsThere(t *testing.T) {
	all := map[string]bool{"tools": true, "prompts": true, "resources": true, "resourceTemplates": true}
	none := map[string]bool{"tools": false, "prompts": false, "resources": false, "resourceTemplates": false}
	for text, want := range map[string]greeting{
		`{"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}},"instructions":"x","protocolVersion":"2025-06-18"}`: {"x", "2025-06-18", all, Can{Complete: true, Subscribe: true, Log: true, Resources: true}},
		`{"capabilities":{"Tools":{},"tools":null}}`: {announced: none},
		`{"capabilities":7,"instructions":[1]}`:      {announced: none},
		`{}`:                                         {announced: none},
	} {
		got, err := parseGreeting([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if _, err := parseGreeting([]byte(`null`)); err == nil {
		t.Error("null was taken for an answer")
	}
}

func TestOutage_TellsStateAndRetry(t *testing.T) {
	now := time.Unix(1000, 0)
	e := outage{Degraded, now.Add(1500 * time.Millisecond), "exited (code 1)"}.err("up", now)
	if e.Error() != "[upstream_unavailable] upstream up is degraded: exited (code 1)" || *e.RetryIn != 1500 || e.State != "degraded" {
		t.Errorf("%v, %+v", e, e)
	}
	if e := (outage{state: Stopped}).err("up", now); e.RetryIn != nil || e.Message != "upstream up is stopped" {
		t.Errorf("%+v", e)
	}
	if e := (outage{Restarting, now.Add(-time.Second), ""}).err("up", now); *e.RetryIn != 0 {
		t.Errorf("%+v", e)
	}
}

func TestNumber_TakesDigitsAlone(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "7": 7, "1234567890123456789": 1234567890123456789} {
		if n, ok := number([]byte(text)); !ok || n != want {
			t.Errorf("%s: %d, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "-1", "1.0", `"1"`, "1e3", "null", "99999999999999999999"} {
		if n, ok := number([]byte(text)); ok {
			t.Errorf("%s: %d", text, n)
		}
	}
}

func TestExcerpt_ShowsTheBeginningSafely(t *testing.T) {
	for text, want := range map[string]string{
		"plain":            "plain",
		"a\x1b[2Jb":        `a\x1b[2Jb`,
		"12345678901234":   "1234567890 … 4 bytes more",
		"1234567890\u202e": "1234567890 … 3 bytes more",
	} {
		if got := excerpt([]byte(text), 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestManifest_GivesBackWhatWasKept(t *testing.T) {
	store := manifests{filepath.Join(t.TempDir(), "manifests")}
	l := definition("cmd")
	l.Env = map[string]string{"TOKEN": "s3cr3t"}
	o := Offer{
		Tools:     []Item{{"a<b>&", []byte(`{"x":1.0,"name":"a<b>&","d":"\u003c\u2028"}`)}, {"c", []byte(`{"name":"c"}`)}},
		Prompts:   []Item{{"p", []byte(`{"name":"p"}`)}},
		Resources: []Item{{"x:1", []byte(`{ "uri":"x:1" }`)}},
		Templates: []Item{{"x:{n}", []byte(`{"uriTemplate":"x:{n}"}`)}},
		Can:       Can{Subscribe: true}, Instructions: "say \"hi\"\n",
	}.sealed()
	if got, err := store.load(l); got != nil || err != nil {
		t.Errorf("before: %v, %v", got, err)
	}
	if err := store.store(l, o); err != nil {
		t.Fatal(err)
	}
	got, err := store.load(l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o.kept(), got); diff != "" {
		t.Error(diff)
	}
	data, err := os.ReadFile(store.path("up"))
	if err != nil || strings.Contains(string(data), "s3cr3t") {
		t.Errorf("kept: %s, %v", data, err)
	}
	if info, err := os.Stat(store.path("up")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(store.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory: %v, %v", info.Mode(), err)
	}
}

func TestManifest_IsOfOneDefinitionWithoutItsSecrets(t *testing.T) {
	a, b := definition("cmd"), definition("cmd")
	a.Env, b.Env = map[string]string{"TOKEN": "1"}, map[string]string{"TOKEN": "2"}
	a.EnvDigest, b.Description = "x", "words"
	if definitionDigest(a) != definitionDigest(b) {
		t.Error("the digest tells values or live keys")
	}
	store := manifests{t.TempDir()}
	if err := store.store(a, offerOf("x")); err != nil {
		t.Fatal(err)
	}
	other := definition("other")
	if got, err := store.load(other); got != nil || err != nil {
		t.Errorf("another definition's list: %v, %v", got, err)
	}
	if got, err := store.load(b); got == nil || err != nil {
		t.Errorf("the same definition's list: %v, %v", got, err)
	}
}

func TestManifest_SetsATornOrForeignFileAside(t *testing.T) {
	l := definition("cmd")
	whole := manifest(l, offerOf("a", "b"))
	other := definition("cmd")
	other.Key = "down"
	for name, text := range map[string][]byte{
		"torn":    whole[:len(whole)/2],
		"empty":   {},
		"foreign": []byte(`{"schema":"something/else"}`),
		"another": manifest(other, offerOf("a")),
		"edited":  []byte(strings.Replace(string(whole), `"name":"a"`, `"name":"z"`, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			store := manifests{t.TempDir()}
			if err := os.WriteFile(store.path("up"), text, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := store.load(l); got != nil || err == nil || !strings.Contains(err.Error(), "set aside") {
				t.Errorf("load: %v, %v", got, err)
			}
			if _, err := os.Stat(store.path("up") + ".bad"); err != nil {
				t.Error(err)
			}
			if got, err := store.load(l); got != nil || err != nil {
				t.Errorf("second load: %v, %v", got, err)
			}
		})
	}
}

func TestManifest_SetsAPipeAsideAndDoesNotWaitForIt(t *testing.T) {
	store := manifests{t.TempDir()}
	if err := syscall.Mkfifo(store.path(definition("cmd").Key), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := store.load(definition("cmd")); got != nil || err == nil || !strings.Contains(err.Error(), "set aside") {
		t.Errorf("load: %v, %v", got, err)
	}
	if _, err := os.Lstat(store.path(definition("cmd").Key)); !os.IsNotExist(err) {
		t.Errorf("the pipe: %v", err)
	}
}

func TestManifest_KeepsAProjectsKeyInOneFile(t *testing.T) {
	store := manifests{"/state"}
	if got := store.path("reduit/../agent"); filepath.Dir(got) != "/state" {
		t.Errorf("path: %s", got)
	}
	if got := LogPath("/logs", "reduit/agent"); filepath.Dir(got) != "/logs" {
		t.Errorf("path: %s", got)
	}
}

func FuzzParsePage(f *testing.F) {
	for _, seed := range []string{`{"tools":[{"name":"a"}],"nextCursor":"x"}`, `{"tools":null}`, `{"tools":[1,{}]}`, `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := lists()[0].parsePage(data)
		if err != nil {
			return
		}
		l := collected{list: lists()[0]}
		l.add(p.items)
		if len(l.items)+len(l.odd) != len(p.items) {
			t.Errorf("%d tools and %d left out of %d", len(l.items), len(l.odd), len(p.items))
		}
		for _, tool := range l.items {
			if !strings.Contains(string(data), string(tool.Raw)) {
				t.Errorf("tool %q is not as sent", tool.Raw)
			}
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	l := definition("cmd")
	f.Add(manifest(l, offerOf("a", "b")))
	f.Add([]byte(`{"schema":"harness/manifest/v1","key":"up"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := parseManifest(data, l)
		if err != nil || o == nil {
			return
		}
		again, err := parseManifest(manifest(l, o), l)
		if err != nil || !sameContent(o, again) {
			t.Errorf("kept again it is %v, %v", again, err)
		}
	})
}

func FuzzParseGreeting(f *testing.F) {
	f.Add([]byte(`{"capabilities":{"tools":{}},"instructions":"x"}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		// Neither may panic, whatever a server sends.
		_, _ = parseGreeting(data)
		_ = parseDiscovery(data)
	})
}
