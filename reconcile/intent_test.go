package reconcile

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness/pkg/config"
)

func TestIntents_TheLaterWins(t *testing.T) {
	t.Parallel()
	on, off := map[string]bool{"mcp.a": true}, map[string]bool{"mcp.a": false}
	follow := func(file map[string]bool) func(Intents) Intents {
		return func(in Intents) Intents { return in.Follow(file) }
	}
	word := func(do func(Intents, string) (Intents, bool)) func(Intents) Intents {
		return func(in Intents) Intents { next, _ := do(in, "mcp.a"); return next }
	}
	start, stop, restart := word(Intents.Start), word(Intents.Stop), word(Intents.Restart)
	tests := map[string]struct {
		steps []func(Intents) Intents
		want  bool
		nonce uint64
	}{
		"the file at first sight":                {[]func(Intents) Intents{follow(on)}, true, 0},
		"off in the file at first sight":         {[]func(Intents) Intents{follow(off)}, false, 0},
		"stopped, the file read again":           {[]func(Intents) Intents{follow(on), stop, follow(on)}, false, 0},
		"stopped, then the file says off and on": {[]func(Intents) Intents{follow(on), stop, follow(off), follow(on)}, true, 0},
		"started, the file read again":           {[]func(Intents) Intents{follow(off), start, follow(off)}, true, 1},
		"started, then the file says on":         {[]func(Intents) Intents{follow(off), start, follow(on)}, true, 1},
		"started, then the file says on and off": {[]func(Intents) Intents{follow(off), start, follow(on), follow(off)}, false, 1},
		"a restart starts what was stopped":      {[]func(Intents) Intents{follow(on), stop, restart}, true, 1},
		"two restarts are two requests":          {[]func(Intents) Intents{follow(on), restart, restart}, true, 2},
		"removed and added is a first sight": {
			[]func(Intents) Intents{follow(on), start, stop, follow(nil), follow(on)}, true, 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var in Intents
			for _, step := range tt.steps {
				in = step(in)
			}
			if got := in["mcp.a"]; got.Enabled != tt.want || got.Nonce != tt.nonce {
				t.Errorf("intent is %+v, want enabled %v after %d requests", got, tt.want, tt.nonce)
			}
		})
	}
}

func TestIntents_RefuseANameThatIsNotKnown(t *testing.T) {
	t.Parallel()
	in := Intents{"mcp.a": {File: true, Enabled: true}}
	for word, do := range map[string]func(Intents, string) (Intents, bool){
		"start": Intents.Start, "stop": Intents.Stop, "restart": Intents.Restart,
	} {
		if next, ok := do(in, "mcp.b"); ok || len(next) != 1 {
			t.Errorf("%s of an unknown name gives %v, %v", word, next, ok)
		}
	}
}

func TestIntents_AreValuesThatSurviveStorage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"mcp.a", "mcp.b", "reviewer"})
		var in Intents
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before := maps.Clone(in)
			var next Intents
			switch rapid.IntRange(0, 3).Draw(t, "word") {
			case 0:
				next = in.Follow(rapid.MapOf(name, rapid.Bool()).Draw(t, "file"))
			case 1:
				next, _ = in.Start(name.Draw(t, "start"))
			case 2:
				next, _ = in.Stop(name.Draw(t, "stop"))
			default:
				next, _ = in.Restart(name.Draw(t, "restart"))
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Fatalf("the receiver changed (-before +after):\n%s", diff)
			}
			in = stored(t, next)
		}
	})
}

// stored writes intents down and reads them back.
func stored(t *rapid.T, in Intents) Intents {
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var back Intents
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, back); diff != "" {
		t.Fatalf("storage changed the intents (-want +got):\n%s", diff)
	}
	return back
}

func TestEnabledIn_NamesUpstreamsAndHarnesses(t *testing.T) {
	t.Parallel()
	c := &config.Config{
		Upstreams: map[string]config.Upstream{"a": {Enabled: true}, "b": {}},
		Agents:    map[string]config.Agent{"reviewer": {Enabled: true}, "a": {}},
	}
	want := map[string]bool{"mcp.a": true, "mcp.b": false, "reviewer": true, "a": false}
	if diff := cmp.Diff(want, EnabledIn(c)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
