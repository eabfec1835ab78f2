package reconcile

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func changedLaunch(l *config.Launch) { l.Args = []string{"--other"} }

func otherLaunch(l *config.Launch) { l.Args = []string{"--third"} }

func liveLaunch(l *config.Launch) { l.CallTimeout = time.Second }

func replacing(l *config.Launch) { l.Update = config.Replace }

func disabled(l *config.Launch) { l.Enabled = false }

// want is an upstream as its own file wants it.
func want(change ...func(*config.Launch)) *Upstream {
	l := launch(change...)
	return &Upstream{Launch: l, Enabled: l.Enabled}
}

// have is an upstream in force.
func have(change ...func(*config.Launch)) *ObservedUpstream {
	return &ObservedUpstream{InForce: launch(change...), Enabled: true, State: "running"}
}

func (o ObservedUpstream) pending(change ...func(*config.Launch)) *ObservedUpstream {
	l := launch(change...)
	o.Pending = &l
	return &o
}

func (o ObservedUpstream) stopped() *ObservedUpstream {
	o.Enabled, o.State = false, "stopped"
	return &o
}

func (o ObservedUpstream) failed() *ObservedUpstream {
	o.State = "failed"
	return &o
}

func (u Upstream) asked() *Upstream {
	u.Enabled, u.Nonce = true, 1
	return &u
}

func (u Upstream) stopped() *Upstream {
	u.Enabled = false
	return &u
}

func TestDiff_PlansOneUpstream(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		want *Upstream
		have *ObservedUpstream
		step string // "" for none
	}{
		"unchanged":                          {want(), have(), ""},
		"added":                              {want(), nil, "start upstream gitea: added"},
		"added with enabled = false":         {want(disabled), nil, ""},
		"removed":                            {nil, have(), "stop upstream gitea: removed"},
		"removed while stopped":              {nil, have().stopped(), ""},
		"enabled = false":                    {want(disabled), have(), "stop upstream gitea: enabled = false"},
		"enabled = true":                     {want(), have(disabled).stopped(), "start upstream gitea: enabled = true"},
		"stopped by hand":                    {want().stopped(), have(), "stop upstream gitea: stop requested"},
		"stopped by hand, and gone":          {want().stopped(), have().stopped(), ""},
		"started by hand":                    {want(disabled).asked(), have(disabled).stopped(), "start upstream gitea: start requested"},
		"restarted by hand":                  {want().asked(), have(), "replace upstream gitea: restart requested"},
		"started by hand after it failed":    {want().asked(), have().failed(), "start upstream gitea: start requested"},
		"restarted by hand with an edit":     {want(changedLaunch).asked(), have(), "replace upstream gitea: args changed; restart requested"},
		"restarted by hand in a swap":        {want(changedLaunch).asked(), have().pending(changedLaunch), "replace upstream gitea: args changed; restart requested"},
		"changed":                            {want(changedLaunch), have(), "swap upstream gitea: args changed"},
		"changed while stopped":              {want(changedLaunch).stopped(), have().stopped(), ""},
		"changed and disabled":               {want(changedLaunch, disabled), have(), "stop upstream gitea: enabled = false"},
		"changed, to be replaced":            {want(changedLaunch, replacing), have(replacing), "replace upstream gitea: args changed"},
		"changed, to be replaced from now":   {want(changedLaunch, replacing), have(), "replace upstream gitea: args, update changed"},
		"changed in place":                   {want(liveLaunch), have(), "update upstream gitea: call_timeout changed"},
		"to be replaced at the next change":  {want(replacing), have(), "update upstream gitea: update changed"},
		"pending, unchanged":                 {want(changedLaunch), have().pending(changedLaunch), ""},
		"pending, changed again":             {want(otherLaunch), have().pending(changedLaunch), "swap upstream gitea: args changed"},
		"pending, changed back":              {want(), have().pending(changedLaunch), "update upstream gitea: changed back; pending swap cancelled"},
		"pending, changed back but in place": {want(liveLaunch), have().pending(changedLaunch), "update upstream gitea: changed back; pending swap cancelled"},
		"pending, changed in place":          {want(changedLaunch, liveLaunch), have().pending(changedLaunch), "update upstream gitea: call_timeout changed"},
		"pending, then update = replace":     {want(changedLaunch, replacing), have().pending(changedLaunch), "replace upstream gitea: update changed"},
		"pending, changed to be replaced":    {want(otherLaunch, replacing), have().pending(changedLaunch), "replace upstream gitea: args, update changed"},
		"pending, removed":                   {nil, have().pending(changedLaunch), "stop upstream gitea: removed"},
		"pending, disabled":                  {want(changedLaunch, disabled), have().pending(changedLaunch), "stop upstream gitea: enabled = false"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, o := &Desired{Upstreams: map[string]Upstream{}}, &Observed{Upstreams: map[string]ObservedUpstream{}}
			if tt.want != nil {
				d.Upstreams["gitea"] = *tt.want
			}
			if tt.have != nil {
				o.Upstreams["gitea"] = *tt.have
			}
			plan := Diff(d, o)
			got := plan.String()
			if len(plan) == 0 {
				got = ""
			}
			if got != tt.step {
				t.Errorf("plan is %q, want %q", got, tt.step)
			}
			if len(plan) == 1 && plan[0].Cancel != strings.Contains(tt.step, "cancelled") {
				t.Errorf("Cancel is %v in %q", plan[0].Cancel, got)
			}
		})
	}
}

func promptOf(name, title, body string) prompt.Prompt {
	return prompt.Prompt{Name: name, Title: title, Body: []byte(body), Digest: sha256.Sum256([]byte(name + title + body))}
}

func cmdOf(cmd string) func(*config.AgentLaunch) {
	return func(l *config.AgentLaunch) { l.Cmd = cmd }
}

// observedAgent returns a harness that runs.
func observedAgent(changes ...func(*config.AgentLaunch)) ObservedAgent {
	a := agentOf("", changes...)
	return ObservedAgent{Next: a.Launch, Spawned: &a.Launch, Enabled: true, State: "running"}
}

// evening is a state in force, and night what the files say later.
func evening() *Observed {
	return &Observed{
		Server: config.DefaultServer(),
		Upstreams: map[string]ObservedUpstream{
			"same": *have(), "args": *have(), "port": *have(replacing), "gone": *have(), "off": *have(), "tuned": *have(),
			"back": *have().pending(changedLaunch),
		},
		Prompts:     []prompt.Prompt{promptOf("ask", "", "?"), promptOf("kept", "", "k"), promptOf("old", "", "o")},
		PromptPaths: []string{"/p"},
		Agents: map[string]ObservedAgent{
			"reviewer": observedAgent(cmdOf("claude")), "scribe": observedAgent(cmdOf("codex")), "writer": observedAgent(), "gone": observedAgent(), "off": observedAgent(),
		},
		Defined: map[string]config.AgentLaunch{
			"reviewer": agentOf("reviewer", cmdOf("claude")).Launch, "scribe": agentOf("scribe", cmdOf("codex")).Launch, "writer": {}, "gone": {}, "off": {}, "idle": agentOf("idle").Launch,
			"quiet": {},
		},
		Profiles: map[string]config.Profile{"day": {Members: []string{"reviewer"}}},
	}
}

func night() *Desired {
	d := &Desired{
		Server: config.DefaultServer(),
		Upstreams: map[string]Upstream{
			"same": *want(), "args": *want(changedLaunch, liveLaunch), "port": *want(changedLaunch, replacing),
			"off": *want(disabled), "tuned": *want(liveLaunch), "back": *want(), "new": *want(), "later": *want(disabled),
		},
		Prompts:     []prompt.Prompt{promptOf("ask", "Ask", "!"), promptOf("kept", "", "k"), promptOf("new\x1b[2J", "", "n")},
		PromptPaths: []string{"/p", "/q"},
		Agents: map[string]Agent{
			"reviewer":      agentOf("reviewer", cmdOf("claude"), func(l *config.AgentLaunch) { l.MCPAllow = []string{"read", "write"} }),
			"scribe":        agentOf("scribe", cmdOf("claude")),
			"writer":        {Enabled: true, Nonce: 1},
			"off":           {},
			"quiet":         {Launch: agentOf("quiet", cmdOf("codex")).Launch},
			"shop/reviewer": agentOf("shop/reviewer", func(l *config.AgentLaunch) { l.Enabled = true }),
			"shop/later":    {},
		},
		Projects: map[string]Project{"shop": {Path: "/shop/harness.toml"}},
		Profiles: map[string]config.Profile{"night": {}},
	}
	d.Server.LogLevel = "debug"
	return d
}

func TestDiff_PrintsAWholePlan(t *testing.T) {
	t.Parallel()
	plan := Diff(night(), evening())
	golden(t, "plan.txt", plan.String()+"\n")
	data, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", string(data)+"\n")
}

func TestDiff_NamesKeysAndNeverValues(t *testing.T) {
	t.Parallel()
	secret := func(l *config.Launch) {
		l.Env = map[string]string{"TOKEN": "s3cret-value"}
		l.EnvDigest = "s3cret-digest"
		l.Args = []string{"--token=s3cret-arg"}
	}
	d := &Desired{Upstreams: map[string]Upstream{"gitea": *want(secret)}}
	o := &Observed{Upstreams: map[string]ObservedUpstream{"gitea": *have()}}
	plan := Diff(d, o)
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if text := plan.String() + string(data); strings.Contains(text, "s3cret") {
		t.Errorf("the plan shows a value: %s", text)
	}
	if diff := cmp.Diff("swap upstream gitea: args, env, env_file changed", plan.String()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestStep_QuotesANameThatCouldDisturbATerminal(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"plain":      "publish prompt plain: added",
		"größe":      "publish prompt größe: added",
		"a\nb":       `publish prompt "a\nb": added`,
		"a\u202eb":   `publish prompt "a\u202eb": added`,
		"a\xffb":     `publish prompt "a\xffb": added`,
		"quoted\"me": `publish prompt "quoted\"me": added`,
	} {
		step := Step{Kind: KindPrompt, Name: name, Op: OpPublish, Why: "added"}
		if got := step.String(); got != want {
			t.Errorf("%q gives %s, want %s", name, got, want)
		}
	}
}

func TestDiff_OfNothingIsNothing(t *testing.T) {
	t.Parallel()
	plan := Diff(&Desired{}, &Observed{})
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	if plan.String() != "nothing to do" || string(data) != "[]" {
		t.Errorf("an empty plan is %q and %s", plan, data)
	}
}

func allow(rights ...string) func(*config.AgentLaunch) {
	return func(l *config.AgentLaunch) { l.MCPAllow = rights }
}

func TestC41_DiffTouchesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	base := func() *Desired {
		return &Desired{
			Upstreams: map[string]Upstream{"ok": *want()},
			Agents:    map[string]Agent{"reviewer": agentOf("reviewer", allow("read"))},
		}
	}
	o := &Observed{
		Upstreams: map[string]ObservedUpstream{"ok": *have()}, Agents: map[string]ObservedAgent{"reviewer": observedAgent(allow("read"))},
		Defined: map[string]config.AgentLaunch{"reviewer": base().Agents["reviewer"].Launch},
	}
	tests := map[string]struct {
		edit func(*Desired)
		plan string
	}{
		"a comment moves every line": {func(d *Desired) {
			d.Upstreams["ok"] = *want(func(l *config.Launch) { l.Line += 7 })
			d.Agents["reviewer"] = agentOf("reviewer", allow("read"), func(l *config.AgentLaunch) { l.Line = 40 })
		}, "nothing to do"},
		"only mcp_allow": {func(d *Desired) {
			d.Agents["reviewer"] = agentOf("reviewer", allow("read", "write"))
		}, "update harness reviewer: mcp_allow changed"},
		"a new upstream": {func(d *Desired) { d.Upstreams["new"] = *want() }, "start upstream new: added"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := base()
			tt.edit(d)
			if diff := cmp.Diff(tt.plan, Diff(d, o).String()); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewDesired_TakesTheBareDefinitionOfWhatHasNoLaunch(t *testing.T) {
	t.Parallel()
	c := &config.Config{
		Server:    config.DefaultServer(),
		Upstreams: map[string]config.Upstream{"found": launch().Upstream, "bare": launch().Upstream},
	}
	d := NewDesired(c, Launches{Upstreams: map[string]config.Launch{"found": launch()}}, nil)
	if got := d.Upstreams["found"].Launch.Exe; got != "/usr/bin/gitea-mcp" {
		t.Errorf("found has the program %q", got)
	}
	if got := d.Upstreams["bare"].Launch; got.Cmd != "gitea-mcp" || got.Exe != "" {
		t.Errorf("bare is %q with the program %q", got.Cmd, got.Exe)
	}
}

func TestDesiredWith_LetsIntentsDecide(t *testing.T) {
	t.Parallel()
	d := NewDesired(&config.Config{Upstreams: map[string]config.Upstream{"a": {Enabled: true}, "b": {}, "c": {Enabled: true}}}, Launches{}, nil)
	got := d.With(Intents{
		"mcp.a": {File: true, Enabled: false},
		"mcp.b": {File: false, Enabled: true, Nonce: 3},
		"mcp.c": {File: false, Enabled: false}, // the file says otherwise by now
	})
	for key, want := range map[string]Upstream{"a": {Enabled: false}, "b": {Enabled: true, Nonce: 3}, "c": {Enabled: true}} {
		if u := got.Upstreams[key]; u.Enabled != want.Enabled || u.Nonce != want.Nonce {
			t.Errorf("%s: enabled %v after %d requests, want %v after %d", key, u.Enabled, u.Nonce, want.Enabled, want.Nonce)
		}
	}
	if !d.Upstreams["a"].Enabled || d.Upstreams["b"].Enabled {
		t.Error("the receiver changed")
	}
}
