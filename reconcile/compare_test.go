package reconcile

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harness/pkg/config"
	"harness/pkg/prompt"
)

// launch is a definition with something in every field that matters.
func launch(change ...func(*config.Launch)) config.Launch {
	l := config.Launch{
		Upstream: config.Upstream{
			Key: "gitea", Cmd: "gitea-mcp", Args: []string{"--transport", "stdio"},
			EnvFile: "/home/u/secrets.env", Env: map[string]string{"TOKEN": "hunter2"}, Workdir: "/home/u",
			RestartDelay: time.Second, StartTimeout: time.Minute, Enabled: true, Update: config.Swap,
			Isolation: config.IsolationShared, Prestart: true, Tools: config.ToolFilter{Allow: []string{"*"}}, Line: 12,
		},
		Exe: "/usr/bin/gitea-mcp", EnvDigest: "d1",
	}
	for _, c := range change {
		c(&l)
	}
	return l
}

func TestCompareLaunch_SaysWhatAChangeTakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*config.Launch)
		want   Change
		keys   []string
	}{
		"nothing":                     {func(*config.Launch) {}, Same, nil},
		"the line it stands on":       {func(l *config.Launch) { l.Line = 99 }, Same, nil},
		"enabled, which is an intent": {func(l *config.Launch) { l.Enabled = false }, Same, nil},
		"an absent list is an empty one": {func(l *config.Launch) {
			l.Tools.Deny = []string{}
		}, Same, nil},
		"cmd that leads elsewhere": {func(l *config.Launch) {
			l.Cmd, l.Exe = "other", "/usr/bin/other"
		}, Respawn, []string{"cmd"}},
		"cmd found elsewhere in PATH": {func(l *config.Launch) {
			l.Exe = "/opt/bin/gitea-mcp"
		}, Respawn, []string{"cmd"}},
		"cmd no longer found": {func(l *config.Launch) {
			l.Exe, l.ExeErr = "", "not in PATH"
		}, Respawn, []string{"cmd"}},
		"cmd written out, same program": {func(l *config.Launch) {
			l.Cmd = "/usr/bin/gitea-mcp"
		}, Live, []string{"cmd"}},
		"the order of args":   {func(l *config.Launch) { l.Args = []string{"stdio", "--transport"} }, Respawn, []string{"args"}},
		"an env value":        {func(l *config.Launch) { l.Env = map[string]string{"TOKEN": "hunter3"} }, Respawn, []string{"env"}},
		"content of env_file": {func(l *config.Launch) { l.EnvDigest = "d2" }, Respawn, []string{"env_file"}},
		"path and content of env_file": {func(l *config.Launch) {
			l.EnvFile, l.EnvDigest = "/other.env", "d2"
		}, Respawn, []string{"env_file"}},
		"a filter of tools": {func(l *config.Launch) { l.Tools.Deny = []string{"rm"} }, Live, []string{"tools"}},
		"both sorts, those of the process first": {func(l *config.Launch) {
			l.Description, l.Workdir, l.Args = "d", "/", nil
		}, Respawn, []string{"args", "workdir", "description"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, keys := CompareLaunch(launch(), launch(tt.change))
			if got != tt.want {
				t.Errorf("change is %v, want %v", got, tt.want)
			}
			if diff := cmp.Diff(tt.keys, keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompareLaunch_ComparesOrExcludesEveryField(t *testing.T) {
	t.Parallel()
	excluded := map[string]string{
		"Upstream.Key":     "it is the name under which definitions are compared",
		"Upstream.Enabled": "intents decide whether it runs; Diff compares those",
		"Upstream.Line":    "where a table stands has no meaning",
		"ExeErr":           "words about Exe, which is compared",
	}
	live := map[string]string{
		"Upstream.RestartDelay": "restart_delay", "Upstream.StartTimeout": "start_timeout",
		"Upstream.CallTimeout": "call_timeout", "Upstream.Description": "description",
		"Upstream.Update": "update", "Upstream.Prestart": "prestart",
		"Upstream.Tools.Allow": "tools", "Upstream.Tools.Deny": "tools",
	}
	respawn := map[string]string{
		"Upstream.Cmd": "cmd", "Exe": "cmd", "Upstream.Args": "args", "Upstream.Env": "env",
		"Upstream.EnvFile": "env_file", "EnvDigest": "env_file",
		"Upstream.Workdir": "workdir", "Upstream.Isolation": "isolation",
	}
	everyField(t, excluded, func(t *testing.T, field string, a, b config.Launch) {
		t.Helper()
		want, key := Live, live[field]
		if key == "" {
			want, key = Respawn, respawn[field]
		}
		got, keys := CompareLaunch(a, b)
		if diff := cmp.Diff([]string{key}, keys); got != want || diff != "" {
			t.Errorf("a change of %s is %v %q; compare it, or exclude it with a reason (want %v %q)", field, got, keys, want, key)
		}
	})
}

// comparesEveryField holds a comparison of one table to all its fields.
func comparesEveryField[T any](t *testing.T, excluded map[string]string, compare func(a, b T) []string) {
	t.Helper()
	everyField(t, excluded, func(t *testing.T, field string, a, b T) {
		t.Helper()
		if got := compare(a, b); len(got) != 1 {
			t.Errorf("a change of %s gives the keys %q, want one; compare it, or exclude it with a reason", field, got)
		}
		if got := compare(b, b); len(got) != 0 {
			t.Errorf("equal values differ in %q", got)
		}
	})
}

func TestCompare_ComparesOrExcludesEveryFieldOfOtherDefinitions(t *testing.T) {
	t.Parallel()
	where := "where a table stands has no meaning"
	name := "it is the name under which definitions are compared"
	t.Run("Server", func(t *testing.T) {
		t.Parallel()
		comparesEveryField(t, nil, compareServer)
	})
	t.Run("Agent", func(t *testing.T) {
		t.Parallel()
		comparesEveryField(t, map[string]string{
			"Agent.Name": name, "Agent.Line": where, "Project": "a part of the name", "ExeErr": "words about Exe, which is compared",
			"Agent.Enabled": "the intents decide", "Agent.EnabledWritten": "the intents decide",
		}, func(a, b config.AgentLaunch) []string { _, changed := CompareAgent(a, b); return changed })
	})
	t.Run("Project", func(t *testing.T) {
		t.Parallel()
		comparesEveryField(t, nil, compareProject)
	})
	t.Run("Profile", func(t *testing.T) {
		t.Parallel()
		comparesEveryField(t, map[string]string{"Name": name, "Line": where}, compareProfile)
	})
}

func TestComparePrompt_NamesWhatDiffers(t *testing.T) {
	t.Parallel()
	excluded := map[string]string{
		"Name":    "it is the name under which prompts are compared",
		"Digest":  "it only says that something else differs",
		"Project": "a part of the name under which prompts are compared",
	}
	everyField(t, excluded, func(t *testing.T, field string, a, b prompt.Prompt) {
		t.Helper()
		if got := comparePrompt(a, b); got != nil {
			t.Errorf("with equal digests, %s differs: %q", field, got)
		}
		b.Digest[0] ^= 1
		if got := comparePrompt(a, b); len(got) != 1 {
			t.Errorf("a change of %s gives %q, want one word", field, got)
		}
	})
}

func TestLeaves_FindsFieldsOfInnerStructs(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, l := range leaves(reflect.TypeFor[struct {
		A int
		B struct{ C, D string }
	}]()) {
		paths = append(paths, l.path)
	}
	if diff := cmp.Diff([]string{"A", "B.C", "B.D"}, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
